"""Promotion: which storages live in L2 and which in the default level, and at which addresses."""

from __future__ import annotations

from collections.abc import Sequence

from deeploy_ext.errors import InfeasibleError
from deeploy_ext.planning.allocation import Request, pack, peak
from deeploy_ext.planning.plan import CONTIGUOUS, Placement
from deeploy_ext.planning.storage import Storage
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
    kept = list(storages)
    if _peak(kept, alignment) <= room:
        return {s.name for s in kept}
    by_gain = sorted(kept, key=lambda s: (s.uses / (s.last - s.first + 1), -s.bytes, s.name))
    while by_gain and _peak(kept, alignment) > room - stage:
        dropped = by_gain.pop(0)
        kept = [s for s in kept if s.name != dropped.name]
    for storage in sorted((s for s in storages if s not in kept), key=lambda s: (-s.uses, s.bytes, s.name)):
        if _peak([*kept, storage], alignment) <= room - stage:
            kept.append(storage)
    return {s.name for s in kept}


def _peak(storages: Sequence[Storage], alignment: int) -> int:
    wanted = requests_of(storages, alignment)
    return peak(wanted, pack(wanted))


def place(storages: Sequence[Storage], levels: dict[str, str], target: Target, room: dict[str, int]) -> tuple[Placement, ...]:
    """Addresses of all storages.

    Args:
        storages: in order of first appearance; the placements come in the same order.
        levels: storage name -> level.
        room: usable bytes per level.

    Raises:
        InfeasibleError: a level is too small.
    """
    found: dict[str, Placement] = {}
    for level in sorted(set(levels.values())):
        members = [s for s in storages if levels[s.name] == level]
        wanted = requests_of(members, target.levels[level].alignment)
        addresses = pack(wanted)
        needed = peak(wanted, addresses)
        if needed > room[level]:
            remedy = "use --default-level L3 or --promote" if level == "L2" else "use a smaller network"
            raise InfeasibleError(
                f"the network needs {needed} bytes of {level}, {room[level]} are available; {remedy}.",
                node="",
                level=level,
                needed=needed,
                available=room[level],
            )
        for s in members:
            found[s.name] = Placement(
                s.name, level, addresses[s.name], s.bytes, CONTIGUOUS, s.first, s.last, s.persistent, s.values
            )
    return tuple(found[s.name] for s in storages)
