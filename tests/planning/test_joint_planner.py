"""The joint planner: as good as every assignment tried one by one, never worse than what it replaces, always a sound plan."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deeploy_ext.errors import InfeasibleError
from deeploy_ext.graph.lower import lower
from deeploy_ext.graph.program import Program
from deeploy_ext.planning.candidates import Candidates, Unit, units_of
from deeploy_ext.planning.code_size import code_bytes
from deeploy_ext.planning.cost import Machine
from deeploy_ext.planning.fusion import joined_steps
from deeploy_ext.planning.model import Problem, Solution, solve, weighted_cycles
from deeploy_ext.planning.options import PlanOptions
from deeploy_ext.planning.planner import make_plan
from deeploy_ext.planning.schedule import scheduled
from deeploy_ext.planning.search import Room
from deeploy_ext.planning.steps import Flow, Step, single_steps
from deeploy_ext.planning.storage import storages_of
from deeploy_ext.planning.ways import Ways
from deeploy_ext.training.network import NetworkBuilder
from deeploy_ext.training.task import TrainingSpec, TrainingTask
from support import GAP9, planned, task_from, task_of

L1 = 60_000


def ways_of(program: Program) -> Ways:
    return Ways(Flow(program), Machine(GAP9, 8), PlanOptions())


def joined_of(program: Program) -> tuple[Step, ...]:
    """The steps that the planner makes where everything is in L2."""
    ways = ways_of(program)
    home = dict.fromkeys(program.values, "L2") | dict.fromkeys(program.arguments, "L1")

    def estimate(step: Step) -> int | None:
        best = ways.best(step, home, dict(zip(program.values, program.values, strict=True)), Room(L1, 0, False))
        return sum(choice.cycles.total for choice in best[1]) if best else None

    return joined_steps(ways.flow, estimate)


def small_problem(program: Program, first: int, count: int, room: int, *, double: bool = True, joined: bool = False) -> Problem:
    """Some steps in a row of a program, with what they touch, and little L2."""
    ways, steps = ways_of(program), joined_of(program) if joined else single_steps(program)
    owner, storages = storages_of(ways.flow, steps)
    units = [replace(u, first=i, last=i) for i, u in enumerate(units_of(ways, steps, owner)[first : first + count])]
    used = {name for unit in units for name in unit.slots}
    kept = [replace(s, first=max(s.first - first, 0), last=min(s.last - first, count - 1)) for s in storages if s.name in used]
    kinds: dict[Any, Candidates] = {}
    for unit in units:
        contexts = [((level,) * len(unit.slots), Room(L1, room, double)) for level in ("L2", "L3")]
        kinds[unit.key] = Candidates(unit, contexts, L1, ways)
    sizes = {s.name: -(-s.bytes // 8) * 8 for s in kept}
    return Problem(units, kinds, kept, sizes, {"L2": room, "L3": 8_000_000})


def cheapest(problem: Problem) -> int | None:
    """Every assignment of levels, tried one by one."""
    names = [s.name for s in problem.storages]
    found = (problem.choose(dict(zip(names, levels, strict=True))) for levels in product(("L2", "L3"), repeat=len(names)))
    return min((problem.cost(chosen) for chosen in found if chosen), default=None)


@pytest.mark.parametrize("net", ["SimpleMLP", "TinySeparable", "TinyAutoencoder"])
@pytest.mark.parametrize("share", [0.03, 0.3, 0.7, 1.0])
@pytest.mark.parametrize("joined", [False, True])
def test_a_small_problem_is_solved_to_the_optimum(net: str, share: float, joined: bool) -> None:
    program = lower(task_of(net))
    count = 4 if joined else 5
    total = sum(s.bytes for s in small_problem(program, 0, count, 1, joined=joined).storages)
    problem = small_problem(program, 0, count, int(total * share), joined=joined)
    best, solution = cheapest(problem), solve(problem, None)
    assert (solution and problem.cost(solution.chosen)) == best
    assert solution is None or (solution.proven and solution.bound == best)


def test_what_it_starts_from_is_never_lost() -> None:
    problem = small_problem(lower(task_of("SimpleMLP")), 0, 5, 6_000)
    levels = dict.fromkeys((s.name for s in problem.storages), "L3")
    chosen = problem.choose(levels)
    assert chosen
    kept = solve(problem, Solution(levels, chosen), effort=0.0)
    assert kept and problem.cost(kept.chosen) <= problem.cost(chosen)


@pytest.mark.parametrize("joined", [False, True])
@pytest.mark.parametrize("net", ["TinyCNN", "SimpleMLP"])
def test_fronts_are_what_the_cost_functions_say(net: str, joined: bool) -> None:
    """A candidate's bytes and cycles, summed from columns, are those of the choice that it becomes."""
    problem = small_problem(lower(task_of(net)), 0, 40, 20_000, joined=joined)
    for unit in problem.units:
        for levels in product(("L2", "L3"), repeat=min(len(unit.slots), 3)):
            full = (*levels, *("L2",) * (len(unit.slots) - len(levels)))
            front = problem.front(unit, full)
            assert [c.stage for c in front] == sorted({c.stage for c in front})
            assert [c.cycles for c in front] == sorted({c.cycles for c in front}, reverse=True)
            for candidate in front:
                choices = problem.kinds[unit.key].choices(candidate, full)
                assert sum(c.cycles.total for c in choices) == candidate.cycles
                assert max(c.stage_bytes for c in choices) == candidate.stage
                assert max(c.l1_bytes for c in choices) == candidate.l1 <= L1
                assert all(c.keeps_stages for c in choices)


@pytest.mark.parametrize("joined", [False, True])
def test_a_burden_is_never_too_small(joined: bool) -> None:
    problem = small_problem(lower(task_of("TinyCNN")), 0, 40, 20_000, joined=joined)
    for unit in problem.units:
        kind: Candidates = problem.kinds[unit.key]
        here = ["L2"] * len(unit.slots)
        cycles, stage = kind.front(tuple(here))[-1].cycles, 0
        for slot in range(len(unit.slots)):
            here[slot] = "L3"
            cycles, stage = cycles + kind.burden(slot).cycles, stage + kind.burden(slot).stage
            assert min(c.cycles for c in kind.front(tuple(here)) if c.stage <= stage) <= cycles


@st.composite
def networks(draw: st.DrawFn) -> TrainingTask:
    """Chains of dense layers and convolutions, some with a residual addition."""
    net = NetworkBuilder(draw(st.integers(0, 99)))
    if draw(st.booleans()):
        sizes = draw(st.lists(st.integers(3, 90), min_size=2, max_size=4))
        x = net.input("image", [1, sizes[0]])
        for i, pair in enumerate(pairwise(sizes)):
            x = net.relu(f"relu{i}", net.dense(f"dense{i}", x, pair))
        features = sizes[-1]
    else:
        channels, edge = draw(st.integers(1, 6)), draw(st.integers(4, 14))
        x = net.conv("first", net.input("image", [1, 2, edge, edge]), (2, channels), 3, pad=1)
        for i in range(draw(st.integers(0, 1))):
            x = net.add(f"add{i}", x, net.relu(f"relu{i}", net.conv(f"conv{i}", x, (channels, channels), 3, pad=1)))
        x = net.pool("pool", x)
        features = channels
    return task_from(net.model("random", net.dense("classifier", x, (features, 3)), [1, 3]), TrainingSpec())


@settings(max_examples=3, deadline=None)
@given(networks(), st.floats(0.02, 1.0), st.integers(18_000, 60_000))
def test_a_random_network_is_planned_soundly_and_never_worse(task: TrainingTask, share: float, l1: int) -> None:
    program = scheduled(lower(task))
    code = GAP9.reserved(8, code_bytes(program, GAP9, "fast"))["L2"]
    _, storages = storages_of(Flow(program), single_steps(program))
    options: dict[str, Any] = {"l1": l1, "l2": code + 64 + int(share * sum(s.bytes for s in storages))}
    try:
        planned(task, **options, double_buffer=True)
    except InfeasibleError:
        with pytest.raises(InfeasibleError):
            make_plan(program, GAP9, PlanOptions(**options, planner="greedy"))
        return
    joint = planned(task, **options, double_buffer=True, promote=True).plan
    others = {
        "greedy": {"double_buffer": True, "promote": True, "planner": "greedy"},
        "--db alone": {"double_buffer": True},
        "--promote alone": {"promote": True},
        "neither": {},
    }
    for name, flags in others.items():
        assert weighted_cycles(joint) <= weighted_cycles(planned(task, **options, **flags).plan), name
    for use in joint.memory.values():
        assert use.lower_bound <= use.used <= use.capacity
    assert joint.to_json() == make_plan(program, GAP9, PlanOptions(**options, double_buffer=True, promote=True)).to_json()


def test_little_l2_costs_resnet8_less_than_the_greedy_planner_wants() -> None:
    options: dict[str, Any] = {"promote": True, "double_buffer": True, "l2": 300 * 1024, "groups": "single"}
    greedy = planned(task_of("ResNet8"), **options, planner="greedy").plan
    joint = planned(task_of("ResNet8"), **options).plan
    assert joint.cycles("step") < 0.95 * greedy.cycles("step")
    assert weighted_cycles(joint) < weighted_cycles(greedy)


def test_units_of_equal_nodes_are_of_one_kind() -> None:
    program = lower(task_of("ResNet8"))
    ways, steps = ways_of(program), single_steps(program)
    units: tuple[Unit, ...] = units_of(ways, steps, storages_of(ways.flow, steps)[0])
    assert len(units) == len(program.calls) > 1.5 * len({unit.key for unit in units})
