"""Convolution (2-D, any stride, padding, dilation, groups) and its three gradients.

One relation is shared by all of them: input row ``iy = s*oy + d*ky - p`` (likewise for columns). ``g`` is the group,
``co``/``ci`` are channels inside a group.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from deeploy_ext.operators.relations import Affine, axis, sliding
from deeploy_ext.operators.spec import (
    MICROSOFT,
    OWN,
    Access,
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

DEPTHWISE_ROWS = 12
"""Rows of the result that a worker of the depthwise kernels computes from one frame; even."""

DEPTHWISE_WORKERS = 8
"""Workers of the depthwise kernels that have a frame; more have nothing to do."""

_ATTRIBUTES = {"strides": [1, 1], "pads": [0, 0, 0, 0], "dilations": [1, 1], "group": 1, "auto_pad": "NOTSET"}


@dataclass(frozen=True)
class Geometry:
    """All sizes of one convolution, read from its attributes and the shapes of X, W and Y (any of the four operators)."""

    batch: int
    group: int
    co: int
    ci: int
    y: tuple[int, int]
    x: tuple[int, int]
    k: tuple[int, int]
    s: tuple[int, int]
    d: tuple[int, int]
    p: tuple[int, int]

    @staticmethod
    def of(call: Invocation, x: tuple[int, ...], w: tuple[int, ...], y: tuple[int, ...]) -> Geometry:
        a = call.attributes
        return Geometry(
            x[0], a["group"], w[0] // a["group"], w[1], (y[2], y[3]), (x[2], x[3]), (w[2], w[3]),
            tuple(a["strides"]), tuple(a["dilations"]), tuple(a["pads"][:2]),
        )  # fmt: skip

    def loop(self, name: str, kind: Any = "parallel") -> Loop:
        extents = {
            "n": self.batch, "g": self.group, "co": self.co, "ci": self.ci, "oy": self.y[0], "ox": self.y[1],
            "iy": self.x[0], "ix": self.x[1], "ky": self.k[0], "kx": self.k[1],
        }  # fmt: skip
        return Loop(name, extents[name], kind)

    def rows(self) -> Affine:
        return sliding("oy", "ky", self.s[0], self.d[0], self.p[0])

    def columns(self) -> Affine:
        return sliding("ox", "kx", self.s[1], self.d[1], self.p[1])

    def out_channel(self) -> Affine:
        return axis(g=self.co, co=1)

    def in_channel(self) -> Affine:
        return axis(g=self.ci, ci=1)

    def image(self, operand: str, **start: Any) -> Access:
        """X or dX, indexed by output position and tap."""
        return Access(operand, (axis("n"), self.in_channel(), self.rows(), self.columns()), **start)

    def padded_image(self, tile: Mapping[str, int]) -> int:
        """Bytes of the image that a tile of outputs sees, with its border of zeros."""
        rows, columns = (_window(tile[loop], self.s[0], self.k[0]) for loop in ("oy", "ox"))
        return 4 * tile["n"] * ((tile["g"] - 1) * self.ci + tile["ci"]) * rows * columns

    def padded_result(self, tile: Mapping[str, int]) -> int:
        """Bytes of dY that a tile of dX sees, with its border of zeros; of stride 2 whatever the phase of its first row."""
        rows, columns = (
            -(-tile[loop] // self.s[0]) + (self.k[0] - 1 if self.s[0] == 1 else self.k[0] // 2) for loop in ("iy", "ix")
        )
        return 4 * tile["n"] * ((tile["g"] - 1) * self.co + tile["co"]) * rows * columns

    def weight(self, operand: str, **start: Any) -> Access:
        return Access(operand, (self.out_channel(), axis("ci"), axis("ky"), axis("kx")), **start)

    def result(self, operand: str, **start: Any) -> Access:
        """Y or dY, indexed by output position."""
        return Access(operand, (axis("n"), self.out_channel(), axis("oy"), axis("ox")), **start)


def _team_kernel(
    call: Invocation,
    g: Geometry,
    padded: Callable[[Mapping[str, int]], int],
    *after: str,
    gaps: bool = False,
    sums: Callable[[Mapping[str, int]], int] = lambda tile: 0,
) -> TeamKernel | None:
    """The register-blocked kernels, where they know such a convolution: no dilation, square with equal strides.

    ``padded`` gives the bytes of the tile with its border, and of what steps ``after`` the blocked one need, of the depthwise
    one ``sums``; a 1x1 convolution without padding needs none, but its dX has ``gaps`` if it has strides.
    """
    square = g.k[0] == g.k[1] and g.s[0] == g.s[1]
    depthwise = g.group > 1 and g.co == g.ci == 1 and g.k[0] > 1
    if call["W"].dtype != np.float32 or g.d != (1, 1) or not square or g.k[0] > 7 or g.s[0] > 2:
        return None
    stride = "_strided" if g.s[0] > 1 else ""
    if depthwise:
        frames = 0 if _strips(call, g) else 1
        work = f"mac_depthwise{stride}"
        return TeamKernel(("depthwise", *after), work, lambda tile: sums(tile) + frames * _frames(tile) * padded(_frame(tile)))
    if g.k[0] > 1:
        return TeamKernel(("pad", "blocked", *after), f"mac_blocked{stride}", padded)
    if any(call.attributes["pads"]):
        return None
    steps = ("zero", "blocked") if gaps and g.s[0] > 1 else ("blocked",)
    return TeamKernel(steps, f"mac_pointwise{stride}", lambda tile: 0)


def _part_sums(group: int, tile: Mapping[str, int]) -> int:
    """Sums of a tap's dW that the parts of a tile have, as net_depthwise_parts says; the last tile has fewer channels."""
    most = min(max(tile["oy"] // 8, 1), 8)

    def sums(channels: int) -> int:
        parts = 1
        while parts < most and channels * parts < 32 and channels * parts % 8:
            parts += 1
        return channels * parts if parts > 1 else 0

    return max(sums(tile["g"]), sums(group % tile["g"]))


def _strips(call: Invocation, g: Geometry) -> bool:
    """Whether the depthwise kernels read the image itself, of which at most a row and a column are missing on each side."""
    pads = call.attributes["pads"]
    if call.operator.op_type == "ConvGradX":
        return g.k == (3, 3) and g.s == (1, 1) and min(pads) >= 1
    return g.k == (3, 3) and max(pads) <= 1


def _frames(tile: Mapping[str, int]) -> int:
    """Workers of the depthwise kernels that have something to do: bands of rows of a channel are tasks, of dW channels."""
    bands = -(-tile.get("iy", tile.get("oy", 1)) // DEPTHWISE_ROWS)
    return min(DEPTHWISE_WORKERS, tile["n"] * tile["g"] * bands)


def _frame(tile: Mapping[str, int]) -> dict[str, int]:
    """The part of a tile that a worker of the depthwise kernels pads at a time."""
    part = {loop: min(tile[loop], DEPTHWISE_ROWS) for loop in ("oy", "iy") if loop in tile}
    return {**tile, "n": 1, "g": 1, **part}


def _window(outputs: int, stride: int, taps: int) -> int:
    """Input positions that some neighbouring outputs see, padding included."""
    return (outputs - 1) * stride + taps


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
    optional = frozenset({"B"})
    attributes = _ATTRIBUTES
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

    def kernel(self, call: Invocation) -> TeamKernel | None:
        g = Geometry.of(call, call["X"].shape, call["W"].shape, call["Y"].shape)
        return _team_kernel(call, g, g.padded_image)


class ConvGrad(Operator):
    """All gradients of a convolution, as exporters write it; lowering splits it into the three operators below."""

    domain = MICROSOFT
    op_type = "ConvGrad"
    inputs = ("dY", "X", "W")
    outputs = ("dX", "dW", "dB")
    optional = frozenset({"dX", "dW", "dB"})
    attributes = _ATTRIBUTES
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
    attributes = _ATTRIBUTES
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

    def kernel(self, call: Invocation) -> TeamKernel | None:
        g = Geometry.of(call, call["dX"].shape, call["W"].shape, call["dY"].shape)
        return _team_kernel(call, g, g.padded_result, gaps=True)


class ConvGradW(Operator):
    """``dW[co,ci,ky,kx] = sum dY[n,co,oy,ox] * X[n,ci,iy,ix]`` over n, oy, ox. ``W`` only gives the shape."""

    domain = OWN
    op_type = "ConvGradW"
    inputs = ("dY", "X", "W")
    outputs = ("dW",)
    attributes = _ATTRIBUTES
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

    def kernel(self, call: Invocation) -> TeamKernel | None:
        g = Geometry.of(call, call["X"].shape, call["dW"].shape, call["dY"].shape)
        taps = g.k[0] * g.k[1]
        if self.depthwise(call):
            if not self.reduced(call):
                return _team_kernel(call, g, g.padded_image)
            return _team_kernel(call, g, g.padded_image, "reduce", sums=lambda tile: 4 * taps * _part_sums(g.group, tile))
        parts = self.parts(call)
        if parts == 1:
            return _team_kernel(call, g, g.padded_image)
        return _team_kernel(call, g, lambda tile: g.padded_image(tile) + 4 * parts * tile["co"] * tile["ci"] * taps, "reduce")

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
