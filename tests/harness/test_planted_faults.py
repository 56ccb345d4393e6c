"""The comparison can fail on every shipped network: faults planted in its golden run are found."""

from __future__ import annotations

import copy
import functools
from dataclasses import replace

import numpy as np
import pytest

from deeploy_ext.graph.load import LoadOptions, load
from deeploy_ext.graph.testnets import network_folders
from deeploy_ext.harness.compare import compare, identical
from deeploy_ext.harness.golden import run_golden
from deeploy_ext.training.autodiff import differentiate
from deeploy_ext.training.task import TrainingTask, Trajectory

LARGE = ("MobileNetV1",)
NETWORKS = [pytest.param(name, marks=pytest.mark.slow) if name in LARGE else name for name in sorted(network_folders())]


@functools.cache
def golden_of(name: str) -> tuple[TrainingTask, Trajectory]:
    network = load(name, LoadOptions(steps=2))
    task = network if isinstance(network, TrainingTask) else differentiate(network)
    return task, run_golden(task)


@pytest.fixture(params=NETWORKS)
def run(request: pytest.FixtureRequest) -> tuple[TrainingTask, Trajectory, Trajectory]:
    task, golden = golden_of(request.param)
    return task, golden, copy.deepcopy(golden)


Run = tuple[TrainingTask, Trajectory, Trajectory]


def test_the_golden_run_repeats_and_agrees_with_itself(run: Run) -> None:
    task, golden, measured = run
    assert compare(task, golden, measured).passed
    assert identical(golden, run_golden(task)) is None


def _weighty(golden: Trajectory) -> float:
    """Share of gradients that are not zero but for rounding, as those of a bias before batch normalisation are."""
    largest = [max(float(np.abs(gradient).max()) for gradient in row.values()) for row in golden.gradients]
    found = [np.abs(g).max() > 1e-5 * top for row, top in zip(golden.gradients, largest, strict=True) for g in row.values()]
    return sum(found) / len(found)


def test_no_update_fails(run: Run) -> None:
    task, golden, measured = run
    for step in measured.parameters:
        step.update({name: task.initial[name] for name in step})
    parameters = compare(task, golden, measured).parameters
    # a weight whose golden update is itself below rounding may pass, no other
    assert parameters.errors >= 0.8 * _weighty(golden) * parameters.total


def test_each_weight_alone_without_update_fails(run: Run) -> None:
    task, golden, _ = run
    largest = max(float(np.abs(value - task.initial[name]).max()) for name, value in golden.parameters[0].items())
    for parameter in task.parameters:
        still = {parameter.weight: task.initial[parameter.weight]}
        measured = replace(golden, parameters=[{**step, **still} for step in golden.parameters])
        moved = np.abs(golden.parameters[0][parameter.weight] - task.initial[parameter.weight]).max()
        rounding = np.spacing(np.abs(golden.parameters[0][parameter.weight]).max())
        if moved > 3 * rounding + 2e-6 * largest:  # those of a bias before a normalisation are rounding
            assert compare(task, golden, measured).parameters.errors > 0, parameter.weight


def test_flipped_signs_fail(run: Run) -> None:
    task, golden, measured = run
    before = task.initial
    for step in measured.parameters:
        step.update({name: (2 * before[name] - value).astype(value.dtype) for name, value in step.items()})
    for gradients in measured.gradients:
        gradients.update({name: -value for name, value in gradients.items()})
    verdict = compare(task, golden, measured)
    assert verdict.parameters.errors >= 0.8 * _weighty(golden) * verdict.parameters.total
    assert verdict.gradients.errors >= 0.8 * _weighty(golden) * verdict.gradients.total


def test_one_tile_missing_fails(run: Run) -> None:
    """A quarter of the first axis of one gradient is zero, in the last mini-batch only, whichever weight it is."""
    task, golden, _ = run
    scale = max(float(np.abs(gradient).max()) for gradient in golden.gradients[-1].values())
    for parameter in task.parameters:
        gradient = golden.gradients[-1][parameter.weight].copy()
        rows = max(1, gradient.shape[0] // 4)
        lost = np.abs(gradient[:rows]).max()
        gradient[:rows] = 0
        last = {**golden.gradients[-1], parameter.weight: gradient}
        measured = replace(golden, gradients=[*golden.gradients[:-1], last])
        if lost > 2e-3 * np.abs(golden.gradients[-1][parameter.weight]).max() + 2e-6 * scale:
            assert compare(task, golden, measured).gradients.errors == 1, parameter.weight


def without_gradients(golden: Trajectory) -> Trajectory:
    """What a program with a fused update leaves."""
    measured = copy.deepcopy(golden)
    measured.gradients.clear()
    return measured


def test_fused_no_update_and_flipped_signs_fail(run: Run) -> None:
    task, golden, _ = run
    assert compare(task, golden, without_gradients(golden), fused=True).passed
    assert not compare(task, golden, without_gradients(golden)).passed
    for factor in (0, -1):
        measured = without_gradients(golden)
        for step in measured.parameters:
            step.update({n: (task.initial[n] + factor * (v - task.initial[n])).astype(v.dtype) for n, v in step.items()})
        verdict = compare(task, golden, measured, fused=True)
        assert verdict.parameters.errors >= 0.8 * _weighty(golden) * verdict.parameters.total
        assert (verdict.gradients.errors, verdict.gradients.total) == (0, 0)


def test_fused_one_tile_of_an_update_missing_fails(run: Run) -> None:
    """A quarter of the first axis of one weight, the one that moves most, is not updated in the last step, whichever weight."""
    task, golden, _ = run
    changes = {n: golden.parameters[-1][n] - golden.parameters[-2][n] for n in golden.parameters[-1]}
    largest = max(float(np.abs(change).max()) for change in changes.values())
    found = 0
    for name, change in changes.items():
        measured = without_gradients(golden)
        weight = measured.parameters[-1][name]
        rows = max(1, weight.shape[0] // 4)
        first = int(np.abs(change).reshape(weight.shape[0], -1).max(axis=1).argmax()) // rows * rows
        tile = slice(first, first + rows)
        weight[tile] = golden.parameters[-2][name][tile]
        rounding = 3 * np.spacing(np.abs(golden.parameters[-1][name]).max())
        if np.abs(change[tile]).max() > 2e-3 * np.abs(change).max() + 2e-6 * largest + rounding:
            assert compare(task, golden, measured, fused=True).parameters.errors == 1, name
            found += 1
    assert found >= 0.8 * _weighty(golden) * len(changes)


def test_accumulation_lost_fails(run: Run) -> None:
    task, golden, measured = run
    if task.spec.accumulation == 1:
        pytest.skip("one mini-batch per step: nothing accumulates")
    for index in range(1, task.spec.accumulation):
        for name in measured.gradients[index]:
            measured.gradients[index][name] = golden.gradients[index][name] - golden.gradients[index - 1][name]
    assert compare(task, golden, measured).gradients.errors > 0


def test_frozen_state_fails(run: Run) -> None:
    task, golden, measured = run
    for states in measured.states:
        states.update({state.before: task.initial[state.before] for state in task.states})
    state = compare(task, golden, measured).state
    # every state moves in the first mini-batch; later ones of a frozen run stand still as well
    assert state.errors == state.total if task.states else state.total == 0
