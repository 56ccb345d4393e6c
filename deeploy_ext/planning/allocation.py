"""Address assignment: blocks with lifetimes packed into one level without overlap."""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Request:
    """A block to be placed: aligned bytes, live from position ``first`` to ``last``, both included."""

    name: str
    bytes: int
    first: int
    last: int


def pack(requests: Sequence[Request], base: int = 0) -> dict[str, int]:
    """Greedy packing, largest first, each at the lowest address that is free during its whole lifetime.

    Sizes must be multiples of the alignment; then so are all addresses. Deterministic: ties go by lifetime, then name.

    Source: "greedy by size for offset calculation", Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net
    Inference", 2020.
    """
    placed: list[tuple[int, int, int, int]] = []  # (begin, end, first, last), sorted
    found: dict[str, int] = {}
    for request in sorted(requests, key=lambda r: (-r.bytes, r.first, r.last, r.name)):
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
