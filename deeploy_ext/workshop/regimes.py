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
from deeploy_ext.bench.task import BenchTask, bench_task, case_number
from deeploy_ext.choices import KERNELS
from deeploy_ext.codegen.emit import emit
from deeploy_ext.codegen.program import EmittedProgram
from deeploy_ext.engines.base import DmaMode, Engine, EngineResult, Sanitizer
from deeploy_ext.graph.lower import lower
from deeploy_ext.graph.program import Call, Program
from deeploy_ext.harness.compare import Finding, compare, identical
from deeploy_ext.harness.golden import run_golden
from deeploy_ext.operators.spec import Operator
from deeploy_ext.planning.check import check_plan
from deeploy_ext.planning.nest import kernels_of, loops_to_split, nests_of
from deeploy_ext.planning.options import PlanOptions
from deeploy_ext.planning.plan import Plan
from deeploy_ext.planning.planner import make_plan
from deeploy_ext.planning.schedule import scheduled
from deeploy_ext.planning.target import Target


@dataclass(frozen=True)
class Regime:
    """How the cases are tiled, buffered and run.

    Attributes:
        splits: which loops tiles split; the program has every case once for each: "none"; "all", to the smallest tiles;
            or "1", "2", ...: the one of that number among those that can be split, in two (a node with fewer counts from
            the start again).
        options: for the planner.
        dma: when transfers move data (host).
        sanitize: build with this sanitizer (host).
    """

    name: str
    splits: tuple[str, ...]
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
    """All regimes in which some of the cases differ, the most usual first."""
    calls = lower(bench_task(cases).task).calls
    most = max((len(_loops(call, "fast")) for call in calls), default=0)
    others = [name for name in KERNELS if any(kernels_of(call, name) not in (kernels_of(call, "fast"), ()) for call in calls)]
    variants = sorted({variant.name for case in cases for variant in case.operator.variants})
    each = tuple(str(number + 1) for number in range(most))
    near = PlanOptions(promote=True)
    portable = replace(near, kernels="portable")
    return [
        Regime("8 cores", ("none", *each, "all"), near),
        Regime("1 core", ("none", "all"), replace(near, cores=1)),
        *(Regime(f"{name} kernels", ("none", "all"), replace(near, kernels=name)) for name in others),
        Regime("portable bodies, 3 cores", ("none", *each, "all"), replace(portable, cores=3), "random"),
        *(Regime(f"variant {name}", ("none", "all"), replace(portable, dispatch=name)) for name in variants),
        Regime(
            "double buffering, lazy DMA, from L3", (*each[:1], "all"), PlanOptions(double_buffer=True, buffer_all=True), "lazy"
        ),
        *(
            Regime(
                f"{sanitizer} sanitizer",
                ("none", "all"),
                replace(near, double_buffer=True, buffer_all=True),
                "random",
                sanitizer,
            )
            for sanitizer in ("address", "undefined", "thread")
        ),
    ]


def _loops(call: Call, kernels: str) -> list[tuple[str, int]]:
    """Loops that can be split in some way to run a node, with their extents."""
    found = {loop.name: loop.extent for nests in nests_of(call, kernels) for loop in loops_to_split(nests)}
    return list(found.items())


def _limits(program: Program, cases: int, regime: Regime) -> dict[str, Mapping[str, int]]:
    """The planner's limits that force a regime upon every node of the cases, of which the program has those of each split."""
    kernels = regime.options.kernels
    limits: dict[str, Mapping[str, int]] = {}
    for call in program.calls:
        number = case_number(call.name)
        split = "none" if number is None else regime.splits[number // cases]
        if split == "all":  # in the way that splits most
            limits[call.name] = {loop.name: 1 for loop in max(map(loops_to_split, nests_of(call, kernels)), key=len)}
        elif split != "none" and (loops := _loops(call, kernels)):
            name, extent = loops[(int(split) - 1) % len(loops)]
            limits[call.name] = {name: math.ceil(extent / 2)}
    return {name: limit for name, limit in limits.items() if limit}


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
    bench = bench_task([replace(case, layer=f"{case.layer}, split {split}") for split in regime.splits for case in cases])
    program = scheduled(lower(bench.task))
    limits = _limits(program, len(cases), regime)
    plan = make_plan(program, target, replace(regime.options, largest=limits))
    check_plan(program, plan)
    return Ready(bench, program, plan, limits, emit(bench.task, program, plan, folder))


@dataclass(frozen=True)
class Outcome:
    """What came out of a regime: outputs that differ from onnxruntime's, a difference between two rounds, the run itself."""

    ready: Ready
    compared: int
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
    return Outcome(ready, verdict.total, wrong, repeats[0] if repeats else None, result)
