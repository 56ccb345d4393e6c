"""Residency: which tensors stay in L1 from the node that makes them to the last one that reads them, and where.

Such a tensor is neither stored nor loaded, but leaves its bytes to no nest during its life. The choice is greedy: whatever
saves most predicted cycles for each byte and position that it takes goes first, as long as it saves any.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from deeploy_ext.planning.arrival import Span
from deeploy_ext.planning.nest import Nest
from deeploy_ext.planning.storage import Storage

LONGEST = 8
"""Positions of a life, at most: what lives longer hinders more nests than it serves."""


@dataclass(frozen=True)
class Resident:
    """A storage that lives in L1 at ``begin``, up to ``end`` (exclusive), from position ``first`` to ``last``."""

    storage: str
    begin: int
    end: int
    first: int
    last: int


NestCost = Callable[[int, Mapping[str, Resident]], float | None]
"""Predicted cycles of the node at a position with these residents; None when it does not fit beside them."""


def live_at(residents: Mapping[str, Resident], position: int) -> list[Span]:
    """Bytes of L1 that residents have at a position."""
    return sorted((r.begin, r.end) for r in residents.values() if r.first <= position <= r.last)


def choose_residents(
    storages: Sequence[Storage], entry_of: Sequence[str], arena: Span, unit: int, cost: NestCost
) -> dict[str, Resident]:
    """The storages that live in L1.

    Args:
        storages: all of the program; those that are kept between entries cannot be chosen.
        entry_of: entry of the node at each position.
        arena: bytes of L1 for slots and residents, which are placed from its start.
        unit: alignment in bytes.
        cost: what to minimise, summed over the positions of a life.
    """
    chosen: dict[str, Resident] = {}
    now: dict[int, float | None] = {}

    def at(storage: Storage) -> Resident | None:
        size = -(-storage.bytes // unit) * unit
        begin = -(-arena[0] // unit) * unit
        others = sorted((r.begin, r.end) for r in chosen.values() if r.first <= storage.last and storage.first <= r.last)
        for other in others:
            if other[0] - begin >= size:
                break
            begin = max(begin, other[1])
        if begin + size > arena[1]:
            return None
        return Resident(storage.name, begin, begin + size, storage.first, storage.last)

    def saved(resident: Resident) -> float:
        trial = chosen | {resident.storage: resident}
        total = 0.0
        for position in range(resident.first, resident.last + 1):
            if position not in now:
                now[position] = cost(position, chosen)
            before, after = now[position], cost(position, trial)
            if before is None or after is None:
                return 0.0
            total += before - after
        return total

    ranked: list[tuple[float, Storage]] = []
    for storage in storages:
        life = storage.last - storage.first + 1
        if storage.persistent or not 1 < life <= LONGEST or entry_of[storage.first] != entry_of[storage.last]:
            continue
        resident = at(storage)
        gain = saved(resident) / (storage.bytes * life) if resident else 0.0
        if gain > 0:
            ranked.append((gain, storage))
    for _, storage in sorted(ranked, key=lambda pair: (-pair[0], pair[1].first, pair[1].name)):
        resident = at(storage)
        if resident and saved(resident) > 0:
            chosen[storage.name] = resident
            for position in range(resident.first, resident.last + 1):
                now.pop(position, None)
    return chosen


def suits_residents(nest: Nest, resident: Mapping[str, str]) -> bool:
    """Whether a nest may have operands at home in L1, whose blocks are the tensors themselves and no copies.

    Args:
        resident: those operands, by name, each with its storage.
    """
    if any(operand.overwritten and operand.name in resident for operand in nest.operands):
        return False
    if not nest.before and not nest.after:
        return True  # one node reads each element before it writes it
    written = [resident[operand.name] for operand in nest.operands if operand.stored and operand.name in resident]
    return all(list(resident.values()).count(storage) == 1 for storage in written)
