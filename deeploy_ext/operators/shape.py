"""Operators that show a tensor under another shape: the same storage, no code."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from deeploy_ext.operators.movement import axes_of, known
from deeploy_ext.operators.spec import Case, Invocation, Operator, TensorType

if TYPE_CHECKING:
    import onnx_ir as ir

    from deeploy_ext.training.builder import GraphBuilder


def _back(build: GraphBuilder, grad: ir.Value | None, shape: tuple[int, ...]) -> ir.Value:
    return build.node("Reshape", [grad, build.constant("shape", np.array(shape, np.int64))])


class Reshape(Operator):
    """``reshaped = data`` under ``shape``: 0 copies the extent of data (with allowzero=0), one -1 takes what is left."""

    op_type = "Reshape"
    inputs = ("data", "shape")
    outputs = ("reshaped",)
    attributes = {"allowzero": 0}
    view = True
    constant_inputs = ("shape",)
    operand_types = {"shape": ("int64",)}
    cases = (
        Case({"data": (2, 3, 5), "shape": np.array([0, -1])}),
        Case({"data": (2, 3, 5), "shape": np.array([5, 6])}, {"allowzero": 1}),
    )

    def infer(self, call: Invocation) -> tuple[TensorType, ...]:
        data, shape = call["data"], call.constants.get("shape")
        if shape is None:
            raise call.refuse("a shape computed at run time", "make it a constant of the model")
        wanted = [int(extent) for extent in shape.reshape(-1)]
        copied = [
            data.shape[i] if extent == 0 and not call.attributes["allowzero"] and i < len(data.shape) else extent
            for i, extent in enumerate(wanted)
        ]
        known = math.prod(extent for extent in copied if extent != -1)
        if copied.count(-1) == 1 and known > 0:
            copied[copied.index(-1)] = data.elements // known
        if min(copied, default=1) < 1 or math.prod(copied) != data.elements:
            raise call.refuse(f"reshaping {data.shape} to {wanted}", "give a shape with as many elements")
        return (TensorType(data.dtype, tuple(copied)),)

    def gradient(
        self, call: Invocation, node: ir.Node, grads: Sequence[ir.Value | None], build: GraphBuilder
    ) -> Sequence[ir.Value | None]:
        return (_back(build, grads[0], call["data"].shape), None)


class Flatten(Operator):
    """``output = input`` as a matrix: axes before ``axis`` make the rows, the others the columns."""

    op_type = "Flatten"
    inputs = ("input",)
    outputs = ("output",)
    attributes = {"axis": 1}
    view = True
    cases = tuple(Case({"input": (2, 3, 5)}, {"axis": axis}) for axis in (0, 2, -2))

    def infer(self, call: Invocation) -> tuple[TensorType, ...]:
        data, axis = call["input"], call.attributes["axis"]
        rank = len(data.shape)
        if not -rank <= axis <= rank:
            raise call.refuse(f"axis={axis} of a tensor of rank {rank}", "name an axis within the rank")
        split = axis + rank if axis < 0 else axis
        return (TensorType(data.dtype, (math.prod(data.shape[:split]), math.prod(data.shape[split:]))),)

    def gradient(
        self, call: Invocation, node: ir.Node, grads: Sequence[ir.Value | None], build: GraphBuilder
    ) -> Sequence[ir.Value | None]:
        return (_back(build, grads[0], call["input"].shape),)


class Identity(Operator):
    """``output = input``."""

    op_type = "Identity"
    inputs = ("input",)
    outputs = ("output",)
    view = True
    cases = (Case({"input": (2, 3)}),)

    def infer(self, call: Invocation) -> tuple[TensorType, ...]:
        return (call["input"],)

    def gradient(
        self, call: Invocation, node: ir.Node, grads: Sequence[ir.Value | None], build: GraphBuilder
    ) -> Sequence[ir.Value | None]:
        return (grads[0],)


class _Axes(Operator):
    """Axes of one element that vanish or appear; the gradient is the other way round."""

    inputs = ("data", "axes")
    view = True
    constant_inputs = ("axes",)
    operand_types = {"axes": ("int64",)}

    def gradient(
        self, call: Invocation, node: ir.Node, grads: Sequence[ir.Value | None], build: GraphBuilder
    ) -> Sequence[ir.Value | None]:
        return (_back(build, grads[0], call["data"].shape), *(None for _ in node.inputs[1:]))


class Squeeze(_Axes):
    """``squeezed = data`` without ``axes``, each of one element; without all such axes if none are named."""

    op_type = "Squeeze"
    outputs = ("squeezed",)
    optional = frozenset({"axes"})
    cases = (Case({"data": (1, 3, 1, 5), "axes": np.array([0, -2])}), Case({"data": (1, 3, 1, 5)}))

    def infer(self, call: Invocation) -> tuple[TensorType, ...]:
        data = call["data"]
        given = known(call, "axes")
        ones = [place for place, extent in enumerate(data.shape) if extent == 1]
        axes = ones if given is None else axes_of(call, given, len(data.shape))
        if not set(axes) <= set(ones):
            raise call.refuse(f"squeezing axes {axes} of {data.shape}", "name axes of one element")
        return (TensorType(data.dtype, tuple(extent for place, extent in enumerate(data.shape) if place not in axes)),)


class Unsqueeze(_Axes):
    """``expanded = data`` with new axes of one element, which have the numbers ``axes`` then."""

    op_type = "Unsqueeze"
    outputs = ("expanded",)
    cases = (Case({"data": (3, 5), "axes": np.array([0, -1])}), Case({"data": (), "axes": np.array([0])}))

    def infer(self, call: Invocation) -> tuple[TensorType, ...]:
        data, given = call["data"], known(call, "axes") or []
        rank = len(data.shape) + len(given)
        axes, extents = axes_of(call, given, rank), iter(data.shape)
        return (TensorType(data.dtype, tuple(1 if place in axes else next(extents) for place in range(rank))),)
