"""Promotion: which storages live in L2 and which in the default level, and at which addresses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from deeploy_ext.errors import InfeasibleError
from deeploy_ext.planning.allocation import Request, pack, peak
from deeploy_ext.planning.plan import CONTIGUOUS, Placement
from deeploy_ext.planning.storage import Storage, lower_bound
from deeploy_ext.planning.target import Target


def requests_of(storages: Sequence[Storage], alignment: int) -> list[Request]:
    """Aligned packing requests of some storages."""
    return [Request(s.name, -(-max(s.bytes, 1) // alignment) * alignment, s.first, s.last) for s in storages]


def promote(storages: Sequence[Storage], room: int, stage: int, target: Target) -> set[str]:
    """Names of the storages to keep in L2: all when they fit in ``room`` bytes, else without those that gain least.

    When something stays in L3, ``stage`` bytes of the room are left for staging. The gain of a storage is the number of
    its uses per byte and position it occupies.
    """
    alignment = target.levels["L2"].alignment
    if _fits(storages, alignment, room):
        return {s.name for s in storages}
    limit = room - stage
    by_gain = sorted(storages, key=lambda s: (s.uses / (s.last - s.first + 1), -s.bytes, s.name))
    low, high = 1, len(by_gain)  # how many to give up: more is easier to pack, nearly always
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if _fits(by_gain[middle:], alignment, limit) else (middle + 1, high)
    while low < len(by_gain) and not _fits(by_gain[low:], alignment, limit):
        low += 1
    kept = by_gain[low:]
    misses = 0
    for storage in sorted(by_gain[:low], key=lambda s: (-s.uses, s.bytes, s.name)):
        if misses < _TRIES and _fits([*kept, storage], alignment, limit):
            kept.append(storage)
        else:
            misses += 1
    return {s.name for s in kept}


_TRIES = 16
"""Storages that may fail to find a gap before the search for gaps ends."""


def _fits(storages: Sequence[Storage], alignment: int, room: int) -> bool:
    wanted = requests_of(storages, alignment)
    live = {r.name: (r.bytes, r.first, r.last) for r in wanted}
    return lower_bound(live) <= room and peak(wanted, pack(wanted)) <= room


def place(
    storages: Sequence[Storage], levels: dict[str, str], target: Target, room: dict[str, int], exact: bool = True
) -> tuple[Placement, ...]:
    """Addresses of all storages.

    Args:
        storages: in order of first appearance; the placements come in the same order.
        levels: storage name -> level.
        room: usable bytes per level.
        exact: whether an exact packing is looked for where greedy orders need too much.

    Raises:
        InfeasibleError: a level is too small.
    """
    addresses: dict[str, int] = {}
    for level in sorted(set(levels.values())):
        wanted = requests_of([s for s in storages if levels[s.name] == level], target.levels[level].alignment)
        at = pack(wanted, room[level] if exact else None)
        needed = peak(wanted, at)
        if needed > room[level]:
            raise InfeasibleError(
                f"the network needs {needed} bytes of {level}, {room[level]} are available",
                node="",
                level=level,
                needed=needed,
                available=room[level],
            )
        addresses |= at
    return placed(storages, levels, addresses)


def placed(storages: Sequence[Storage], levels: Mapping[str, str], addresses: Mapping[str, int]) -> tuple[Placement, ...]:
    """The placements that levels and addresses make, in the order of the storages."""
    return tuple(
        Placement(s.name, levels[s.name], addresses[s.name], s.bytes, CONTIGUOUS, s.first, s.last, s.persistent, s.values)
        for s in storages
    )
