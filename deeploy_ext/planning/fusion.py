"""Which nodes share a tile nest: pairs of steps are joined as long as that saves predicted cycles, the best pair first."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from deeploy_ext.planning.joint import flat_phase
from deeploy_ext.planning.steps import Flow, Step, ordered, single_steps

Estimate = Callable[[Step], int | None]
"""Predicted cycles of a step; None: its nodes cannot run in one nest, or not in the memory there is."""


def joined_steps(flow: Flow, estimate: Estimate) -> tuple[Step, ...]:
    """The program's nodes as steps, in an order that respects what depends on what.

    Greedy: of all pairs of steps between which a tensor passes, the one whose nest saves most is joined, then all pairs with
    the new step are estimated anew, until no pair saves anything.
    """
    return _Fusion(flow, estimate).steps()


class _Fusion:
    """State of the search: steps by number, and what joining two of them saves."""

    def __init__(self, flow: Flow, estimate: Estimate) -> None:
        self.flow, self.estimate = flow, estimate
        self.before = flow.dependencies()
        self.parts = dict(enumerate(single_steps(flow.program)))
        self.cost = {number: estimate(step) for number, step in self.parts.items()}
        self.flat = [flat_phase(call) is not None for call in flow.program.calls]
        self.near = self._neighbours()
        self.wakes: dict[int, set[int]] = {number: set() for number in self.parts}
        for number, those in enumerate(self.before):
            for other in those:
                self.wakes[other].add(number)

    def _neighbours(self) -> dict[int, set[int]]:
        """For every step those that a tensor connects it with."""
        near: dict[int, set[int]] = {number: set() for number in self.parts}
        maker = {(c.entry, value): i for i, c in enumerate(self.flow.program.calls) for value in c.writes}
        for i, call in enumerate(self.flow.program.calls):
            for value in call.reads:
                made = maker.get((call.entry, self.flow.tensor(value)))
                if made is not None and made != i and (self.flat[made] or self.flat[i]):
                    near[made].add(i)
                    near[i].add(made)
        return near

    def steps(self) -> tuple[Step, ...]:
        saved = {pair: self._saving(*pair) for pair in self._pairs()}
        while saved:
            pair = min(saved, key=lambda one: (-saved[one], one))
            if saved[pair] <= 0:
                break
            if self._between(*pair) or self._between(*reversed(pair)):
                saved[pair] = 0
                continue
            kept = self._join(pair, self._merged(*pair))
            saved = {one: gain for one, gain in saved.items() if not {*one} & {*pair}}
            saved |= {(a, b): self._saving(a, b) for a, b in self._pairs_of(kept)}
        found = ordered(self.parts.values(), self.flow, self.before)
        assert found is not None, "joined steps can be ordered"
        return found

    def _between(self, first: int, last: int) -> bool:
        """Whether some other step has to run after the first and before the last."""
        left, seen = [number for number in self.wakes[first] if number != last], set[int]()
        while left:
            number = left.pop()
            if number == last:
                return True
            if number not in seen:
                seen.add(number)
                left += self.wakes[number]
        return False

    def _join(self, pair: tuple[int, int], merged: Step) -> int:
        kept, gone = pair
        self.wakes[kept] = (self.wakes[kept] | self.wakes.pop(gone)) - {*pair}
        for after in self.wakes.values():
            if gone in after:
                after.remove(gone)
                after.add(kept)
        self.parts[kept], self.cost[kept] = merged, self.estimate(merged)
        del self.parts[gone], self.cost[gone]
        for other in self.near.pop(gone):
            self.near[other].discard(gone)
            if other != kept:
                self.near[other].add(kept)
                self.near[kept].add(other)
        return kept

    def _pairs(self) -> Iterator[tuple[int, int]]:
        for number in self.parts:
            yield from (pair for pair in self._pairs_of(number) if pair[0] == number)

    def _pairs_of(self, number: int) -> Iterator[tuple[int, int]]:
        for other in sorted(self.near[number]):
            yield min(number, other), max(number, other)

    def _merged(self, a: int, b: int) -> Step:
        return tuple(sorted((*self.parts[a], *self.parts[b]), key=self.flow.index))

    def _saving(self, a: int, b: int) -> int:
        alone = self.cost[a], self.cost[b]
        together = self.estimate(self._merged(a, b))
        return 0 if together is None or None in alone else sum(cycles or 0 for cycles in alone) - together
