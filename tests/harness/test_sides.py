"""Relu inputs that are zero within rounding: a run may take either side of those, and of no others."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from deeploy_ext.harness.compare import compare
from deeploy_ext.harness.golden import run_golden
from deeploy_ext.harness.sides import Side, judge, nudged_run
from deeploy_ext.training.network import NetworkBuilder
from deeploy_ext.training.task import Expectation, TrainingSpec, TrainingTask, Trajectory
from support import task_from

NODE = "relu_grad/ReluGrad"


def _task(nearest: float, steps: int = 2) -> TrainingTask:
    """Two dense layers; the first Relu input of the first mini-batch is set to ``nearest`` by its bias."""
    net = NetworkBuilder(3)
    x = net.input("features", [1, 16])
    x = net.relu("relu", net.dense("hidden", x, (16, 12), gain=2.0))
    model = net.model("near", net.dense("classifier", x, (12, 4)), [1, 4])
    task = task_from(model, TrainingSpec(steps=steps, accumulation=2, learning_rate=0.05, seed=1))
    hidden = task.initial["hidden_weight"].astype(np.float64) @ task.batch(0)["features"][0].astype(np.float64)
    bias = task.initial["hidden_bias"].copy()
    bias[0] = nearest - hidden[0]
    return replace(task, initial={**task.initial, "hidden_bias": bias})


def _other_side(task: TrainingTask) -> Trajectory:
    """A run that is right but for the side of that one element."""
    return nudged_run(task, [Side(NODE, (0, 0), 0, 1.0, 0.0)])


@pytest.mark.parametrize("steps", [1, 2])
def test_a_side_that_rounding_decides_is_found_and_all_numbers_agree_then(steps: int) -> None:
    task = _task(2e-8, steps)
    golden = run_golden(task)
    run = _other_side(task)
    assert not compare(task, golden, run).passed
    judgement = judge(task, golden, run)
    assert judgement.verdict.passed
    assert judgement.verdict.total == compare(task, golden, run).total
    assert [(side.node, side.index, side.batch) for side in judgement.sides] == [(NODE, (0, 0), 0)]


def test_a_side_that_is_wrong_stays_an_error() -> None:
    task = _task(0.3)
    golden = run_golden(task)
    run = _other_side(task)
    judgement = judge(task, golden, run)
    assert judgement.verdict == compare(task, golden, run)
    assert not judgement.verdict.passed
    assert judgement.sides == ()


def test_another_error_beside_a_side_stays_an_error() -> None:
    task = _task(2e-8)
    golden = run_golden(task)
    run = _other_side(task)
    run.gradients[1]["classifier_bias"] = run.gradients[1]["classifier_bias"] * np.float32(1.01)
    assert not judge(task, golden, run).verdict.passed


@pytest.mark.parametrize("missing", ["gradients", "parameters", "losses"])
def test_what_is_missing_stays_an_error(missing: str) -> None:
    task = _task(2e-8)
    golden = run_golden(task)
    run = _other_side(task)
    assert not judge(task, golden, replace(run, **{missing: getattr(run, missing)[:-1]})).verdict.passed


def test_a_wrong_update_stays_an_error_in_every_step() -> None:
    task = _task(2e-8)
    golden = run_golden(task)
    for step in range(2):
        run = _other_side(task)
        before = run.parameters[step - 1] if step else task.initial
        run.parameters[step]["hidden_weight"] = before["hidden_weight"]
        assert not judge(task, golden, run).verdict.passed


def test_the_makers_numbers_may_have_sides_of_their_own() -> None:
    task = _task(2e-8, steps=1)
    golden = run_golden(task)
    theirs = _other_side(task)
    expected = Expectation(np.array(theirs.losses, np.float32), theirs.parameters[-1])
    judgement = judge(replace(task, expected=expected), golden, golden)
    assert judgement.verdict.passed
    assert judgement.expected is not None
    assert judgement.expected.passed
    assert len(judgement.makers) == 1
    wrong = {**theirs.parameters[-1], "classifier_bias": theirs.parameters[-1]["classifier_bias"] + np.float32(1e-3)}
    judgement = judge(replace(task, expected=replace(expected, parameters=wrong)), golden, golden)
    assert judgement.expected is not None
    assert not judgement.expected.passed
    assert judgement.makers == ()
