"""Max pooling and frozen batch normalisation train in every tile regime; of equal values the first maximum wins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_regimes import REGIMES

from deeploy_ext.harness.golden import run_golden
from deeploy_ext.training.network import NetworkBuilder
from deeploy_ext.training.task import TrainingSpec, TrainingTask
from support import FIXED_L1, assert_right, task_from, trained

WINDOWS: dict[str, dict[str, Any]] = {
    "halves": {"kernel_shape": [2, 2], "strides": [2, 2]},
    "overlapping": {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1]},
    "dilated": {"kernel_shape": [2, 3], "dilations": [3, 2], "strides": [1, 2], "pads": [1, 1, 0, 2]},
    "gaps": {"kernel_shape": [1, 2], "strides": [2, 3]},
}


def network(window: dict[str, Any], ties: bool) -> TrainingTask:
    """Convolution, frozen batch normalisation, Relu, max pooling, classifier; with ties all convolution weights are zero."""
    net = NetworkBuilder(11)
    x = net.input("image", (1, 2, 9, 8))
    w = net.initializer("w", np.zeros((5, 2, 3, 3))) if ties else net.weight("w", (5, 2, 3, 3), 18)
    x = net.node("Conv", "conv", [x, w], pads=[1, 1, 1, 1])
    ramp = np.linspace(0.5, 1.5, 5)
    statistics = [net.initializer(name, value) for name, value in (("s", ramp), ("b", ramp - 1), ("m", ramp / 9), ("v", ramp))]
    x = net.node("BatchNormalization", "bn", [x, *statistics])
    x = net.node("MaxPool", "pool1", [net.relu("relu", x)], **window)
    x = net.dense("classifier", net.pool("pool2", x), (5, 3))
    return task_from(net.model("pooling", x, [1, 3]), TrainingSpec(steps=2, accumulation=2, learning_rate=0.05, seed=4))


@pytest.mark.parametrize("regime", REGIMES)
@pytest.mark.parametrize("window", WINDOWS)
def test_pooling_trains(window: str, regime: str, tmp_path: Path) -> None:
    task = network(WINDOWS[window], ties=False)
    assert {p.weight for p in task.parameters} >= {"w"}
    options = REGIMES[regime] | ({"l1": FIXED_L1 + 460} if regime.startswith("smallest") else {})
    assert_right(task, run_golden(task), trained(task, tmp_path, dma="random", **options))


def test_of_equal_values_the_first_wins(tmp_path: Path) -> None:
    task = network(WINDOWS["overlapping"], ties=True)
    assert_right(task, run_golden(task), trained(task, tmp_path, l1=FIXED_L1 + 460, double_buffer=True))
