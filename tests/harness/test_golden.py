"""The golden run: accumulation, updates and state as the training task defines them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from deeploy_ext.graph.load import LoadOptions, load
from deeploy_ext.harness.golden import run_golden, save_golden
from deeploy_ext.training.autodiff import differentiate
from deeploy_ext.training.task import ForwardNetwork, TrainingTask


def _task(name: str, **overrides: int) -> TrainingTask:
    network = load(name, LoadOptions(**overrides))
    assert isinstance(network, ForwardNetwork)
    return differentiate(network)


def test_update_applies_the_summed_gradient() -> None:
    task = _task("TinyCNN")
    trajectory = run_golden(task)
    assert (len(trajectory.losses), len(trajectory.gradients), len(trajectory.parameters)) == (4, 4, 2)
    before = task.initial
    for step, after in enumerate(trajectory.parameters):
        summed = trajectory.gradients[2 * step + 1]
        for name, value in after.items():
            np.testing.assert_allclose(value, before[name] - np.float32(0.05) * summed[name], rtol=1e-6, atol=1e-7)
        before = after


def test_first_mini_batch_of_a_step_overwrites_the_buffers() -> None:
    accumulated = run_golden(_task("TinyAutoencoder", steps=1, accumulation=2))
    single = run_golden(_task("TinyAutoencoder", steps=1, accumulation=1))
    for name, gradient in single.gradients[0].items():
        np.testing.assert_array_equal(gradient, accumulated.gradients[0][name])
        assert not np.array_equal(gradient, accumulated.gradients[1][name])


def test_running_statistics_are_carried_on() -> None:
    task = _task("TinyCNN")
    trajectory = run_golden(task)
    means = [state["bn1_mean"] for state in trajectory.states]
    assert len({mean.tobytes() for mean in means}) == len(means)
    assert float(np.abs(means[0]).max()) > 0


@pytest.mark.parametrize("name", ["TinyCNN", "SimpleMLP"])
def test_same_numbers_every_time(name: str) -> None:
    first, second = run_golden(_task(name)), run_golden(_task(name))
    assert first.losses == second.losses
    for one, other in zip(first.parameters, second.parameters, strict=True):
        assert all(np.array_equal(one[weight], other[weight]) for weight in one)


def test_loss_falls() -> None:
    losses = run_golden(_task("TinySeparable", steps=100)).losses
    assert np.mean(losses[-20:]) < 0.4 * np.mean(losses[:20])


def test_saved_file(tmp_path: Path) -> None:
    task = _task("TinyCNN")
    trajectory = run_golden(task)
    save_golden(task, trajectory, tmp_path / "golden.npz")
    with np.load(tmp_path / "golden.npz") as stored:
        np.testing.assert_array_equal(stored["losses"], trajectory.losses)
        np.testing.assert_array_equal(stored["gradient/3/conv1_weight"], trajectory.gradients[3]["conv1_weight"])
        np.testing.assert_array_equal(stored["parameter/1/conv1_weight"], trajectory.parameters[1]["conv1_weight"])
        np.testing.assert_array_equal(stored["initial/bn1_mean"], task.initial["bn1_mean"])
