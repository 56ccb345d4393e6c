"""A training task whose step runs the nodes of some bench cases, none of which depends on another.

Their inputs are data, their outputs states, so that everything that is known about running, checking and measuring networks
holds for them. A tensor of two numbers is trained, which gives the task the loss and the update that every task has.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from deeploy_ext.bench.cases import FLOAT, Case, Shape, output_types
from deeploy_ext.operators.spec import OWN, TensorType
from deeploy_ext.training.autodiff import accumulate, sgd_update
from deeploy_ext.training.builder import GraphBuilder
from deeploy_ext.training.functions import IR_VERSION, add_functions
from deeploy_ext.training.task import Arrays, State, TrainingSpec, TrainingTask

_SMALLEST = (2,)


@dataclass(frozen=True)
class BenchTask:
    """The task, and for each of its cases the entry and the name of the node that runs it."""

    task: TrainingTask
    nodes: Mapping[tuple[str, str], Case]


def bench_task(cases: Sequence[Case], name: str = "bench") -> BenchTask:
    """Puts cases into one task, with random data that depends on nothing but the case."""
    graph = ir.Graph([], [], nodes=[], opset_imports={"": 1}, name="step")
    build = GraphBuilder(graph)
    batch: Arrays = {}
    states: list[State] = []
    nodes: dict[tuple[str, str], Case] = {}
    for number, case in enumerate(case for case in cases if not case.parameter):
        build.prefix = f"case{number}"
        nodes["step", _add(case, build, batch, states)] = case
    trained = _add_trained(cases, build, batch)
    reset = build.input("reset", TensorType(np.dtype(np.bool_), (1,)))
    parameters = tuple(accumulate(name, build, list(trained), dict(trained), reset))
    update = sgd_update(parameters, list(trained), "learning_rate")
    for parameter, case in zip(parameters, (case for case in cases if case.parameter), strict=False):
        results = {"step": (graph, parameter.buffer_out), "update": (update.graph, parameter.updated)}
        made = [(entry, node) for entry, (within, result) in results.items() for node in within if _gives(node, result)]
        (key,) = [(entry, node.name or "") for entry, node in made if node.op_type == case.operator.op_type]
        nodes[key] = case
    build.prefix = "loss"
    prediction, target = (_data(build, batch, f"loss/{name}", _SMALLEST, i) for i, name in enumerate(("prediction", "target")))
    loss = build.node("MSELoss", [prediction, target], domain=OWN)
    graph.outputs.append(loss)
    step = ir.Model(graph, ir_version=IR_VERSION)
    add_functions(step)
    weights = {value.name or "": np.ones(value.shape.numpy(), np.float32) for value in trained if value.shape is not None}
    task = TrainingTask(
        name=name,
        step=step,
        update=update,
        forward=None,
        infer=None,
        loss=loss.name or "",
        reset=reset.name or "",
        learning_rate="learning_rate",
        data=tuple(batch),
        parameters=parameters,
        states=tuple(states),
        initial=weights | _zeros(graph, states),
        batches=(batch,),
        spec=TrainingSpec(steps=1, accumulation=1),
    )
    return BenchTask(task, nodes)


def _gives(node: ir.Node, result: str) -> bool:
    return any(value.name == result for value in node.outputs)


def _add(case: Case, build: GraphBuilder, batch: Arrays, states: list[State]) -> str:
    """A node of its own with data for its inputs; each output that is needed becomes a state. Returns the node's name."""
    operator = case.operator
    types = output_types(operator, case.inputs, case.attributes)
    wanted = [name not in operator.optional or name in operator.needed for name in operator.outputs]
    seed = zlib.crc32(case.name.encode())
    inputs = [
        _data(build, batch, f"{build.prefix}/{operand}", case.inputs[operand], seed + place, operand in operator.positive)
        if operand in case.inputs
        else None
        for place, operand in enumerate(operator.inputs)
    ]
    while inputs and inputs[-1] is None:
        inputs.pop()
    first = len(build.graph)
    build.node(operator.op_type, inputs, domain=operator.domain, outputs=len(types), **case.attributes)
    node = build.graph[first]
    for value, keep in zip(node.outputs, wanted, strict=False):
        if not keep:
            value.name = ""
            continue
        build.graph.outputs.append(value)
        states.append(State(f"{value.name}_kept", value.name or ""))
    return node.name or ""


def _data(build: GraphBuilder, batch: Arrays, name: str, shape: Shape, seed: int, positive: bool = False) -> ir.Value:
    """An input of the graph; its values are normal, or their magnitudes and a half."""
    value = build.input(name, TensorType(FLOAT, shape))
    numbers = np.random.RandomState(seed % 2**32).standard_normal(shape).astype(np.float32)
    batch[value.name or ""] = np.abs(numbers) + np.float32(0.5) if positive else numbers
    return value


def _add_trained(cases: Sequence[Case], build: GraphBuilder, batch: Arrays) -> dict[ir.Value, ir.Value]:
    """Trained tensors with their gradients: one for each parameter case, or the smallest where there is none."""
    shapes = [next(iter(case.inputs.values())) for case in cases if case.parameter] or [_SMALLEST]
    made: dict[ir.Value, ir.Value] = {}
    for number, shape in enumerate(shapes):
        weight = ir.Value(name=f"parameter{number}", shape=ir.Shape(shape), type=ir.TensorType(ir.DataType.FLOAT))
        made[weight] = _data(build, batch, f"parameter{number}/gradient", shape, number)
    return made


def _zeros(graph: ir.Graph, states: Sequence[State]) -> Arrays:
    shapes = {value.name: value.shape.numpy() for value in graph.outputs if value.shape is not None}
    return {state.before: np.zeros(shapes[state.after], np.float32) for state in states}
