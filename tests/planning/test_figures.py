"""A plan's figures follow from its decisions: the planner's own are found again, what a file says is not believed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from deeploy_ext.planning.check import PlanError, check_plan
from deeploy_ext.planning.figures import with_figures
from deeploy_ext.planning.plan import Cycles, Plan, Traffic
from support import FIXED_L1, GAP9, planned, task_of

OPTIONS: list[dict[str, Any]] = [
    {},
    {"promote": True, "double_buffer": True},
    {"l1": 24_000, "l2": 700_000, "promote": True, "double_buffer": True},
    {"l1": 20_000, "l2": 300_000},
]


@pytest.mark.parametrize("options", OPTIONS)
def test_the_planner_and_the_plan_agree(options: dict[str, Any]) -> None:
    made = planned(task_of("ResNet8"), **options)
    assert with_figures(made.plan, made.program, GAP9, {}) == made.plan


def test_what_a_file_says_of_itself_is_derived_anew() -> None:
    made = planned(task_of("TinyCNN"), l1=FIXED_L1 + 3_760)
    lying = replace(
        made.plan,
        groups=tuple(replace(g, cycles=Cycles(1, 1, 1, 1)) for g in made.plan.groups),
        traffic=dict.fromkeys(made.plan.entries, Traffic(0, 0)),
        memory={name: replace(use, used=5, lower_bound=5) for name, use in made.plan.memory.items()},
    )
    assert with_figures(Plan.from_json(lying.to_json()), made.program, GAP9, {}) == made.plan


def test_an_explicit_memory_size_is_the_limit_of_a_plan_file_too() -> None:
    made = planned(task_of("TinyCNN"))
    check_plan(made.program, with_figures(made.plan, made.program, GAP9, {"L1": 20_000}))
    with pytest.raises(PlanError, match="L1"):
        check_plan(made.program, with_figures(made.plan, made.program, GAP9, {"L1": FIXED_L1 + 760}))
