"""An operator's gradient rule, reference bodies included, against numeric differentiation in float64."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from deeploy_ext.bench.task import sample
from deeploy_ext.graph.invocation import invocation_of, operator_of, type_of
from deeploy_ext.graph.normalise import settle_outputs
from deeploy_ext.operators.spec import OPSET, Case, Operator, TensorType
from deeploy_ext.training.autodiff import use_training_forms
from deeploy_ext.training.builder import GraphBuilder
from deeploy_ext.training.functions import IR_VERSION, add_functions
from deeploy_ext.workshop.double_precision import Double, numeric_gradients

RTOL, ATOL = 1e-6, 1e-7
"""Of a gradient in float64 against central differences."""


def has_gradient(operator: Operator) -> bool:
    """Whether training goes through the operator."""
    return type(operator).gradient is not Operator.gradient


def _graph_of(operator: Operator, case: Case) -> tuple[ir.Graph, ir.Node, dict[str, ir.Value]]:
    """A graph of the one node; float inputs that are random are inputs of the graph, all others constants."""
    graph = ir.Graph([], [], nodes=[], opset_imports={"": OPSET}, name="case")
    build, operands = GraphBuilder(graph), dict[str, ir.Value]()
    for name, given in case.inputs.items():
        if isinstance(given, tuple):
            operands[name] = build.input(name, TensorType(np.dtype(np.float32), given))
        else:
            operands[name] = build.constant(name, given)
    inputs = [operands.get(name) for name in operator.inputs]
    while inputs and inputs[-1] is None:
        inputs.pop()
    count = len(case.outputs) if operator.variadic else 1
    build.node(operator.op_type, inputs, domain=operator.domain, outputs=count, **case.attributes)
    return graph, next(iter(graph)), operands


def _double(graph: ir.Graph) -> Double:
    model = ir.Model(graph, ir_version=IR_VERSION)
    add_functions(model)
    return Double(model)


def gradient_errors(operator: Operator, case: Case) -> list[str]:
    """What is wrong with the gradient rule on a case, a phrase for every input; [] if it agrees everywhere.

    The gradient of ``sum(weights * first output)`` with random weights, with respect to every element of every random
    input that is no state.
    """
    forward, node, operands = _graph_of(operator, case)
    state = {source for source, _ in operator.state}
    names = [name for name, value in operands.items() if value.is_graph_input() and name not in state]
    output = node.outputs[0].name or ""
    forward.outputs.append(node.outputs[0])
    values = {n: sample(operator, case, n, place) for place, (n, v) in enumerate(operands.items()) if v.is_graph_input()}
    result = type_of(node.outputs[0])
    assert result is not None
    weights = np.asarray(np.random.RandomState(7).standard_normal(result.shape))
    wanted = numeric_gradients(_double(forward), values, output, weights, names)

    graph, node, operands = _graph_of(operator, case)
    use_training_forms(graph)
    settle_outputs(graph)
    for value, found in zip(node.outputs, operator_of(node).infer(invocation_of(node)), strict=True):
        value.shape, value.dtype = ir.Shape(found.shape), ir.DataType.from_numpy(found.dtype)
    build = GraphBuilder(graph, [operands[name] for name in names])
    dy = build.input("dy", TensorType(np.dtype(np.float32), weights.shape))
    made = operator_of(node).gradient(invocation_of(node), node, [dy, *(None for _ in node.outputs[1:])], build)
    by_name = dict(zip(operator.inputs, made, strict=False))
    errors = [f"no gradient of '{name}'" for name in names if by_name.get(name) is None]
    grads = {name: grad for name in names if (grad := by_name.get(name)) is not None}
    graph.outputs.extend(dict.fromkeys(grads.values()))
    computed = _double(graph).run({**values, dy.name or "": weights})
    for name, numeric in zip(names, wanted, strict=True):
        if name not in grads:
            continue
        exact = computed[grads[name].name or ""]
        if exact.shape != numeric.shape or type_of(grads[name]) != TensorType(np.dtype(np.float32), numeric.shape):
            errors.append(f"gradient of '{name}' is {exact.shape}, '{name}' is {numeric.shape}")
        elif not np.allclose(exact, numeric, rtol=RTOL, atol=ATOL):
            place = np.unravel_index(int(np.argmax(np.abs(exact - numeric))), numeric.shape)
            index = [int(i) for i in place]
            errors.append(f"gradient of '{name}' at {index} is {exact[place]:.6g}, differences say {numeric[place]:.6g}")
    return errors
