"""Address assignment: blocks with lifetimes packed into one level without overlap."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Request:
    """A block to be placed: aligned bytes, live from position ``first`` to ``last``, both included."""

    name: str
    bytes: int
    first: int
    last: int


_ORDERS: tuple[Callable[[Request], tuple[int | str, ...]], ...] = (
    lambda r: (-r.bytes, r.first, r.last, r.name),
    lambda r: (-r.bytes, r.first - r.last, r.first, r.name),
    lambda r: (r.first - r.last, -r.bytes, r.first, r.name),
    lambda r: (r.first, -r.last, -r.bytes, r.name),
)
"""Largest first, the earlier or the longer lived of equal ones; longest lived first; in order of time."""


def pack(requests: Sequence[Request], base: int = 0, room: int = 0) -> dict[str, int]:
    """Greedy packing, each request at the lowest address that is free during its whole lifetime.

    Several orders are tried until one needs no more than ``room`` bytes, else the best of all is taken. Sizes must be multiples
    of the alignment; then so are all addresses.

    Source: "greedy by size for offset calculation", Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net
    Inference", 2020, which is the first of the orders.
    """
    best = _pack(requests, base, _ORDERS[0])
    for order in _ORDERS[1:]:
        if peak(requests, best, base) <= room:
            break
        best = min(best, _pack(requests, base, order), key=lambda addresses: peak(requests, addresses, base))
    return best


def _pack(requests: Sequence[Request], base: int, order: Callable[[Request], tuple[int | str, ...]]) -> dict[str, int]:
    placed: list[tuple[int, int, int, int]] = []  # (begin, end, first, last), sorted
    found: dict[str, int] = {}
    for request in sorted(requests, key=order):
        address = base
        for begin, end, first, last in placed:
            if first <= request.last and request.first <= last:
                if begin - address >= request.bytes:
                    break
                address = max(address, end)
        insort(placed, (address, address + request.bytes, request.first, request.last))
        found[request.name] = address
    return found


def peak(requests: Sequence[Request], addresses: dict[str, int], base: int = 0) -> int:
    """Highest address used."""
    return max((addresses[r.name] + r.bytes for r in requests), default=base)
