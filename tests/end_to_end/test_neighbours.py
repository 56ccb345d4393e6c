"""Nests that overlap with their neighbours, and tensors that stay in L1: random networks train right whatever the DMA does.

The host engine refuses transfers that meet each other or a running kernel, so each run proves the plan's arrivals too.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from deeploy_ext.harness.golden import run_golden
from deeploy_ext.training.network import NetworkBuilder
from deeploy_ext.training.task import TrainingSpec
from support import FIXED_L1, assert_right, planned, task_from, task_of, trained

SPEC = TrainingSpec(steps=1, accumulation=2, learning_rate=0.05, seed=3)


def network(seed: int) -> onnx.ModelProto:
    """Convolutions of random geometry, some normalised, some with a branch around them, then a classifier."""
    random = np.random.RandomState(seed)
    net = NetworkBuilder(seed)
    channels, size = int(random.randint(1, 6)), int(random.randint(5, 13))
    x = net.input("image", (1, channels, size, size + 1))
    for i in range(int(random.randint(2, 5))):
        out = int(random.randint(2, 12))
        kernel = int(random.choice([1, 3]))
        stride = int(random.choice([1, 1, 2]))
        w = net.weight(f"w{i}", (out, channels, kernel, kernel), channels * kernel * kernel)
        pads = [kernel // 2] * 4
        x = net.node("Conv", f"conv{i}", [x, w], pads=pads, strides=[stride, stride])
        channels = out
        if random.rand() < 0.6:
            x = net.batch_norm(f"bn{i}", x, channels)
        x = net.relu(f"relu{i}", x)
        if random.rand() < 0.5:
            around = net.weight(f"around{i}", (channels, channels, 3, 3), 9 * channels)
            x = net.add(f"add{i}", net.node("Conv", f"branch{i}", [x, around], pads=[1, 1, 1, 1]), x)
    return net.model("random", net.dense("classifier", net.pool("pool", x), (channels, 3)), [1, 3])


def options(seed: int) -> dict[str, Any]:
    """With one node per nest where the seed is odd: then tensors in L1 are taken in tiles, which joint nests make rare."""
    l1 = FIXED_L1 + 8 * int(np.random.RandomState(seed).randint(150, 1500))
    return {"promote": True, "double_buffer": True, "l1": l1, "groups": "single" if seed % 2 else "joint"}


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 6))])
def test_random_networks_train_right(seed: int, tmp_path: Path) -> None:
    task = task_from(network(seed), SPEC)
    result = trained(task, tmp_path, dma=("lazy", "random", "eager")[seed % 3], **options(seed))
    assert_right(task, run_golden(task), result)


def test_such_networks_use_every_arrival_and_keep_tensors_in_l1() -> None:
    plans = [planned(task_from(network(seed), SPEC), **options(seed)).plan for seed in range(6)]
    arrivals = {b.arrival for plan in plans for g in plan.groups for b in g.blocks if b.loaded}
    assert arrivals == {"after", "turn", "early", "kept"}
    assert any(g.drains for plan in plans for g in plan.groups)
    homes = [{value: p for p in plan.placements for value in p.values} for plan in plans]
    residents = [
        b for plan, home in zip(plans, homes, strict=True) for g in plan.groups for b in g.blocks
        if b.value in home and home[b.value].level == "L1" and b.loops
    ]  # fmt: skip
    assert residents, "no tensor in L1 is taken in tiles"


@pytest.mark.parametrize("sanitizer", ["thread", pytest.param("address", marks=pytest.mark.slow)])
def test_sanitizers_are_silent(sanitizer: str, tmp_path: Path) -> None:
    task = task_of("TinyCNN")
    result = trained(task, tmp_path, dma="random", sanitize=sanitizer, promote=True, double_buffer=True, l1=FIXED_L1 + 4_000)
    assert_right(task, run_golden(task), result)
