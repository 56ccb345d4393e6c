"""Fits the cost model's constants to what the bench measured, and says how well the model predicts.

A nest's cycles are a sum of constants, each as often as :func:`~deeploy_ext.planning.cost.kernel_features` and the volumes of
its transfers say. Kernels are fitted apart from what surrounds them, both by least squares of the relative error, with no
constant below zero. Layers of :data:`HELD_OUT` are left out of the fit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from deeploy_ext.bench.run import Row
from deeploy_ext.engines.base import GroupCycles
from deeploy_ext.graph.program import Call
from deeploy_ext.planning.cost import Machine, kernel_features
from deeploy_ext.planning.nest import Tiling, nest_of_group, volume
from deeploy_ext.planning.plan import Group
from deeploy_ext.planning.target import Target

HELD_OUT = "ResNet8"
"""Start of the names of layers that are not used in a fit."""

FIXED = ("copy", "dma.command_cycles")
"""Measured by themselves: in nests they come together with others, which a fit cannot tell apart."""

SMALL = 1500
"""Cycles below which errors count as if there were so many: tiny kernels shall not decide."""

Floats = np.ndarray[tuple[int, ...], np.dtype[np.float64]]


@dataclass(frozen=True)
class Sample:
    """A nest that was measured without double buffering: how often each cost arises in its kernels, and around them."""

    held_out: bool
    kernel: Mapping[str, float]
    around: Mapping[str, float]
    measured: GroupCycles
    streamed: float


def samples(rows: Sequence[Row], target: Target) -> list[Sample]:
    """All nests of some rows that run single-buffered on all cores."""
    machine = Machine(target, target.cores)
    found: list[Sample] = []
    for row in rows:
        for group, measured in zip(row.groups, row.measured, strict=True):
            if not group.double_buffer:
                found.append(_sample(row, group, measured, machine))
    return found


def _sample(row: Row, group: Group, measured: GroupCycles, machine: Machine) -> Sample:
    tiling = _tiling(row.call, group)
    moved = commands = 0
    for operand, block in zip(tiling.nest.operands, group.blocks, strict=True):
        if block.slots:  # others are at home in L1
            volume_ = volume(block.axes, block.item, group.loops, group.order)
            times = operand.loaded + operand.stored
            moved, commands = moved + times * volume_.bytes, commands + times * volume_.commands
    around = {"nest": 1.0, "tile": float(group.tiles), "dma.command_cycles": float(commands)}
    streamed = moved / machine.target.costs["dma.bytes_per_cycle"]
    held_out = row.case.layer.startswith(HELD_OUT)
    return Sample(held_out, kernel_features(tiling, machine), around, measured, streamed)


def _tiling(call: Call, group: Group) -> Tiling:
    nest = nest_of_group(call, group)
    return Tiling(nest, tuple(loop.tile for loop in group.loops))


def fit(found: Sequence[Sample], target: Target) -> dict[str, float]:
    """Constants by name. Those of work that no sample does, and of :data:`FIXED`, are as the target has them."""
    used = [sample for sample in found if not sample.held_out]
    fixed = {name: target.costs[name] for name in FIXED}
    kernels = [(sample.kernel, float(sample.measured.kernel)) for sample in used]
    around = [(sample.around, sample.measured.total - sample.measured.kernel - sample.streamed) for sample in used]
    return {**_fitted(kernels, fixed), **_fitted(around, fixed)}


def _fitted(rows: Sequence[tuple[Mapping[str, float], float]], fixed: Mapping[str, float]) -> dict[str, float]:
    names = sorted({name for features, _ in rows for name in features} - set(fixed))
    known = np.array([sum(features.get(name, 0.0) * value for name, value in fixed.items()) for features, _ in rows])
    whole = np.array([cycles for _, cycles in rows])
    weight = 1 / np.maximum(whole, SMALL)
    table = np.array([[features.get(name, 0.0) for name in names] for features, _ in rows])
    solution = _non_negative(table * weight[:, None], (whole - known) * weight)
    return dict(zip(names, solution.tolist(), strict=True))


def _non_negative(table: Floats, wanted: Floats) -> Floats:
    """Least squares without negative results: what comes out below zero is left out, the most negative first."""
    free = list(range(table.shape[1]))
    result = np.zeros(table.shape[1])
    while free:
        solution = np.linalg.lstsq(table[:, free], wanted, rcond=None)[0]
        if solution.min() >= 0:
            result[free] = solution
            break
        del free[int(np.argmin(solution))]
    return result


def errors(found: Sequence[Sample], constants: Mapping[str, float]) -> Floats:
    """Relative errors of the predicted cycles of some samples."""
    predicted = [
        sum(constants[name] * times for features in (s.kernel, s.around) for name, times in features.items()) + s.streamed
        for s in found
    ]
    return np.array([cycles / s.measured.total - 1 for cycles, s in zip(predicted, found, strict=True)])


def fit_lines(rows: Sequence[Row], target: Target) -> Iterator[str]:
    """The fitted constants, as in target.toml, and how well they predict."""
    found = samples(rows, target)
    constants = {**target.costs, **fit(found, target)}
    for table in ("", "body", "iteration"):
        yield f"[cycles{'.' if table else ''}{table}]"
        start = f"{table}." if table else ""
        for name in target.costs:
            if name.startswith(start) and name.count(".") == bool(table) and name in constants:
                yield f"{name.removeprefix(start)} = {constants[name]:.4g}  # was {target.costs[name]:g}"
    for what, chosen in (("fitted", False), (f"not used ({HELD_OUT})", True)):
        mine = [sample for sample in found if sample.held_out == chosen]
        if mine:
            yield _error_line(what, mine, errors(mine, constants))


def _error_line(what: str, mine: Sequence[Sample], off: Floats) -> str:
    cycles = np.array([sample.measured.total for sample in mine])
    large = np.abs(off)[cycles >= 0.01 * cycles.sum()]
    tail = (
        f"; of {large.size} with 1 % of the cycles and more {large.mean():.1%}, {large.max():.1%} at most" if large.size else ""
    )
    return f"{what}: {len(mine)} nests, off by {np.abs(off).mean():.1%} on average{tail}"
