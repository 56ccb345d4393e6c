"""Nests of several nodes compute what nests of one node do, in every regime; the same arithmetic gives the same bits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from deeploy_ext.harness.compare import identical
from deeploy_ext.harness.golden import run_golden
from deeploy_ext.planning.plan import CONTINUED
from deeploy_ext.training.network import NetworkBuilder
from deeploy_ext.training.task import TrainingSpec, TrainingTask
from support import FIXED_L1, assert_right, planned, task_from, trained

SPEC = TrainingSpec(steps=2, accumulation=2, learning_rate=0.05, seed=3)

REGIMES: dict[str, tuple[str, dict[str, Any]]] = {
    "double-buffered in L2": ("lazy", {"l1": FIXED_L1 + 1500, "promote": True, "double_buffer": True}),
    "smallest tiles, staged": ("random", {"l1": FIXED_L1 + 400, "l2_room": 25_000}),
    "staged, double-buffered": ("lazy", {"l1": FIXED_L1 + 1200, "double_buffer": True, "kernels": "portable"}),
}


def residual() -> TrainingTask:
    """Blocks with a shortcut: normalisation, addition and Relu in a row, forward and backward."""
    net = NetworkBuilder(7)
    x = net.relu("relu0", net.batch_norm("bn0", net.conv("conv0", net.input("image", (2, 3, 7, 6)), (3, 6), 3, 1, 1), 6))
    for i in (1, 2):
        inner = net.batch_norm(f"bn{i}", net.conv(f"conv{i}", x, (6, 6), 3, 1, 1), 6)
        x = net.relu(f"relu{i}", net.add(f"add{i}", inner, x))
    return task_from(net.model("residual", net.dense("classifier", net.pool("pool", x), (6, 3)), [2, 3]), SPEC)


@pytest.mark.parametrize("regime", REGIMES)
def test_joint_nests_train_as_single_ones(regime: str, tmp_path: Path) -> None:
    task, (dma, options) = residual(), REGIMES[regime]
    groups = planned(task, **options).plan.groups
    assert any(len(g.nodes) > 1 and g.tiles > 1 for g in groups)
    joint = trained(task, tmp_path / "joint", dma=dma, **options)
    assert_right(task, run_golden(task), joint)
    if not any(body.variant == CONTINUED for g in groups for body in g.bodies if g.tiles > 1):
        assert identical(joint.rounds[0], trained(task, tmp_path / "single", groups="single", **options).rounds[0]) is None


def test_sums_go_on_in_one_tile_too(tmp_path: Path) -> None:
    task = residual()
    groups = planned(task, promote=True).plan.groups
    assert any(body.variant == CONTINUED for g in groups for body in g.bodies) and all(g.tiles == 1 for g in groups)
    assert_right(task, run_golden(task), trained(task, tmp_path, promote=True, dma="random"))
