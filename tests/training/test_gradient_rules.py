"""Every gradient rule, function bodies included, against numeric differentiation in float64."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from double_precision import Double, numeric_gradients

from deeploy_ext.graph.invocation import invocation_of, operator_of, type_of
from deeploy_ext.graph.normalise import settle_outputs
from deeploy_ext.operators import registry
from deeploy_ext.operators.spec import MICROSOFT, OWN, Operator, TensorType
from deeploy_ext.training.autodiff import use_training_forms
from deeploy_ext.training.builder import GraphBuilder
from deeploy_ext.training.functions import add_functions


@dataclass(frozen=True)
class Case:
    """A forward node: shapes of its float inputs (a tuple of ints), or constant values (an array).

    ``positive`` names the inputs (by number) that must be positive, ``ranges`` the lowest and highest value of others.
    """

    op_type: str
    operands: tuple[Any, ...]
    attributes: dict[str, Any] = field(default_factory=dict)
    domain: str = ""
    positive: tuple[int, ...] = ()
    ranges: dict[int, tuple[float, float]] = field(default_factory=dict[int, tuple[float, float]])

    outputs: int = 1

    def __str__(self) -> str:
        shapes = [o.tolist() if isinstance(o, np.ndarray) else o for o in self.operands]
        return f"{self.op_type}{shapes}{self.attributes or ''}".replace(" ", "")


def _gemm(a: tuple[int, int], b: tuple[int, int], *c: tuple[int, ...], **attributes: Any) -> Case:
    return Case("Gemm", (a, b, *c), attributes)


LABELS = np.array([2, 0, 4], np.int64)
CASES = [
    Case("Relu", ((3, 5),)),
    Case("Add", ((2, 3), (2, 3))),
    Case("Add", ((2, 1, 3), (4, 1))),
    Case("Add", ((), (2, 3))),
    Case("Mul", ((2, 3), (2, 3))),
    Case("Mul", ((2, 1, 3), (4, 1))),
    Case("Identity", ((2, 3),)),
    Case("Flatten", ((2, 3, 5),), {"axis": 2}),
    Case("Flatten", ((2, 3, 5),), {"axis": -2}),
    Case("Reshape", ((2, 3, 5), np.array([0, -1], np.int64))),
    Case("Reshape", ((2, 3, 5), np.array([5, 6], np.int64)), {"allowzero": 1}),
    Case("Transpose", ((2, 3, 4, 5),), {"perm": [0, 3, 1, 2]}),
    Case("Transpose", ((2, 3, 4),), {"perm": [1, 2, 0]}),
    Case("GlobalAveragePool", ((2, 3, 5, 4),)),
    Case("GlobalAveragePool", ((2, 3, 5),)),
    *(
        _gemm((4, 3)[:: -1 if ta else 1], (3, 2)[:: -1 if tb else 1], (2,), alpha=0.7, beta=1.3, transA=ta, transB=tb)
        for ta in (0, 1)
        for tb in (0, 1)
    ),
    *(_gemm((4, 3), (3, 2), c) for c in ((4, 2), (4, 1), (1, 2), (1,), ())),
    _gemm((4, 3), (3, 2)),
    Case("Conv", ((2, 4, 6, 5), (6, 2, 3, 2), (6,)), {"strides": [2, 1], "pads": [1, 0, 2, 1], "group": 2}),
    Case("Conv", ((1, 3, 7, 5), (2, 3, 2, 3)), {"strides": [3, 2], "dilations": [2, 1]}),
    Case("BatchNormalization", ((3, 2, 4, 3), (2,), (2,), (2,), (2,)), {"training_mode": 1, "epsilon": 1e-3}),
    Case("BatchNormalization", ((5, 2), (2,), (2,), (2,), (2,)), {"training_mode": 1}),
    Case("BatchNormalization", ((3, 2, 4, 3), (2,), (2,), (2,), (2,)), {"epsilon": 1e-3}, positive=(4,)),
    Case("BatchNormalization", ((5, 2), (2,), (2,), (2,), (2,)), positive=(4,)),
    Case("MaxPool", ((2, 3, 6, 5),), {"kernel_shape": [2, 2], "strides": [2, 2]}),
    Case("MaxPool", ((1, 2, 7, 6),), {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1], "dilations": [1, 2]}),
    Case("SoftmaxCrossEntropyLoss", ((3, 5), LABELS)),
    Case("SoftmaxCrossEntropyLoss", ((3, 5), LABELS.astype(np.int32)), {"reduction": "sum"}),
    Case("MSELoss", ((3, 5), np.arange(15, dtype=np.float32).reshape(3, 5) / 7), domain=OWN),
    *(
        Case(
            operator.op_type,
            tuple(case.inputs.get(name) for name in operator.inputs),
            dict(case.attributes),
            operator.domain,
            ranges={operator.inputs.index(name): limits for name, limits in case.ranges.items()},
            outputs=len(case.outputs) if operator.variadic else 1,
        )
        for operator in registry().values()
        if type(operator).gradient is not Operator.gradient
        for case in operator.cases
    ),
]


def _graph_of(case: Case) -> tuple[ir.Graph, ir.Node, list[ir.Value | None]]:
    graph = ir.Graph([], [], nodes=[], opset_imports={"": 21}, name="case")
    build, operands = GraphBuilder(graph), list[ir.Value | None]()
    for i, operand in enumerate(case.operands):
        if isinstance(operand, tuple):
            operands.append(build.input(f"x{i}", TensorType(np.dtype(np.float32), operand)))
        else:
            operands.append(None if operand is None else build.constant(f"x{i}", operand))
    while operands and operands[-1] is None:
        operands.pop()
    build.node(case.op_type, operands, domain=case.domain, outputs=case.outputs, **case.attributes)
    return graph, next(iter(graph)), operands


def _double(graph: ir.Graph) -> Double:
    model = ir.Model(graph, ir_version=10)
    add_functions(model)
    return Double(model)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_rule_agrees_with_numeric_differentiation(case: Case) -> None:
    forward, node, operands = _graph_of(case)
    state = {source for source, _ in operator_of(node).state}
    operator_inputs = zip(operands, operator_of(node).inputs, strict=False)
    names = [o.name or "" for o, operand in operator_inputs if o and o.is_graph_input() and operand not in state]
    forward.outputs.append(node.outputs[0])
    generator = np.random.RandomState(7)
    values = {v.name or "": generator.standard_normal(v.shape.numpy()) for v in forward.inputs if v.shape is not None}
    values |= {f"x{i}": np.abs(values[f"x{i}"]) + 0.5 for i in case.positive}
    values |= {f"x{i}": generator.uniform(*case.ranges[i], values[f"x{i}"].shape) for i in case.ranges}
    weights = np.asarray(generator.standard_normal(type_of(node.outputs[0]).shape))  # pyright: ignore[reportOptionalMemberAccess]
    wanted = numeric_gradients(_double(forward), values, node.outputs[0].name or "", weights, names)

    graph, node, operands = _graph_of(case)
    use_training_forms(graph)
    settle_outputs(graph)
    for value, found in zip(node.outputs, operator_of(node).infer(invocation_of(node)), strict=True):
        value.shape, value.dtype = ir.Shape(found.shape), ir.DataType.from_numpy(found.dtype)
    build = GraphBuilder(graph, [o for o in operands if o and o.name in names])
    dy = build.input("dy", TensorType(np.dtype(np.float32), weights.shape))
    made = operator_of(node).gradient(invocation_of(node), node, [dy, *(None for _ in node.outputs[1:])], build)
    by_name = {o.name: grad for o, grad in zip(operands, made, strict=False) if o}
    for name in names:
        grad = by_name[name]
        assert grad is not None
        graph.outputs.append(grad)
    computed = _double(graph).run({**values, "dy": weights})
    for name, numeric in zip(names, wanted, strict=True):
        grad = by_name[name]
        assert grad is not None
        exact = computed.get(grad.name or "", weights)
        assert exact.shape == numeric.shape, name
        np.testing.assert_allclose(exact, numeric, rtol=1e-6, atol=1e-7, err_msg=name)
        assert type_of(grad) == TensorType(np.dtype(np.float32), numeric.shape)


def test_every_operator_with_a_gradient_is_tested() -> None:
    tested = {(case.domain, case.op_type) for case in CASES} | {(MICROSOFT, "BatchNormInternal")}
    differentiable = {key for key, op in registry().items() if type(op).gradient is not Operator.gradient}
    assert differentiable <= tested
