"""From one tile nest to the next: how soon the boxes of a nest's first tile may come, while the nest before still works.

While a nest computes its last tile, worker 0 may load what the next one begins with, and the results of the last tile may be
on their way out while the next nest computes its first. What is allowed follows from the bytes that each touches: the slots
of the last tile and the scratch stay as they are until it is done, and what it stores is not at home before. The planner
takes what is allowed here, ``planning.check`` proves it again, and the host engine watches every transfer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from deeploy_ext.planning.plan import AFTER, ARRIVALS, EARLY, KEPT, TURN, BlockPlan, Group, Placement

Span = tuple[int, int]
"""Bytes from the first to one past the last; empty when they are equal."""


def boxes_moved(block: BlockPlan, group: Group) -> int:
    """How often the tiles of a nest change the box of an operand, its first box included."""
    moving = block.loops
    inner = max((place for place, i in enumerate(group.order) if i in moving), default=-1)
    return math.prod(group.loops[i].count for i in group.order[: inner + 1])


def last_slot(block: BlockPlan, group: Group) -> Span:
    """The slot in L1 that holds an operand's box of the last tile; empty for an operand that lives in L1."""
    if not block.slots:
        return 0, 0
    begin = block.slots[(boxes_moved(block, group) - 1) % len(block.slots)]
    return begin, begin + block.bytes


def first_slot(block: BlockPlan) -> Span:
    """The slot in L1 of an operand's first box; empty for an operand that lives in L1."""
    return (block.slots[0], block.slots[0] + block.bytes) if block.slots else (0, 0)


def scratch_of(group: Group) -> Span:
    """The scratch of a nest's kernel."""
    return group.scratch, group.scratch + group.scratch_bytes


def overlap(a: Span, b: Span) -> bool:
    """Whether two spans share a byte."""
    return max(a[0], b[0]) < min(a[1], b[1])


def first_box(block: BlockPlan) -> tuple[tuple[int, int], ...]:
    """Region of every axis in the first tile."""
    return tuple(axis.regions[0] for axis in block.axes)


def last_box(block: BlockPlan) -> tuple[tuple[int, int], ...]:
    """Region of every axis in the last tile."""
    return tuple(axis.regions[-1] for axis in block.axes)


def at_home(block: BlockPlan, homes: Mapping[str, Placement]) -> Span:
    """The bytes of L1 where an operand lives; empty for one that has slots there."""
    home = homes[block.value]
    return (0, 0) if block.slots else (home.address, home.address + home.bytes)


def busy(group: Group, homes: Mapping[str, Placement]) -> list[Span]:
    """What of L1 the last tile of a nest needs until it is computed."""
    found = [last_slot(b, group) if b.slots else at_home(b, homes) for b in group.blocks]
    return [span for span in (*found, scratch_of(group)) if span[0] < span[1]]


def leaving(group: Group) -> list[Span]:
    """What of L1 the results of a nest's last tile are stored from."""
    return [last_slot(block, group) for block in group.blocks if block.stored]


def staged(group: Group) -> bool:
    """Whether an operand passes through L2 on its way; such nests are entered when the one before has ended."""
    return any(block.stage != "none" for block in group.blocks)


def source_of(block: BlockPlan, before: Group, homes: Mapping[str, Placement]) -> BlockPlan | None:
    """The operand of the nest before whose last box is this operand's first one: the same bytes of its home, in the same order.

    What the nest stores is what its home will hold. What it only loads is, too, unless it writes to that storage at all, or
    computes something in place of it.
    """
    home = homes[block.value]
    there = [b for b in before.blocks if (b.stored or (b.loaded and not _may_change(b))) and homes[b.value] == home and b.slots]
    for other in [b for b in there if b.stored] or there:
        if other.bytes >= block.bytes and _same_bytes(block, other, homes):
            return other
    return None


def _may_change(block: BlockPlan) -> bool:
    """Whether a tile may hold something else in the end than what was loaded: a node of several may compute in place of it."""
    return block.stored or len(block.uses) > 1


def _same_bytes(block: BlockPlan, other: BlockPlan, homes: Mapping[str, Placement]) -> bool:
    """Whether the first box of ``block`` is the last one of ``other``: as a box, or because neither has a gap."""
    first, last = first_box(block), last_box(other)
    extents = [[axis.extent for axis in b.axes] for b in (block, other)]
    if extents[0] == extents[1] and first == last and block.item == other.item:
        return True
    span = _span(block, first, homes)
    sizes = [box_bytes(block, first), box_bytes(other, last)]
    return span == _span(other, last, homes) and sizes == [span[1] - span[0]] * 2


def box_bytes(block: BlockPlan, box: Sequence[tuple[int, int]]) -> int:
    """Bytes of one box of an operand."""
    return math.prod(size for _, size in box) * block.item


def awaits_results(block: BlockPlan, before: Group, homes: Mapping[str, Placement]) -> bool:
    """Whether an operand's first box has bytes, in its home, that the last tile of the nest before stores."""
    home = _span(block, first_box(block), homes)
    return any(overlap(home, _span(b, last_box(b), homes)) for b in before.blocks if b.stored and b.slots)


def earliest(block: BlockPlan, group: Group, before: Group | None, homes: Mapping[str, Placement]) -> str:
    """The soonest arrival of an operand's first box that is right where its slot is, after a nest of the same entry."""
    if before is None or staged(group) or not (block.loaded and block.slots):
        return AFTER
    slot = first_slot(block)
    source = source_of(block, before, homes)
    if source and last_slot(source, before)[0] == slot[0]:
        return KEPT
    if awaits_results(block, before, homes) or any(overlap(slot, span) for span in leaving(before)):
        return AFTER
    return TURN if any(overlap(slot, span) for span in busy(before, homes)) else EARLY


def may_drain(group: Group, before: Group | None, homes: Mapping[str, Placement]) -> bool:
    """Whether the results of the nest before may leave while the first tile is computed: it writes to none of their slots."""
    if before is None or staged(group) or staged(before):
        return False
    if any(block.loaded and block.slots and block.arrival == AFTER for block in group.blocks):
        return False
    touched = [first_slot(b) for b in group.blocks if b.arrival != KEPT or _may_change(b)] + [scratch_of(group)]
    touched += [at_home(b, homes) for b in group.blocks if b.stored]
    return not any(overlap(slot, span) for slot in touched for span in leaving(before))


def permitted(soonest: str) -> tuple[str, ...]:
    """The arrivals that are right where ``soonest`` is the soonest; what is kept must not be loaded over itself too soon."""
    return (AFTER, KEPT) if soonest == KEPT else ARRIVALS[: ARRIVALS.index(soonest) + 1]


def _span(block: BlockPlan, box: Sequence[tuple[int, int]], homes: Mapping[str, Placement]) -> tuple[int, int]:
    """Bytes of the home level between the first and the last element of a box, both included; no two levels overlap."""
    home = homes[block.value]
    level = ("L1", "L2", "L3").index(home.level) << 40
    first, last, pitch = 0, 0, block.item
    for (start, size), axis in zip(reversed(box), reversed(block.axes), strict=True):
        if size == 0:
            return level, level
        first, last = first + pitch * start, last + pitch * (start + size - 1)
        pitch *= axis.extent
    return level + home.address + first, level + home.address + last + block.item
