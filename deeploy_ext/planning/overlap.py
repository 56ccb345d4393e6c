"""Predicted cycles of nests that follow each other: what moves while a neighbour computes takes no time of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from deeploy_ext.planning.arrival import first_box, last_box
from deeploy_ext.planning.plan import EARLY, BlockPlan, Group
from deeploy_ext.planning.target import Target
from deeploy_ext.planning.traffic import box_moved


def box_cycles(block: BlockPlan, box: Sequence[tuple[int, int]], target: Target) -> float:
    """Cycles of the DMA for one box of an operand between L2 and L1."""
    moved, costs = box_moved(block, box), target.costs
    return moved.bytes / costs["dma.bytes_per_cycle"] + moved.commands * costs["dma.command_cycles"]


def overlapped(groups: Sequence[Group], target: Target) -> tuple[Group, ...]:
    """Groups with predicted cycles of nests that follow each other.

    Args:
        groups: in execution order, each with the cycles that it takes when all its transfers are its own.
    """
    found: list[Group] = []
    for i, group in enumerate(groups):
        before = groups[i - 1] if i and groups[i - 1].entry == group.entry else None
        after = groups[i + 1] if i + 1 < len(groups) and groups[i + 1].entry == group.entry else None
        hidden = 0.0
        if before:
            early = sum(box_cycles(b, first_box(b), target) for b in group.blocks if b.loaded and b.arrival == EARLY)
            hidden += min(early, _of_a_tile(before))
        if after and after.drains:
            hidden += min(sum(box_cycles(b, last_box(b), target) for b in group.blocks if b.stored), _of_a_tile(after))
        cycles = group.cycles
        most = cycles.dma / group.tiles if group.double_buffer else cycles.dma
        found.append(replace(group, cycles=replace(cycles, total=cycles.total - round(min(hidden, most)))))
    return tuple(found)


def _of_a_tile(group: Group) -> float:
    return group.cycles.compute / group.tiles
