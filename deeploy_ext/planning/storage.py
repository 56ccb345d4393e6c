"""Storages: the values of a program grouped by shared memory, each with its lifetime in schedule positions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from deeploy_ext.graph.program import Call
from deeploy_ext.planning.steps import Flow, Step


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


def storages_of(flow: Flow, steps: Sequence[Step]) -> tuple[dict[str, str], tuple[Storage, ...]]:
    """Group values by storage; positions are those of the steps.

    Returns:
        value -> storage name, and the storages in order of first appearance. Run-time arguments are left out, and so are values
        that no step gives away.
    """
    program = flow.program
    owner = _share(flow, steps)
    positions: dict[str, list[int]] = {}
    for position, step in enumerate(steps):
        internal = flow.internal(step)
        for value in (value for call in step for value in (*call.reads, *call.writes)):
            if flow.tensor(value) not in internal:
                positions.setdefault(owner[value], []).append(position)
    persistent = {owner[value] for value in program.persistent}
    last = len(steps) - 1
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


def in_place_pairs(flow: Flow, step: Step) -> Iterator[tuple[str, str]]:
    """Values that a step gives away and those whose memory each may take: every element is read before it is written.

    In a step of several nodes the chain of results that are computed in place leads to what the step reads, if only one of its
    nodes reads that.
    """
    internal = flow.internal(step)
    sources: dict[str, list[str]] = {}
    readers = [{flow.tensor(value) for value in call.reads} for call in step]
    for before, after in (pair for call in step for pair in _pairs(call)):
        found = sources.get(flow.tensor(before), []) if flow.tensor(before) in internal else [before]
        if flow.tensor(after) in internal:
            sources.setdefault(flow.tensor(after), []).extend(found)
            continue
        for source in found:
            if sum(flow.tensor(source) in read for read in readers) == 1:
                yield source, after


def _pairs(call: Call) -> Iterator[tuple[str, str]]:
    for before, after in call.invocation.operator.in_place:
        if before in call.operands and after in call.operands:
            yield call.operands[before], call.operands[after]


def _share(flow: Flow, steps: Sequence[Step]) -> dict[str, str]:
    """Forced sharing first, then outputs computed in place where the input is not needed any more."""
    program = flow.program
    owner = {value: flow.root(value) for value in program.values}
    members: dict[str, list[str]] = {}
    for value, name in owner.items():
        members.setdefault(name, []).append(value)
    last_read: dict[str, int] = {}
    for position, step in enumerate(steps):
        for value in (value for call in step for value in call.reads):
            last_read[owner[value]] = position
    fixed = {owner[v] for v in (*program.persistent, *program.arguments)}
    for position, step in enumerate(steps):
        read = {value for call in step for value in call.reads}
        placed: set[str] = set()
        for before, after in in_place_pairs(flow, step):
            if after in placed or owner[before] in fixed or owner[after] in fixed:
                continue
            if program.values[before].bytes != program.values[after].bytes or last_read[owner[before]] != position:
                continue
            if owner[after] in {owner[v] for v in read}:
                continue
            last_read[owner[before]] = last_read.get(owner[after], position)
            moved = members.pop(owner[after])
            members[owner[before]] += moved
            owner.update(dict.fromkeys(moved, owner[before]))
            placed.add(after)
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
