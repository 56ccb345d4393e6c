"""Convolution (2-D, any stride, padding, dilation, groups) and its three gradients.

One relation is shared by all of them: input row ``iy = s*oy + d*ky - p`` (likewise for columns). ``g`` is the group,
``co``/``ci`` are channels inside a group.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from deeploy_ext.operators.convolution import Geometry, part_sums, team_kernel, winograd
from deeploy_ext.operators.relations import axis
from deeploy_ext.operators.spec import (
    MICROSOFT,
    OWN,
    Access,
    Case,
    Invocation,
    Loop,
    Operator,
    Phase,
    TeamKernel,
    TensorType,
    Variant,
)

if TYPE_CHECKING:
    import onnx_ir as ir

    from deeploy_ext.training.builder import GraphBuilder

_ATTRIBUTES = {"strides": [1, 1], "pads": [0, 0, 0, 0], "dilations": [1, 1], "group": 1, "auto_pad": "NOTSET"}

_CASES: tuple[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], dict[str, Any]], ...] = (
    ((2, 4, 6, 5), (6, 2, 3, 2), (2, 6, 4, 5), {"strides": [2, 1], "pads": [1, 0, 2, 1], "group": 2}),
    ((1, 3, 7, 5), (2, 3, 2, 3), (1, 2, 2, 2), {"strides": [3, 2], "dilations": [2, 1]}),
    ((1, 3, 7, 5), (5, 3, 3, 3), (1, 5, 7, 5), {"pads": [1, 1, 1, 1]}),
    ((1, 3, 7, 5), (5, 3, 3, 3), (1, 5, 4, 3), {"pads": [1, 1, 1, 1], "strides": [2, 2]}),
    ((1, 5, 5, 3), (7, 5, 1, 1), (1, 7, 5, 3), {}),
    ((1, 3, 7, 5), (3, 1, 3, 3), (1, 3, 7, 5), {"pads": [1, 1, 1, 1], "group": 3}),
)
"""X, W, Y and attributes of the cases: general, dilated, and the kinds that the register-blocked kernels know."""


def _check(call: Invocation, x: tuple[int, ...], w: tuple[int, ...]) -> None:
    if len(x) != 4 or len(w) != 4:
        raise call.refuse(f"a convolution of rank {len(x)}", "use 2-D convolutions (N,C,H,W)")
    if call.attributes["auto_pad"] != "NOTSET":
        raise call.refuse(f"auto_pad={call.attributes['auto_pad']}", "export the model with explicit pads")
    kernel = call.redundant.get("kernel_shape", w[2:])
    if tuple(kernel) != w[2:]:
        raise call.refuse(f"kernel_shape {list(kernel)} with W {w}", "make it the spatial shape of W")
    for name, count, least in (("strides", 2, 1), ("dilations", 2, 1), ("pads", 4, 0)):
        given = call.attributes[name]
        if len(given) != count or min(given) < least:
            raise call.refuse(f"{name} {list(given)}", f"give {count} numbers of at least {least}")
    group = call.attributes["group"]
    if group < 1 or w[0] % group or x[1] != w[1] * group:
        raise call.refuse(f"X {x} with W {w} in {group} groups", "make the channel counts agree")


def _out_size(call: Invocation, x: tuple[int, ...], w: tuple[int, ...]) -> tuple[int, int]:
    a = call.attributes
    sizes = [
        (x[2 + i] + a["pads"][i] + a["pads"][2 + i] - a["dilations"][i] * (w[2 + i] - 1) - 1) // a["strides"][i] + 1
        for i in (0, 1)
    ]
    if min(sizes) < 1:
        raise call.refuse(f"X {x} with W {w} and pads {list(a['pads'])}", "make the kernel fit into the padded image")
    return sizes[0], sizes[1]


class Conv(Operator):
    """``Y[n,co,oy,ox] = B[co] + sum X[n,ci,iy,ix] * W[co,ci,ky,kx]``."""

    op_type = "Conv"
    inputs = ("X", "W", "B")
    outputs = ("Y",)
    images = ("X", "W", "Y")
    optional = frozenset({"B"})
    attributes = _ATTRIBUTES
    cases = (
        *(Case({"X": x, "W": w, "B": w[:1]}, attributes) for x, w, _, attributes in _CASES),
        *(Case({"X": x, "W": w}, attributes) for x, w, _, attributes in _CASES[:2]),
    )
    redundant_attributes = frozenset({"kernel_shape"})

    def infer(self, call: Invocation) -> tuple[TensorType, ...]:
        x, w = call["X"].shape, call["W"].shape
        _check(call, x, w)
        return (TensorType(call["X"].dtype, (x[0], w[0], *_out_size(call, x, w))),)

    def gradient(
        self, call: Invocation, node: ir.Node, grads: Sequence[ir.Value | None], build: GraphBuilder
    ) -> Sequence[ir.Value | None]:
        wanted = build.wanted(node)
        made = build.node(
            "ConvGrad", [grads[0], node.inputs[0], node.inputs[1]], domain=MICROSOFT, outputs=3, **call.attributes
        )
        return tuple(value if want else None for value, want in zip(made, wanted, strict=False))

    def phases(self, call: Invocation) -> tuple[Phase, ...]:
        g = Geometry.of(call, call["X"].shape, call["W"].shape, call["Y"].shape)
        loops = (
            *map(g.loop, ("n", "g", "co", "oy", "ox")),
            g.loop("ci", "reduction"), g.loop("ky", "whole"), g.loop("kx", "whole"),
        )  # fmt: skip
        bias = (Access("B", (g.out_channel(),)),) if call.get("B") else ()
        start = {"start": "seed" if bias else "zero"}
        return (Phase("main", loops, (g.image("X"), g.weight("W"), *bias), (g.result("Y", **start),), "mac"),)

    def kernels(self, call: Invocation) -> tuple[TeamKernel, ...]:
        g = Geometry.of(call, call["X"].shape, call["W"].shape, call["Y"].shape)
        return winograd(call, g) + team_kernel(call, g, g.padded_image)


class ConvGrad(Operator):
    """All gradients of a convolution, as exporters write it; lowering splits it into the three operators below."""

    domain = MICROSOFT
    op_type = "ConvGrad"
    inputs = ("dY", "X", "W")
    outputs = ("dX", "dW", "dB")
    images = ("dY", "X", "W", "dX", "dW")
    optional = frozenset({"dX", "dW", "dB"})
    attributes = _ATTRIBUTES
    cases = tuple(
        Case({"dY": y, "X": x, "W": w}, attributes, wanted)
        for (x, w, y, attributes), wanted in zip(_CASES, (outputs, ("dW",), ("dX",), ("dB",)), strict=False)
    )
    redundant_attributes = frozenset({"kernel_shape"})
    function = """<strides, pads, dilations, group> (dY, X, W) => (dX, dW, dB) {
        dX = deeploy_ext.ConvGradX <strides: ints = @strides, pads: ints = @pads, dilations: ints = @dilations,
            group: int = @group> (dY, W, X)
        dW = deeploy_ext.ConvGradW <strides: ints = @strides, pads: ints = @pads, dilations: ints = @dilations,
            group: int = @group> (dY, X, W)
        dB = deeploy_ext.ConvGradB (dY)
    }"""

    def infer(self, call: Invocation) -> tuple[TensorType, ...]:
        return call["X"], call["W"], TensorType(call["X"].dtype, call["W"].shape[:1])


class ConvGradX(Operator):
    """``dX[n,ci,iy,ix] = sum dY[n,co,oy,ox] * W[co,ci,ky,kx]`` over co and the taps with ``s*o + d*k - p = i``.

    ``X`` only gives the shape of dX: it is never read. Two bodies accept the same tiles: *gather* reduces each dX
    element in registers, *scatter* adds each dY value where it goes; see the template for the run-time choice.
    """

    domain = OWN
    op_type = "ConvGradX"
    inputs = ("dY", "W", "X")
    outputs = ("dX",)
    images = ("dY", "W", "X", "dX")
    attributes = _ATTRIBUTES
    cases = tuple(Case({"dY": y, "W": w, "X": x}, attributes) for x, w, y, attributes in _CASES)
    redundant_attributes = frozenset({"kernel_shape"})
    variants = (Variant("gather", (("dY", 2), ("dY", 3), ("dX", 2), ("dX", 3))), Variant("scatter"))
    function = """<strides, pads, dilations, group> (dY, W, X) => (dX) {
        full = ConvTranspose <strides: ints = @strides, dilations: ints = @dilations, group: int = @group> (dY, W)
        pads = Constant <value_ints: ints = @pads> ()
        zero = Constant <value_ints: ints = [0]> ()
        two = Constant <value_ints: ints = [2]> ()
        four = Constant <value_ints: ints = [4]> ()
        axes = Constant <value_ints: ints = [2, 3]> ()
        begin = Slice (pads, zero, two)
        size = Shape <start: int = 2> (X)
        end = Add (begin, size)
        made = Shape <start: int = 2> (full)
        missing = Sub (end, made)
        none = Sub (begin, begin)
        extra = Max (missing, none)
        four_zeros = Concat <axis: int = 0> (none, none, none)
        amounts = Concat <axis: int = 0> (four_zeros, extra)
        padded = Pad (full, amounts)
        dX = Slice (padded, begin, end, axes)
    }"""

    def infer(self, call: Invocation) -> tuple[TensorType, ...]:
        x, w = call["X"].shape, call["W"].shape
        _check(call, x, w)
        wanted = (x[0], w[0], *_out_size(call, x, w))
        if call["dY"].shape != wanted:
            raise call.refuse(f"dY of shape {call['dY'].shape} where the forward pass gives {wanted}", "make the shapes agree")
        return (call["X"],)

    def phases(self, call: Invocation) -> tuple[Phase, ...]:
        g = Geometry.of(call, call["dX"].shape, call["W"].shape, call["dY"].shape)
        loops = (
            *map(g.loop, ("n", "g", "ci", "iy", "ix")),
            g.loop("co", "reduction"), g.loop("ky", "whole"), g.loop("kx", "whole"),
        )  # fmt: skip
        oy, ox = g.rows().solve("oy", "iy"), g.columns().solve("ox", "ix")
        dy = Access("dY", (axis("n"), g.out_channel(), oy, ox))
        dx = Access("dX", (axis("n"), g.in_channel(), axis("iy"), axis("ix")), start="zero")
        return (Phase("main", loops, (dy, g.weight("W")), (dx,), "mac_strided"),)

    def kernels(self, call: Invocation) -> tuple[TeamKernel, ...]:
        g = Geometry.of(call, call["dX"].shape, call["W"].shape, call["dY"].shape)
        return winograd(call, g) + team_kernel(call, g, g.padded_result, gaps=True)


class ConvGradW(Operator):
    """``dW[co,ci,ky,kx] = sum dY[n,co,oy,ox] * X[n,ci,iy,ix]`` over n, oy, ox. ``W`` only gives the shape."""

    domain = OWN
    op_type = "ConvGradW"
    inputs = ("dY", "X", "W")
    outputs = ("dW",)
    images = ("dY", "X", "W", "dW")
    attributes = _ATTRIBUTES
    cases = tuple(Case({"dY": y, "X": x, "W": w}, attributes) for x, w, y, attributes in _CASES)
    redundant_attributes = frozenset({"kernel_shape"})
    function = """<strides, pads, dilations, group> (dY, X, W) => (dW) {
        group_count = Constant <value_int: int = @group> ()
        axis0 = Constant <value_ints: ints = [0]> ()
        groups = Unsqueeze (group_count, axis0)
        batch = Shape <start: int = 0, end: int = 1> (X)
        channels = Shape <start: int = 1, end: int = 2> (X)
        image = Shape <start: int = 2> (X)
        per_group = Div (channels, groups)
        split = Concat <axis: int = 0> (batch, groups, per_group, image)
        X5 = Reshape (X, split)
        X5t = Transpose <perm: ints = [2, 1, 0, 3, 4]> (X5)
        both = Mul (groups, batch)
        joined = Concat <axis: int = 0> (per_group, both, image)
        Xt = Reshape (X5t, joined)
        dYt = Transpose <perm: ints = [1, 0, 2, 3]> (dY)
        full = Conv <strides: ints = @dilations, dilations: ints = @strides, pads: ints = @pads, group: int = @group> (Xt, dYt)
        begin = Constant <value_ints: ints = [0, 0]> ()
        taps = Shape <start: int = 2> (W)
        axes = Constant <value_ints: ints = [2, 3]> ()
        cut = Slice (full, begin, taps, axes)
        dW = Transpose <perm: ints = [1, 0, 2, 3]> (cut)
    }"""

    def infer(self, call: Invocation) -> tuple[TensorType, ...]:
        _check(call, call["X"].shape, call["W"].shape)
        _out_size(call, call["X"].shape, call["W"].shape)
        return (call["W"],)

    def phases(self, call: Invocation) -> tuple[Phase, ...]:
        g = Geometry.of(call, call["X"].shape, call["dW"].shape, call["dY"].shape)
        loops = (
            *map(g.loop, ("g", "co", "ci")), g.loop("ky", "whole"), g.loop("kx", "whole"),
            *(g.loop(name, "reduction") for name in ("n", "oy", "ox")),
        )  # fmt: skip
        return (Phase("main", loops, (g.result("dY"), g.image("X")), (g.weight("dW", start="sum"),), "mac"),)

    def kernels(self, call: Invocation) -> tuple[TeamKernel, ...]:
        g = Geometry.of(call, call["X"].shape, call["dW"].shape, call["dY"].shape)
        taps = g.k[0] * g.k[1]
        if self.depthwise(call):
            if not self.reduced(call):
                return team_kernel(call, g, g.padded_image)
            return team_kernel(call, g, g.padded_image, "reduce", sums=lambda tile: 4 * taps * part_sums(g.group, tile))
        parts = self.parts(call)

        def padded(tile: Mapping[str, int]) -> int:
            sums = 4 * parts * tile["co"] * tile["ci"] * taps if parts > 1 else 0
            return g.padded_image(tile) + sums

        return winograd(call, g) + team_kernel(call, g, padded, *(("reduce",) if parts > 1 else ()))

    def depthwise(self, call: Invocation) -> bool:
        """Whether the depthwise kernels compute it, if any does."""
        return call.attributes["group"] == call["W"].shape[0] > 1 and call["W"].shape[1] == 1 and call["W"].shape[2] > 1

    def reduced(self, call: Invocation) -> bool:
        """Whether tiles of a depthwise dW may have too few channels for 8 workers, but rows enough to sum parts of them."""
        return call.attributes["group"] < 32 and call["dY"].shape[2] >= 16

    def parts(self, call: Invocation) -> int:
        """Parts that a tile's rows are cut in, each with its own sums: where tasks are large, and too few for 8 cores."""
        co, ci, ky, kx = call["W"].shape
        tasks = -(-co // (4 if ky <= 4 else 2)) * ci * ky  # as the kernel takes them: rows of taps of some output channels
        rows, columns = call["dY"].shape[2:]
        if call.attributes["group"] > 1 or (ky, kx) == (1, 1) or tasks >= 64 or rows * columns < 256:
            return 1
        return min(-(-128 // tasks), 8, rows)


class ConvGradB(Operator):
    """``dB[co] = sum dY[n,co,oy,ox]`` over n and all positions."""

    domain = OWN
    op_type = "ConvGradB"
    inputs = ("dY",)
    outputs = ("dB",)
    images = ("dY",)
    cases = (Case({"dY": (2, 3, 5, 7)}),)
    function = """(dY) => (dB) {
        axes = Constant <value_ints: ints = [0, 2, 3]> ()
        dB = ReduceSum <keepdims: int = 0> (dY, axes)
    }"""

    def infer(self, call: Invocation) -> tuple[TensorType, ...]:
        return (TensorType(call["dY"].dtype, call["dY"].shape[1:2]),)

    def phases(self, call: Invocation) -> tuple[Phase, ...]:
        n, c, h, w = call["dY"].shape
        loops = (Loop("c", c), Loop("n", n, "reduction"), Loop("s", h * w, "reduction"))
        dy = Access("dY", (axis("n"), axis("c"), axis("s")), (n, c, h * w))
        return (Phase("main", loops, (dy,), (Access("dB", (axis("c"),), start="sum"),)),)
