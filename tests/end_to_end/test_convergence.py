"""Training trains: over a hundred steps the loss of a separable problem falls, as in the golden run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir

from deeploy_ext.harness.golden import run_golden
from deeploy_ext.training.autodiff import differentiate
from deeploy_ext.training.network import NetworkBuilder
from deeploy_ext.training.task import ForwardNetwork, TrainingSpec
from support import assert_right, golden_of, task_of, trained


def test_the_loss_falls_over_a_hundred_steps(tmp_path: Path) -> None:
    task = task_of("TinySeparable", steps=100)
    result = trained(task, tmp_path, promote=True, double_buffer=True)
    losses = np.array(result.rounds[0].losses)
    assert len(losses) >= 100
    assert losses[-10:].mean() < 0.3 * losses[:10].mean()
    assert_right(task, golden_of("TinySeparable", steps=100), result)


def test_a_network_that_is_nearly_sure_is_still_compared_by_more_than_rounding(tmp_path: Path) -> None:
    """p - 1 of the true class has no digits left at p = 1 - 1e-7; its gradient is the sum of the other classes instead."""
    net = NetworkBuilder(1)
    x = net.input("image", [1, 4])
    w = net.initializer("w", np.array([[4.0, 4, 4, 4], [0, 0, 0, 0], [-1, 1, 0, 0]]))
    model = net.model("sure", net.node("Gemm", "scores", [x, w], transB=1), [1, 3])
    random = np.random.RandomState(2)
    batches = tuple(
        {"image": (1 + 0.01 * random.standard_normal((1, 4))).astype(np.float32), "labels": np.array([0])} for _ in range(4)
    )
    spec = TrainingSpec(steps=4, accumulation=1, learning_rate=0.5)
    task = differentiate(ForwardNetwork("sure", ir.from_proto(model), "cross_entropy", ("w",), batches, spec))
    golden = run_golden(task)
    assert 0 < np.abs(golden.gradients[0]["w"]).max() < 1e-6
    assert_right(task, golden, trained(task, tmp_path))
