"""Judges a run where rounding decides: a Relu whose input is zero within rounding lets a gradient pass, or not.

Both are right, and everything before that Relu then has another gradient: no tolerance covers such a jump, and none should.
So where a run differs from the golden run, the golden run is repeated with the sides that the run has taken, each step from
the weights with which the run started it, and the same rule is applied to all of it: what a step does is still proven for
every step, but differences that the rule allows, and the network then magnifies, do not add up.

Only elements whose input is zero within rounding may change side: closer to zero than ``MARGIN`` times what the golden run's
own values of that tensor move by, at most, when every weight moves by one unit in its last place. Which of them the run has
taken otherwise follows from its gradients by least squares: one side is one number, 0 or 1, a gradient is many.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import onnx_ir as ir

from deeploy_ext.graph.invocation import operator_of
from deeploy_ext.harness.compare import FLOOR, Verdict, compare, compare_expected, joined
from deeploy_ext.harness.golden import Session, run_golden
from deeploy_ext.training.task import Arrays, TrainingTask, Trajectory

MARGIN = 4.0
"""An input is zero within rounding up to so many times its tensor's movement."""

MOST = 48
"""Sides of a mini-batch that are tried, those closest to zero first."""

_SKETCH = 1 << 14
"""Numbers that the gradients of all weights are folded into for least squares."""


@dataclass(frozen=True)
class Side:
    """A side that a run has taken otherwise than the golden run.

    Attributes:
        node: the gradient node, by name.
        index: of the element.
        batch: number of the mini-batch.
        value: the golden run's value there.
        rounding: how far rounding moves values of that tensor.
    """

    node: str
    index: tuple[int, ...]
    batch: int
    value: float
    rounding: float

    def __str__(self) -> str:
        return f"{self.node}{list(self.index)}, mini-batch {self.batch}: {self.value:.2g}, rounding {self.rounding:.2g}"


@dataclass(frozen=True)
class Judgement:
    """What a run is worth: against the golden run, and against its maker's numbers (None: there are none).

    ``sides`` are those that the run has taken otherwise than the golden run, ``makers`` those of the maker's own run.
    """

    verdict: Verdict
    expected: Verdict | None
    sides: tuple[Side, ...] = ()
    makers: tuple[Side, ...] = ()


def judge(task: TrainingTask, golden: Trajectory, measured: Trajectory, *, fused: bool = False) -> Judgement:
    """Compares a run with the golden run and with the maker's numbers, each with its own sides.

    A run with a ``fused`` update has no gradients: the updates tell its sides.
    """
    verdict, sides, taken = compare(task, golden, measured, fused=fused), tuple[Side, ...](), golden
    if not verdict.passed and _complete(task, measured, fused):
        verdict, sides, taken = _step_by_step(task, golden, measured, fused) or (verdict, sides, taken)
    if task.expected is None:
        return Judgement(verdict, None, sides)
    expected = compare_expected(task, measured)
    if expected.passed or task.spec.steps != 1 or not _complete(task, measured, fused):
        return Judgement(verdict, expected, sides)
    theirs, makers = _with_sides(task, golden, _gradients(task, task.expected.parameters))
    moved = {
        name: value + (theirs.parameters[0][name].astype(np.float64) - taken.parameters[0][name])
        for name, value in measured.parameters[0].items()
    }
    moved = {name: value.astype(measured.parameters[0][name].dtype) for name, value in moved.items()}
    settled = compare_expected(task, replace(measured, parameters=[moved]))
    return Judgement(verdict, settled, sides, makers) if settled.passed else Judgement(verdict, expected, sides)


def _gradients(task: TrainingTask, after: Arrays) -> Arrays:
    """What the accumulated gradients were, from the weights after one step of plain SGD."""
    rate = task.spec.learning_rate
    return {name: (task.initial[name].astype(np.float64) - value) / rate for name, value in after.items()}


def _complete(task: TrainingTask, measured: Trajectory, fused: bool) -> bool:
    """Whether a run has a finite value wherever one is compared."""
    names = {parameter.weight for parameter in task.parameters}
    counts = (0 if fused else len(measured.gradients), len(measured.parameters), len(measured.states))
    predicted = len(measured.predictions) in (0, len(task.batches))
    found = [*([] if fused else measured.gradients), *measured.parameters]
    whole = all(set(arrays) >= names and all(np.isfinite(arrays[name]).all() for name in names) for arrays in found)
    return whole and predicted and counts == (0 if fused else task.spec.mini_batches, task.spec.steps, task.spec.mini_batches)


def _step_by_step(
    task: TrainingTask, golden: Trajectory, measured: Trajectory, fused: bool
) -> tuple[Verdict, tuple[Side, ...], Trajectory] | None:
    """Every step by itself: the golden run starts it where the run did, and takes the run's sides.

    None if a step fails even so. The last trajectory is the golden run of the last step.
    """
    verdicts: list[Verdict] = []
    sides: list[Side] = []
    for step in range(task.spec.steps):
        one, part = _one_step(task, measured, step), _part(task, measured, step)
        golden = golden if step == 0 and task.spec.steps == 1 else run_golden(one)
        verdict = compare(one, golden, part, fused=fused)
        if not verdict.passed:
            golden, found = _with_sides(one, golden, _gradients(one, part.parameters[0]) if fused else part.gradients[-1])
            verdict = compare(one, golden, part, fused=fused)
            sides += [replace(side, batch=side.batch + step * task.spec.accumulation) for side in found]
        if not verdict.passed:
            return None
        verdicts.append(verdict)
    return joined(verdicts), tuple(sides), golden


def _one_step(task: TrainingTask, measured: Trajectory, step: int) -> TrainingTask:
    """The task of one step, from the weights and states with which a run started it."""
    count, last = task.spec.accumulation, step == task.spec.steps - 1
    initial = task.initial | ({**measured.parameters[step - 1], **measured.states[step * count - 1]} if step else {})
    data = tuple(task.batch(step * count + number) for number in range(len(task.batches)))
    infer = task.infer if last else None  # the predictions that are compared are those after the last step
    return replace(task, initial=initial, batches=data, spec=replace(task.spec, steps=1), infer=infer, expected=None)


def _part(task: TrainingTask, measured: Trajectory, step: int) -> Trajectory:
    """What a run gave in one step."""
    start, distinct = step * task.spec.accumulation, len(task.batches)
    these, last = slice(start, start + task.spec.accumulation), step == task.spec.steps - 1
    predictions = [measured.predictions[(start + number) % distinct] for number in range(len(measured.predictions))]
    return Trajectory(
        measured.losses[these],
        measured.gradients[these],
        measured.parameters[step : step + 1],
        measured.states[these],
        predictions if last else [],
    )


def _with_sides(task: TrainingTask, golden: Trajectory, observed: Arrays) -> tuple[Trajectory, tuple[Side, ...]]:
    """The golden run of one step with the sides that agree best with the accumulated gradients observed at its end."""
    nudged = _Nudged(task)
    sides = nudged.taken(golden, observed) if nudged.places else []
    return (nudged.run(sides), tuple(sides)) if sides else (golden, ())


def nudged_run(task: TrainingTask, sides: Sequence[Side]) -> Trajectory:
    """The golden run with the given sides; a side whose ``value`` is positive is turned off, any other on."""
    return _Nudged(task).run(sides)


@dataclass(frozen=True)
class _Place:
    """A gradient node that looks at a sign: the input that moves what it looks at, and the value before the forward node."""

    node: str
    nudge: str
    value: str


class _Nudged:
    """A task whose step has one more input for each operand whose sign decides; zeros leave everything as it is."""

    def __init__(self, task: TrainingTask) -> None:
        step = ir.from_proto(ir.to_proto(task.step))
        self.task, self.places, self._zeros = task, list[_Place](), Arrays()
        for node in list(step.graph):
            operand = operator_of(node).decided_by
            position = operator_of(node).inputs.index(operand) if operand else 0
            looked_at = node.inputs[position] if operand else None
            forward = looked_at.producer() if looked_at is not None else None
            if looked_at is None or forward is None or forward.inputs[0] is None or looked_at.shape is None:
                continue
            value = forward.inputs[0]
            nudge = ir.Value(name=f"nudge/{node.name}", shape=looked_at.shape, type=looked_at.type)
            add = ir.Node("", "Add", [looked_at, nudge], name=f"nudged/{node.name}")
            add.outputs[0].name, add.outputs[0].shape, add.outputs[0].type = add.name, looked_at.shape, looked_at.type
            step.graph.insert_before(node, add)
            node.replace_input_with(position, add.outputs[0])
            step.graph.inputs.append(nudge)
            if not value.is_graph_output() and not value.is_graph_input():
                step.graph.outputs.append(value)
            self.places.append(_Place(node.name or "", nudge.name or "", value.name or ""))
            self._zeros[nudge.name or ""] = np.zeros(looked_at.shape.numpy(), np.float32)
        self._step = step

    def run(self, sides: Sequence[Side]) -> Trajectory:
        """The golden run with these sides."""
        batches: list[Arrays] = []
        for number in range(max(self.task.spec.mini_batches, len(self.task.batches))):
            batches.append({**self.task.batch(number), **self._nudges([side for side in sides if side.batch == number])})
        found = run_golden(replace(self.task, step=self._step, batches=tuple(batches)))
        return replace(found, predictions=found.predictions[: len(self.task.batches)])

    def _nudges(self, sides: Sequence[Side]) -> Arrays:
        nudges = dict(self._zeros)
        for side in sides:
            name = next(place.nudge for place in self.places if place.node == side.node)
            nudges[name] = nudges[name].copy()
            nudges[name][side.index] = -1.0 if side.value > 0 else 1.0
        return nudges

    def taken(self, golden: Trajectory, observed: Arrays) -> list[Side]:
        """The sides that explain the difference between observed gradients and those of the golden run."""
        session, wanted = Session(self._step, "training"), golden.gradients[-1]
        largest = max(float(np.abs(array).max()) for array in wanted.values())
        scales = {name: float(np.abs(array).max()) + FLOOR * largest for name, array in wanted.items()}
        fold = _Fold({name: array.shape for name, array in wanted.items()}, scales)
        sides: list[Side] = []
        columns: list[np.ndarray] = []
        for batch in range(self.task.spec.accumulation):
            values = self._values(golden, batch)
            made = session.run(values)
            plain = fold({p.weight: made[p.buffer_out] for p in self.task.parameters})
            candidates = self._candidates(session, values, made, batch)
            for side in candidates:
                other = session.run({**values, **self._nudges([side])})
                columns.append(fold({p.weight: other[p.buffer_out] for p in self.task.parameters}) - plain)
            sides += candidates
        if not sides:
            return []
        residual = fold({name: observed[name] - wanted[name].astype(np.float64) for name in wanted})
        shares, *_ = np.linalg.lstsq(np.array(columns).T, residual, rcond=None)
        return [side for side, share in zip(sides, shares, strict=True) if 0.7 < share < 1.3]

    def _values(self, golden: Trajectory, batch: int) -> Arrays:
        """All inputs of the step graph before a mini-batch of the golden run, buffers about to be overwritten."""
        values = {**self.task.initial, **self._zeros, **self.task.batch(batch), self.task.reset: np.array([True])}
        values |= {p.buffer: np.zeros_like(self.task.initial[p.weight]) for p in self.task.parameters}
        return values | (golden.states[batch - 1] if batch else {})

    def _candidates(self, session: Session, values: Arrays, made: Arrays, batch: int) -> list[Side]:
        """Elements that are zero within rounding, those closest to it first."""
        generator = np.random.RandomState(0)
        weights = {p.weight: values[p.weight] for p in self.task.parameters}
        for name, array in weights.items():
            away = np.where(generator.standard_normal(array.shape) < 0, -np.inf, np.inf).astype(array.dtype)
            weights[name] = np.nextafter(array, away)
        other, found = session.run({**values, **weights}), list[Side]()
        for place in self.places:
            if place.value not in made:  # an input of the network: nothing rounds it
                continue
            array = made[place.value]
            rounding = float(np.abs(array - other[place.value]).max())
            for index in np.argwhere(np.abs(array) < MARGIN * rounding):
                position = tuple(int(i) for i in index)
                found.append(Side(place.node, position, batch, float(array[position]), rounding))
        return sorted(found, key=lambda side: abs(side.value) / side.rounding)[:MOST]


class _Fold:
    """Folds the gradients of all weights, each by its own scale, into few numbers that keep lengths and angles."""

    def __init__(self, shapes: dict[str, tuple[int, ...]], scales: dict[str, float]) -> None:
        self._scales = scales
        size = sum(int(np.prod(shape)) for shape in shapes.values())
        generator = np.random.RandomState(0)
        self._place, self._sign = generator.randint(0, _SKETCH, size), generator.randint(0, 2, size) * 2.0 - 1.0

    def __call__(self, gradients: Arrays) -> np.ndarray:
        flat = [np.asarray(gradients[name], np.float64).reshape(-1) / scale for name, scale in self._scales.items() if scale]
        whole = np.concatenate(flat)
        return np.bincount(self._place[: whole.size], self._sign[: whole.size] * whole, _SKETCH)
