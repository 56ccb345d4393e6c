"""Average pooling over windows, with its gradient."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from deeploy_ext.operators.relations import axis
from deeploy_ext.operators.spec import OWN, Access, Case, Invocation, Loop, Operator, Phase, TensorType
from deeploy_ext.operators.windows import WINDOW, Window, windows

if TYPE_CHECKING:
    import onnx_ir as ir

    from deeploy_ext.training.builder import GraphBuilder

_ATTRIBUTES = {**WINDOW, "count_include_pad": 0}

_CASES: tuple[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]], ...] = (
    ((2, 3, 6, 5), (2, 3, 3, 2), {"kernel_shape": [2, 2], "strides": [2, 2]}),
    ((1, 2, 7, 6), (1, 2, 4, 5), {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1], "dilations": [1, 2]}),
    ((1, 2, 5, 7), (1, 2, 5, 4), {"kernel_shape": [3, 3], "strides": [1, 2], "pads": [1, 1, 1, 1], "count_include_pad": 1}),
)
"""Image, result and attributes of the cases."""


def _covering_pads(call: Invocation, x: tuple[int, ...], found: tuple[Window, Window]) -> list[int]:
    """Pads with which no window reaches beyond the padded image; rounding up lets the last ones do."""
    reach = [
        (w.out - 1) * w.stride + w.dilation * (w.taps - 1) + 1 - w.pad - size for w, size in zip(found, x[2:], strict=True)
    ]
    pads = list(call.attributes["pads"])
    return [*pads[:2], *(max(after, beyond) for after, beyond in zip(pads[2:], reach, strict=True))]


def _windows(call: Invocation, x: tuple[int, ...]) -> tuple[Window, Window]:
    found, a = windows(call, x), call.attributes
    pads = _covering_pads(call, x, found)
    if pads != list(a["pads"]):
        if a["count_include_pad"]:
            raise call.refuse(
                "ceil_mode=1 with count_include_pad=1", "export it with one of them; what such a window counts varies"
            )
        if any(after >= window.taps for after, window in zip(pads[2:], found, strict=True)):
            raise call.refuse("ceil_mode=1 with dilations that reach far beyond the image", "export it with floor rounding")
    return found


def same_counts(call: Invocation) -> bool:
    """Whether every window divides by the number of its taps: padding counts, or there is none."""
    x = call["X"].shape
    return bool(call.attributes["count_include_pad"]) or not any(_covering_pads(call, x, windows(call, x)))


class AveragePool(Operator):
    """``Y[n,c,oy,ox] = mean over the window of X[n,c,s*o + d*k - p]``; padding counts with ``count_include_pad``, what windows
    reach beyond it (``ceil_mode``) never does."""

    op_type = "AveragePool"
    inputs = ("X",)
    outputs = ("Y",)
    images = ("X", "Y")
    attributes = _ATTRIBUTES
    cases = (
        *(Case({"X": x}, attributes) for x, _, attributes in _CASES),
        Case({"X": (1, 2, 6, 5)}, {"kernel_shape": [3, 2], "strides": [2, 2], "ceil_mode": 1}),
        Case({"X": (2, 1, 7, 8)}, {"kernel_shape": [3, 3], "strides": [2, 3], "pads": [1, 0, 0, 1], "ceil_mode": 1}),
        Case({"X": (1, 1, 5, 7)}, {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1, "count_include_pad": 1}),
    )

    def infer(self, call: Invocation) -> tuple[TensorType, ...]:
        x = call["X"]
        rows, columns = _windows(call, x.shape)
        return (TensorType(x.dtype, (*x.shape[:2], rows.out, columns.out)),)

    def gradient(
        self, call: Invocation, node: ir.Node, grads: Sequence[ir.Value | None], build: GraphBuilder
    ) -> Sequence[ir.Value | None]:
        x = call["X"].shape
        same: dict[str, Any] = {**call.attributes, "ceil_mode": 0, "pads": _covering_pads(call, x, windows(call, x))}
        return (build.node("AveragePoolGrad", [grads[0], node.inputs[0]], domain=OWN, **same),)

    def phases(self, call: Invocation) -> tuple[Phase, ...]:
        n, c = call["X"].shape[:2]
        rows, columns = _windows(call, call["X"].shape)
        loops = (
            Loop("n", n), Loop("c", c), Loop("oy", rows.out), Loop("ox", columns.out),
            Loop("ky", rows.taps, "whole"), Loop("kx", columns.taps, "whole"),
        )  # fmt: skip
        x = Access("X", (axis("n"), axis("c"), rows.relation("oy", "ky"), columns.relation("ox", "kx")))
        y = Access("Y", (axis("n"), axis("c"), axis("oy"), axis("ox")))
        return (Phase("main", loops, (x,), (y,)),)


class AveragePoolGrad(Operator):
    """``dX[i] = sum of dY[o] / (what the window o counts)`` over the windows that hold i. ``X`` only gives the shape of dX."""

    domain = OWN
    op_type = "AveragePoolGrad"
    inputs = ("dY", "X")
    outputs = ("dX",)
    images = ("dY", "X", "dX")
    attributes = _ATTRIBUTES
    cases = tuple(Case({"dY": y, "X": x}, attributes) for x, y, attributes in _CASES)
    function = """<kernel_shape, strides, pads, dilations, count_include_pad> (dY, X) => (dX) {
        size = Shape (X)
        none = ConstantOfShape (size)
        zero = CastLike (none, dY)
        one_float = Constant <value_float: float = 1.0> ()
        one = CastLike (one_float, dY)
        ones = Add (zero, one)
        inside = AveragePool <kernel_shape: ints = @kernel_shape, strides: ints = @strides, pads: ints = @pads,
            dilations: ints = @dilations, count_include_pad: int = 1> (ones)
        include = Constant <value_int: int = @count_include_pad> ()
        all = Cast <to: int = 9> (include)
        share = Where (all, one, inside)
        taps = Constant <value_ints: ints = @kernel_shape> ()
        count_int = ReduceProd <keepdims: int = 0> (taps)
        count = CastLike (count_int, dY)
        counted = Mul (share, count)
        shares = Div (dY, counted)
        planes = Constant <value_ints: ints = [-1, 1]> ()
        result = Shape <start: int = 2> (dY)
        result_planes = Concat <axis: int = 0> (planes, result)
        dy = Reshape (shares, result_planes)
        image = Shape <start: int = 2> (X)
        image_planes = Concat <axis: int = 0> (planes, image)
        x = Reshape (zero, image_planes)
        channels = Constant <value_ints: ints = [1, 1]> ()
        weight_shape = Concat <axis: int = 0> (channels, taps)
        weight_zero = ConstantOfShape (weight_shape)
        weight_like = CastLike (weight_zero, dY)
        weight = Add (weight_like, one)
        dx = deeploy_ext.ConvGradX <strides: ints = @strides, pads: ints = @pads, dilations: ints = @dilations,
            group: int = 1> (dy, weight, x)
        dX = Reshape (dx, size)
    }"""

    def infer(self, call: Invocation) -> tuple[TensorType, ...]:
        x = call["X"].shape
        if call.attributes["ceil_mode"]:
            raise call.refuse("ceil_mode=1", "give pads that the windows reach, and floor rounding")
        rows, columns = _windows(call, x)
        if call["dY"].shape != (*x[:2], rows.out, columns.out):
            raise call.refuse(f"dY of shape {call['dY'].shape} with X {x}", "make the shapes agree")
        return (call["X"],)

    def phases(self, call: Invocation) -> tuple[Phase, ...]:
        n, c, h, w = call["X"].shape
        rows, columns = _windows(call, call["X"].shape)
        loops = (
            Loop("n", n), Loop("c", c), Loop("iy", h), Loop("ix", w),
            Loop("ky", rows.taps, "whole"), Loop("kx", columns.taps, "whole"),
        )  # fmt: skip
        oy, ox = rows.relation("oy", "ky").solve("oy", "iy"), columns.relation("ox", "kx").solve("ox", "ix")
        dy = Access("dY", (axis("n"), axis("c"), oy, ox))
        dx = Access("dX", (axis("n"), axis("c"), axis("iy"), axis("ix")))
        return (Phase("main", loops, (dy,), (dx,)),)
