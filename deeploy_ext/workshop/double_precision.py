"""Runs graphs in float64 under onnx.reference and differentiates them numerically: the outside check of gradient rules."""

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


class GlobalMaxPool(OpRun):
    """By the definition: onnx.reference's own one knows 2-D images only."""

    def _run(self, x: np.ndarray) -> tuple[np.ndarray]:
        return (x.max(axis=tuple(range(2, x.ndim)), keepdims=True),)


class GroupNormalization(OpRun):
    """By the definition: onnx.reference's own one computes statistics in float32."""

    def _run(
        self, x: np.ndarray, scale: np.ndarray, bias: np.ndarray, *, epsilon: float, num_groups: int, **_: Any
    ) -> tuple[np.ndarray]:
        groups = x.reshape(x.shape[0], num_groups, -1)
        centered = groups - groups.mean(axis=2, keepdims=True)
        normalised = centered / np.sqrt((centered**2).mean(axis=2, keepdims=True) + epsilon)
        column = (-1, *(1 for _ in x.shape[2:]))
        return (normalised.reshape(x.shape) * scale.reshape(column) + bias.reshape(column),)


OPERATORS: list[type[OpRun]] = [ConvTranspose, Erf, Gelu, GlobalMaxPool, GroupNormalization]
"""What is computed here instead of by onnx.reference."""


def evaluator(proto: onnx.ModelProto) -> ReferenceEvaluator:
    """The model with its functions inlined, so that the operators above are used inside them too."""
    return ReferenceEvaluator(onnx.inliner.inline_local_functions(proto), new_ops=OPERATORS)


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
        made = self._evaluator.run(None, feeds)
        return {name: np.asarray(value) for name, value in zip(self.outputs, made, strict=True)}


def double(array: np.ndarray) -> np.ndarray:
    return np.asarray(array, np.float64) if np.asarray(array).dtype == np.float32 else np.asarray(array)


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
