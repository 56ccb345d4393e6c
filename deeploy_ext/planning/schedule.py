"""Execution order: which valid order of a program's nodes needs the least memory at its peak.

What must come before what follows from the values (:func:`dependences`): a node runs after those that write what it reads, and
a node that writes into the storage of an older value after all readers of that value. Within that freedom
:func:`scheduled` searches an order whose largest sum of live bytes is small.

The search is list scheduling under a budget of bytes: run what frees memory, or asks for none, as soon as it can run; else the
next node of the given order that stays below the budget. The budget is then narrowed by bisection. A node that only
takes up a result (an accumulator, an update) goes right behind the node that makes it, so that such a pair counts with what it
asks for at its peak and what it leaves behind.
"""

from __future__ import annotations

import heapq
import sys
from bisect import insort
from collections.abc import Iterable, Sequence
from dataclasses import replace

from deeploy_ext.errors import BadInputError
from deeploy_ext.graph.program import Call, Program
from deeploy_ext.planning.steps import Flow, Step
from deeploy_ext.planning.storage import in_place_pairs, lower_bound, storages_of

WINDOW = 48
"""Nodes that are looked at when the next one is chosen, at most: it keeps the search near linear on wide graphs."""

BUDGETS = 10
"""Budgets that are tried for each entry."""


def dependences(program: Program) -> tuple[frozenset[int], ...]:
    """Per call the indices of calls that must run before it; those of other entries are left out."""
    writer = {(call.entry, value): i for i, call in enumerate(program.calls) for value in call.writes}

    def version(entry: str, value: str) -> str:
        """The value itself, or for a view what it is a view of."""
        while (entry, value) not in writer and value in program.same:
            value = program.same[value]
        return value

    readers: dict[tuple[str, str], list[int]] = {}
    for i, call in enumerate(program.calls):
        for value in call.reads:
            readers.setdefault((call.entry, version(call.entry, value)), []).append(i)
    before: list[frozenset[int]] = []
    for i, call in enumerate(program.calls):
        found = {writer[key] for value in call.reads if (key := (call.entry, version(call.entry, value))) in writer}
        for value in call.writes:
            if value in program.same:
                old = (call.entry, version(call.entry, program.same[value]))
                found.update(readers.get(old, ()))
                found.update([writer[old]] if old in writer else ())
        before.append(frozenset(found - {i}))
    return tuple(before)


def in_order(program: Program, order: Sequence[tuple[str, str]]) -> Program:
    """The program with its calls, named by entry and node, in another order.

    Raises:
        ValueError: the order lacks a node or names it twice, mixes the entries, or runs a node before one that it needs.
    """
    place = {(call.entry, call.name): i for i, call in enumerate(program.calls)}
    for key in order:
        if key not in place:
            raise ValueError(f"node '{key[1]}' is not in entry '{key[0]}' of the network")
    chosen = [place[key] for key in order]
    if len(chosen) != len(place) or len(set(chosen)) != len(place):
        raise ValueError(f"{len(set(chosen))} of {len(place)} nodes are run, in {len(chosen)} places")
    ranks = [program.entries.index(entry) for entry, _ in order]
    if ranks != sorted(ranks):
        raise ValueError("the entries' nodes are mixed")
    position = {index: at for at, index in enumerate(chosen)}
    for index, needed in enumerate(dependences(program)):
        for other in sorted(needed):
            if position[other] > position[index]:
                late, early = program.calls[other].name, program.calls[index].name
                raise ValueError(f"node '{early}' runs before node '{late}', which it has to wait for")
    return replace(program, calls=tuple(program.calls[i] for i in chosen))


def live_peak(flow: Flow, steps: Sequence[Step]) -> int:
    """Largest sum of live bytes while steps run one after the other."""
    _, storages = storages_of(flow, steps)
    return lower_bound({s.name: (s.bytes, s.first, s.last) for s in storages})


def scheduled(program: Program) -> Program:
    """The program in a valid order of small peak, never above that of its own order.

    Raises:
        BadInputError: no order is valid: two nodes write into the storage of one value.
    """
    before, flow = dependences(program), Flow(program)
    calls: list[Call] = []
    for entry in program.entries:
        given = _valid(program, [i for i, call in enumerate(program.calls) if call.entry == entry], before)
        local = {index: i for i, index in enumerate(given)}
        needed = [{local[other] for other in before[index]} for index in given]
        calls += (call for (call,) in _least(flow, [(program.calls[i],) for i in given], needed))
    return replace(program, calls=tuple(calls))


def scheduled_steps(flow: Flow, steps: Sequence[Step]) -> tuple[Step, ...]:
    """Steps, given in a valid order, in one of small peak; never above that of the given one."""
    before = flow.dependencies()
    found: list[Step] = []
    for entry in flow.program.entries:
        here = [step for step in steps if step[0].entry == entry]
        home = {flow.index(call): number for number, step in enumerate(here) for call in step}
        needed = [
            {home[i] for call in step for i in before[flow.index(call)] if i in home} - {n} for n, step in enumerate(here)
        ]
        found += _least(flow, here, needed)
    return tuple(found)


def _least(flow: Flow, steps: list[Step], before: Sequence[set[int]]) -> list[Step]:
    """The given steps of one entry, or an order of them with a smaller peak; ``before``: for each those that it waits for."""
    chosen = [steps[i] for i in _Search(flow, steps, before).best()]
    return min(steps, chosen, key=lambda order: live_peak(flow, order))


def _valid(program: Program, indices: Sequence[int], before: Sequence[frozenset[int]]) -> list[int]:
    """The given order, where need be with nodes moved back behind those that they have to wait for."""
    after: dict[int, list[int]] = {}
    for index in indices:
        for other in before[index]:
            after.setdefault(other, []).append(index)
    missing = {index: len(before[index]) for index in indices}
    ready = [index for index in indices if not missing[index]]
    order: list[int] = []
    while ready:
        index = heapq.heappop(ready)
        order.append(index)
        for other in after.get(index, ()):
            missing[other] -= 1
            if not missing[other]:
                heapq.heappush(ready, other)
    if len(order) != len(indices):
        stuck = min(index for index in indices if missing[index])
        raise BadInputError(
            f"node '{program.calls[stuck].name}' writes over a value that another node reads later or writes, too; "
            "give each its own."
        )
    return order


class _Search:
    """Orders of the steps of one entry.

    They are numbered in the given order and grouped in units, which run as one piece. Sizes are those of storages that live
    within the entry only; what is kept between entries is the same in every order, and so is what a step keeps for itself.
    """

    def __init__(self, flow: Flow, steps: Sequence[Step], before: Sequence[set[int]]) -> None:
        program = flow.program
        self.before = [sorted(others) for others in before]
        kept = {flow.root(value) for value in (*program.persistent, *program.arguments)}
        internal = [flow.internal(step) for step in steps]
        written = {
            flow.root(value) for step, inside in zip(steps, internal, strict=True) for call in step for value in call.writes
            if flow.tensor(value) not in inside
        }  # fmt: skip
        self.size = dict.fromkeys(sorted(written - kept), 0)
        for value, kind in program.values.items():
            if (name := flow.root(value)) in self.size:
                self.size[name] = max(self.size[name], kind.bytes)
        self.writes = [self._transient(flow, (v for call in step for v in call.writes)) for step in steps]
        self.touches = [self._transient(flow, (v for call in step for v in (*call.reads, *call.writes))) for step in steps]
        self.in_place = [self._pairs(flow, step) for step in steps]
        self.units = self._units()
        self._link()

    def _transient(self, flow: Flow, values: Iterable[str]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for value in values if (name := flow.root(value)) in self.size))

    def _pairs(self, flow: Flow, step: Step) -> tuple[tuple[str, str], ...]:
        """Storages of operands and results of which the second may take the first one's place."""
        values = flow.program.values
        pairs = ((flow.root(old), flow.root(new)) for old, new in in_place_pairs(flow, step) if values[old] == values[new])
        return tuple(pair for pair in pairs if pair[0] != pair[1] and all(name in self.size for name in pair))

    def _units(self) -> list[list[int]]:
        """Each step that only takes up results of one other, which nobody else reads, joins that one."""
        maker: dict[str, int] = {}
        readers: dict[str, int] = {}
        for i, names in enumerate(self.touches):
            for name in names:
                readers[name] = readers.get(name, 0) + (name not in self.writes[i])
        units: list[list[int]] = [[i] for i in range(len(self.before))]
        home = list(range(len(self.before)))
        for i, names in enumerate(self.touches):
            makers = {home[maker[name]] for name in names if name in maker}
            if not self.writes[i] and names and len(makers) == 1 and all(readers[name] == 1 for name in names):
                home[i] = makers.pop()
                units[home[i]] += units[i]
                units[i] = []
            for name in self.writes[i]:
                maker[name] = i
        joined = [unit for unit in units if unit]
        return joined if self._acyclic(joined) else [[i] for i in range(len(self.before))]

    def _edges(self, units: Sequence[Sequence[int]]) -> list[set[int]]:
        home = {i: number for number, unit in enumerate(units) for i in unit}
        return [{home[other] for i in unit for other in self.before[i]} - {number} for number, unit in enumerate(units)]

    def _acyclic(self, units: Sequence[Sequence[int]]) -> bool:
        needed = self._edges(units)
        after: dict[int, list[int]] = {}
        for number, others in enumerate(needed):
            for other in others:
                after.setdefault(other, []).append(number)
        missing = [len(others) for others in needed]
        waiting = [number for number, count in enumerate(missing) if not count]
        done = 0
        while waiting:
            done += 1
            for other in after.get(waiting.pop(), ()):
                missing[other] -= 1
                if not missing[other]:
                    waiting.append(other)
        return done == len(units)

    def _link(self) -> None:
        self.needed = [sorted(others) for others in self._edges(self.units)]
        self.after: list[list[int]] = [[] for _ in self.units]
        for number, others in enumerate(self.needed):
            for other in others:
                self.after[other].append(number)
        self.last: list[dict[str, int]] = []
        self.users: dict[str, set[int]] = {name: set() for name in self.size}
        for number, unit in enumerate(self.units):
            self.last.append({name: i for i in unit for name in self.touches[i]})
            for name in self.last[-1]:
                self.users[name].add(number)

    def _demand(self) -> list[int]:
        """Rank of each unit when everything is made for the first unit that wants it, as late as that allows."""
        rank = [-1] * len(self.units)
        done = 0
        for sink in range(len(self.units)):
            stack = [] if self.after[sink] else [sink]
            while stack:
                waiting = [other for other in self.needed[stack[-1]] if rank[other] < 0]
                if waiting:
                    stack += reversed(waiting)
                    continue
                unit = stack.pop()
                if rank[unit] < 0:
                    rank[unit], done = done, done + 1
        return rank

    def best(self) -> list[int]:
        """Numbers of the steps in the best order that was found."""
        given, demand = list(range(len(self.units))), self._demand()
        found, rank = _Run(self, given).order(), given
        other = _Run(self, demand).order()
        assert found and other, "without a budget every unit can run"
        if other[0] < found[0]:
            found, rank = other, demand
        high, order = found
        low = 0
        latest = [-place for place in rank]
        attempts = [(ranking, greedy) for ranking in (rank, latest) for greedy in (False, True)]
        for _ in range(BUDGETS):
            if low + 1 >= high:
                break
            budget = (low + high) // 2
            made = (_Run(self, ranking, budget, greedy).order() for ranking, greedy in attempts)
            first = next((one for one in made if one), None)
            if first:
                high, order = first
            else:
                low = budget
        return [i for unit in order for i in self.units[unit]]


class _Run:
    """One pass of list scheduling that never has more than ``budget`` bytes live.

    Of the units that need memory the one that continues the last is taken, else the first by ``rank``; with ``greedy`` the one
    that leaves least behind, if those that can run do not all fit.
    """

    def __init__(self, search: _Search, rank: Sequence[int], budget: int = sys.maxsize, greedy: bool = False) -> None:
        self.search, self.rank, self.budget, self.greedy = search, rank, budget, greedy
        self.left = {name: len(users) for name, users in search.users.items()}
        self.live: set[str] = set()
        self.costs: dict[int, tuple[int, int]] = {}

    def order(self) -> tuple[int, list[int]] | None:
        """The highest sum of live bytes and the units in their order; None: the budget does not do."""
        rank = self.rank
        missing = [len(others) for others in self.search.needed]
        ready = sorted((unit for unit, count in enumerate(missing) if not count), key=rank.__getitem__)
        order: list[int] = []
        followers: list[int] = []
        now = peak = 0
        while ready:
            costs = [(unit, *self._cost(unit)) for unit in ready[:WINDOW]]
            fitting = [cost for cost in costs if now + cost[1] <= self.budget]
            if not fitting:
                return None
            choosy = self.greedy and now + sum(hill for _, hill, _ in costs) > self.budget
            unit, hill, grown = min(fitting, key=lambda c: (c[2] > 0, c[2] if choosy else 0, c[0] not in followers, rank[c[0]]))
            ready.remove(unit)
            order.append(unit)
            peak, now = max(peak, now + hill), now + grown
            self._take(unit)
            followers = self.search.after[unit]
            for other in followers:
                missing[other] -= 1
                if not missing[other]:
                    insort(ready, other, key=rank.__getitem__)
        return peak, order

    def _cost(self, unit: int) -> tuple[int, int]:
        """Bytes that are live at most while a unit runs, and behind it, more than before it."""
        if unit in self.costs:
            return self.costs[unit]
        size, last = self.search.size, self.search.last[unit]
        made: set[str] = set()
        now = hill = 0
        for i in self.search.units[unit]:
            dying = {name for name in self.search.touches[i] if last[name] == i and self.left[name] == 1}
            fresh = [name for name in self.search.writes[i] if name not in self.live and name not in made]
            now += sum(size[name] for name in fresh)
            spared = next((size[new] for old, new in self.search.in_place[i] if old in dying and new in fresh), 0)
            hill = max(hill, now - spared)
            made.update(fresh)
            now -= sum(size[name] for name in dying)
        self.costs[unit] = hill, now
        return hill, now

    def _take(self, unit: int) -> None:
        for name in self.search.last[unit]:
            self.live.add(name)
            self.left[name] -= 1
            if self.left[name] == 1:  # it goes with the next one
                for other in self.search.users[name]:
                    self.costs.pop(other, None)
            elif not self.left[name]:
                self.live.discard(name)
