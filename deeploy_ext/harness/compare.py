"""Judges a measured training run against a golden one: losses, accumulated gradients, updates and state.

The rule of every tensor is ``|measured - golden| <= rtol * scale``, so one number per element tells how close it came:

* losses: ``rtol`` is the task's tolerance, ``scale = max(1, |golden|)``;
* gradients and predictions: ``rtol = 1e-3``, ``scale = max|tensor| + 1e-3 * max|all gradients of the mini-batch|``;
* parameters and state: the same on the *change* (after - before, each side from its own value before), plus two units in
  the last place of the largest stored value. Comparing the stored values themselves could not fail: an update is far
  smaller than 1e-3 of a weight.

NaN never passes, nor do missing tensors, other shapes, missing mini-batches, or a comparison of nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from deeploy_ext.training.task import Arrays, TrainingTask, Trajectory

Float64s = np.ndarray[Any, np.dtype[np.float64]]

RTOL = 1e-3
"""Of gradients, updates and changes of state, relative to the largest element of the tensor."""

FLOOR = 1e-3
"""Share of the largest element of *all* tensors that is added to the scale: 1e-6 of it, once multiplied by RTOL."""

ULPS = 2
"""Rounding allowed in a change, in units in the last place of the largest stored value."""


@dataclass(frozen=True)
class Finding:
    """The element of one tensor that came closest to its limit, or passed it.

    Attributes:
        tensor: its name; "loss" for losses.
        position: index of the mini-batch (losses, gradients, state) or of the step (parameters), from 0.
        index: of the element in the tensor; () for scalars and for findings without an element.
        golden, measured: the two values compared (changes, for parameters and state); NaN without an element.
        absolute: ``|measured - golden|``, in the tensor's unit; infinite when it is not a number.
        relative: ``absolute / scale``; the element passes if this is at most the category's rtol.
        note: what is wrong, where no element can be named ("missing", shapes); else "".
    """

    tensor: str
    position: int
    index: tuple[int, ...] = ()
    golden: float = math.nan
    measured: float = math.nan
    absolute: float = math.inf
    relative: float = math.inf
    note: str = ""


@dataclass(frozen=True)
class Category:
    """Result of one kind of tensor.

    Attributes:
        errors, total: tensors that failed, and tensors compared (one per mini-batch or step and name).
        max_abs, max_rel: largest of all findings; 0 when nothing was compared.
        worst: the finding with the largest relative difference.
        failures: the worst element of every tensor that failed, in execution order.
    """

    errors: int = 0
    total: int = 0
    max_abs: float = 0.0
    max_rel: float = 0.0
    worst: Finding | None = None
    failures: tuple[Finding, ...] = ()

    @staticmethod
    def of(findings: Iterable[tuple[Finding, bool]]) -> Category:
        """Collects findings, each with "it passed"."""
        every = list(findings)
        failures = tuple(finding for finding, passed in every if not passed)
        if not every:
            return Category()
        worst = max((finding for finding, _ in every), key=lambda finding: finding.relative)
        return Category(
            errors=len(failures),
            total=len(every),
            max_abs=max(finding.absolute for finding, _ in every),
            max_rel=worst.relative,
            worst=worst,
            failures=failures,
        )


@dataclass(frozen=True)
class Verdict:
    """Results of all kinds of tensors."""

    losses: Category = field(default_factory=Category)
    gradients: Category = field(default_factory=Category)
    parameters: Category = field(default_factory=Category)
    state: Category = field(default_factory=Category)
    predictions: Category = field(default_factory=Category)

    def categories(self) -> dict[str, Category]:
        """All by name, in the order of the report."""
        return {
            "losses": self.losses,
            "gradients": self.gradients,
            "parameters": self.parameters,
            "state": self.state,
            "predictions": self.predictions,
        }

    @property
    def errors(self) -> int:
        """Number of tensors that failed."""
        return sum(category.errors for category in self.categories().values())

    @property
    def total(self) -> int:
        """Number of tensors compared."""
        return sum(category.total for category in self.categories().values())

    @property
    def passed(self) -> bool:
        """True if something was compared and nothing failed."""
        return self.total > 0 and self.errors == 0


def compare(task: TrainingTask, golden: Trajectory, measured: Trajectory, *, fused: bool = False) -> Verdict:
    """Compares every loss, accumulated gradient, update and change of state of a run with the golden run's.

    A run with a ``fused`` update has no gradients; what they were shows in the update of every step.
    What has to be there follows from the task: ``task.spec`` says how many mini-batches and steps, ``task.parameters``
    and ``task.states`` which tensors. Never raises on bad numbers: whatever is missing or malformed is an error counted
    in the verdict.
    """
    weights = [parameter.weight for parameter in task.parameters]
    states = [state.before for state in task.states]
    predicted, distinct = [task.prediction] if task.prediction else [], len(task.batches)
    batches, steps = task.spec.mini_batches, task.spec.steps
    none: list[Arrays] = []
    return Verdict(
        losses=_losses(golden.losses, measured.losses, batches, task.spec.tolerance),
        gradients=Category()
        if fused
        else _tensors(weights, golden.gradients, measured.gradients, batches, none, required=True),
        parameters=_tensors(weights, golden.parameters, measured.parameters, steps, [task.initial], required=True),
        state=_tensors(states, golden.states, measured.states, batches, [task.initial], required=False),
        predictions=_tensors(predicted, golden.predictions, measured.predictions, distinct, none, required=False),
    )


def compare_expected(task: TrainingTask, trajectory: Trajectory) -> Verdict:
    """Compares a run with what the network's maker says comes out: losses, and the update over all steps together.

    A task without ``expected`` gives an empty verdict, which has not passed.
    """
    if task.expected is None:
        return Verdict()
    weights = [parameter.weight for parameter in task.parameters]
    last = trajectory.parameters[task.spec.steps - 1 : task.spec.steps]
    losses = [float(loss) for loss in np.asarray(task.expected.losses).reshape(-1)]
    return Verdict(
        losses=_losses(losses, trajectory.losses, task.spec.mini_batches, task.spec.tolerance),
        parameters=_tensors(weights, [task.expected.parameters], last, 1, [task.initial], required=True),
    )


def joined(steps: Sequence[Verdict]) -> Verdict:
    """One verdict of steps that were compared one by one, none of which has failures; the worst findings keep their step's
    own positions."""
    every = [verdict.categories() for verdict in steps]
    return Verdict(**{name: _joined([categories[name] for categories in every]) for name in every[0]})


def _joined(parts: Sequence[Category]) -> Category:
    worst = max((part.worst for part in parts if part.worst), key=lambda finding: finding.relative, default=None)
    return Category(
        errors=sum(part.errors for part in parts),
        total=sum(part.total for part in parts),
        max_abs=max(part.max_abs for part in parts),
        max_rel=max(part.max_rel for part in parts),
        worst=worst,
        failures=tuple(finding for part in parts for finding in part.failures),
    )


def identical(a: Trajectory, b: Trajectory) -> str | None:
    """None if two runs agree bit by bit (dtype and shape included), else where they first differ, as a phrase."""
    if len(a.losses) != len(b.losses):
        return f"{len(a.losses)} against {len(b.losses)} losses"
    for position, (x, y) in enumerate(zip(a.losses, b.losses, strict=True)):
        if np.float64(x).tobytes() != np.float64(y).tobytes():
            return f"loss of mini-batch {position}: {x!r} against {y!r}"
    kinds = (
        ("gradient", "mini-batch", a.gradients, b.gradients),
        ("state", "mini-batch", a.states, b.states),
        ("parameter", "step", a.parameters, b.parameters),
        ("prediction", "mini-batch", a.predictions, b.predictions),
    )
    for kind, unit, left, right in kinds:
        if len(left) != len(right):
            return f"{kind}s after {len(left)} against {len(right)} times one {unit}"
        for position, (mine, other) in enumerate(zip(left, right, strict=True)):
            difference = _first_difference(mine, other)
            if difference:
                return f"{kind} {difference} of {unit} {position}"
    return None


def _first_difference(a: Arrays, b: Arrays) -> str | None:
    for name in sorted(a.keys() | b.keys()):
        if name not in a or name not in b:
            return f"'{name}' (only on one side)"
        x, y = np.ascontiguousarray(a[name]), np.ascontiguousarray(b[name])
        if x.dtype != y.dtype or x.shape != y.shape:
            return f"'{name}' ({x.dtype}{list(x.shape)} against {y.dtype}{list(y.shape)})"
        unequal = np.frombuffer(x.tobytes(), np.uint8) != np.frombuffer(y.tobytes(), np.uint8)
        if unequal.any():
            flat = int(np.argmax(unequal)) // x.dtype.itemsize
            index = tuple(int(i) for i in np.unravel_index(flat, x.shape))
            return f"'{name}'{list(index)} ({x[index].item()!r} against {y[index].item()!r})"
    return None


def _losses(golden: Sequence[float], measured: Sequence[float], asked: int, tolerance: float) -> Category:
    found: list[tuple[Finding, bool]] = []
    for position in range(max(asked, len(golden), len(measured))):
        note = _absence(position, asked, len(golden), len(measured))
        if note:
            found.append((Finding("loss", position, note=note), False))
            continue
        reference, value = np.float64(golden[position]), np.float64(measured[position])
        scale = max(1.0, abs(float(reference))) if np.isfinite(reference) else 1.0
        found.append(_worst_element("loss", position, np.asarray(reference), np.asarray(value), scale, tolerance))
    return Category.of(found or [(Finding("loss", 0, note="no mini-batch to compare"), False)])


def _tensors(
    names: Sequence[str],
    golden: Sequence[Arrays],
    measured: Sequence[Arrays],
    asked: int,
    before: Sequence[Arrays],
    *,
    required: bool,
) -> Category:
    """Compares the named tensors of every mini-batch or step; on their change if ``before`` holds the initial values."""
    found: list[tuple[Finding, bool]] = []
    for position in range(max(asked, len(golden), len(measured)) if names else 0):
        note = _absence(position, asked, len(golden), len(measured))
        if note:
            found.extend((Finding(name, position, note=note), False) for name in names)
            continue
        references = _changes(names, golden[position], golden[position - 1] if position else None, before)
        values = _changes(names, measured[position], measured[position - 1] if position else None, before)
        largest = max((_largest(array) for array in references.values() if isinstance(array, np.ndarray)), default=0.0)
        for name in names:
            reference, value = references[name], values[name]
            problem = _problem(reference, value)
            if isinstance(reference, str) or isinstance(value, str) or problem:
                found.append((Finding(name, position, note=problem), False))
                continue
            rounding = ULPS * _ulp(golden[position][name], measured[position][name].dtype) if before else 0.0
            scale = _largest(reference) + FLOOR * largest + rounding / RTOL
            found.append(_worst_element(name, position, reference, value, scale, RTOL))
    if required and not found:
        found.append((Finding("(none)", 0, note="nothing to compare"), False))
    return Category.of(found)


def _absence(position: int, asked: int, golden: int, measured: int) -> str:
    """Says which side lacks a mini-batch or step, or that nobody asked for it; "" if all is well."""
    if position >= measured:
        return "missing in the measured run"
    if position >= golden:
        return "missing in the golden run"
    return "more than asked for" if position >= asked else ""


def _changes(
    names: Sequence[str], after: Arrays, previous: Arrays | None, initial: Sequence[Arrays]
) -> Mapping[str, Float64s | str]:
    """Per name the value in float64, minus the value before if ``initial`` is given; or what is wrong with it."""
    result: dict[str, Float64s | str] = {}
    for name in names:
        if name not in after:
            result[name] = "missing"
            continue
        value = np.asarray(after[name]).astype(np.float64)
        if initial:
            source = initial[0] if previous is None else previous
            if name not in source:
                result[name] = "value before missing"
                continue
            base = np.asarray(source[name]).astype(np.float64)
            if base.shape != value.shape:
                result[name] = f"shape {list(value.shape)} after {list(base.shape)}"
                continue
            with np.errstate(invalid="ignore", over="ignore"):
                value = value - base
        result[name] = value
    return result


def _problem(reference: Float64s | str, value: Float64s | str) -> str:
    if isinstance(value, str):
        return f"{value} in the measured run"
    if isinstance(reference, str):
        return f"{reference} in the golden run"
    if reference.shape != value.shape:
        return f"shape {list(value.shape)}, golden {list(reference.shape)}"
    return "" if reference.size else "no elements to compare"


def _largest(array: Float64s) -> float:
    """Largest finite magnitude: an infinite scale would let everything pass."""
    finite = np.abs(array[np.isfinite(array)])
    return float(finite.max()) if finite.size else 0.0


def _ulp(golden: np.ndarray[Any, Any], stored: np.dtype[Any]) -> float:
    """Unit in the last place of the largest golden value as the program stores it; 0 for integers, which do not round."""
    if not np.issubdtype(stored, np.floating):
        return 0.0
    return float(np.spacing(stored.type(_largest(np.asarray(golden, np.float64)))))


def _worst_element(
    name: str, position: int, reference: Float64s, value: Float64s, scale: float, rtol: float
) -> tuple[Finding, bool]:
    """The element with the largest difference of a tensor, and whether all its elements pass."""
    with np.errstate(invalid="ignore", over="ignore"):
        difference = np.abs(value - reference)
    difference = np.where(value == reference, 0.0, np.where(np.isnan(difference), math.inf, difference))
    flat = int(np.argmax(difference))
    absolute = float(difference.reshape(-1)[flat])
    relative = 0.0 if absolute == 0.0 else absolute / scale if scale > 0.0 else math.inf
    finding = Finding(
        tensor=name,
        position=position,
        index=tuple(int(i) for i in np.unravel_index(flat, difference.shape)),
        golden=float(reference.reshape(-1)[flat]),
        measured=float(value.reshape(-1)[flat]),
        absolute=absolute,
        relative=relative,
    )
    return finding, absolute <= rtol * scale
