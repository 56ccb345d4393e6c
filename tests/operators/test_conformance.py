"""Every registered operator in every regime, from the cases that stand beside it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from deeploy_ext.engines.host import HostEngine
from deeploy_ext.operators import registry
from deeploy_ext.operators.spec import Operator
from deeploy_ext.workshop.gradients import gradient_errors, has_gradient
from deeploy_ext.workshop.regimes import regimes, run_regime, runnable
from support import GAP9

CASES = runnable(registry().values())
REGIMES = {f"{r.name}: {split}": replace(r, splits=(split,)) for r in regimes(CASES) for split in r.splits}
FAST = ("portable bodies, 3 cores: all", "double buffering, lazy DMA, from L3: all")


def test_every_operator_has_cases() -> None:
    assert {key for key, operator in registry().items() if not operator.cases} == set()


@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n in FAST else pytest.mark.slow) for n in REGIMES])
def test_every_operator_in_regime(name: str, tmp_path: Path) -> None:
    outcome = run_regime(CASES, REGIMES[name], HostEngine(), GAP9, tmp_path)
    assert (outcome.wrong, outcome.repeat) == ((), None)
    tiles = {(group.node, loop.name): loop.tile for group in outcome.ready.plan.groups for loop in group.loops}
    limits = outcome.ready.limits
    assert bool(limits) == (REGIMES[name].splits != ("none",))
    assert all(tiles[node, loop] <= limit for node, loops in limits.items() for loop, limit in loops.items())
    if REGIMES[name].options.buffer_all:
        assert all(group.double_buffer == (group.tiles > 1) for group in outcome.ready.plan.groups)


def test_the_fast_regimes_are_there() -> None:
    assert set(FAST) <= set(REGIMES)


@pytest.mark.parametrize("operator", [o for o in registry().values() if has_gradient(o)], ids=lambda o: o.op_type)
def test_gradient_rule_agrees_with_numeric_differentiation(operator: Operator) -> None:
    assert [error for case in operator.cases for error in gradient_errors(operator, case)] == []
