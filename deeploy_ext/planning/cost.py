"""Predicted cycles of a tile nest: computation, transfers on both hops, overlap, and what every tile costs."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from deeploy_ext.operators.spec import Phase
from deeploy_ext.planning.nest import Nest, Operand, Tiling, Volume, iterations, loops_of, volume
from deeploy_ext.planning.plan import AxisPlan, Cycles, LoopPlan
from deeploy_ext.planning.target import Target
from deeploy_ext.planning.traffic import hops_of


@dataclass(frozen=True)
class Machine:
    """The target with this run's number of cores."""

    target: Target
    cores: int


def may_share(phase: Phase, name: str) -> bool:
    """Whether the cores may split a loop: it is parallel and in every written index, so two cores never write one element."""
    kinds = [loop.kind for loop in phase.loops if loop.name == name]
    return kinds == ["parallel"] and all(name in loops_of(access) for access in phase.writes)


def core_loop(phase: Phase, nest: Nest, tiles: Sequence[int], cores: int) -> tuple[int | None, float]:
    """The loop that the cores split (see :func:`may_share`), and the share of their time that is used."""
    best: tuple[int | None, float] = (None, 1.0 / cores)
    for i, loop in enumerate(nest.loops):
        if not may_share(phase, loop.name):
            continue
        share = tiles[i] / (-(-tiles[i] // cores) * cores)
        if share > best[1]:
            best = (i, share)
    return best


def streams(phase: Phase) -> int:
    """Operands of a phase of which every iteration touches another element."""
    loops = {loop.name for loop in phase.loops if loop.extent > 1}
    return sum(loops <= loops_of(access) for access in (*phase.reads, *phase.writes))


def kernel_features(tiling: Tiling, machine: Machine) -> dict[str, float]:
    """What the kernels of a whole nest consist of: how often each cost of ``[cycles]`` arises, by its name.

    ``body``: once for each tile and phase, by the phase's class of work: its first instructions, which are not in the cache,
    and its last worker. ``iteration``: of the innermost loop; of what does not multiply matrices for each operand that is
    streamed. ``row``: for each run of the innermost loop, where there are several. ``copy``: floats of padded tiles;
    ``transform``: those that minimal filtering computes around its products. Those of work are given for the target's own
    number of cores.
    """
    kernel, slower = tiling.nest.kernel, machine.target.cores / machine.cores
    tiles = math.prod(loop.count for loop in tiling.loop_plans())
    found: defaultdict[str, float] = defaultdict(float)
    if kernel:
        sizes = tiling.sizes
        work = tiles * kernel.multiplied(sizes) if kernel.multiplied else iterations(tiling.nest.phases[0])
        found |= {f"body.{kernel.work}": float(tiles), f"iteration.{kernel.work}": work * slower}
        if kernel.transformed:
            found["transform"] = tiles * kernel.transformed(sizes) * slower
        elif len(kernel.steps) > 1:  # others copy as they go
            found["copy"] = tiles * tiling.scratch / 4 * slower
    for phase in () if kernel else tiling.nest.phases:
        _, share = core_loop(phase, tiling.nest, tiling.tiles, machine.cores)
        times = iterations(phase) * slower / share
        found[f"body.{phase.work}"] += tiles
        found[f"iteration.{phase.work}"] += times * (1 if phase.work.startswith("mac") else streams(phase))
        if len(phase.loops) > 1 and not phase.work.startswith("mac"):
            found["row"] += times / phase.loops[-1].extent
    for (work, elements, runs), first in _flats(tiling, machine):
        found[f"body.{work}"] += runs if first else 0
        found[f"iteration.{work}"] += elements * slower
    return dict(found)


def _flats(tiling: Tiling, machine: Machine) -> Iterator[tuple[tuple[str, float, int], bool]]:
    """Of every element-wise node beside the main one: work, elements of all operands, tiles; whether a barrier is before it."""
    nest = tiling.nest
    tiles = math.prod(loop.count for loop in tiling.loop_plans())
    results = math.prod(loop.count for loop in tiling.loop_plans() if not loop.reduction)
    for side, runs in ((nest.before, tiles), (nest.after, results)):
        before: object = None
        for flat in side:
            if nest.continued is not None and flat is nest.after[nest.continued - len(nest.before) - 1]:
                continue
            elements = math.ceil(iterations(flat.plain) / runs / machine.cores) * machine.cores * runs
            relation = flat.phase.writes[0].index, flat.phase.writes[0].view
            yield (flat.plain.work, elements * streams(flat.plain), runs), relation != before
            before = relation


def compute_cycles(tiling: Tiling, machine: Machine) -> float:
    """Cycles of all bodies over the whole nest."""
    costs = machine.target.costs
    return sum(times * costs[name] for name, times in kernel_features(tiling, machine).items())


@dataclass(frozen=True)
class Transfers:
    """Cycles and bytes of all transfers of a nest, both directions.

    ``ram_first`` is what of ``ram_cycles`` staged tiles take that nothing can hide: an operand's first box, or its last.
    """

    dma_cycles: float = 0.0
    ram_cycles: float = 0.0
    ram_first: float = 0.0
    dma_bytes: int = 0
    ram_bytes: int = 0

    def __add__(self, other: Transfers) -> Transfers:
        return Transfers(
            self.dma_cycles + other.dma_cycles,
            self.ram_cycles + other.ram_cycles,
            self.ram_first + other.ram_first,
            self.dma_bytes + other.dma_bytes,
            self.ram_bytes + other.ram_bytes,
        )


def operand_transfers(operand: Operand, home: str, stage: str, moved: Volume, whole: int, target: Target) -> Transfers:
    """Transfers of one operand: ``moved`` tiles between home (or stage) and L1, ``whole`` bytes if staged as a whole."""
    if home == "L1":
        return Transfers()
    hops, costs = hops_of(home, stage, moved, whole), target.costs
    times = operand.loaded + operand.stored
    dma = Transfers(
        dma_cycles=times
        * (hops.l2_l1.bytes / costs["dma.bytes_per_cycle"] + hops.l2_l1.commands * costs["dma.command_cycles"]),
        dma_bytes=times * hops.l2_l1.bytes,
    )
    if stage == "none":
        return dma
    per_byte = operand.loaded / costs["ram.bytes_per_cycle_read"] + operand.stored / costs["ram.bytes_per_cycle_write"]
    cycles = hops.l3_l2.bytes * per_byte + times * hops.l3_l2.commands * costs["ram.command_cycles"]
    first = cycles / moved.boxes if stage == "tile" else 0.0
    return dma + Transfers(ram_cycles=cycles, ram_first=first, ram_bytes=times * hops.l3_l2.bytes)


def predict(
    compute: float, transfers: Transfers, tiles: int, phases: int, double_buffer: bool, staged_whole: bool, target: Target
) -> Cycles:
    """Cycles of one execution of a nest.

    Single-buffered, everything happens in turn. Double-buffered, the slowest of computation and hops hides the others but
    for the first and last tile; tensors staged as a whole are never hidden; and worker 0 has work of its own beside each
    tile (``ahead``), behind which it waits for what the RAM brings.
    """
    whole = total_cycles(compute, transfers, tiles, phases, double_buffer, staged_whole, target)
    return Cycles(round(compute), round(transfers.dma_cycles), round(transfers.ram_cycles), round(float(whole)))


def total_cycles(
    compute: Any, moved: Transfers, tiles: Any, phases: int, double_buffer: Any, staged_whole: bool, target: Target
) -> Any:
    """The total of :func:`predict`, not rounded: of one nest, or element by element of arrays, one tiling each."""
    costs, dma, ram = target.costs, moved.dma_cycles, moved.ram_cycles
    around = costs["nest"] + tiles * (costs["tile"] + (phases + 1) * costs["barrier"])
    if staged_whole:
        double = ram + np.maximum(np.maximum(compute, tiles * costs["ahead"]), dma) + dma / tiles
    else:
        behind = ram - moved.ram_first
        busy = np.maximum(compute, tiles * costs["ahead"] + behind)
        double = np.maximum(busy, dma) + dma / tiles + moved.ram_first
    return around + np.where(double_buffer, double, compute + dma + ram)


def volumes(
    tiling: Tiling, axes: Mapping[str, tuple[AxisPlan, ...]], loops: Sequence[LoopPlan], order: Sequence[int]
) -> dict[str, Volume]:
    """Volume of every operand for one loop order."""
    return {o.name: volume(axes[o.name], o.item, loops, order) for o in tiling.nest.operands}
