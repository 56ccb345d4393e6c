"""Storages: the values of a program grouped by shared memory, each with its lifetime in schedule positions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from deeploy_ext.graph.program import Program


@dataclass(frozen=True)
class Storage:
    """Memory of one or more values that alias each other.

    Attributes:
        name: the value that names it.
        bytes: size of the largest of its values.
        values: all values in it, in order of appearance.
        first, last: schedule positions between which its contents matter, both included.
        persistent: keeps its contents between entries.
        uses: number of reads and writes by nodes.
    """

    name: str
    bytes: int
    values: tuple[str, ...]
    first: int
    last: int
    persistent: bool
    uses: int


def storages_of(program: Program) -> tuple[dict[str, str], tuple[Storage, ...]]:
    """Group values by storage.

    Returns:
        value -> storage name, and the storages in order of first appearance. Run-time arguments are left out.
    """
    owner = _share(program)
    positions: dict[str, list[int]] = {}
    for position, call in enumerate(program.calls):
        for value in (*call.reads, *call.writes):
            positions.setdefault(owner[value], []).append(position)
    persistent = {owner[value] for value in program.persistent}
    last = len(program.calls) - 1
    members_of: dict[str, list[str]] = {}
    for value in program.values:
        members_of.setdefault(owner[value], []).append(value)
    storages: list[Storage] = []
    for name in dict.fromkeys(owner.values()):
        used = positions.get(name, [])
        if name in program.arguments or not (used or name in persistent):
            continue
        members = tuple(members_of[name])
        size = max(program.values[v].bytes for v in members)
        keeps = name in persistent
        storages.append(Storage(name, size, members, 0 if keeps else min(used), last if keeps else max(used), keeps, len(used)))
    return owner, tuple(storages)


def _share(program: Program) -> dict[str, str]:
    """Forced sharing first, then outputs computed in place where the input is not needed any more."""
    owner: dict[str, str] = {}
    for value in program.values:
        end = value
        while end in program.same:
            end = program.same[end]
        owner[value] = end
    members: dict[str, list[str]] = {}
    for value, name in owner.items():
        members.setdefault(name, []).append(value)
    last_read: dict[str, int] = {}
    for position, call in enumerate(program.calls):
        for value in call.reads:
            last_read[owner[value]] = position
    fixed = {owner[v] for v in (*program.persistent, *program.arguments)}
    for position, call in enumerate(program.calls):
        for source, result in call.invocation.operator.in_place:
            before, after = call.operands.get(source), call.operands.get(result)
            if before is None or after is None or owner[before] in fixed or owner[after] in fixed:
                continue
            if program.values[before] != program.values[after] or last_read[owner[before]] != position:
                continue
            if owner[after] in {owner[v] for v in call.reads}:
                continue
            last_read[owner[before]] = last_read.get(owner[after], position)
            moved = members.pop(owner[after])
            members[owner[before]] += moved
            owner.update(dict.fromkeys(moved, owner[before]))
            break
    return owner


def lower_bound(storages: Mapping[str, tuple[int, int, int]]) -> int:
    """Largest sum of live bytes over the schedule; ``storages`` maps a name to (bytes, first, last)."""
    events: dict[int, int] = {}
    for size, first, last in storages.values():
        events[first] = events.get(first, 0) + size
        events[last + 1] = events.get(last + 1, 0) - size
    live = peak = 0
    for position in sorted(events):
        live += events[position]
        peak = max(peak, live)
    return peak
