"""Pooling over windows and over the whole image, with gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from deeploy_ext.operators.nests import broadcasting, reducing
from deeploy_ext.operators.relations import axis
from deeploy_ext.operators.spec import OWN, REQUIRED, Access, Case, Invocation, Loop, Operator, Phase, TensorType
from deeploy_ext.operators.windows import WINDOW, windows

if TYPE_CHECKING:
    import onnx_ir as ir

    from deeploy_ext.training.builder import GraphBuilder


class _Global(Operator):
    """One value of each image."""

    inputs = ("X",)
    outputs = ("Y",)
    cases = (Case({"X": (2, 3, 5, 4)}), Case({"X": (2, 3, 5)}))

    def infer(self, call: Invocation) -> tuple[TensorType, ...]:
        x = call["X"]
        if len(x.shape) < 3:
            raise call.refuse(f"X of rank {len(x.shape)}", "give it image axes: (N, C, ...)")
        return (TensorType(x.dtype, (*x.shape[:2], *(1 for _ in x.shape[2:]))),)

    def phases(self, call: Invocation) -> tuple[Phase, ...]:
        return (reducing(call, "X", "Y", range(2, len(call["X"].shape))),)


class GlobalMaxPool(_Global):
    """``Y[n,c,0,..] = max of X[n,c,...]``."""

    op_type = "GlobalMaxPool"

    def gradient(
        self, call: Invocation, node: ir.Node, grads: Sequence[ir.Value | None], build: GraphBuilder
    ) -> Sequence[ir.Value | None]:
        return (build.node("GlobalMaxPoolGrad", [grads[0], node.inputs[0]], domain=OWN),)


class GlobalMaxPoolGrad(Operator):
    """``dX[n,c,i] = dY[n,c,0,..]`` where the first maximum of ``X[n,c,...]`` is at i, else 0."""

    domain = OWN
    op_type = "GlobalMaxPoolGrad"
    inputs = ("dY", "X")
    outputs = ("dX",)
    cases = (Case({"dY": (2, 3, 1, 1), "X": (2, 3, 5, 7)}), Case({"dY": (2, 3, 1), "X": (2, 3, 5)}))
    function = """(dY, X) => (dX) {
        planes = Constant <value_ints: ints = [0, 0, -1]> ()
        flat = Reshape (X, planes)
        winner = ArgMax <axis: int = 2, keepdims: int = 1> (flat)
        size = Shape (flat)
        zero = ConstantOfShape (size)
        zero_like = CastLike (zero, X)
        flat_dY = Reshape (dY, planes)
        flat_dX = ScatterElements <axis: int = 2> (zero_like, winner, flat_dY)
        shape = Shape (X)
        dX = Reshape (flat_dX, shape)
    }"""

    def infer(self, call: Invocation) -> tuple[TensorType, ...]:
        x = call["X"].shape
        if len(x) < 3 or call["dY"].shape != (*x[:2], *(1 for _ in x[2:])):
            raise call.refuse(f"dY of shape {call['dY'].shape} with X {x}", "use (N, C, 1, ...) and (N, C, ...)")
        return (call["X"],)

    def phases(self, call: Invocation) -> tuple[Phase, ...]:
        images = call["dY"].elements
        size = call["X"].elements // images
        x, dx = (Access(name, (axis("n"), axis("s")), (images, size)) for name in ("X", "dX"))
        dy = Access("dY", (axis("n"),), (images,))
        return (Phase("main", (Loop("n", images), Loop("s", size, "whole")), (dy, x), (dx,)),)


class GlobalAveragePool(_Global):
    """``Y[n,c,0,..] = mean of X[n,c,...]``."""

    op_type = "GlobalAveragePool"

    def gradient(
        self, call: Invocation, node: ir.Node, grads: Sequence[ir.Value | None], build: GraphBuilder
    ) -> Sequence[ir.Value | None]:
        return (build.node("GlobalAveragePoolGrad", [grads[0]], domain=OWN, kernel_shape=list(call["X"].shape[2:])),)


class GlobalAveragePoolGrad(Operator):
    """``dX[n,c,...] = dY[n,c,0,..] / (elements of the image)``; ``kernel_shape`` is the size of the image."""

    domain = OWN
    op_type = "GlobalAveragePoolGrad"
    inputs = ("dY",)
    outputs = ("dX",)
    attributes = {"kernel_shape": REQUIRED}
    cases = (Case({"dY": (2, 3, 1, 1)}, {"kernel_shape": [5, 4]}), Case({"dY": (2, 3, 1)}, {"kernel_shape": [5]}))
    function = """<kernel_shape> (dY) => (dX) {
        image = Constant <value_ints: ints = @kernel_shape> ()
        count_int = ReduceProd <keepdims: int = 0> (image)
        count = CastLike (count_int, dY)
        share = Div (dY, count)
        planes = Shape <start: int = 0, end: int = 2> (dY)
        shape = Concat <axis: int = 0> (planes, image)
        dX = Expand (share, shape)
    }"""

    def infer(self, call: Invocation) -> tuple[TensorType, ...]:
        dy, image = call["dY"], tuple(call.attributes["kernel_shape"])
        if len(dy.shape) != 2 + len(image) or any(extent != 1 for extent in dy.shape[2:]) or min(image) < 1:
            raise call.refuse(
                f"dY of shape {dy.shape} with kernel_shape {list(image)}", "use (N, C, 1, ...) and the image's size"
            )
        return (TensorType(dy.dtype, (*dy.shape[:2], *image)),)

    def phases(self, call: Invocation) -> tuple[Phase, ...]:
        return (broadcasting(call, ("dY",), "dX"),)


_CASES: tuple[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]], ...] = (
    ((2, 3, 6, 5), (2, 3, 3, 2), {"kernel_shape": [2, 2], "strides": [2, 2]}),
    ((1, 2, 7, 6), (1, 2, 4, 5), {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1], "dilations": [1, 2]}),
    ((1, 2, 6, 5), (1, 2, 3, 3), {"kernel_shape": [3, 2], "strides": [2, 2], "ceil_mode": 1}),
)
"""Image, result and attributes of the cases."""


class MaxPool(Operator):
    """``Y[n,c,oy,ox] = max over the window of X[n,c,s*o + d*k - p]``; padding never wins. Of equal values the first wins."""

    op_type = "MaxPool"
    inputs = ("X",)
    outputs = ("Y", "Indices")
    images = ("X", "Y", "Indices")
    optional = frozenset({"Indices"})
    attributes = {**WINDOW, "storage_order": 0}
    cases = tuple(Case({"X": x}, attributes) for x, _, attributes in _CASES)

    def infer(self, call: Invocation) -> tuple[TensorType, ...]:
        x = call["X"]
        rows, columns = windows(call, x.shape)
        shape = (*x.shape[:2], rows.out, columns.out)
        return (TensorType(x.dtype, shape), TensorType(np.dtype(np.int64), shape))

    def gradient(
        self, call: Invocation, node: ir.Node, grads: Sequence[ir.Value | None], build: GraphBuilder
    ) -> Sequence[ir.Value | None]:
        return (build.node("MaxPoolGrad", [grads[0], node.inputs[0]], domain=OWN, **call.attributes),)

    def phases(self, call: Invocation) -> tuple[Phase, ...]:
        if call.get("Indices"):
            raise call.refuse("output 'Indices'", "use only the first output")
        n, c = call["X"].shape[:2]
        rows, columns = windows(call, call["X"].shape)
        loops = (
            Loop("n", n), Loop("c", c), Loop("oy", rows.out), Loop("ox", columns.out),
            Loop("ky", rows.taps, "whole"), Loop("kx", columns.taps, "whole"),
        )  # fmt: skip
        iy, ix = rows.relation("oy", "ky"), columns.relation("ox", "kx")
        x = Access("X", (axis("n"), axis("c"), iy, ix))
        y = Access("Y", (axis("n"), axis("c"), axis("oy"), axis("ox")))
        return (Phase("main", loops, (x,), (y,)),)


class MaxPoolGrad(Operator):
    """``dX[i] = sum of dY[o]`` over the windows o whose first maximum is at i; the maxima are found again from X."""

    domain = OWN
    op_type = "MaxPoolGrad"
    inputs = ("dY", "X")
    outputs = ("dX",)
    images = ("dY", "X", "dX")
    attributes = {**WINDOW, "storage_order": 0}
    cases = tuple(Case({"dY": y, "X": x}, attributes) for x, y, attributes in _CASES)
    function = """<kernel_shape, strides, pads, dilations, ceil_mode> (dY, X) => (dX) {
        Y, winners = MaxPool <kernel_shape: ints = @kernel_shape, strides: ints = @strides, pads: ints = @pads,
            dilations: ints = @dilations, ceil_mode: int = @ceil_mode> (X)
        line = Constant <value_ints: ints = [-1]> ()
        flat_dY = Reshape (dY, line)
        flat_winners = Reshape (winners, line)
        flat_X = Reshape (X, line)
        size = Shape (flat_X)
        zero = ConstantOfShape (size)
        zero_like = CastLike (zero, X)
        flat_dX = ScatterElements <axis: int = 0, reduction: string = "add"> (zero_like, flat_winners, flat_dY)
        shape = Shape (X)
        dX = Reshape (flat_dX, shape)
    }"""

    def infer(self, call: Invocation) -> tuple[TensorType, ...]:
        x = call["X"].shape
        rows, columns = windows(call, x)
        if call["dY"].shape != (*x[:2], rows.out, columns.out):
            raise call.refuse(f"dY of shape {call['dY'].shape} with X {x}", "make the shapes agree")
        return (call["X"],)

    def phases(self, call: Invocation) -> tuple[Phase, ...]:
        n, c, h, w = call["X"].shape
        rows, columns = windows(call, call["X"].shape)
        loops = (
            Loop("n", n), Loop("c", c), Loop("iy", h), Loop("ix", w), Loop("ky", rows.taps, "whole"),
            Loop("kx", columns.taps, "whole"), Loop("ty", rows.taps, "whole"), Loop("tx", columns.taps, "whole"),
        )  # fmt: skip
        oy, ox = rows.relation("oy", "ky").solve("oy", "iy"), columns.relation("ox", "kx").solve("ox", "ix")
        # the other elements of a window that holds (iy, ix) as its tap (ky, kx)
        near_y = axis(iy=1, ky=-rows.dilation, ty=rows.dilation)
        near_x = axis(ix=1, kx=-columns.dilation, tx=columns.dilation)
        dy = Access("dY", (axis("n"), axis("c"), oy, ox))
        x = Access("X", (axis("n"), axis("c"), near_y, near_x))
        dx = Access("dX", (axis("n"), axis("c"), axis("iy"), axis("ix")))
        return (Phase("main", loops, (dy, x), (dx,)),)
