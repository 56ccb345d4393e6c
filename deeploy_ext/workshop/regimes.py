"""Tile regimes: the ways in which a planner may run a node, each forced upon operators' cases.

Every regime runs all given cases in one program and compares every output with onnxruntime's, so one build serves a whole
registry.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from deeploy_ext.bench.cases import Case
from deeploy_ext.bench.task import BenchTask, bench_task
from deeploy_ext.codegen.emit import emit
from deeploy_ext.codegen.program import EmittedProgram
from deeploy_ext.engines.base import DmaMode, Engine, EngineResult, Sanitizer
from deeploy_ext.graph.lower import lower
from deeploy_ext.graph.program import Call, Program
from deeploy_ext.harness.compare import Finding, compare, identical
from deeploy_ext.harness.golden import run_golden
from deeploy_ext.operators.spec import Operator
from deeploy_ext.planning.check import check_plan
from deeploy_ext.planning.nest import loops_to_split, nests_of
from deeploy_ext.planning.plan import Plan
from deeploy_ext.planning.planner import PlanOptions, make_plan
from deeploy_ext.planning.target import Target


@dataclass(frozen=True)
class Regime:
    """How the cases are tiled, buffered and run.

    Attributes:
        split: which loops tiles split: "none"; "all", to the smallest tiles; or "0", "1", ...: the one of that number
            among those that can be split, in two (a node with fewer counts from 0 again).
        options: for the planner.
        dma: when transfers move data (host).
        sanitize: build with this sanitizer (host).
    """

    name: str
    split: str
    options: PlanOptions
    dma: DmaMode = "eager"
    sanitize: Sanitizer | None = None


def runnable(operators: Iterable[Operator]) -> list[Case]:
    """All cases that are emitted as they stand; a case that trains in another operator's form is that operator's to check."""
    return [
        Case(f"case {number}", operator, case.inputs, case.attributes, outputs=case.outputs, ranges=case.ranges)
        for operator in operators
        for number, case in enumerate(operator.cases)
        if operator.training_form({**operator.attributes, **case.attributes}) is None
    ]


def regimes(cases: Sequence[Case]) -> list[Regime]:
    """All regimes in which some of the cases differ."""
    most = max((len(_loops(call, "fast")) for call in lower(bench_task(cases).task).calls), default=0)
    variants = sorted({variant.name for case in cases for variant in case.operator.variants})
    near = PlanOptions(promote=True)
    return [
        Regime("whole tensors, 8 cores", "none", near),
        Regime("whole tensors, 1 core", "none", replace(near, cores=1)),
        Regime("portable bodies", "none", replace(near, kernels="portable")),
        *(Regime(f"loop {number + 1} split", str(number), replace(near, cores=3), "random") for number in range(most)),
        Regime("smallest tiles", "all", near),
        Regime("smallest tiles, portable", "all", replace(near, kernels="portable", cores=1)),
        *(Regime(f"smallest tiles, {v}", "all", replace(near, kernels="portable", dispatch=v)) for v in variants),
        Regime("double buffering, lazy DMA, from L3", "all", PlanOptions(double_buffer=True), "lazy"),
        *(
            Regime(f"{sanitizer} sanitizer", "0", replace(near, double_buffer=True), "random", sanitizer)
            for sanitizer in ("address", "undefined", "thread")
        ),
    ]


def _loops(call: Call, kernels: str) -> list[tuple[str, int]]:
    """Loops that can be split in some way to run a node, with their extents."""
    found = {loop.name: loop.extent for nests in nests_of(call, kernels) for loop in loops_to_split(nests)}
    return list(found.items())


def _limits(program: Program, regime: Regime) -> dict[str, Mapping[str, int]]:
    """The planner's limits that force a regime upon every node."""
    limits: dict[str, Mapping[str, int]] = {}
    for call in program.calls:
        ways = [loops_to_split(nests) for nests in nests_of(call, regime.options.kernels)]
        if regime.split == "all":  # in the way that splits most
            limits[call.name] = {loop.name: 1 for loop in max(ways, key=len)}
        elif regime.split != "none" and (loops := _loops(call, regime.options.kernels)):
            name, extent = loops[int(regime.split) % len(loops)]
            limits[call.name] = {name: math.ceil(extent / 2)}
    return limits


@dataclass(frozen=True)
class Ready:
    """Cases in one program, planned and emitted for a regime; ``limits`` of tiles by node and loop."""

    bench: BenchTask
    program: Program
    plan: Plan
    limits: Mapping[str, Mapping[str, int]]
    emitted: EmittedProgram


def prepare(cases: Sequence[Case], regime: Regime, target: Target, folder: Path) -> Ready:
    """Plans and emits the cases into ``folder``.

    Raises:
        BadInputError, InfeasibleError: as the stages do.
    """
    bench = bench_task(cases)
    program = lower(bench.task)
    limits = _limits(program, regime)
    plan = make_plan(program, target, replace(regime.options, largest=limits))
    check_plan(program, plan)
    return Ready(bench, program, plan, limits, emit(bench.task, program, plan, folder))


@dataclass(frozen=True)
class Outcome:
    """What came out of a regime: outputs that differ from onnxruntime's, a difference between two rounds, the run itself."""

    ready: Ready
    wrong: tuple[Finding, ...]
    repeat: str | None
    result: EngineResult


def run_regime(cases: Sequence[Case], regime: Regime, engine: Engine, target: Target, folder: Path) -> Outcome:
    """Runs the cases in a regime.

    Raises:
        BadInputError, InfeasibleError, ToolError: as the stages do.
    """
    ready = prepare(cases, regime, target, folder / "c")
    built = engine.build(ready.emitted, folder / "build", regime.sanitize)
    result = engine.run(built, dma=regime.dma)
    first, *others = result.rounds
    verdict = compare(ready.bench.task, run_golden(ready.bench.task), first)
    wrong = tuple(finding for category in verdict.categories().values() for finding in category.failures)
    repeats = [difference for other in others if (difference := identical(first, other))]
    return Outcome(ready, wrong, repeats[0] if repeats else None, result)
