"""From the program to levels, candidates and addresses: greedy start, joint model, packing, and again if that fails."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from deeploy_ext.planning.allocation import Request, bound_of, largest_gap, pack, peak
from deeploy_ext.planning.candidates import Candidate, Candidates, Unit
from deeploy_ext.planning.model import Problem, Solution, solve
from deeploy_ext.planning.nest import Nest
from deeploy_ext.planning.placement import requests_of
from deeploy_ext.planning.search import Choice, Room
from deeploy_ext.planning.storage import Storage
from deeploy_ext.planning.ways import Ways

NEAR = 1.002
"""What a packing may cost of a large model's solution, which is not exact itself, to be good enough."""

HOPELESS = 1.01
"""How much slower a solution may be than the best plan so far and still become better: nests that overlap save that little."""

TRIES = 3
"""Solutions that may fail to be packed before the best one that did not fail is taken."""


Run = tuple[tuple[Nest, ...], tuple[Choice, ...]]
"""Nests that run a step one after the other, and the choice of tiles for each."""


@dataclass(frozen=True)
class Setting:
    """What a decision is made from.

    Attributes:
        units: in schedule order.
        storages: all that have a level.
        ways: for the searches and their cost functions.
        l1: bytes of L1 for the blocks of a nest.
        room: bytes per level for storages and staging.
        double: whether double buffering is allowed.
        default: the level of all storages without promotion.
        greedy: levels that the greedy planner gives.
        stage: bytes of L2 that it keeps for staging.
        least: weighted cycles of the best plan so far, which a solution has to come near; None: there is none.
    """

    units: Sequence[Unit]
    storages: Sequence[Storage]
    ways: Ways
    l1: int
    room: Mapping[str, int]
    double: bool
    default: str
    greedy: Mapping[str, str]
    stage: int
    least: int | None = None


@dataclass(frozen=True)
class Decision:
    """Levels and addresses of all storages; of every unit its candidate and where in L2 it stages; weighted cycles."""

    levels: Mapping[str, str]
    addresses: Mapping[str, int]
    chosen: tuple[Candidate, ...]
    stages: tuple[int, ...]
    cost: int


def decide(setting: Setting) -> tuple[Decision, list[Run]] | None:
    """The best decision found and how every unit runs; None: not even the smallest tiles fit.

    Never predicts more cycles than the greedy levels, or in any entry than no promotion.
    """
    found = _solved(setting)
    if found is None:
        return None
    decision, problem = found
    runs = [
        (unit.ways[candidate.way], problem.kinds[unit.key].choices(candidate, [decision.levels[s] for s in unit.slots]))
        for unit, candidate in zip(setting.units, decision.chosen, strict=True)
    ]
    return decision, runs


def _problem(setting: Setting, homes: Sequence[tuple[Mapping[str, str], int]]) -> Problem:
    """The problem with the tilings that the greedy search meets under some levels of the storages and bytes for staging."""
    first: dict[object, Unit] = {}
    contexts: dict[object, dict[tuple[tuple[str, ...], Room], None]] = {}
    for unit in setting.units:
        first.setdefault(unit.key, unit)
        known = contexts.setdefault(unit.key, {})
        for levels, stage in homes:
            own = tuple(levels[s] for s in unit.slots)
            known.setdefault((own, Room(setting.l1, stage, setting.double)))
    kinds = {key: Candidates(unit, list(contexts[key]), setting.l1, setting.ways) for key, unit in first.items()}
    alignment = setting.ways.machine.target.levels["L2"].alignment
    sizes = {r.name: r.bytes for r in requests_of(setting.storages, alignment)}
    return Problem(setting.units, kinds, setting.storages, sizes, setting.room)


def _solved(setting: Setting) -> tuple[Decision, Problem] | None:
    away = dict.fromkeys((s.name for s in setting.storages), "L3")
    everything = dict.fromkeys(away, "L2")
    room = setting.room["L2"]
    problem = _problem(setting, [(everything, room), (away, room), (setting.greedy, setting.stage)])
    plain = _packed(problem, away if setting.default == "L3" else everything)
    if plain:
        entries = dict.fromkeys(u.entry for u in problem.units)
        problem = replace(problem, limits={entry: problem.cost(plain.chosen, entry) for entry in entries})
    starts = [d for d in (plain, _packed(problem, setting.greedy)) if d]
    starts = [d for d in starts if all(problem.cost(d.chosen, e) <= most for e, most in problem.limits.items())]
    best = _tightened(problem, min(starts, key=lambda d: d.cost) if starts else None, setting.least)
    return (best, problem) if best else None


def _tightened(problem: Problem, start: Decision | None, least: int | None) -> Decision | None:
    """Solves and packs; what cannot be packed is solved again with less room."""
    best, room = start, dict(problem.room)
    for _ in range(TRIES):
        solution = solve(replace(problem, room=room), Solution(start.levels, start.chosen) if start else None)
        if solution is None:
            break
        cost = problem.cost(solution.chosen)
        if (best and cost >= best.cost) or (least is not None and cost > HOPELESS * least):
            return best
        found, over = _fit(problem, solution.levels)
        if found and (best is None or found.cost < best.cost):
            best = found
        if found and found.cost <= (1 if problem.exact else NEAR) * cost:
            return found
        room["L2"] -= max(over, room["L2"] // 256)
    return best


def _packed(problem: Problem, levels: Mapping[str, str]) -> Decision | None:
    return _fit(problem, levels)[0]


def _fit(problem: Problem, levels: Mapping[str, str]) -> tuple[Decision | None, int]:
    """Addresses for levels, and the best candidates that there is room for; how many bytes of L2 are wanting to have all that
    the levels would allow."""
    addresses: dict[str, int] = {}
    for level in ("L3", "L2"):
        here = [Request(s.name, problem.sizes[s.name], s.first, s.last) for s in problem.storages if levels[s.name] == level]
        if bound_of(here) > problem.room[level]:
            return None, bound_of(here) - problem.room[level]
        addresses |= pack(here, problem.room[level])
        if peak(here, addresses) > problem.room[level]:
            return None, peak(here, addresses) - problem.room[level]
    wanted = problem.choose(levels)
    if wanted is None:
        return None, 0
    here = [r for r in here if levels[r.name] == "L2"]
    staging = [
        Request(f"\0{i}", c.stage, u.first, u.last)
        for i, (u, c) in enumerate(zip(problem.units, wanted, strict=True))
        if c.stage
    ]
    together = pack([*here, *staging])
    over = peak([*here, *staging], together) - problem.room["L2"]
    if over <= 0:
        stages = tuple(together.get(f"\0{i}", 0) for i in range(len(wanted)))
        tensors = {r.name: together[r.name] for r in here}
        return Decision(levels, addresses | tensors, wanted, stages, problem.cost(wanted)), 0
    chosen: list[Candidate] = []
    bases: list[int] = []
    for unit in problem.units:
        live = [(addresses[r.name], addresses[r.name] + r.bytes) for r in here if r.first <= unit.last and unit.first <= r.last]
        base, size = largest_gap(live, problem.room["L2"])
        fit = [c for c in problem.front(unit, tuple(levels[s] for s in unit.slots)) if c.stage <= size]
        if not fit:
            return None, over
        chosen.append(fit[-1])
        bases.append(base)
    return Decision(levels, addresses, tuple(chosen), tuple(bases), problem.cost(chosen)), over
