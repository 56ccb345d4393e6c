"""Predicted cycles of a tile nest: computation, transfers on both hops, overlap, and what every tile costs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from deeploy_ext.operators.spec import Phase
from deeploy_ext.planning.nest import Nest, Operand, Tiling, Volume, iterations, loops_of, volume
from deeploy_ext.planning.plan import AxisPlan, Cycles, LoopPlan
from deeploy_ext.planning.target import Target


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


def compute_cycles(tiling: Tiling, machine: Machine) -> float:
    """Cycles of all bodies over the whole nest; work costs are given for the target's own number of cores."""
    kernel, work = tiling.nest.kernel, machine.target.work
    if kernel:
        tiles = math.prod(loop.count for loop in tiling.loop_plans())
        steps = iterations(tiling.nest.phases[0]) * work[kernel.work] + tiles * tiling.scratch / 4 * work["copy"]
        return steps * machine.target.cores / machine.cores
    total = 0.0
    for phase in tiling.nest.phases:
        _, share = core_loop(phase, tiling.nest, tiling.tiles, machine.cores)
        total += iterations(phase) * work[phase.work] * machine.target.cores / machine.cores / share
    return total


@dataclass(frozen=True)
class Transfers:
    """Cycles and bytes of all transfers of a nest, both directions."""

    dma_cycles: float = 0.0
    ram_cycles: float = 0.0
    dma_bytes: int = 0
    ram_bytes: int = 0

    def __add__(self, other: Transfers) -> Transfers:
        return Transfers(
            self.dma_cycles + other.dma_cycles,
            self.ram_cycles + other.ram_cycles,
            self.dma_bytes + other.dma_bytes,
            self.ram_bytes + other.ram_bytes,
        )


def operand_transfers(operand: Operand, home: str, stage: str, moved: Volume, whole: int, target: Target) -> Transfers:
    """Transfers of one operand: ``moved`` tiles between home (or stage) and L1, ``whole`` bytes if staged as a whole."""
    if home == "L1":
        return Transfers()
    costs = target.costs
    times = operand.loaded + operand.stored
    commands = moved.boxes if stage == "tile" else moved.commands
    dma = Transfers(
        dma_cycles=times * (moved.bytes / costs["dma.bytes_per_cycle"] + commands * costs["dma.command_cycles"]),
        dma_bytes=times * moved.bytes,
    )
    if stage == "none":
        return dma
    size, runs = (whole, 1) if stage == "whole" else (moved.bytes, moved.commands)
    per_byte = operand.loaded / costs["ram.bytes_per_cycle_read"] + operand.stored / costs["ram.bytes_per_cycle_write"]
    ram = Transfers(
        ram_cycles=size * per_byte + times * runs * costs["ram.command_cycles"],
        ram_bytes=times * size,
    )
    return dma + ram


def predict(
    compute: float, transfers: Transfers, tiles: int, phases: int, double_buffer: bool, staged_whole: bool, target: Target
) -> Cycles:
    """Cycles of one execution of a nest.

    Single-buffered, everything happens in turn. Double-buffered, the slowest of computation and hops hides the others but
    for the first and last tile; tensors staged as a whole are never hidden.
    """
    costs = target.costs
    overhead = tiles * (costs["tile"] + (phases + 1) * costs["barrier"])
    busy = compute + overhead
    dma, ram = transfers.dma_cycles, transfers.ram_cycles
    if not double_buffer:
        total = busy + dma + ram
    elif staged_whole:
        total = ram + max(busy, dma) + dma / tiles
    else:
        total = max(busy, dma, ram) + (dma + ram) / tiles
    return Cycles(round(compute), round(dma), round(ram), round(total))


def volumes(
    tiling: Tiling, axes: Mapping[str, tuple[AxisPlan, ...]], loops: Sequence[LoopPlan], order: Sequence[int]
) -> dict[str, Volume]:
    """Volume of every operand for one loop order."""
    return {o.name: volume(axes[o.name], o.item, loops, order) for o in tiling.nest.operands}
