"""Gradients of whole networks in float64 against differences of the forward graph; models of one node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
import onnx_ir as ir

from deeploy_ext.training.task import TrainingTask
from deeploy_ext.workshop.double_precision import Double, double

Arrays = Mapping[str, np.ndarray]


def step_gradients(task: TrainingTask, step: ir.Model) -> dict[str, np.ndarray]:
    """Gradients of the first mini-batch by weight name, from a training graph in float64."""
    values = {**task.initial, **task.batch(0), task.reset: np.array([True])}
    values |= {p.buffer: np.zeros_like(task.initial[p.weight]) for p in task.parameters}
    made = Double(step).run(values)
    return {p.weight: made[p.buffer_out] for p in task.parameters}


def directional_errors(task: TrainingTask, gradients: Arrays, directions: int = 5, epsilon: float = 1e-7) -> list[float]:
    """Relative differences between gradient . direction and the central difference of the forward graph along it.

    Directions have length 1, so that hardly any Relu changes side within ``epsilon``.
    """
    assert task.forward is not None
    forward, values = Double(task.forward), {**task.initial, **task.batch(0)}
    count = sum(gradient.size for gradient in gradients.values())
    typical = np.sqrt(sum(float((gradient**2).sum()) for gradient in gradients.values()) / count)
    errors: list[float] = []
    for seed in range(directions):
        generator = np.random.RandomState(seed)
        direction = {p.weight: generator.standard_normal(task.initial[p.weight].shape) for p in task.parameters}
        length = np.sqrt(sum(float((d**2).sum()) for d in direction.values()))
        direction = {name: d / length for name, d in direction.items()}
        losses = [
            float(
                forward.run({**values, **{n: double(task.initial[n]) + s * epsilon * d for n, d in direction.items()}})["loss"]
            )
            for s in (1, -1)
        ]
        slope = (losses[0] - losses[1]) / (2 * epsilon)
        predicted = sum(float((gradients[name] * d).sum()) for name, d in direction.items())
        errors.append(abs(predicted - slope) / max(abs(slope), 0.1 * typical))
    return errors


def one_node(functions: Sequence[onnx.FunctionProto], node: onnx.NodeProto, values: Arrays) -> onnx.ModelProto:
    """A model of one node whose operator is a function; ``values`` are its inputs in operand order."""
    kinds = {name: onnx.helper.np_dtype_to_tensor_dtype(value.dtype) for name, value in values.items()}
    graph = onnx.helper.make_graph(
        [node],
        "one",
        [onnx.helper.make_tensor_value_info(name, kinds[name], value.shape) for name, value in values.items()],
        [onnx.helper.make_tensor_value_info(name, next(iter(kinds.values())), None) for name in node.output if name],
    )
    domains = sorted({(o.domain, o.version) for f in functions for o in f.opset_import} | {(node.domain, 1)})
    opsets = [onnx.helper.make_opsetid(domain, version) for domain, version in domains]
    return onnx.helper.make_model(graph, ir_version=10, functions=list(functions), opset_imports=opsets)
