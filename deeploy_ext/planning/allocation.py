"""Address assignment: blocks with lifetimes packed into one level without overlap."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ortools.sat.python import cp_model

from deeploy_ext.planning.storage import lower_bound


@dataclass(frozen=True)
class Request:
    """A block to be placed: aligned bytes, live from position ``first`` to ``last``, both included."""

    name: str
    bytes: int
    first: int
    last: int


EXACT_BLOCKS = 400
"""Blocks up to which an exact packing is looked for."""

EXACT_SECONDS = 0.1
"""Work of that search, in the solver's own unit, which does not depend on the machine or its load."""

_ORDERS: tuple[Callable[[Request], Any], ...] = (
    lambda r: (-r.bytes,),
    lambda r: (-r.bytes * (r.last - r.first + 1),),
    lambda r: (r.first - r.last, -r.bytes),
    lambda r: (r.first, -r.bytes),
)
"""The largest first, the largest by bytes and time, the longest, the earliest."""


def pack(requests: Sequence[Request], room: int | None = None) -> dict[str, int]:
    """Packing without overlap, as low as several greedy orders get; below ``room`` bytes if an exact search finds that.

    Blocks that live all the time lie at the bottom, where they leave no gaps; each other block, in the order given, gets the
    lowest address that is free during its whole lifetime. Sizes must be multiples of the alignment; then so are all addresses.
    Deterministic: ties go by lifetime, then name.

    Source: "greedy by size for offset calculation", Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net
    Inference", 2020, which is the first of the orders.
    """
    begin = min((r.first for r in requests), default=0)
    end = max((r.last for r in requests), default=0)
    always = sorted((r for r in requests if (r.first, r.last) == (begin, end)), key=lambda r: (-r.bytes, r.name))
    found: dict[str, int] = {}
    base = 0
    for request in always:
        found[request.name] = base
        base += request.bytes
    others = [r for r in requests if r.name not in found]
    bound = base + bound_of(others)
    best: dict[str, int] | None = None
    for order in _ORDERS:
        placed = _in_order(sorted(others, key=lambda r: (*order(r), r.first, r.last, r.name)), base)
        if best is None or peak(others, placed, base) < peak(others, best, base):
            best = placed
        if peak(others, best, base) <= bound:
            break
    assert best is not None
    if room is not None and bound <= room < peak(others, best, base) and len(others) <= EXACT_BLOCKS:
        best = _exact(others, base, room) or best
    return found | best


def _in_order(requests: Iterable[Request], base: int) -> dict[str, int]:
    placed: list[tuple[int, int, int, int]] = []  # (begin, end, first, last), sorted
    found: dict[str, int] = {}
    for request in requests:
        address = base
        for begin, end, first, last in placed:
            if first <= request.last and request.first <= last:
                if begin - address >= request.bytes:
                    break
                address = max(address, end)
        insort(placed, (address, address + request.bytes, request.first, request.last))
        found[request.name] = address
    return found


def _exact(requests: Sequence[Request], base: int, room: int) -> dict[str, int] | None:
    """Any packing between ``base`` and ``room``, by CP-SAT; None: there is none, or it was not found with the work allowed."""
    model = cp_model.CpModel()
    unit = 8
    while any(r.bytes % unit for r in requests):
        unit //= 2
    starts: dict[str, cp_model.IntVar] = {}
    lives: list[cp_model.IntervalVar] = []
    spans: list[cp_model.IntervalVar] = []
    for r in sorted(requests, key=lambda r: r.name):
        starts[r.name] = model.new_int_var(0, (room - base - r.bytes) // unit, r.name)
        lives.append(model.new_fixed_size_interval_var(r.first, r.last - r.first + 1, ""))
        spans.append(model.new_fixed_size_interval_var(starts[r.name], r.bytes // unit, ""))
    model.add_no_overlap_2d(lives, spans)
    model.add_cumulative(lives, [r.bytes // unit for r in sorted(requests, key=lambda r: r.name)], (room - base) // unit)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 1
    solver.parameters.max_deterministic_time = EXACT_SECONDS
    if solver.solve(model) not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None
    return {name: base + solver.value(start) * unit for name, start in starts.items()}


def peak(requests: Iterable[Request], addresses: Mapping[str, int], base: int = 0) -> int:
    """Highest address used."""
    return max((addresses[r.name] + r.bytes for r in requests), default=base)


def bound_of(requests: Iterable[Request]) -> int:
    """Largest sum of live bytes: no packing needs less."""
    return lower_bound({r.name: (r.bytes, r.first, r.last) for r in requests})


def largest_gap(placed: Sequence[tuple[int, int]], room: int) -> tuple[int, int]:
    """Address and bytes of the largest gap below ``room`` between the (begin, end) of what is placed; the lowest of equals."""
    at, best = 0, (0, 0)
    for begin, end in [*sorted(placed), (room, room)]:
        if begin - at > best[1]:
            best = (at, begin - at)
        at = max(at, end)
    return best
