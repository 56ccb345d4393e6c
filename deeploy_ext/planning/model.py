"""The joint model: levels of all storages and a candidate of every unit at once, fewest predicted cycles, by CP-SAT.

Decisions are one literal per storage (in L2 or not) and one per row of a unit, where a row is a candidate under some levels of
the unit's largest storages. Smaller storages of a unit with many add what they cost at most (:class:`Burden`), so that the
model's cycles are those of the plan or above. At every schedule position, live storages in L2 and the staging of the unit fit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

from ortools.sat.python import cp_model

from deeploy_ext.planning.candidates import Burden, Candidate, Candidates, Unit
from deeploy_ext.planning.plan import Plan
from deeploy_ext.planning.storage import Storage

MAJOR, MAJOR_OF_MANY = 5, 3
"""Storages of a unit whose levels are told apart row by row, in a small model and in others; the rest are burdens."""

WEIGHTS = {"step": 4, "update": 2, "infer": 1}
"""What a cycle of an entry counts: two mini-batches to an update, and now and then an inference."""


def weighted_cycles(plan: Plan) -> int:
    """Predicted cycles of a plan, all entries together: what a plan is judged by."""
    return sum(WEIGHTS.get(entry, 1) * plan.cycles(entry) for entry in plan.entries)


GRAINS = 64
"""Parts of L2 of which one is not worth a variable."""

EXACT = 40
"""Units up to which the model is made without simplifications."""

DETERMINISTIC_SECONDS = 2.0
"""Work that the solver may do, in its own unit, which does not depend on the machine or its load."""


@dataclass(frozen=True)
class Solution:
    """Levels of all storages and a candidate of every unit; ``proven``: no other has fewer cycles in the model."""

    levels: Mapping[str, str]
    chosen: tuple[Candidate, ...]
    bound: float = 0.0
    proven: bool = False


@dataclass(frozen=True)
class Problem:
    """What the model is made of.

    Attributes:
        units: in schedule order.
        kinds: candidates by ``Unit.key``.
        storages: all that have a level.
        sizes: aligned bytes of every storage.
        room: bytes of L2 and L3 for storages and staging.
        limits: entry -> predicted cycles that it must not exceed.
    """

    units: Sequence[Unit]
    kinds: Mapping[object, Candidates]
    storages: Sequence[Storage]
    sizes: Mapping[str, int]
    room: Mapping[str, int]
    limits: Mapping[str, int] = field(default_factory=dict[str, int])

    @property
    def exact(self) -> bool:
        """Whether the model is made without simplifications."""
        return len(self.units) <= EXACT

    def front(self, unit: Unit, levels: tuple[str, ...]) -> list[Candidate]:
        """The candidates of a unit with these levels of its slots."""
        return self.kinds[unit.key].front(levels)

    def cost(self, chosen: Sequence[Candidate], entry: str | None = None) -> int:
        """Predicted cycles of an entry, or the weighted sum of all."""
        pairs = zip(self.units, chosen, strict=True)
        if entry:
            return sum(c.cycles for u, c in pairs if u.entry == entry)
        return sum(WEIGHTS.get(u.entry, 1) * c.cycles for u, c in pairs)

    def choose(self, levels: Mapping[str, str]) -> tuple[Candidate, ...] | None:
        """The best candidate of every unit with the levels given; None: something does not fit."""
        found: list[Candidate] = []
        free = self.free(levels)
        for unit, room in zip(self.units, free, strict=True):
            front = self.front(unit, tuple(levels[s] for s in unit.slots))
            fit = [c for c in front if c.stage <= room]
            if not fit:
                return None
            found.append(fit[-1])
        return tuple(found)

    def free(self, levels: Mapping[str, str]) -> list[int]:
        """Bytes of L2 that are left for staging at every unit."""
        change = [0] * (max(u.last for u in self.units) + 2)
        for s in self.storages:
            if levels[s.name] == "L2":
                change[s.first] += self.sizes[s.name]
                change[s.last + 1] -= self.sizes[s.name]
        used, live = 0, []
        for one in change:
            used += one
            live.append(used)
        return [self.room["L2"] - max(live[u.first : u.last + 1]) for u in self.units]


def solve(problem: Problem, start: Solution | None, effort: float = DETERMINISTIC_SECONDS) -> Solution | None:
    """The best solution found within the effort, never worse than ``start``; None: none was found, or there is none."""
    model = _Model(problem)
    if start:
        model.hint(start)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 1
    solver.parameters.max_deterministic_time = effort
    solver.parameters.linearization_level = 2
    status = solver.solve(model.model)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return start
    proven = status == cp_model.OPTIMAL
    levels = {name: "L2" if solver.boolean_value(x) else "L3" for name, x in model.in_l2.items()}
    chosen = problem.choose(levels)
    if chosen is None or (start and problem.cost(start.chosen) <= problem.cost(chosen)):
        return replace(start, bound=solver.best_objective_bound, proven=proven) if start else None
    return Solution(levels, chosen, solver.best_objective_bound, proven)


Row = tuple[tuple[str, ...], Candidate]
"""A candidate of a unit, and the levels of its slots that it is for."""


class _Model:
    """The model of a problem."""

    def __init__(self, problem: Problem) -> None:
        self.exact, self.grain = problem.exact, problem.room["L2"] // GRAINS
        self.problem, self.model = problem, cp_model.CpModel()
        self.in_l2 = {s.name: self.model.new_bool_var(s.name) for s in problem.storages}
        self._rows: dict[object, list[Row]] = {}
        self._burdens: dict[object, dict[int, Burden] | None] = {}
        self._picked: list[list[cp_model.IntVar]] = []
        costs: dict[str, list[cp_model.LinearExprT]] = {}
        staging: list[list[cp_model.LinearExprT]] = []
        for unit in problem.units:
            cycles, stage = self._unit(unit)
            costs.setdefault(unit.entry, []).extend(cycles)
            staging.append(stage)
        self._capacities(staging)
        for entry, limit in problem.limits.items():
            self.model.add(sum(costs[entry]) <= limit)
        self.model.minimize(sum(WEIGHTS.get(entry, 1) * sum(terms) for entry, terms in costs.items()))

    def _unit(self, unit: Unit) -> tuple[list[cp_model.LinearExprT], list[cp_model.LinearExprT]]:
        """Adds a unit; terms of its cycles and of its staging bytes."""
        kind = self.problem.kinds[unit.key]
        major = self._majors(unit)
        rows = self._rows_of(unit, major)
        cycles: list[cp_model.LinearExprT] = []
        stage: list[cp_model.LinearExprT] = []
        apart = self._apart(unit, rows, major)
        burdens = {slot: kind.burden(slot) for slot in range(len(unit.slots)) if slot not in major}
        if apart:
            cycles.append(rows[0][1].cycles)
            burdens |= apart
        picked = [] if apart else [self.model.new_bool_var("") for _ in rows]
        self._picked.append(picked)
        if picked:
            self.model.add_exactly_one(picked)
            for slot in major:
                here = [y for y, (levels, _) in zip(picked, rows, strict=True) if levels[slot] == "L2"]
                self.model.add(sum(here) == self.in_l2[unit.slots[slot]])
            cycles += [c.cycles * y for y, (_, c) in zip(picked, rows, strict=True)]
            stage += [c.stage * y for y, (_, c) in zip(picked, rows, strict=True) if c.stage]
        for slot, burden in burdens.items():
            away = 1 - self.in_l2[unit.slots[slot]]
            cycles.append(burden.cycles * away)
            stage.append(burden.stage * away)
        return cycles, stage

    def _apart(self, unit: Unit, rows: Sequence[Row], major: Sequence[int]) -> dict[int, Burden] | None:
        """Burdens of the major slots that say the same as the rows, or nearly; None: there are none, or all is exact."""
        if self.exact:
            return None
        if unit.key not in self._burdens:
            self._burdens[unit.key] = separated(rows, major)
        return self._burdens[unit.key]

    def _majors(self, unit: Unit) -> list[int]:
        return majors(unit, MAJOR if self.exact else MAJOR_OF_MANY)

    def _rows_of(self, unit: Unit, major: Sequence[int]) -> list[Row]:
        if unit.key not in self._rows:
            rows: list[Row] = []
            for picked in product(("L2", "L3"), repeat=len(major)):
                levels = ["L2"] * len(unit.slots)
                for slot, level in zip(major, picked, strict=True):
                    levels[slot] = level
                front = self.problem.front(unit, tuple(levels))
                rows += [(tuple(levels), candidate) for candidate in (front if self.exact else thinned(front, self.grain))]
            self._rows[unit.key] = rows
        return self._rows[unit.key]

    def _capacities(self, staging: Sequence[Sequence[cp_model.LinearExprT]]) -> None:
        problem, sizes = self.problem, self.problem.sizes
        always = [s for s in problem.storages if s.persistent]
        kept = self.model.new_int_var(0, problem.room["L2"], "persistent")
        self.model.add(kept == sum(sizes[s.name] * self.in_l2[s.name] for s in always))
        born: dict[int, list[Storage]] = {}
        for s in problem.storages:
            if not s.persistent:
                born.setdefault(s.first, []).append(s)
        live: list[Storage] = []
        for unit, stage in zip(problem.units, staging, strict=True):
            for position in range(unit.first, unit.last + 1):
                live = [s for s in live if s.last >= position] + born.get(position, [])
                here = [sizes[s.name] * self.in_l2[s.name] for s in live]
                self.model.add(sum([kept, *here, *stage]) <= problem.room["L2"])
                both = [*always, *live]
                if sum(sizes[s.name] for s in both) > problem.room["L3"]:
                    self.model.add(sum(sizes[s.name] * (1 - self.in_l2[s.name]) for s in both) <= problem.room["L3"])

    def hint(self, start: Solution) -> None:
        """Starts the search from a solution."""
        for name, x in self.in_l2.items():
            self.model.add_hint(x, start.levels[name] == "L2")
        for unit, picked, chosen in zip(self.problem.units, self._picked, start.chosen, strict=True):
            levels = [start.levels[s] for s in unit.slots]
            rows = self._rows[unit.key]
            major = self._majors(unit)
            if not picked:
                continue
            alike = [i for i, (row, _) in enumerate(rows) if all(row[m] == levels[m] for m in major)]
            best = max((i for i in alike if rows[i][1].stage <= chosen.stage), default=alike[0])
            for i, y in enumerate(picked):
                self.model.add_hint(y, i == best)


def majors(unit: Unit, most: int) -> list[int]:
    """The slots whose values are largest, at most so many, in their order."""
    size = [0] * len(unit.slots)
    for name, slot in unit.slot_of.items():
        if slot is not None:
            size[slot] = max(size[slot], unit.sizes[name])
    return sorted(sorted(range(len(size)), key=lambda slot: (-size[slot], slot))[:most])


def thinned(front: Sequence[Candidate], grain: int) -> list[Candidate]:
    """A front with fewer points: the best, and those that save a hundredth of the cycles with half the bytes, while there are
    more than ``grain`` bytes to save."""
    kept = [next(c for c in front if c.cycles <= 1.002 * front[-1].cycles)] if front else []
    for one in reversed(front[:-1]):
        if kept[-1].stage <= grain:
            break
        if one is front[0] or (one.stage <= kept[-1].stage // 2 and one.cycles >= 1.01 * kept[-1].cycles):
            kept.append(one)
    return kept[::-1]


def separated(rows: Sequence[Row], major: Sequence[int]) -> dict[int, Burden] | None:
    """What each slot adds in L3, if that does not depend on where the others are: the sums are those of the rows, or above by
    a hundredth; None: it does."""
    best: dict[frozenset[int], Candidate] = {}
    for levels, candidate in rows:
        away = frozenset(slot for slot in major if levels[slot] == "L3")
        if away not in best or candidate.cycles < best[away].cycles:
            best[away] = candidate
    base = best[frozenset()].cycles
    found = {m: Burden(best[frozenset([m])].cycles - base, best[frozenset([m])].stage) for m in major}
    for away, candidate in best.items():
        cycles = base + sum(found[m].cycles for m in away)
        stage = sum(found[m].stage for m in away)
        if not (candidate.cycles <= cycles <= 1.01 * candidate.cycles and candidate.stage <= stage):
            return None
    return found
