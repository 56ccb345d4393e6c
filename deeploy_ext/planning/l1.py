"""Slots in L1, nest by nest: laid out so that as much as possible of the next nest's first tile arrives early.

One nest after the other gets its slots, with those of the nest before fixed: from the bottom or from the top of the arena,
with the operands that may come early in what the other leaves free, or without regard to it; and with an operand that is in
L1 already in the slot where it is, or not. The layout that hides the most cycles is taken.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product

from deeploy_ext.planning.arrival import (
    Span,
    awaits_results,
    busy,
    earliest,
    first_box,
    last_box,
    last_slot,
    may_drain,
    source_of,
    staged,
)  # fmt: skip
from deeploy_ext.planning.overlap import box_cycles
from deeploy_ext.planning.plan import AFTER, EARLY, KEPT, Group, Placement
from deeploy_ext.planning.target import Target


@dataclass(frozen=True)
class Request:
    """A slot (or the scratch) to be placed: who wants it, its aligned bytes, and whether its data may come early."""

    name: tuple[int, int]
    bytes: int
    early: bool


def place(
    requests: Sequence[Request], arena: Span, taken: Sequence[Span], avoided: Sequence[Span], top: bool
) -> dict[tuple[int, int], int] | None:
    """Addresses of slots that overlap neither each other nor what is ``taken``; None when they do not fit this way.

    First those that may come early, where they fit, outside of what is ``avoided`` too; then the others in order; each as far
    down as possible, or as far up.
    """
    found: dict[tuple[int, int], int] = {}
    used = [span for span in taken if span[0] < span[1]]
    late = [r for r in requests if not r.early]
    for request in (r for r in requests if r.early):
        at = _fit(request.bytes, arena, [*used, *avoided], top)
        if at is None:
            late.insert(0, request)
        else:
            found[request.name] = at
            used.append((at, at + request.bytes))
    for request in late:
        at = _fit(request.bytes, arena, used, top)
        if at is None:
            return None
        found[request.name] = at
        used.append((at, at + request.bytes))
    return found


def _gaps(arena: Span, used: Sequence[Span]) -> list[Span]:
    begin, found = arena[0], list[Span]()
    for span in sorted(used):
        if span[0] > begin:
            found.append((begin, min(span[0], arena[1])))
        begin = max(begin, span[1])
    return [*found, (begin, arena[1])] if begin < arena[1] else found


def _fit(size: int, arena: Span, used: Sequence[Span], top: bool) -> int | None:
    gaps = [gap for gap in _gaps(arena, used) if gap[1] - gap[0] >= size]
    if not gaps:
        return None
    return gaps[-1][1] - size if top else gaps[0][0]


def arrange(
    groups: Sequence[Group], homes: Mapping[str, Placement], arena: Span, taken: Sequence[Sequence[Span]], target: Target
) -> tuple[Group, ...]:
    """Groups with slots that let data arrive early, each with its arrivals; those of the first of an entry come after all.

    Args:
        groups: in execution order, with slots that need no more of L1 than there is.
        homes: value -> placement.
        arena: bytes of L1 for slots and scratch.
        taken: for each group, what of the arena other data has.
    """
    arena = _needed(groups, arena, taken, target.levels["L1"].alignment)
    found: list[Group] = []
    for group, others in zip(groups, taken, strict=True):
        before = found[-1] if found and found[-1].entry == group.entry else None
        best: tuple[tuple[float, int], Group] | None = None
        for top, avoid, keep in product((False, True), (True, False), (True, False)):
            made = _laid_out(group, before, homes, arena, others, top, avoid, keep, target)
            if made is None:
                continue
            free = [gap[1] - gap[0] for gap in _gaps(arena, [*others, *busy(made, homes)])]
            score = (_hidden(made, before, target), max(free, default=0))
            if best is None or score > best[0]:
                best = score, made
        found.append(best[1] if best else group)
    return tuple(found)


def _needed(groups: Sequence[Group], arena: Span, taken: Sequence[Sequence[Span]], unit: int) -> Span:
    """As much of the arena as two consecutive nests can use side by side, in multiples of a unit of bytes."""
    sizes: list[int] = []
    for group, others in zip(groups, taken, strict=True):
        own = sum(b.bytes * len(b.slots) for b in group.blocks) + -(-group.scratch_bytes // unit) * unit
        sizes.append(own + max((end - arena[0] for _, end in others), default=0))
    both = max((a + b for a, b in pairwise(sizes)), default=max(sizes, default=0))
    return arena[0], min(arena[1] // unit * unit, arena[0] + both)


def _laid_out(
    group: Group,
    before: Group | None,
    homes: Mapping[str, Placement],
    arena: Span,
    taken: Sequence[Span],
    top: bool,
    avoid: bool,
    keep: bool,
    target: Target,
) -> Group | None:
    """The group with its slots laid out in one of the ways, and the arrivals that follow; None: it does not fit that way."""
    pinned: dict[tuple[int, int], int] = {}
    used = list(taken)
    if keep and before and not staged(group):
        for i, block in enumerate(group.blocks):
            source = source_of(block, before, homes) if block.loaded and block.slots else None
            if source:
                begin, _ = last_slot(source, before)
                if not any(begin < end and start < begin + block.bytes for start, end in used):
                    pinned[i, 0] = begin
                    used.append((begin, begin + block.bytes))
    requests = _requests(group, before, homes, pinned, target)
    unit = target.levels["L1"].alignment
    avoided = [(b // unit * unit, -(-e // unit) * unit) for b, e in busy(before, homes)] if avoid and before else []
    at = place(requests, arena, used, avoided, top)
    if at is None:
        return None
    at |= pinned
    blocks = tuple(
        replace(b, slots=tuple(at[i, j] for j in range(len(b.slots))), arrival=AFTER) for i, b in enumerate(group.blocks)
    )
    made = replace(group, blocks=blocks, scratch=at.get(_SCRATCH, 0), drains=False)
    blocks = tuple(replace(b, arrival=earliest(b, made, before, homes)) for b in blocks)
    made = replace(made, blocks=blocks)
    return replace(made, drains=may_drain(made, before, homes))


_SCRATCH = (-1, 0)


def _requests(
    group: Group, before: Group | None, homes: Mapping[str, Placement], pinned: Mapping[tuple[int, int], int], target: Target
) -> list[Request]:
    """First slots before second ones; of what is loaded and not written first, then results, then the scratch."""
    found: list[tuple[tuple[int, int, int], Request]] = []
    for i, block in enumerate(group.blocks):
        early = before is not None and block.loaded and not awaits_results(block, before, homes)
        for j in range(len(block.slots)):
            if (i, j) not in pinned:
                rank = 3 if j else 0 if early else 1 if block.stored else 2
                found.append(((rank, -block.bytes, i), Request((i, j), block.bytes, early and j == 0)))
    if group.scratch_bytes:
        size = target.levels["L1"].align(group.scratch_bytes)
        found.append(((4, 0, 0), Request(_SCRATCH, size, False)))
    return [request for _, request in sorted(found, key=lambda pair: (pair[0], pair[1].name))]


def _hidden(group: Group, before: Group | None, target: Target) -> float:
    """Cycles of transfers that a layout hides, roughly: what is kept counts more than what moves early."""
    weight = {KEPT: 1.25, EARLY: 1.0}
    hidden = sum(weight.get(b.arrival, 0.0) * box_cycles(b, first_box(b), target) for b in group.blocks if b.loaded)
    if before and group.drains:
        hidden += sum(box_cycles(b, last_box(b), target) for b in before.blocks if b.stored)
    return hidden
