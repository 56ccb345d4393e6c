"""Steps of a schedule: nodes that run together, what depends on what, and which values never leave the nodes that use them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import heappop, heappush

from deeploy_ext.graph.program import Call, Program, root

Step = tuple[Call, ...]
"""Nodes that one tile nest computes, in order; a node of several phases may take several nests, then it is alone."""


def single_steps(program: Program) -> tuple[Step, ...]:
    """Every node by itself, in the program's order."""
    return tuple((call,) for call in program.calls)


def step_name(step: Step) -> str:
    """A step as reports name it."""
    return "+".join(call.name for call in step)


class Flow:
    """Who reads and writes what in a program.

    Values that are views of each other are one *tensor*; tensors that must share memory have one *root*.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self._written = {value for call in program.calls for value in call.writes}
        self._roots = {value: root(value, dict(program.same)) for value in program.values}
        self._lasting = {self._roots[value] for value in (*program.persistent, *program.arguments)}
        self._readers: dict[str, list[Call]] = {}
        for call in program.calls:
            for value in call.reads:
                self._readers.setdefault(self.tensor(value), []).append(call)
        self._index = {(call.entry, call.name): i for i, call in enumerate(program.calls)}

    def root(self, value: str) -> str:
        """The value whose memory this one must have."""
        return self._roots[value]

    def tensor(self, value: str) -> str:
        """The value that a node computed, where this one is a view of it; state that a node updates is a tensor anew."""
        while value in self.program.same and value not in self._written:
            value = self.program.same[value]
        return value

    def index(self, call: Call) -> int:
        """Place of a node in the program's own order."""
        return self._index[call.entry, call.name]

    def internal(self, step: Step) -> frozenset[str]:
        """Tensors that a step of several nodes computes for itself only: they need no memory but the tile's."""
        if len(step) == 1:
            return frozenset()
        inside = {self.index(call) for call in step}

        def stays(tensor: str) -> bool:
            readers = self._readers.get(tensor, ())
            return bool(readers) and self.root(tensor) not in self._lasting and {*map(self.index, readers)} <= inside

        return frozenset(value for call in step for value in call.writes if stays(value))

    def dependencies(self) -> list[set[int]]:
        """For every node of the program those that must run before it: they touch the same memory, and one of both writes."""
        found: list[set[int]] = []
        writer: dict[tuple[str, str], int] = {}
        readers: dict[tuple[str, str], set[int]] = {}
        for i, call in enumerate(self.program.calls):
            before: set[int] = set()
            read, written = ({(call.entry, self.root(value)) for value in values} for values in (call.reads, call.writes))
            for place in read | written:
                before |= {writer[place]} if place in writer else set()
            for place in written:
                before |= readers.pop(place, set())
                writer[place] = i
            for place in read:
                readers.setdefault(place, set()).add(i)
            found.append(before - {i})
        return found


def ordered(steps: Iterable[Step], flow: Flow, before: Sequence[set[int]]) -> tuple[Step, ...] | None:
    """Steps in an order that respects dependencies, as close to the program's as that allows; None: there is none.

    Entries keep their order. ``before`` is what :meth:`Flow.dependencies` gives.
    """
    found = sorted(steps, key=lambda step: flow.index(step[0]))
    of = {flow.index(call): number for number, step in enumerate(found) for call in step}
    waits = [{of[b] for call in step for b in before[flow.index(call)]} - {number} for number, step in enumerate(found)]
    wakes: list[list[int]] = [[] for _ in found]
    for number, those in enumerate(waits):
        for other in those:
            wakes[other].append(number)
    left = [len(those) for those in waits]
    entries = {entry: place for place, entry in enumerate(flow.program.entries)}
    ready: list[tuple[int, int]] = []

    def wake(number: int) -> None:
        heappush(ready, (entries[found[number][0].entry], number))

    for number, count in enumerate(left):
        if count == 0:
            wake(number)
    order: list[Step] = []
    while ready:
        _, number = heappop(ready)
        order.append(found[number])
        for other in wakes[number]:
            left[other] -= 1
            if left[other] == 0:
                wake(other)
    return tuple(order) if len(order) == len(found) else None
