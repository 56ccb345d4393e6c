"""The comparison must fail on every planted fault and pass rounding noise, on trajectories made up here."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import onnx_ir as ir
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deeploy_ext.harness.compare import compare, compare_expected, identical
from deeploy_ext.training.task import Arrays, Expectation, Parameter, State, TrainingSpec, TrainingTask, Trajectory

SHAPES = {"w": (8, 4, 3, 3), "gamma": (8,), "bias": (8,)}
RATE = 1e-3


def empty_model() -> ir.Model:
    return ir.Model(ir.Graph([], [], nodes=[]), ir_version=10)


def make(seed: int = 0, steps: int = 2, accumulation: int = 2) -> tuple[TrainingTask, Trajectory]:
    """A task and its golden run: random accumulated gradients, SGD; ``bias`` has gradients that are pure rounding noise."""
    rng = np.random.default_rng(seed)
    weights: Arrays = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in SHAPES.items()}
    initial = {**weights, "mean": np.zeros(8, np.float32)}
    golden = Trajectory([], [], [], [])
    state = initial["mean"]
    for _ in range(steps):
        total = {name: np.zeros(shape, np.float32) for name, shape in SHAPES.items()}
        for _ in range(accumulation):
            for name, shape in SHAPES.items():
                size = 1e-9 if name == "bias" else 1.0
                total[name] = total[name] + (size * rng.standard_normal(shape)).astype(np.float32)
            state = (0.9 * state + 0.1 * rng.standard_normal(8)).astype(np.float32)
            golden.losses.append(float(np.float32(2.3 + 0.1 * rng.standard_normal())))
            golden.gradients.append(dict(total))
            golden.states.append({"mean": state})
        weights = {name: (weights[name] - np.float32(RATE) * total[name]).astype(np.float32) for name in SHAPES}
        golden.parameters.append(dict(weights))
    task = TrainingTask(
        name="synthetic",
        step=empty_model(),
        update=empty_model(),
        forward=None,
        infer=None,
        loss="loss",
        reset="reset",
        learning_rate="learning_rate",
        data=("x",),
        parameters=tuple(Parameter(name, name + "_b", name + "_o", name + "_u") for name in SHAPES),
        states=(State("mean", "mean_after"),),
        initial=initial,
        batches=({},),
        spec=TrainingSpec(steps=steps, accumulation=accumulation, learning_rate=RATE),
        expected=Expectation(np.asarray(golden.losses, np.float32), dict(golden.parameters[-1])),
    )
    return task, golden


def no_update(task: TrainingTask, run: Trajectory) -> None:
    for step in run.parameters:
        step.update({name: task.initial[name] for name in SHAPES})


def one_parameter_never_updated(task: TrainingTask, run: Trajectory) -> None:
    for step in run.parameters:
        step["gamma"] = task.initial["gamma"]


def second_update_missing(task: TrainingTask, run: Trajectory) -> None:
    run.parameters[1] = dict(run.parameters[0])


def sign_flipped(task: TrainingTask, run: Trajectory) -> None:
    for step in run.parameters:
        step["w"] = 2 * task.initial["w"] - step["w"]


def gradient_sign_flipped(task: TrainingTask, run: Trajectory) -> None:
    run.gradients[2]["w"] = -run.gradients[2]["w"]


def one_tile_missing(task: TrainingTask, run: Trajectory) -> None:
    run.gradients[1]["w"] = run.gradients[1]["w"].copy()
    run.gradients[1]["w"][4:6] = 0


def accumulation_lost(task: TrainingTask, run: Trajectory) -> None:
    run.gradients[1]["w"] = run.gradients[1]["w"] - run.gradients[0]["w"]


def noise_bias_written_with_garbage(task: TrainingTask, run: Trajectory) -> None:
    run.gradients[0]["bias"] = np.full(8, 1e-3, np.float32)


def nan_loss(task: TrainingTask, run: Trajectory) -> None:
    run.losses[3] = math.nan


def infinite_loss(task: TrainingTask, run: Trajectory) -> None:
    run.losses[0] = math.inf


def nan_in_gradient(task: TrainingTask, run: Trajectory) -> None:
    run.gradients[3]["gamma"] = run.gradients[3]["gamma"].copy()
    run.gradients[3]["gamma"][7] = np.nan


def infinity_in_parameter(task: TrainingTask, run: Trajectory) -> None:
    run.parameters[0]["w"] = run.parameters[0]["w"].copy()
    run.parameters[0]["w"][0, 0, 0, 0] = np.inf


def missing_gradient(task: TrainingTask, run: Trajectory) -> None:
    del run.gradients[0]["gamma"]


def missing_parameter(task: TrainingTask, run: Trajectory) -> None:
    del run.parameters[0]["gamma"]


def missing_state(task: TrainingTask, run: Trajectory) -> None:
    del run.states[0]["mean"]


def other_shape(task: TrainingTask, run: Trajectory) -> None:
    run.gradients[0]["w"] = run.gradients[0]["w"].reshape(8, 4, 9)


def broadcastable_shape(task: TrainingTask, run: Trajectory) -> None:
    run.gradients[0]["gamma"] = run.gradients[0]["gamma"].reshape(1, 8)


def fewer_losses(task: TrainingTask, run: Trajectory) -> None:
    run.losses.pop()


def fewer_gradients(task: TrainingTask, run: Trajectory) -> None:
    run.gradients.pop()


def fewer_steps(task: TrainingTask, run: Trajectory) -> None:
    run.parameters.pop()


def more_losses(task: TrainingTask, run: Trajectory) -> None:
    run.losses.append(run.losses[-1])


def running_mean_never_moves(task: TrainingTask, run: Trajectory) -> None:
    for states in run.states:
        states["mean"] = task.initial["mean"]


def nothing_at_all(task: TrainingTask, run: Trajectory) -> None:
    for values in (run.losses, run.gradients, run.parameters, run.states):
        values.clear()


FAULTS: dict[Callable[[TrainingTask, Trajectory], None], set[str]] = {
    no_update: {"parameters"},
    one_parameter_never_updated: {"parameters"},
    second_update_missing: {"parameters"},
    sign_flipped: {"parameters"},
    gradient_sign_flipped: {"gradients"},
    one_tile_missing: {"gradients"},
    accumulation_lost: {"gradients"},
    noise_bias_written_with_garbage: {"gradients"},
    nan_loss: {"losses"},
    infinite_loss: {"losses"},
    nan_in_gradient: {"gradients"},
    infinity_in_parameter: {"parameters"},
    missing_gradient: {"gradients"},
    missing_parameter: {"parameters"},
    missing_state: {"state"},
    other_shape: {"gradients"},
    broadcastable_shape: {"gradients"},
    fewer_losses: {"losses"},
    fewer_gradients: {"gradients"},
    fewer_steps: {"parameters"},
    more_losses: {"losses"},
    running_mean_never_moves: {"state"},
    nothing_at_all: {"losses", "gradients", "parameters", "state"},
}


def test_a_run_agrees_with_itself() -> None:
    task, golden = make()
    verdict = compare(task, golden, copy.deepcopy(golden))
    assert verdict.passed
    totals = {name: (category.errors, category.total) for name, category in verdict.categories().items()}
    assert totals == {"losses": (0, 4), "gradients": (0, 12), "parameters": (0, 6), "state": (0, 4), "predictions": (0, 0)}
    assert (verdict.errors, verdict.total) == (0, 26)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_planted_faults_fail_where_they_are(fault: Callable[[TrainingTask, Trajectory], None]) -> None:
    task, golden = make()
    measured = copy.deepcopy(golden)
    fault(task, measured)
    verdict = compare(task, golden, measured)
    assert not verdict.passed
    assert {name for name, category in verdict.categories().items() if category.errors} == FAULTS[fault]
    for category in verdict.categories().values():
        assert len(category.failures) == category.errors <= category.total


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_golden_runs_are_not_trusted_either(fault: Callable[[TrainingTask, Trajectory], None]) -> None:
    task, golden = make()
    broken = copy.deepcopy(golden)
    fault(task, broken)
    assert not compare(task, broken, golden).passed


def test_nan_on_both_sides_does_not_pass() -> None:
    task, golden = make()
    nan_loss(task, golden)
    nan_in_gradient(task, golden)
    verdict = compare(task, golden, copy.deepcopy(golden))
    assert (verdict.losses.errors, verdict.gradients.errors) == (1, 1)


def test_an_infinite_golden_value_does_not_let_the_others_pass() -> None:
    task, golden = make()
    golden.gradients[0]["w"] = golden.gradients[0]["w"].copy()
    golden.gradients[0]["w"][0, 0, 0, 0] = np.inf
    measured = copy.deepcopy(golden)
    assert compare(task, golden, measured).passed
    measured.gradients[0]["w"][1] = 0
    measured.gradients[0]["gamma"] = -measured.gradients[0]["gamma"]
    assert compare(task, golden, measured).gradients.errors == 2


def test_a_task_without_parameters_is_an_empty_comparison() -> None:
    task, golden = make()
    verdict = compare(replace(task, parameters=()), golden, golden)
    assert verdict.gradients.errors == verdict.parameters.errors == 1


def test_a_network_without_state_passes() -> None:
    task, golden = make()
    bare = replace(golden, states=[{} for _ in golden.states])
    verdict = compare(replace(task, states=()), golden, bare)
    assert verdict.passed and verdict.state.total == 0 and verdict.state.worst is None


def test_the_worst_element_is_named() -> None:
    task, golden = make()
    measured = copy.deepcopy(golden)
    measured.gradients[2]["w"] = measured.gradients[2]["w"].copy()
    measured.gradients[2]["w"][3, 2, 1, 0] += 0.25
    worst = compare(task, golden, measured).gradients.worst
    assert worst is not None
    assert (worst.tensor, worst.position, worst.index) == ("w", 2, (3, 2, 1, 0))
    assert worst.absolute == pytest.approx(0.25, rel=1e-4)
    assert worst.measured - worst.golden == pytest.approx(0.25, rel=1e-4)


@given(st.integers(0, 2**16), st.floats(-0.9, 0.9), st.floats(-0.9, 0.9))
def test_rounding_noise_passes(seed: int, gradient_share: float, ulps: float) -> None:
    """Errors below the limits: a share of rtol on gradients, less than an ulp on stored parameters, 1e-6 on losses."""
    task, golden = make(seed % 7)
    measured = copy.deepcopy(golden)
    rng = np.random.default_rng(seed)
    for gradients in measured.gradients:
        for name, array in gradients.items():
            limit = 1e-3 * np.abs(array).max()
            gradients[name] = (array + gradient_share * limit * rng.uniform(-1, 1, array.shape)).astype(np.float32)
    for parameters in measured.parameters:
        for name, array in parameters.items():
            sign = rng.choice([-1, 1], array.shape).astype(np.float32)
            parameters[name] = (array + np.float32(ulps) * sign * np.spacing(np.abs(array))).astype(np.float32)
    measured.losses[:] = [loss * (1 + 1e-6 * ulps) for loss in measured.losses]
    verdict = compare(task, golden, measured)
    assert verdict.passed, [category.failures[:1] for category in verdict.categories().values()]


@given(st.integers(0, 2**16), st.sampled_from(["w", "gamma"]), st.floats(1.5, 1e6))
def test_an_error_above_the_limit_fails_wherever_it_is(seed: int, name: str, factor: float) -> None:
    task, golden = make()
    measured = copy.deepcopy(golden)
    array = measured.gradients[1][name] = measured.gradients[1][name].copy()
    flat = seed % array.size
    array.reshape(-1)[flat] += np.float32(factor * 1e-3 * np.abs(array).max() + 1e-5)
    category = compare(task, golden, measured).gradients
    assert category.errors == 1 and category.worst is not None
    assert (category.worst.tensor, category.worst.index) == (name, tuple(np.unravel_index(flat, array.shape)))


def test_expected_values_of_the_maker() -> None:
    task, golden = make()
    verdict = compare_expected(task, golden)
    assert verdict.passed and (verdict.losses.total, verdict.parameters.total) == (4, 3)
    stale = copy.deepcopy(golden)
    no_update(task, stale)
    assert compare_expected(task, stale).parameters.errors == 2  # the update of ``bias`` is below rounding
    assert not compare_expected(replace(task, expected=None), golden).passed
    short = replace(golden, losses=golden.losses[:2], parameters=golden.parameters[:1])
    assert compare_expected(task, short).losses.errors == 2
    assert compare_expected(task, short).parameters.errors == 3


def test_bit_identity() -> None:
    _, golden = make()
    assert identical(golden, copy.deepcopy(golden)) is None
    other = copy.deepcopy(golden)
    other.states[1]["mean"] = np.nextafter(other.states[1]["mean"], np.float32(np.inf))
    assert str(identical(golden, other)).startswith("state 'mean'[0] (")
    other = copy.deepcopy(golden)
    other.parameters[1]["bias"] = other.parameters[1]["bias"].astype(np.float64)
    assert "float32[8] against float64[8]" in str(identical(golden, other))
    assert "4 against 3 losses" in str(identical(golden, replace(golden, losses=golden.losses[:3])))
    assert "only on one side" in str(identical(golden, replace(golden, gradients=[{} for _ in golden.gradients])))
    assert identical(golden, replace(golden, parameters=[])) is not None


def test_bit_identity_tells_zero_from_minus_zero_and_accepts_equal_nans() -> None:
    zero, minus = np.zeros(2, np.float32), np.array([0, -0.0], np.float32)
    nan = np.full(2, np.nan, np.float32)
    difference = identical(Trajectory([], [{"w": zero}], [], []), Trajectory([], [{"w": minus}], [], []))
    assert "[1] (0.0 against -0.0)" in str(difference)
    assert identical(Trajectory([math.nan], [{"w": nan}], [], []), Trajectory([math.nan], [{"w": nan.copy()}], [], [])) is None
