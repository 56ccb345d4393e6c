"""A training task whose step runs the nodes of some bench cases, none of which depends on another.

Their inputs are data, their outputs states, as are tensors that they update in place: so all that is known about running,
checking and measuring networks holds for them. A tensor of two numbers is trained, which gives the task the loss and the
update that every task has.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx_ir as ir

from deeploy_ext.bench.cases import FLOAT, Case, Shape
from deeploy_ext.operators.spec import OWN, Operator, TensorType
from deeploy_ext.operators.spec import Case as OperatorCase
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


@dataclass(frozen=True)
class _Made:
    """What nodes have asked for so far: data of the one mini-batch, states and what they start with."""

    batch: Arrays = field(default_factory=Arrays)
    states: list[State] = field(default_factory=list[State])
    initial: Arrays = field(default_factory=Arrays)


def bench_task(cases: Sequence[Case], name: str = "bench") -> BenchTask:
    """Puts cases into one task, with random data that depends on nothing but the case."""
    graph = ir.Graph([], [], nodes=[], opset_imports={"": 1}, name="step")
    build = GraphBuilder(graph)
    made = _Made()
    batch, states = made.batch, made.states
    nodes: dict[tuple[str, str], Case] = {}
    for number, case in enumerate(case for case in cases if not case.parameter):
        build.prefix = f"case{number}"
        nodes["step", _add(case, build, made)] = case
    trained = _add_trained(cases, build, batch)
    reset = build.input("reset", TensorType(np.dtype(np.bool_), (1,)))
    parameters = tuple(accumulate(name, build, list(trained), dict(trained), reset))
    update = sgd_update(parameters, list(trained), "learning_rate")
    for parameter, case in zip(parameters, (case for case in cases if case.parameter), strict=False):
        results = {"step": (graph, parameter.buffer_out), "update": (update.graph, parameter.updated)}
        giving = [(entry, node) for entry, (within, result) in results.items() for node in within if _gives(node, result)]
        (key,) = [(entry, node.name or "") for entry, node in giving if node.op_type == case.operator.op_type]
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
        initial=weights | _zeros(graph, states) | made.initial,
        batches=(batch,),
        spec=TrainingSpec(steps=1, accumulation=1),
    )
    return BenchTask(task, nodes)


def case_number(name: str) -> int | None:
    """Which of the task's cases a node or value belongs to, from its name; None: to none."""
    found = re.match(r"case(\d+)/", name)
    return int(found[1]) if found else None


def _gives(node: ir.Node, result: str) -> bool:
    return any(value.name == result for value in node.outputs)


def _add(case: Case, build: GraphBuilder, task: _Made) -> str:
    """A node of its own with data for its inputs; each output that is wanted becomes a state. Returns the node's name.

    What the node updates in place is a state from the start. The result of a view is read by a node that scales it: it has
    no storage of its own to be kept.
    """
    operator, types = case.operator, case.types
    seed = zlib.crc32(case.name.encode())
    wanted = case.outputs or tuple(n for n in operator.outputs if n not in operator.optional or n in operator.needed)
    updated = {source: result for source, result in operator.state if result in wanted}
    operands: dict[str, ir.Value] = {}
    for place, name in enumerate(operator.inputs):
        if name not in case.inputs:
            continue
        array = sample(operator, case, name, seed + place)
        if name in operator.constant_inputs:
            operands[name] = build.constant(name, array)
            continue
        operands[name] = build.input(f"{build.prefix}/{name}", types[name])
        (task.initial if name in updated else task.batch)[operands[name].name or ""] = array
    inputs = [operands.get(name) for name in operator.inputs]
    while inputs and inputs[-1] is None:
        inputs.pop()
    first = len(build.graph)
    build.node(operator.op_type, inputs, domain=operator.domain, outputs=len(case.results), **case.attributes)
    node = build.graph[first]
    results = dict(zip(operator.outputs, node.outputs, strict=not operator.variadic))
    last = operator.outputs[-1] if operator.function is not None else ""  # see settle_outputs
    for name, value in results.items():
        if name not in wanted and name not in operator.needed and name != last:
            value.name = ""
    sources = {result: source for source, result in updated.items()}
    for name in wanted:
        value = results[name]
        if operator.view:
            scale = build.input(f"{build.prefix}/scale", TensorType(FLOAT, ()))
            task.batch[scale.name or ""] = np.array(0.5, np.float32)
            value = build.node("Mul", [value, scale])
        build.graph.outputs.append(value)
        before = operands[sources[name]].name if name in sources else f"{value.name}_kept"
        task.states.append(State(before or "", value.name or ""))
    return node.name or ""


def sample(operator: Operator, case: Case | OperatorCase, name: str, seed: int) -> np.ndarray[Any, Any]:
    """Values of an input: those that the case gives, or random ones; of *positive* inputs magnitudes and a half."""
    given = case.inputs[name]
    if not isinstance(given, tuple):
        return given
    random = np.random.RandomState(seed % 2**32)
    if name in case.ranges:
        return random.uniform(*case.ranges[name], given).astype(np.float32)
    numbers = random.standard_normal(given)
    return np.asarray(np.abs(numbers) + 0.5 if name in operator.positive else numbers, np.float32)


def _data(build: GraphBuilder, batch: Arrays, name: str, shape: Shape, seed: int) -> ir.Value:
    """An input of the graph with normally distributed values."""
    value = build.input(name, TensorType(FLOAT, shape))
    batch[value.name or ""] = np.asarray(np.random.RandomState(seed % 2**32).standard_normal(shape), np.float32)
    return value


def _add_trained(cases: Sequence[Case], build: GraphBuilder, batch: Arrays) -> dict[ir.Value, ir.Value]:
    """Trained tensors with their gradients: one for each parameter case, or the smallest where there is none."""
    shapes = [next(iter(case.types.values())).shape for case in cases if case.parameter] or [_SMALLEST]
    made: dict[ir.Value, ir.Value] = {}
    for number, shape in enumerate(shapes):
        weight = ir.Value(name=f"parameter{number}", shape=ir.Shape(shape), type=ir.TensorType(ir.DataType.FLOAT))
        made[weight] = _data(build, batch, f"parameter{number}/gradient", shape, number)
    return made


def _zeros(graph: ir.Graph, states: Sequence[State]) -> Arrays:
    shapes = {value.name: value.shape.numpy() for value in graph.outputs if value.shape is not None}
    return {state.before: np.zeros(shapes[state.after], np.float32) for state in states}
