"""The sizes of a convolution, and the team kernels that know it: which steps they have, what scratch a tile needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from deeploy_ext.operators.relations import Affine, axis, sliding
from deeploy_ext.operators.spec import Access, Invocation, Loop, TeamKernel

DEPTHWISE_ROWS = 12
"""Rows of the result that a worker of the depthwise kernels computes from one frame; even."""

DEPTHWISE_WORKERS = 8
"""Workers of the depthwise kernels that have a frame; more have nothing to do."""


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


def team_kernel(
    call: Invocation,
    g: Geometry,
    padded: Callable[[Mapping[str, int]], int],
    *after: str,
    gaps: bool = False,
    sums: Callable[[Mapping[str, int]], int] = lambda tile: 0,
) -> tuple[TeamKernel, ...]:
    """The register-blocked kernels, where they know such a convolution: no dilation, square with equal strides.

    ``padded`` gives the bytes of the tile with its border, and of what steps ``after`` the blocked one need, of the depthwise
    one ``sums``; a 1x1 convolution without padding needs none, but its dX has ``gaps`` if it has strides.
    """
    square = g.k[0] == g.k[1] and g.s[0] == g.s[1]
    depthwise = g.group > 1 and g.co == g.ci == 1 and g.k[0] > 1
    if call["W"].dtype != np.float32 or g.d != (1, 1) or not square or g.k[0] > 7 or g.s[0] > 2:
        return ()
    stride = "_strided" if g.s[0] > 1 else ""
    if depthwise:
        frames = 0 if _strips(call, g) else 1
        work = f"mac_depthwise{stride}"

        def scratch(tile: Mapping[str, int]) -> int:
            return sums(tile) + frames * _frames(tile) * padded(_frame(tile))

        return (TeamKernel(("depthwise", *after), work, scratch),)
    if g.k[0] > 1:
        return (TeamKernel(("pad", "blocked", *after), f"mac_blocked{stride}", padded),)
    if any(call.attributes["pads"]):
        return ()
    steps = ("zero", "blocked") if gaps and g.s[0] > 1 else ("blocked",)
    return (TeamKernel(steps, f"mac_pointwise{stride}", lambda tile: 0),)


def part_sums(group: int, tile: Mapping[str, int]) -> int:
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


WINOGRAD_STEP = 68
"""Floats of a patch of 4x4 pixels, of four lanes, and what lies between it and the next: as in ``winograd_loops.h``."""

WINOGRAD_BLOCK = 256
"""Floats of a worker's block of results."""

WINOGRAD_WORKERS = 8
"""Workers that have a block, at most."""

WINOGRAD_CHANNELS = 8
"""Channels on either side from which on transforming pays."""

WINOGRAD_COLUMNS = 255
"""Columns of the image, at most: a line of zeros of that size lies in a worker's block."""


def winograd(call: Invocation, g: Geometry) -> tuple[TeamKernel, ...]:
    """Minimal filtering, which needs fewer multiplications than there are: for 3x3 with stride 1 and channels enough."""
    plain = g.k == (3, 3) and g.s == g.d == (1, 1) and g.group == 1 and max(call.attributes["pads"]) <= 2
    wide = max(g.x[1], g.y[1]) <= WINOGRAD_COLUMNS and min(g.x) > 0
    if not plain or not wide or min(g.co, g.ci) < WINOGRAD_CHANNELS or call["W"].dtype != np.float32:
        return ()
    patches = _winograd_sums if call.operator.op_type == "ConvGradW" else _winograd_results

    def scratch(tile: Mapping[str, int]) -> int:
        lanes, summed, _ = patches(tile)
        return 4 * (WINOGRAD_STEP * lanes * summed + WINOGRAD_BLOCK * WINOGRAD_WORKERS)

    def multiplied(tile: Mapping[str, int]) -> int:
        _, summed, blocks = patches(tile)
        return WINOGRAD_BLOCK * summed * blocks

    def transformed(tile: Mapping[str, int]) -> int:
        lanes, summed, blocks = patches(tile)
        return 64 * lanes * summed + 2 * WINOGRAD_BLOCK * blocks  # 2: a block is also started and stored

    return (TeamKernel(("transform", "product"), "mac_winograd", scratch, multiplied, transformed),)


def _winograd_results(tile: Mapping[str, int]) -> tuple[int, int, int]:
    """For forward and dX: fours of lanes that are transformed, steps that are summed over, blocks of results.

    Lanes are channels of the result, and patches, which are taken by four of a line.
    """
    summed, lanes, rows, columns = ("ci", "co", "oy", "ox") if "oy" in tile else ("co", "ci", "iy", "ix")
    quads = -(-tile[lanes] // 4)
    groups = tile["n"] * -(-tile[rows] // 2) * -(-tile[columns] // 8)
    return quads + groups, tile[summed], quads * groups


def _winograd_sums(tile: Mapping[str, int]) -> tuple[int, int, int]:
    """The same for dW, whose lanes are channels of both operands, and which sums over patches."""
    co, ci = -(-tile["co"] // 4), -(-tile["ci"] // 4)
    return co + ci, tile["n"] * -(-tile["oy"] // 2) * -(-tile["ox"] // 2), co * ci
