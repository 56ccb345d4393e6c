"""What ``check-operator`` checks: every claim of an operator, on its cases."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
import onnx
import onnx.inliner
import onnx_ir as ir
from onnx import helper, shape_inference

from deeploy_ext.bench.cases import Case
from deeploy_ext.bench.task import bench_task, case_number
from deeploy_ext.engines.base import Engine, EngineResult
from deeploy_ext.errors import DeeployError
from deeploy_ext.operators.spec import Operator, TensorType
from deeploy_ext.planning.nest import macs
from deeploy_ext.planning.target import Target
from deeploy_ext.plugins import raised
from deeploy_ext.workshop.gradients import gradient_errors, has_gradient
from deeploy_ext.workshop.regimes import Outcome, Ready, Regime, prepare, regimes, run_regime, runnable

State = Literal["ok", "FAILED", "skipped"]


@dataclass(frozen=True)
class Check:
    """One line of the report: what was checked, and what came out."""

    state: State
    name: str
    said: str


def check_operator(
    operators: Sequence[Operator], host: Engine, gvsoc: Engine | str, target: Target, folder: Path
) -> Iterator[Check]:
    """Checks operators one claim after the other, all of them in the same programs; see docs/add-an-operator.md.

    Args:
        gvsoc: the simulator, or why there is none.
        folder: for emitted programs.
    """
    without = [operator.op_type for operator in operators if not operator.cases]
    if without:
        yield Check("FAILED", "cases", f"{', '.join(without)} has none: nothing can be checked; add a row to 'cases'")
        return
    cases = runnable(operators)
    found = _checked("shapes", lambda: _shapes(cases))
    yield found
    if found.state == "FAILED":  # all others would fail for the same reason
        return
    yield _checked("gradient rule", lambda: _gradients(operators))
    try:
        every = regimes(cases)
    except DeeployError as error:
        yield Check("FAILED", "lowering", str(error))
        return
    found = _checked("deterministic", lambda: _deterministic(cases, every[0], target, folder / "emit"))
    yield found
    if found.state == "FAILED":
        return
    for number, regime in enumerate(every):
        place = folder / f"host{number}"
        yield _checked(regime.name, lambda regime=regime, place=place: _judged(run_regime(cases, regime, host, target, place)))
    if isinstance(gvsoc, str):
        yield Check("skipped", "on gvsoc", gvsoc)
        plain = replace(every[0], splits=("none",))
        try:
            ready = prepare(cases, plain, target, folder / "plain")
        except DeeployError as error:
            yield Check("FAILED", "cycles", str(error))
        else:
            yield from _cycles(cases, ready, None, target)
        return
    measured: list[Outcome] = []

    def simulate(regime: Regime, place: Path) -> tuple[State, str]:
        measured.append(run_regime(cases, regime, gvsoc, target, place))
        return _judged(measured[-1])

    plain = replace(every[0], splits=("none",))
    small = replace(plain, splits=("all",), options=replace(plain.options, double_buffer=True, buffer_all=True))
    yield _checked("on gvsoc, whole tensors", lambda: simulate(plain, folder / "gvsoc0"))
    yield _checked("on gvsoc, smallest tiles, double buffering", lambda: simulate(small, folder / "gvsoc1"))
    if measured:
        yield from _cycles(cases, measured[0].ready, measured[0].result, target)


def _checked(name: str, check: Callable[[], tuple[State, str]]) -> Check:
    """What a check says; an error that it raises is a failure with its message."""
    try:
        state, said = check()
    except Exception as error:  # operators are other people's code
        state, said = "FAILED", str(error) if isinstance(error, DeeployError) else raised(error)
    return Check(state, name, said)


def _shapes(cases: Sequence[Case]) -> tuple[State, str]:
    """Types that ONNX's own inference gives for the graph of the cases, with reference bodies written out."""
    task = bench_task(cases).task
    proto = ir.to_proto(task.step)
    inner = {value.name: _type_of(value) for value in [*proto.graph.value_info, *proto.graph.output]}
    del proto.graph.value_info[:]
    for value in proto.graph.output:
        value.type.tensor_type.ClearField("shape")
    inferred = shape_inference.infer_shapes(onnx.inliner.inline_local_functions(proto), strict_mode=True, data_prop=True)
    known = 0
    for value in [*inferred.graph.value_info, *inferred.graph.output]:
        found = _type_of(value)
        if found is None or inner.get(value.name) is None:
            continue
        known += 1
        if found != inner[value.name]:
            return "FAILED", f"'{value.name}' is {inner[value.name]}, ONNX infers {found}"
    return "ok", f"as ONNX infers them, {known} values; others are compared when they run"


def _type_of(value: onnx.ValueInfoProto) -> TensorType | None:
    tensor = value.type.tensor_type
    if not tensor.HasField("shape") or not all(dimension.HasField("dim_value") for dimension in tensor.shape.dim):
        return None
    dtype = np.dtype(helper.tensor_dtype_to_np_dtype(tensor.elem_type))
    return TensorType(dtype, tuple(dimension.dim_value for dimension in tensor.shape.dim))


def _gradients(operators: Sequence[Operator]) -> tuple[State, str]:
    count = 0
    for operator in operators:
        for case in operator.cases if has_gradient(operator) else ():
            errors = gradient_errors(operator, case)
            if errors:
                return "FAILED", f"{operator.op_type}: {errors[0]}"
            count += 1
    if not count:
        return "skipped", "no rule: training through the operator is refused"
    return "ok", f"as central differences in float64, {count} cases"


def _deterministic(cases: Sequence[Case], regime: Regime, target: Target, folder: Path) -> tuple[State, str]:
    texts: list[dict[str, bytes]] = []
    for name in ("first", "second"):
        prepare(cases, regime, target, folder / name)
        texts.append({path.name: path.read_bytes() for path in sorted((folder / name).iterdir())})
    differing = sorted(name for name in {*texts[0], *texts[1]} if texts[0].get(name) != texts[1].get(name))
    if differing:
        return "FAILED", f"two emissions differ in {', '.join(differing)}"
    return "ok", f"two emissions, {len(texts[0])} files, are byte-identical"


def _judged(outcome: Outcome) -> tuple[State, str]:
    if outcome.wrong:
        worst = max(outcome.wrong, key=lambda finding: finding.relative)
        place = f"{worst.tensor}{list(worst.index)}"
        said = worst.note or f"{worst.measured:.6g}, onnxruntime gives {worst.golden:.6g}"
        return "FAILED", f"{len(outcome.wrong)} of {outcome.compared} tensors are wrong; {place}: {said}"
    if outcome.repeat:
        return "FAILED", f"a second round differs: {outcome.repeat}"
    plan = outcome.ready.plan
    tiles = sum(group.tiles for group in plan.groups)
    buffered = sum(group.double_buffer for group in plan.groups)
    doubled = f", {buffered} of {len(plan.groups)} nests double-buffered" if buffered else ""
    return "ok", f"{outcome.compared} tensors as onnxruntime's, {tiles} tiles{doubled}"


def _cycles(cases: Sequence[Case], ready: Ready, measured: EngineResult | None, target: Target) -> Iterator[Check]:
    """A line for every case: cycles of its nodes, tensors in L2, and multiply-accumulates per cycle if it does any."""
    for number, case in enumerate(cases):
        places = [i for i, group in enumerate(ready.plan.groups) if case_number(group.node) == number]
        work = sum(macs(call) for call in ready.program.calls if case_number(call.name) == number)
        if case.operator.view or not places:
            continue
        if measured is not None and measured.cycles is not None:
            counted = [measured.cycles.groups[i] for i in places]
            total, said = sum(cycles.total for cycles in counted), f"measured, {measured.model}"
        else:
            total, said = sum(ready.plan.groups[i].cycles.total for i in places), f"predicted, {target.model}"
        rate = f", {work / total:.2f} MAC/cycle" if work else ""
        yield Check("ok", f"cycles ({said})", f"{total:,}{rate}: {case.name.split(': ', 1)[1]}")
