"""Reductions over axes known at compile time."""

from __future__ import annotations

from deeploy_ext.operators.nests import reducing
from deeploy_ext.operators.spec import Invocation, Operator, Phase, TensorType


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


class ReduceSum(Operator):
    """``reduced = sum of data over axes``."""

    op_type = "ReduceSum"
    inputs = ("data", "axes")
    outputs = ("reduced",)
    optional = frozenset({"axes"})
    attributes = {"keepdims": 1, "noop_with_empty_axes": 0}
    constant_inputs = ("axes",)
    operand_types = {"axes": ("int64",)}

    def infer(self, call: Invocation) -> tuple[TensorType, ...]:
        data, axes, keep = call["data"], reduced_axes(call), call.attributes["keepdims"]
        extents = ((1 if axis in axes else extent) for axis, extent in enumerate(data.shape) if keep or axis not in axes)
        return (TensorType(data.dtype, tuple(extents)),)

    def phases(self, call: Invocation) -> tuple[Phase, ...]:
        return (reducing(call, "data", "reduced", reduced_axes(call), start="sum"),)
