"""Products of matrices in every layout, and statistics near and far from 0, train in every tile regime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from test_regimes import REGIMES, SPEC

from deeploy_ext.harness.golden import run_golden
from deeploy_ext.training.network import NetworkBuilder
from deeploy_ext.training.task import TrainingTask
from support import assert_right, planned, task_from, trained


def layouts(batch: int) -> TrainingTask:
    """Dense layers with A and B as they are and transposed, C a row, a column, a matrix, and none."""
    net = NetworkBuilder(9)
    x = net.input("image", (batch, 11))
    x = net.relu("relu1", net.dense("first", x, (11, 13)))
    w, b = net.weight("w2", (13, 9), 13), net.initializer("b2", 0.1 * np.ones((batch, 9)))
    x = net.relu("relu2", net.node("Gemm", "second", [x, w, b]))
    w, b = net.weight("w3", (9, 7), 9), net.initializer("b3", 0.1 * np.arange(7).reshape(7, 1))
    x = net.node("Gemm", "third", [w, x, b], transA=1, transB=1)
    x = net.node("Gemm", "fourth", [x, net.weight("w4", (7, 6), 7)], transA=1)
    return task_from(net.model("layouts", x, [batch, 6]), SPEC)


@pytest.mark.parametrize("regime", REGIMES)
@pytest.mark.parametrize("batch", [2, 6, 8])
def test_products_of_matrices_in_every_layout(batch: int, regime: str, tmp_path: Path) -> None:
    task = layouts(batch)
    teams = [group.team for group in planned(task, **REGIMES[regime]).plan.groups]
    assert any(teams) == (regime != "portable kernels")
    assert_right(task, run_golden(task), trained(task, tmp_path, dma="random", **REGIMES[regime]))


@pytest.mark.parametrize("regime", REGIMES)
def test_means_near_and_far_from_0(regime: str, tmp_path: Path) -> None:
    """Centred after the product or before it, by mean / deviation; the third and the fourth channel are far."""
    net = NetworkBuilder(8)
    x = net.input("image", (2, 2, 7, 5))
    x = net.node("Conv", "conv", [x, net.weight("w", (4, 2, 3, 3), 18), net.initializer("b", [0.0, -1.0, 5.0, -20.0])])
    x = net.relu("relu", net.batch_norm("bn", x, 4))
    task = task_from(net.model("far", net.dense("classifier", net.pool("pool", x), (4, 3)), [2, 3]), SPEC)
    assert_right(task, run_golden(task), trained(task, tmp_path, **REGIMES[regime]))
