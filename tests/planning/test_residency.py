"""Residency: tensors that live in L1 share it with no nest, save traffic, and are refused where they would be in the way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise

import pytest

from deeploy_ext.planning.check import PlanError, _check_block, check_plan
from deeploy_ext.planning.plan import AxisPlan, BlockPlan, Placement
from deeploy_ext.planning.residency import Resident, choose_residents, live_at
from deeploy_ext.planning.storage import Storage
from support import GAP9, Made, planned, task_of


def storage(name: str, size: int, first: int, last: int, persistent: bool = False) -> Storage:
    return Storage(name, size, (name,), first, last, persistent, 2)


def saving(values: Mapping[str, float]):
    """Every resident saves so much at each position of its life; more than 256 bytes of them fit at none."""

    def cost(position: int, residents: Mapping[str, Resident]) -> float | None:
        live = [r for r in residents.values() if r.first <= position <= r.last]
        fits = sum(r.end - r.begin for r in live) <= 256
        return 1000.0 - sum(values[r.storage] for r in live) if fits else None

    return cost


def test_what_saves_most_per_byte_and_position_goes_first() -> None:
    wanted = [storage("large", 256, 0, 1), storage("small", 64, 1, 2), storage("later", 256, 3, 4)]
    found = choose_residents(wanted, ["step"] * 5, (100, 1000), 8, saving({"large": 90, "small": 40, "later": 1}))
    assert set(found) == {"small", "later"}
    assert all(r.begin == 104 for r in found.values())
    assert live_at(found, 2) == [(104, 168)] and live_at(found, 0) == []


def test_nothing_stays_that_saves_nothing_is_kept_lives_long_or_in_two_entries() -> None:
    wanted = [
        storage("idle", 64, 0, 1), storage("weight", 64, 0, 1, persistent=True), storage("long", 64, 0, 12),
        storage("both", 64, 8, 9), storage("one", 64, 0, 0), storage("good", 64, 4, 5),
    ]  # fmt: skip
    values = dict.fromkeys(("weight", "long", "both", "one", "good"), 9.0) | {"idle": 0.0}
    found = choose_residents(wanted, ["step"] * 9 + ["infer"] * 4, (0, 1000), 8, saving(values))
    assert set(found) == {"good"}


def test_residents_that_live_together_have_places_of_their_own() -> None:
    wanted = [storage(f"s{i}", 40, i, i + 2) for i in range(6)]
    found = choose_residents(wanted, ["step"] * 8, (0, 1000), 8, saving({s.name: 5.0 for s in wanted}))
    assert len(found) == 6
    for position in range(8):
        spans = live_at(found, position)
        assert all(a[1] <= b[0] for a, b in pairwise(spans))


@pytest.fixture(scope="module")
def made() -> Made:
    return planned(task_of("ResNet8"), promote=True, double_buffer=True, groups="single")


def residents_of(made: Made) -> list[Placement]:
    return [p for p in made.plan.placements if p.level == "L1" and not p.persistent]


def test_tensors_between_neighbours_stay_and_are_not_moved(made: Made) -> None:
    assert len(residents_of(made)) > 10
    kept = {p.storage for p in residents_of(made)}
    blocks = [b for g in made.plan.groups for b in g.blocks if b.value in kept]
    assert blocks and all(b.slots == () and b.gapless for b in blocks)


def test_without_promotion_nothing_stays() -> None:
    assert not residents_of(planned(task_of("TinyCNN"), double_buffer=True))
    assert residents_of(planned(task_of("TinyCNN"), promote=True))


def moved(made: Made, storage: str, **changes: object) -> Made:
    placements = tuple(replace(p, **changes) if p.storage == storage else p for p in made.plan.placements)  # type: ignore[arg-type]
    return Made(made.program, replace(made.plan, placements=placements))


def test_a_resident_on_a_slot_of_any_nest_of_its_life_is_refused(made: Made) -> None:
    position = {key: i for i, key in enumerate(made.plan.schedule)}
    tried = 0
    for resident in residents_of(made)[::4]:
        life = range(resident.first, resident.last + 1)
        for group in (g for g in made.plan.groups if position[g.entry, g.nodes] in life):
            slot = next((b.slots[-1] for b in group.blocks if b.slots), None)
            if slot is not None:
                tried += 1
                planted = moved(made, resident.storage, address=slot)
                with pytest.raises(PlanError, match=r"overlap|arrives|leave|ends at"):
                    check_plan(planted.program, planted.plan)
    assert tried > 10


def test_a_resident_must_live_as_long_as_it_is_used_and_where_nothing_else_is(made: Made) -> None:
    resident = residents_of(made)[0]
    for changes in ({"last": resident.last - 1}, {"address": 0}, {"address": resident.address + 4}, {"address": 131_064}):
        planted = moved(made, resident.storage, **changes)
        with pytest.raises(PlanError):
            check_plan(planted.program, planted.plan)


@pytest.mark.parametrize(
    ("regions", "gapless"),
    [
        ([(4, ((0, 2), (2, 2))), (8, ((0, 8),))], True),
        ([(1, ((0, 1),)), (4, ((0, 1), (1, 3))), (8, ((0, 8),))], True),
        ([(4, ((0, 4),)), (8, ((0, 4), (4, 4)))], False),
        ([(4, ((0, 2), (2, 2))), (8, ((1, 7),))], False),
        ([], True),
    ],
)
def test_boxes_without_gaps_are_split_along_the_outermost_axis(
    regions: list[tuple[int, tuple[tuple[int, int], ...]]], gapless: bool
) -> None:
    axes = tuple(AxisPlan(extent, (), rows) for extent, rows in regions)
    assert BlockPlan("x", "x", True, False, 4, axes, 64, (), "none", 0, ()).gapless == gapless


def _has_gaps(block: BlockPlan, homes: dict[str, Placement]) -> bool:
    return block.value in homes and not block.gapless and not homes[block.value].persistent


def test_a_resident_whose_tiles_have_gaps_is_refused(made: Made) -> None:
    """A tensor that is split along an inner axis cannot be put into L1 as it is."""
    homes = {value: p for p in made.plan.placements for value in p.values}
    groups = list(made.plan.groups)
    index = next(i for i, g in enumerate(groups) if any(_has_gaps(b, homes) for b in g.blocks))
    split = next(b for b in groups[index].blocks if _has_gaps(b, homes))
    with pytest.raises(PlanError, match="gaps there"):
        _check_block("node", replace(split, slots=()), groups[index], "L1", GAP9)
