"""Training directories made by another exporter, against their makers' own numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from deeploy_ext.errors import BadInputError
from deeploy_ext.graph.load import LoadOptions, load
from deeploy_ext.harness.golden import run_golden
from deeploy_ext.training.task import TrainingTask, Trajectory

SETTINGS = {
    "SimpleMLP": (4, 1),
    "Autoencoder": (4, 1),
    "DSCNN": (1, 4),
    "ResNet8": (1, 4),
    "MobileNetV1": (1, 4),
}


def _load(fixtures: Path, name: str, options: LoadOptions | None = None) -> TrainingTask:
    task = load(str(fixtures / "training" / name / f"{name.lower()}_train"), options)
    assert isinstance(task, TrainingTask)
    return task


UPDATE_TOLERANCE = {
    # The makers' own float32 updates are 2 to 11 % away from the same graph in float64 (batch normalisation over nine
    # values, 52 times); onnxruntime's stay within 2e-4 of it.
    "mobilenetv1": 0.15,
}


def wrong_updates(task: TrainingTask, trajectory: Trajectory) -> list[str]:
    """Parameters whose update differs from the makers' by more than 1e-3 of it and 2 ulp of the weight."""
    assert task.expected is not None
    found: list[str] = []
    for parameter in task.parameters:
        name, before = parameter.weight, task.initial[parameter.weight]
        wanted, got = task.expected.parameters[name], trajectory.parameters[-1][name]
        largest = max(float(np.abs(p - task.initial[n]).max()) for n, p in task.expected.parameters.items())
        tolerance = UPDATE_TOLERANCE.get(task.name, 1e-3)
        allowed = tolerance * np.abs(wanted - before).max() + 1e-6 * largest + 2 * np.spacing(np.abs(before).max())
        if not np.abs(got - wanted).max() <= allowed:
            found.append(name)
    return found


@pytest.mark.parametrize("name", SETTINGS)
def test_own_settings_give_own_numbers(fixtures: Path, name: str) -> None:
    task = _load(fixtures, name)
    assert (task.spec.steps, task.spec.accumulation, task.spec.learning_rate) == (*SETTINGS[name], 0.001)
    assert task.expected is not None
    trajectory = run_golden(task)
    np.testing.assert_allclose(trajectory.losses, task.expected.losses, rtol=0, atol=1e-5)
    assert wrong_updates(task, trajectory) == []


@pytest.mark.parametrize("name", ["SimpleMLP", "ResNet8"])
def test_missing_update_is_noticed(fixtures: Path, name: str) -> None:
    task = _load(fixtures, name)
    trajectory = run_golden(task)
    still = Trajectory(trajectory.losses, trajectory.gradients, [task.initial], trajectory.states)
    assert len(wrong_updates(task, still)) == len(task.parameters)


def test_overridden_settings_cycle_the_data(fixtures: Path) -> None:
    task = _load(fixtures, "ResNet8", LoadOptions(steps=2))
    assert task.expected is None
    assert (task.spec.steps, task.spec.accumulation, len(task.batches)) == (2, 4, 4)
    np.testing.assert_array_equal(task.batch(5)["input"], task.batch(1)["input"])
    trajectory = run_golden(task)
    assert len(trajectory.losses) == 8
    assert len(trajectory.parameters) == 2
    assert trajectory.losses[4] != trajectory.losses[0]
    assert _load(fixtures, "ResNet8", LoadOptions(steps=1, learning_rate=0.001)).expected is not None
    assert _load(fixtures, "ResNet8", LoadOptions(learning_rate=0.1)).expected is None


def test_explicit_optimizer_overrides_the_sibling(fixtures: Path, tmp_path: Path) -> None:
    folder = fixtures / "training" / "SimpleMLP"
    moved = tmp_path / "elsewhere"
    moved.mkdir()
    for file in ("network.onnx", "inputs.npz", "outputs.npz"):
        (moved / file).write_bytes((folder / "simplemlp_train" / file).read_bytes())
    with pytest.raises(BadInputError, match="--optimizer"):
        load(str(moved))
    task = load(str(moved), LoadOptions(optimizer=folder / "simplemlp_optimizer"))
    assert isinstance(task, TrainingTask)
    assert task.expected is not None


def test_products_of_stacks_become_what_they_mean(fixtures: Path) -> None:
    """CCT's exporter writes MatMul with bias as Gemm, whatever the rank."""
    task = _load(fixtures, "CCT")
    gemms = [node for node in task.step.graph if node.op_type == "Gemm"]
    assert gemms and {value.shape.rank() for node in gemms for value in node.inputs[:2] if value and value.shape} == {2}
    assert sum(node.op_type == "MatMul" for node in task.step.graph) == 41
