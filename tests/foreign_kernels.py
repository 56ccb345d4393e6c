"""Operators as other exporters write them, each a graph with inputs and outputs as npz, brought together in one training task.

None of the graphs depends on another: their inputs are the task's data, their outputs its states.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir

from deeploy_ext.graph.files import read_arrays, read_model
from deeploy_ext.graph.invocation import type_of
from deeploy_ext.graph.normalise import normalise, use_known_names
from deeploy_ext.operators import find
from deeploy_ext.operators.spec import OWN, TensorType
from deeploy_ext.training.autodiff import accumulate, sgd_update
from deeploy_ext.training.builder import GraphBuilder
from deeploy_ext.training.functions import IR_VERSION, add_functions
from deeploy_ext.training.task import Arrays, State, TrainingSpec, TrainingTask

FLOAT = np.dtype(np.float32)
INSTEAD_OF_INFINITY = -7.0


@dataclass(frozen=True)
class Kernel:
    """A graph of one or a few nodes, its inputs' values in graph order, and what its maker says comes out, in graph order."""

    name: str
    graph: ir.Graph
    inputs: tuple[np.ndarray[Any, Any], ...]
    outputs: tuple[np.ndarray[Any, Any], ...]

    @property
    def operators(self) -> str:
        return ", ".join(dict.fromkeys(node.op_type for node in self.graph))


def kernel_folders(root: Path) -> list[str]:
    """Paths of all folders with a graph, relative to ``root``."""
    return sorted(file.parent.relative_to(root).as_posix() for file in root.rglob("network.onnx"))


def read_kernel(root: Path, name: str) -> Kernel:
    """A folder's graph, normalised, with its values: positions count, names do not, and initializers take no value."""
    graph = read_model(root / name / "network.onnx").graph
    normalise(graph, before=(use_known_names, pad_attributes, give_shapes))
    given = list(read_arrays(root / name / "inputs.npz").values())
    weights = {tensor.name for tensor in graph.initializers.values()}
    values = [value for value in graph.inputs if value.name not in weights and not _made_here(value)]
    kept = [_as(array, type_of(value)) for value, array in zip(values, given, strict=False)]
    made = [np.zeros(value.shape.numpy(), FLOAT) for value in graph.inputs if _made_here(value) and value.shape is not None]
    return Kernel(name, graph, (*kept, *made), tuple(read_arrays(root / name / "outputs.npz").values()))


def _as(array: np.ndarray[Any, Any], wanted: TensorType | None) -> np.ndarray[Any, Any]:
    assert wanted is not None
    assert array.shape == wanted.shape
    return array.astype(wanted.dtype)


def _made_here(value: ir.Value) -> bool:
    return (value.name or "").startswith("shape_of/")


def give_shapes(graph: ir.Graph) -> list[str]:
    """Gradients without the last operand, which only gives the result's shape: the graph's output says what that is."""
    for node in graph:
        operator = find(node.domain, node.op_type)
        if operator is None or operator.implied is not None or len(node.inputs) != len(operator.inputs) - 1:
            continue
        if operator.inputs[-1] in {*operator.optional, *operator.constant_inputs}:
            continue
        output = node.outputs[0]
        value = ir.Value(name=f"shape_of/{output.name}", shape=output.shape, type=output.type)
        graph.inputs.append(value)
        node.resize_inputs(len(operator.inputs))
        node.replace_input_with(len(operator.inputs) - 1, value)
    return []


def pad_attributes(graph: ir.Graph) -> list[str]:
    """Pad of opset 10: pads and value are attributes there, inputs later. An infinite value becomes a finite one."""
    for node in graph:
        if node.op_type == "Pad" and "pads" in node.attributes:
            pads, value = node.attributes.pop("pads").as_ints(), node.attributes.pop("value").as_float()
            node.resize_inputs(3)
            value = value if np.isfinite(value) else INSTEAD_OF_INFINITY
            for place, array in ((1, np.array(pads, np.int64)), (2, np.array(value, np.float32))):
                constant = ir.Value(name=f"{node.outputs[0].name}/{place}", const_value=ir.tensor(array))
                graph.register_initializer(constant)
                node.replace_input_with(place, constant)
    return []


def kernel_task(kernels: Sequence[Kernel]) -> TrainingTask:
    """One step that runs all kernels; the state ``<name>#<i>`` is output i of a kernel."""
    graph = ir.Graph([], [], nodes=[], opset_imports={"": 1}, name="step")
    batch: Arrays = {}
    states: list[State] = []
    initial: Arrays = {}
    pending: list[tuple[str, ir.Value]] = []
    for kernel in kernels:
        part = kernel.graph
        for value in [*part.inputs, *part.initializers.values(), *(v for node in part for v in node.outputs if v.name)]:
            value.name = f"{kernel.name}/{value.name}"
        for value, array in zip(list(part.inputs), kernel.inputs, strict=True):
            batch[value.name or ""] = array
        inputs, outputs, nodes = list(part.inputs), list(part.outputs), list(part)
        constants = list(part.initializers.values())
        part.inputs.clear()
        part.outputs.clear()
        part.initializers.clear()
        part.remove(nodes)
        graph.inputs.extend(inputs)
        for constant in constants:
            graph.register_initializer(constant)
        for node in nodes:
            node.name = f"{kernel.name}/{node.name}"
        graph.extend(nodes)
        pending += [(f"{kernel.name}#{i}", value) for i, value in enumerate(outputs)]
    build = GraphBuilder(graph)
    for name, value in pending:
        build.prefix = name
        producer = value.producer()
        found, operator = type_of(value), find(producer.domain, producer.op_type) if producer else None
        assert found is not None
        if operator is None or operator.view or len(value.uses()) > 0:  # a state has storage of its own
            value = build.node("Add", [value, build.constant("zero", np.zeros((), FLOAT))])
        graph.outputs.append(value)
        states.append(State(name, value.name or ""))
        initial[name] = np.zeros(found.shape, found.dtype)
    build.prefix = "loss"
    weight = ir.Value(name="weight", shape=ir.Shape((2,)), type=ir.TensorType(ir.DataType.FLOAT))
    reset = build.input("reset", TensorType(np.dtype(np.bool_), (1,)))
    operands = [build.input(name, TensorType(FLOAT, (2,))) for name in ("prediction", "target", "gradient")]
    batch |= {value.name or "": np.array([i, 1], np.float32) for i, value in enumerate(operands)}
    parameters = tuple(accumulate("kernels", build, [weight], {weight: operands[2]}, reset))
    loss = build.node("MSELoss", operands[:2], domain=OWN)
    graph.outputs.append(loss)
    model = ir.Model(graph, ir_version=IR_VERSION)
    add_functions(model)
    return TrainingTask(
        name="kernels",
        step=model,
        update=sgd_update(parameters, [weight], "learning_rate"),
        forward=None,
        infer=None,
        loss=loss.name or "",
        reset=reset.name or "",
        learning_rate="learning_rate",
        data=tuple(batch),
        parameters=parameters,
        states=tuple(states),
        initial={**initial, "weight": np.ones(2, np.float32)},
        batches=(batch,),
        spec=TrainingSpec(steps=1, accumulation=1),
    )


def expected_states(task: TrainingTask, kernels: Sequence[Kernel], exceptions: Mapping[str, str]) -> Arrays:
    """What the makers say comes out, by state, infinity as above; kernels with an exception have none.

    A number may be written as an array of one.
    """
    shapes = {name: array.shape for name, array in task.initial.items()}
    found = {
        f"{kernel.name}#{i}": a for kernel in kernels if kernel.name not in exceptions for i, a in enumerate(kernel.outputs)
    }
    finite = {name: np.where(np.isfinite(array), array, INSTEAD_OF_INFINITY) for name, array in found.items()}
    return {
        name: array.astype(np.float32).reshape(shapes[name] if array.size == 1 else array.shape)
        for name, array in finite.items()
    }
