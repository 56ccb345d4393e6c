"""Reductions over axes known at compile time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from deeploy_ext.operators.nests import reducing
from deeploy_ext.operators.spec import Case, Invocation, Operator, Phase, Start, TensorType

if TYPE_CHECKING:
    import onnx_ir as ir

    from deeploy_ext.training.builder import GraphBuilder


def reduced_axes(call: Invocation) -> tuple[int, ...]:
    """The axes that a reduction of ``data`` sums over: sorted, non-negative; () when it copies."""
    rank, axes = len(call["data"].shape), call.constants.get("axes")
    if axes is None and call.get("axes") is not None:
        raise call.refuse("axes computed at run time", "make them a constant of the model")
    if axes is None or axes.size == 0:
        return () if call.attributes["noop_with_empty_axes"] else tuple(range(rank))
    given = [int(axis) for axis in axes.reshape(-1)]
    found = sorted({axis % rank for axis in given if -rank <= axis < rank})
    if len(found) != len(given):
        raise call.refuse(f"axes {given} of a tensor of rank {rank}", "name every axis once, within the rank")
    return tuple(found)


class _Reduction(Operator):
    inputs = ("data", "axes")
    outputs = ("reduced",)
    optional = frozenset({"axes"})
    attributes = {"keepdims": 1, "noop_with_empty_axes": 0}
    constant_inputs = ("axes",)
    start: ClassVar[Start] = "zero"
    operand_types = {"axes": ("int64",)}
    cases = (
        Case({"data": (3, 5, 7), "axes": np.array([0, 2])}),
        Case({"data": (3, 5, 7), "axes": np.array([-2])}, {"keepdims": 0}),
        Case({"data": (2, 3, 5, 7), "axes": np.array([3, 1])}, {"keepdims": 0}),
        Case({"data": (1, 5, 3), "axes": np.array([0])}, {"keepdims": 0}),
        Case({"data": (3, 5)}),
        Case({"data": (3, 5)}, {"noop_with_empty_axes": 1}),
    )

    def infer(self, call: Invocation) -> tuple[TensorType, ...]:
        data, axes, keep = call["data"], reduced_axes(call), call.attributes["keepdims"]
        extents = ((1 if axis in axes else extent) for axis, extent in enumerate(data.shape) if keep or axis not in axes)
        return (TensorType(data.dtype, tuple(extents)),)

    def share(self, call: Invocation) -> float:
        """What the sum is multiplied by."""
        return 1.0

    def gradient(
        self, call: Invocation, node: ir.Node, grads: Sequence[ir.Value | None], build: GraphBuilder
    ) -> Sequence[ir.Value | None]:
        grad, shape, axes = grads[0], call["data"].shape, reduced_axes(call)
        kept = tuple(1 if place in axes else extent for place, extent in enumerate(shape))
        if self.share(call) != 1.0:
            grad = build.node("Mul", [grad, build.constant("share", np.array(self.share(call), np.float32))])
        if call["reduced"].shape != kept:
            grad = build.node("Reshape", [grad, build.constant("kept", np.array(kept, np.int64))])
        if kept != shape:
            grad = build.node("Expand", [grad, build.constant("shape", np.array(shape, np.int64))])
        return (grad, *(None for _ in node.inputs[1:]))

    def phases(self, call: Invocation) -> tuple[Phase, ...]:
        return (reducing(call, "data", "reduced", reduced_axes(call), start=self.start),)


class ReduceSum(_Reduction):
    """``reduced = sum of data over axes``."""

    op_type = "ReduceSum"
    start = "sum"


class ReduceMean(_Reduction):
    """``reduced = mean of data over axes``."""

    op_type = "ReduceMean"

    def share(self, call: Invocation) -> float:
        return call["reduced"].elements / call["data"].elements
