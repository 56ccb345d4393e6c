"""Runs graphs in float64 under onnx.reference and differentiates them numerically: the outside check of autodiff."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx.inliner
import onnx_ir as ir
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

from deeploy_ext.training.task import TrainingTask

Arrays = Mapping[str, np.ndarray]


class ConvTranspose(OpRun):
    """By the definition: onnx.reference's own one fails for most groupings."""

    def _run(self, x: np.ndarray, w: np.ndarray, *, strides: Any, dilations: Any, group: int, **_: Any) -> tuple[np.ndarray]:
        ci, co = w.shape[0] // group, w.shape[1]
        size = [s * (n - 1) + d * (k - 1) + 1 for s, n, d, k in zip(strides, x.shape[2:], dilations, w.shape[2:], strict=True)]
        y = np.zeros((x.shape[0], group * co, *size), x.dtype)
        for g in range(group):
            for ky, kx in np.ndindex(w.shape[2:]):
                rows = slice(dilations[0] * ky, dilations[0] * ky + strides[0] * x.shape[2], strides[0])
                columns = slice(dilations[1] * kx, dilations[1] * kx + strides[1] * x.shape[3], strides[1])
                shares = np.einsum("nihw,io->nohw", x[:, g * ci : (g + 1) * ci], w[g * ci : (g + 1) * ci, :, ky, kx])
                y[:, g * co : (g + 1) * co, rows, columns] += shares
        return (y,)


def _erf(x: np.ndarray) -> np.ndarray:
    """onnx.reference's own one rounds to float32."""
    return np.vectorize(math.erf, otypes=[x.dtype])(x)


class Erf(OpRun):
    """In the precision of x."""

    def _run(self, x: np.ndarray) -> tuple[np.ndarray]:
        return (_erf(x),)


class Gelu(OpRun):
    """In the precision of x."""

    def _run(self, x: np.ndarray, *, approximate: str) -> tuple[np.ndarray]:
        if approximate == "tanh":
            return (0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),)
        return (0.5 * x * (1 + _erf(x * math.sqrt(0.5))),)


def evaluator(proto: onnx.ModelProto) -> ReferenceEvaluator:
    """The model with its functions inlined, so that the operator above is used inside them too."""
    return ReferenceEvaluator(onnx.inliner.inline_local_functions(proto), new_ops=[ConvTranspose, Erf, Gelu])


class Double:
    """A model that computes in float64; initializers can be overridden by name."""

    def __init__(self, model: ir.Model) -> None:
        proto = ir.to_proto(model)
        for tensor in proto.graph.initializer:
            tensor.CopyFrom(numpy_helper.from_array(double(numpy_helper.to_array(tensor)), tensor.name))
        self._evaluator = evaluator(proto)
        self._known = {value.name for value in proto.graph.input} | {tensor.name for tensor in proto.graph.initializer}
        self.outputs = [value.name for value in proto.graph.output]

    def run(self, values: Arrays) -> dict[str, np.ndarray]:
        feeds = {name: double(value) for name, value in values.items() if name in self._known}
        return dict(zip(self.outputs, self._evaluator.run(None, feeds), strict=True))


def double(array: np.ndarray) -> np.ndarray:
    return np.asarray(array, np.float64) if np.asarray(array).dtype == np.float32 else np.asarray(array)


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


def numeric_gradients(
    forward: Double, values: Arrays, output: str, weights: np.ndarray, names: Sequence[str]
) -> list[np.ndarray]:
    """Central differences of ``sum(weights * output)`` with respect to every element of the named values."""
    found: list[np.ndarray] = []
    for name in names:
        base = double(values[name])
        gradient = np.zeros(base.shape)
        for index in np.ndindex(base.shape):
            sides = []
            for step in (1e-5, -1e-5):
                moved = base.copy()
                moved[index] += step
                sides.append(float((forward.run({**values, name: moved})[output] * weights).sum()))
            gradient[index] = (sides[0] - sides[1]) / 2e-5
        found.append(gradient)
    return found


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
