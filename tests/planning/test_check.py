"""The static check finds every planted contradiction of a plan: regions, sizes, addresses, order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from deeploy_ext.planning.check import PlanError, check_plan
from deeploy_ext.planning.plan import BlockPlan, Group, Plan, Prepare
from support import FIXED_L1, Made, planned, task_of

SMALL: dict[str, Any] = {"l1": FIXED_L1 + 700, "l2_room": 25_424, "double_buffer": True, "kernels": "portable"}


@pytest.fixture(scope="module")
def made() -> Made:
    return planned(task_of("TinyCNN"), **SMALL)


def group_where(plan: Plan, wanted: Callable[[Group], bool]) -> int:
    return next(i for i, group in enumerate(plan.groups) if wanted(group))


def with_group(plan: Plan, index: int, **changes: object) -> Plan:
    groups = list(plan.groups)
    groups[index] = replace(groups[index], **changes)  # type: ignore[arg-type]
    return replace(plan, groups=tuple(groups))


def with_block(plan: Plan, index: int, block: int, **changes: object) -> Plan:
    blocks = list(plan.groups[index].blocks)
    blocks[block] = replace(blocks[block], **changes)  # type: ignore[arg-type]
    return with_group(plan, index, blocks=tuple(blocks))


def shifted(block: BlockPlan) -> tuple:
    """The regions one element further."""
    axes = list(block.axes)
    place = next(i for i, axis in enumerate(axes) if axis.loops)
    regions = [(start + 1, size) for start, size in axes[place].regions]
    axes[place] = replace(axes[place], regions=tuple(regions))
    return tuple(axes)


def faults(plan: Plan) -> dict[str, Plan]:
    tiled = group_where(plan, lambda g: g.tiles > 2 and any(b.loops for b in g.blocks))
    moving = next(i for i, b in enumerate(plan.groups[tiled].blocks) if b.loops)
    nested = group_where(plan, lambda g: len({g.loops[i].reduction for i in g.order}) == 2)
    first = plan.groups[tiled].blocks[moving]
    other = plan.groups[tiled].blocks[1 - min(moving, 1)]
    placements = list(plan.placements)
    l3 = [i for i, p in enumerate(placements) if p.level == "L3"]
    live = [i for i in l3 if placements[i].persistent][:2]
    overlapping, unaligned, short, outside = (list(placements) for _ in range(4))
    overlapping[live[1]] = replace(placements[live[1]], address=placements[live[0]].address)
    unaligned[live[0]] = replace(placements[live[0]], address=placements[live[0]].address + 4)
    short[live[0]] = replace(placements[live[0]], last=placements[live[0]].last - 1)
    outside[live[0]] = replace(placements[live[0]], address=8_388_600)
    smaller_tile = [replace(loop, tile=loop.tile + 1) if loop.tile < loop.extent else loop for loop in plan.groups[tiled].loops]
    return {
        "a node is missing": replace(plan, groups=plan.groups[:-1]),
        "a node runs twice": replace(plan, groups=(*plan.groups, plan.groups[-1])),
        "two nodes are swapped": replace(plan, groups=(plan.groups[1], plan.groups[0], *plan.groups[2:])),
        "a region is shifted": with_block(plan, tiled, moving, axes=shifted(first)),
        "tile size and regions disagree": with_group(plan, tiled, loops=tuple(smaller_tile)),
        "a block is smaller than its tile": with_block(plan, tiled, moving, bytes=first.bytes - 8),
        "two L1 slots overlap": with_block(plan, tiled, moving, slots=other.slots[:1] * len(first.slots)),
        "a slot is not aligned": with_block(plan, tiled, moving, slots=tuple(s + 4 for s in first.slots)),
        "a slot is in the runtime": with_block(plan, tiled, moving, slots=tuple(range(0, 8 * len(first.slots), 8))),
        "a slot is outside L1": with_block(plan, tiled, moving, slots=tuple(131_064 for _ in first.slots)),
        "a second slot is missing": with_group(plan, tiled, double_buffer=not plan.groups[tiled].double_buffer),
        "a stage is missing": with_block(plan, tiled, moving, stage="none", stage_slots=()),
        "a reduction is outside": with_group(plan, nested, order=plan.groups[nested].order[::-1]),
        "a split loop is not walked": with_group(plan, tiled, order=plan.groups[tiled].order[1:]),
        "a load is missing": with_block(plan, tiled, moving, loaded=not first.loaded),
        "two live storages overlap": replace(plan, placements=tuple(overlapping)),
        "a storage is not aligned": replace(plan, placements=tuple(unaligned)),
        "a persistent storage is given up": replace(plan, placements=tuple(short)),
        "a storage ends outside": replace(plan, placements=tuple(outside)),
        "a value has two places": replace(plan, placements=(*plan.placements, plan.placements[-1])),
        "an unknown layout": replace(plan, placements=(replace(placements[0], layout="padded"), *placements[1:])),
        "an image that no kernel takes": replace(plan, prepare=(Prepare("w", "w'"),)),
        "an entry is missing": replace(plan, entries=plan.entries[:1]),
        "a value has no place": replace(plan, placements=plan.placements[:-1]),
    }


def test_the_plan_itself_is_right(made: Made) -> None:
    check_plan(made.program, made.plan)


@pytest.mark.parametrize("fault", sorted(faults(planned(task_of("TinyCNN"), **SMALL).plan)))
def test_a_planted_fault_is_found(made: Made, fault: str) -> None:
    with pytest.raises(PlanError):
        check_plan(made.program, faults(made.plan)[fault])


def test_a_plan_of_another_network_is_refused(made: Made) -> None:
    with pytest.raises(PlanError):
        check_plan(planned(task_of("SimpleMLP")).program, made.plan)


TEAM_FAULTS: dict[str, tuple[dict[str, Any], str]] = {
    "too little scratch": ({"scratch_bytes": 8}, "bytes of scratch, 8 are given"),
    "scratch over the walker": ({"scratch": 0}, "'its scratch' overlap"),
    "scratch not aligned": ({"scratch": 60_001}, "bytes of scratch"),
    "scratch beyond L1": ({"scratch": 131_064}, "'its scratch' ends at"),
}


@pytest.mark.parametrize("fault", TEAM_FAULTS)
def test_faults_of_a_team_kernel_are_found(fault: str) -> None:
    made = planned(task_of("TinyCNN"), promote=True)
    index = group_where(made.plan, lambda group: group.scratch_bytes > 0)
    changes, said = TEAM_FAULTS[fault]
    with pytest.raises(PlanError, match=said):
        check_plan(made.program, with_group(made.plan, index, **changes))


def test_the_steps_of_a_team_kernel_are_those_of_its_operator() -> None:
    made = planned(task_of("TinyCNN"), promote=True)
    index = group_where(made.plan, lambda group: group.scratch_bytes > 0)
    bodies = made.plan.groups[index].bodies
    for wrong in (bodies[:1], bodies[::-1]):
        with pytest.raises(PlanError, match="not the steps of its kernel"):
            check_plan(made.program, with_group(made.plan, index, bodies=wrong))
