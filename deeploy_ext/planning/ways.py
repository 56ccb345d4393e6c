"""How the steps of a schedule can be run: their nests, which steps are alike, and the best tiles of each kind.

Nothing here depends on a particular schedule, so one :class:`Ways` serves all plans that are made of a program.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from deeploy_ext.planning.cost import Machine
from deeploy_ext.planning.joint import joins
from deeploy_ext.planning.nest import NOWHERE, Nest, nests_of
from deeploy_ext.planning.options import PlanOptions
from deeploy_ext.planning.plan import MAX_OPERANDS, MAX_PHASES
from deeploy_ext.planning.residency import suits_residents
from deeploy_ext.planning.search import Choice, NestSearch, Room
from deeploy_ext.planning.steps import Flow, Step

Best = tuple[int, tuple[Choice, ...]]
"""Which of the ways to run a step, and its choices, nest by nest."""


class Ways:
    """Nests and tiles of the steps of one program; of ``options`` those that hold for all of its plans."""

    def __init__(self, flow: Flow, machine: Machine, options: PlanOptions) -> None:
        self.flow, self.machine, self.options = flow, machine, options
        self._nests: dict[tuple[int, ...], tuple[tuple[Nest, ...], ...]] = {}
        self._kinds: dict[tuple[int, ...], Hashable] = {}
        self._places: dict[int, Hashable] = {}
        self._first: dict[Hashable, NestSearch] = {}
        self._best: dict[Hashable, dict[Room, Best | None]] = {}

    def _name(self, step: Step) -> tuple[int, ...]:
        return tuple(map(self.flow.index, step))

    def nests(self, step: Step) -> tuple[tuple[Nest, ...], ...]:
        """The alternatives, each a sequence of nests that run one after the other; (): the nodes cannot run as one step."""
        name = self._name(step)
        if name not in self._nests:
            self._nests[name] = self._nests_of(step)
            for way, nests in enumerate(self._nests[name]):
                for place, nest in enumerate(nests):
                    self._places[id(nest)] = self.kind(step), way, place
        return self._nests[name]

    def _nests_of(self, step: Step) -> tuple[tuple[Nest, ...], ...]:
        if len(step) == 1:
            return nests_of(step[0], "portable" if step[0].name in self.options.variants else self.options.kernels)
        joint = joins(step, self.flow, self.options.kernels)
        return tuple((nest,) for nest in joint if len(nest.operands) <= MAX_OPERANDS and nest.steps <= MAX_PHASES)

    def kind(self, step: Step) -> Hashable:
        """Equal for steps of the same operators, attributes, constants, shapes and connections."""
        name = self._name(step)
        if name not in self._kinds:
            self._kinds[name] = self._kind_of(step)
        return self._kinds[name]

    def _kind_of(self, step: Step) -> Hashable:
        numbers: dict[tuple[str, str], int] = {}
        internal = self.flow.internal(step)
        key: list[Hashable] = []
        for call in step:
            invocation = call.invocation
            values = (*call.reads, *call.writes)
            tensors = [self.flow.tensor(value) for value in values]
            ties = tuple(numbers.setdefault(("tensor", tensor), len(numbers)) for tensor in tensors)
            shared = tuple(numbers.setdefault(("memory", self.flow.root(value)), len(numbers)) for value in values)
            attributes = repr(sorted(invocation.attributes.items()))
            constants = repr(sorted((k, v.tolist()) for k, v in invocation.constants.items()))
            types = repr((invocation.inputs, invocation.outputs))
            forced = repr(sorted(self.options.largest.get(call.name, {}).items())), self.options.variants.get(call.name)
            inside = tuple(tensor in internal for tensor in tensors)
            key.append((invocation.operator.key, attributes, constants, types, forced, inside, ties, shared))
        return tuple(key)

    def homes(self, step: Step, home: Mapping[str, str]) -> tuple[str, ...]:
        """Levels of all that the nodes of a step touch; ``home`` gives that of every value."""
        internal = self.flow.internal(step)
        values = [value for call in step for value in (*call.reads, *call.writes)]
        return tuple(NOWHERE if self.flow.tensor(value) in internal else home[value] for value in values)

    def search(self, nest: Nest, homes: Mapping[str, str]) -> NestSearch:
        """A search for tiles of one of the nests of a step, with the homes of its operands; what does not depend on them is
        found once for all nests of a kind.
        """
        whole = {o.name: self.flow.program.values[o.value].bytes for o in nest.operands}
        place = self._places[id(nest)]
        largest = self.options.largest.get(nest.call.name, {})
        search = NestSearch(nest, homes, whole, self.machine, largest, self._first.get(place))
        self._first.setdefault(place, search)
        return search

    def suited(self, step: Step, home: Mapping[str, str], owner: Mapping[str, str]) -> tuple[int, ...]:
        """The ways to run a step whose nests may have in L1 what has its home there; ``owner``: storage of every value."""
        found: list[int] = []
        for way, nests in enumerate(self.nests(step)):
            resident = [
                {o.name: owner[o.value] for o in nest.operands if homes_of(nest, home)[o.name] == "L1"} for nest in nests
            ]
            if all(suits_residents(nest, names) for nest, names in zip(nests, resident, strict=True)):
                found.append(way)
        return tuple(found)

    def best(self, step: Step, home: Mapping[str, str], owner: Mapping[str, str], room: Room) -> Best | None:
        """The cheapest of the ways to run a step, and its choices; None when none fits.

        ``home`` gives the level of every value, ``owner`` its storage.
        """
        homes = self.homes(step, home)
        if "L3" not in homes:
            room = Room(room.l1, 0, room.double_buffer, room.eager)
        suited = self.suited(step, home, owner) if "L1" in homes else None
        key = self.kind(step), homes, suited, room.double_buffer, room.eager
        known = self._best.setdefault(key, {})
        if room not in known:
            wider = [best for other, best in known.items() if best and other.holds(room) and all(map(room.fits, best[1]))]
            known[room] = min(wider, key=_cycles) if wider else self._found(step, home, suited, room)
        return known[room]

    def _found(self, step: Step, home: Mapping[str, str], suited: tuple[int, ...] | None, room: Room) -> Best | None:
        found: list[Best] = []
        for way, nests in enumerate(self.nests(step)):
            if suited is None or way in suited:
                choices = [self.search(nest, homes_of(nest, home)).best(room) for nest in nests]
                if all(choices):
                    found.append((way, tuple(c for c in choices if c)))
        return min(found, key=_cycles) if found else None

    def smallest(self, step: Step, home: Mapping[str, str]) -> list[tuple[int, int]]:
        """L1 and L2 staging bytes of the smallest tiles of every way to run a step."""
        found: list[tuple[int, int]] = []
        for nests in self.nests(step):
            choices = [self.search(nest, homes_of(nest, home)).smallest() for nest in nests]
            found.append((max(c.l1_bytes for c in choices if c), max(c.stage_bytes for c in choices if c)))
        return found


def _cycles(best: Best) -> int:
    return sum(choice.cycles.total for choice in best[1])


def homes_of(nest: Nest, home: Mapping[str, str]) -> dict[str, str]:
    """Level of every operand of a nest; ``home`` gives that of every value."""
    return {o.name: home[o.value] if o.loaded or o.stored else NOWHERE for o in nest.operands}
