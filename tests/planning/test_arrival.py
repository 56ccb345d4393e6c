"""From one nest to the next: what may come early, what is kept, what may drain; and planted plans that go too far."""

from __future__ import annotations

from dataclasses import replace

import pytest

from deeploy_ext.planning.arrival import earliest, last_slot, may_drain, permitted
from deeploy_ext.planning.check import PlanError, check_plan
from deeploy_ext.planning.figures import with_figures
from deeploy_ext.planning.plan import (
    AFTER,
    ARRIVALS,
    EARLY,
    KEPT,
    TURN,
    AxisPlan,
    BlockPlan,
    BodyPlan,
    Cycles,
    Group,
    LoopPlan,
    Placement,
    Use,
)
from support import GAP9, Made, planned, task_of

HOMES = {
    name: Placement(name, "L2", 1024 * place, 256, "contiguous", 0, 9, False, (name,)) for place, name in enumerate("abcdefg")
}


def block(value: str, *slots: int, stored: bool = False, tiled: bool = False) -> BlockPlan:
    """An operand of 64 floats, whole or in four tiles of 16."""
    axis = AxisPlan(64, (0,), ((0, 16), (16, 16), (32, 16), (48, 16))) if tiled else AxisPlan(64, (), ((0, 64),))
    return BlockPlan((Use(0, value),), value, not stored, stored, 4, (axis,), 64 if tiled else 256, slots, "none", 0, ())


def group(*blocks: BlockPlan, scratch: int = 0) -> Group:
    tiled = any(b.loops for b in blocks)
    loops = (LoopPlan("i", 64, 16 if tiled else 64, False),)
    double = any(len(b.slots) == 2 for b in blocks)
    made = Group("step", ("n",), 0, (BodyPlan("main", 0),), loops, (0,) if tiled else (), blocks, double, Cycles(9, 9, 0, 18))
    return replace(made, scratch=scratch, scratch_bytes=64 if scratch else 0)


BEFORE = group(block("a", 8000, 8064, tiled=True), block("b", 8128, 8192, tiled=True, stored=True), scratch=8256)
"""Its last tile is in the second slots, 8064 and 8192."""


@pytest.mark.parametrize(
    ("first", "arrival"),
    [
        (block("c", 9000), EARLY),
        (block("c", 8000, 9000, tiled=True), EARLY),  # over a slot of the tile before the last
        (block("c", 7900), TURN),  # over the last tile's operand
        (block("c", 8256), TURN),  # over the scratch
        (block("c", 8192), AFTER),  # over what is stored
        (block("b", 9000, 9064, tiled=True), EARLY),  # a box that is at home long since
        (block("b", 9000), AFTER),  # a box of which the last quarter is not at home
        (block("a", 9000), EARLY),
    ],
)
def test_the_soonest_arrival(first: BlockPlan, arrival: str) -> None:
    assert earliest(first, group(first, block("d", 20000, stored=True)), BEFORE, HOMES) == arrival
    assert earliest(first, group(first, block("d", 20000, stored=True)), None, HOMES) == AFTER


def test_a_whole_result_is_kept_where_it_is_and_only_there() -> None:
    before = group(block("a", 8000), block("b", 8256, stored=True))
    for value, at in (("a", 8000), ("b", 8256)):
        assert earliest(block(value, at), group(block(value, at)), before, HOMES) == KEPT
        assert earliest(block(value, at + 1024), group(block(value, at + 1024)), before, HOMES) == (
            EARLY if value == "a" else AFTER
        )


def test_what_is_computed_in_place_is_kept_as_it_is_afterwards() -> None:
    """Two values in one storage: the slot that holds what was stored, not the one that was loaded."""
    homes = HOMES | {"b": HOMES["a"]}
    before = group(block("a", 8000), block("b", 8256, stored=True))
    assert earliest(block("b", 8256), group(block("b", 8256)), before, homes) == KEPT
    assert earliest(block("b", 8000), group(block("b", 8000)), before, homes) == AFTER


def test_results_drain_while_nothing_is_written_over_them() -> None:
    assert last_slot(BEFORE.blocks[1], BEFORE) == (8192, 8256)
    first = replace(block("c", 9000), arrival=EARLY)
    assert may_drain(group(first, block("d", 9256, stored=True)), BEFORE, HOMES)
    assert not may_drain(group(first, block("d", 8192, stored=True)), BEFORE, HOMES)
    assert not may_drain(group(first, block("d", 9256, stored=True), scratch=8192), BEFORE, HOMES)
    assert not may_drain(group(block("c", 9000)), BEFORE, HOMES)  # it waits for all
    assert not may_drain(group(first), None, HOMES)
    lives_there = HOMES | {"e": Placement("e", "L1", 8192, 256, "contiguous", 0, 9, False, ("e",))}
    assert not may_drain(group(first, block("e", stored=True)), BEFORE, lives_there)


def test_nothing_sooner_than_the_soonest_is_permitted() -> None:
    assert [permitted(a) for a in ARRIVALS] == [(AFTER,), (AFTER, TURN), (AFTER, TURN, EARLY), (AFTER, KEPT)]


@pytest.fixture(scope="module")
def made() -> Made:
    return planned(task_of("ResNet8"), promote=True, double_buffer=True)


def test_most_first_tiles_come_early_and_most_results_drain(made: Made) -> None:
    step = made.plan.entry("step")
    arrivals = [b.arrival for g in step for b in g.blocks if b.loaded and b.slots]
    assert sum(a in (EARLY, KEPT) for a in arrivals) > 0.8 * len(arrivals)
    assert sum(g.drains for g in step) > 0.5 * len(step)


def test_every_arrival_that_goes_too_far_is_refused(made: Made) -> None:
    """Each block in turn arrives in each way; the check lets through exactly what its slots permit."""
    groups, homes = made.plan.groups, {value: p for p in made.plan.placements for value in p.values}
    refused = 0
    for i in range(0, len(groups), 7):
        before = groups[i - 1] if i and groups[i - 1].entry == groups[i].entry else None
        for j, operand in enumerate(groups[i].blocks):
            right = permitted(earliest(operand, groups[i], before, homes))
            for arrival in (*ARRIVALS, "never"):
                blocks = list(groups[i].blocks)
                blocks[j] = replace(operand, arrival=arrival)
                changed = list(groups)
                changed[i] = replace(groups[i], blocks=tuple(blocks), drains=False)
                plan = replace(made.plan, groups=tuple(changed))
                if arrival in right:
                    if refused < 3:
                        check_plan(made.program, plan)
                elif refused < 25:
                    refused += 1
                    with pytest.raises(PlanError, match=f"arrives '{arrival}'"):
                        check_plan(made.program, plan)
    assert refused == 25


def test_an_early_block_whose_slot_is_moved_onto_the_nest_before_is_refused(made: Made) -> None:
    groups = made.plan.groups
    index, place = next(
        (i, j)
        for i, g in enumerate(groups)
        for j, b in enumerate(g.blocks)
        if b.arrival == EARLY and g.tiles == 1 and i and groups[i - 1].entry == g.entry and groups[i - 1].blocks[0].slots
    )
    there = groups[index - 1].blocks[0].slots[0]
    blocks = list(groups[index].blocks)
    blocks[place] = replace(blocks[place], slots=(there,))
    changed = [*groups[:index], replace(groups[index], blocks=tuple(blocks)), *groups[index + 1 :]]
    with pytest.raises(PlanError, match=r"arrives 'early'|overlap in L1"):
        check_plan(made.program, replace(made.plan, groups=tuple(changed)))


def test_a_nest_that_would_write_over_results_that_leave_is_refused(made: Made) -> None:
    index = next(i for i, g in enumerate(made.plan.groups) if i and not g.drains and made.plan.groups[i - 1].entry == g.entry)
    changed = list(made.plan.groups)
    changed[index] = replace(changed[index], drains=True)
    with pytest.raises(PlanError, match="results of the nest before would leave"):
        check_plan(made.program, replace(made.plan, groups=tuple(changed)))


def test_what_arrives_early_is_not_waited_for_and_what_is_kept_not_moved(made: Made) -> None:
    late = tuple(replace(g, drains=False, blocks=tuple(replace(b, arrival=AFTER) for b in g.blocks)) for g in made.plan.groups)
    plan = with_figures(replace(made.plan, groups=late), made.program, GAP9, {})
    check_plan(made.program, plan)
    assert plan.cycles("step") > made.plan.cycles("step") + 100_000
    assert plan.traffic["step"].l2_l1 > made.plan.traffic["step"].l2_l1


def test_without_double_buffering_nothing_arrives_early() -> None:
    plan = planned(task_of("ResNet8"), promote=True).plan
    assert {b.arrival for g in plan.groups for b in g.blocks} == {AFTER}
    assert not any(g.drains for g in plan.groups)
