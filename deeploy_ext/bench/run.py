"""Runs bench cases on an engine: as many at a time as L2 holds, each program like that of a network."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from deeploy_ext.bench.cases import Case
from deeploy_ext.bench.task import BenchTask, bench_task
from deeploy_ext.codegen.emit import emit
from deeploy_ext.engines.base import EVENTS, Engine, EngineResult, GroupCycles
from deeploy_ext.graph.lower import lower
from deeploy_ext.graph.program import Call
from deeploy_ext.harness.compare import Finding, Verdict, compare
from deeploy_ext.harness.golden import run_golden
from deeploy_ext.planning.check import check_plan
from deeploy_ext.planning.nest import macs
from deeploy_ext.planning.options import PlanOptions
from deeploy_ext.planning.plan import Group, Plan
from deeploy_ext.planning.planner import make_plan
from deeploy_ext.planning.schedule import scheduled
from deeploy_ext.planning.target import Target

CHUNK = 1_200_000
"""Bytes of operands that go into one program: all tensors live in L2, beside the code."""


@dataclass(frozen=True)
class Row:
    """What came out for one case.

    Attributes:
        call, groups: the node and the tile nests that the planner made of it.
        measured: of each nest; empty if the engine counts no cycles.
        wrong: outputs that differ from the golden run.
    """

    case: Case
    call: Call
    groups: tuple[Group, ...]
    measured: tuple[GroupCycles, ...]
    wrong: tuple[Finding, ...]

    @property
    def tiles(self) -> int:
        return sum(group.tiles for group in self.groups)

    @property
    def predicted(self) -> int:
        """Cycles by the cost model."""
        return sum(group.cycles.total for group in self.groups)

    @property
    def total(self) -> int:
        """Measured cycles, everything included."""
        return sum(cycles.total for cycles in self.measured)

    @property
    def kernel(self) -> int:
        """Measured cycles between the barriers around kernels: those of the slowest core."""
        return sum(cycles.kernel for cycles in self.measured)

    @property
    def wait(self) -> int:
        """Measured cycles of waiting for transfers outside kernels."""
        return sum(cycles.wait for cycles in self.measured)

    @property
    def events(self) -> Mapping[str, int]:
        """What worker 0 counted while kernels ran."""
        counts = [cycles.events for cycles in self.measured]
        return {name: sum(each) for name, each in zip(EVENTS, zip(*counts, strict=True), strict=False)}

    @property
    def macs(self) -> int:
        """Multiply-accumulates; 0 for operators that do something else."""
        return macs(self.call)

    @property
    def moved(self) -> int:
        """Bytes of all operands, each once."""
        invocation = self.call.invocation
        types = {value: invocation[name] for name, value in self.call.operands.items()}
        return sum(types[value].bytes for value in {*self.call.reads, *self.call.writes})

    def limit(self, target: Target) -> float:
        """Cycles that the cluster needs at least: one multiply-accumulate a cycle and FPU, or all operands through the DMA."""
        return self.macs / target.fpus if self.macs else self.moved / target.costs["dma.bytes_per_cycle"]

    def reached(self, target: Target) -> float:
        """The limit as a share of what was measured: of the kernel where it multiplies, else of everything."""
        took = self.kernel if self.macs else self.total
        return self.limit(target) / took if took else 0.0


def chunks(cases: Sequence[Case]) -> Iterator[list[Case]]:
    """Cases in their order, in lists of at most :data:`CHUNK` bytes of operands (but never less than one case)."""
    chunk: list[Case] = []
    filled = 0
    for case in cases:
        size = _bytes(case)
        if chunk and filled + size > CHUNK:
            yield chunk
            chunk, filled = [], 0
        chunk.append(case)
        filled += size
    if chunk:
        yield chunk


def _bytes(case: Case) -> int:
    """Bytes that a case takes in L2; a trained tensor is weight, gradient and buffer."""
    given = sum(kind.bytes for kind in case.types.values())
    if case.parameter:
        return 3 * given
    return given + sum(found.bytes for found in case.results)


def run_cases(cases: Sequence[Case], engine: Engine, target: Target, options: PlanOptions) -> Iterator[Row]:
    """Runs all cases, in order; those of trained tensors come last in their program.

    Raises:
        BadInputError, InfeasibleError, ToolError: as the stages do.
    """
    for chunk in chunks(cases):
        bench = bench_task(chunk)
        with tempfile.TemporaryDirectory(prefix="deeployRunner-") as folder:
            yield from _run(bench, engine, target, options, Path(folder))


def _run(bench: BenchTask, engine: Engine, target: Target, options: PlanOptions, folder: Path) -> Iterator[Row]:
    golden = run_golden(bench.task)
    program = scheduled(lower(bench.task))
    plan = make_plan(program, target, replace(options, groups="single"))  # each kernel is measured alone
    check_plan(program, plan)
    built = engine.build(emit(bench.task, program, plan, folder / "c"), folder / "build")
    result = engine.run(built, rounds=1)
    verdict = compare(bench.task, golden, result.rounds[0])
    calls = {(call.entry, call.name): call for call in program.calls}
    for key, case in bench.nodes.items():
        groups, measured = _of_node(plan, result, *key)
        yield Row(case, calls[key], groups, measured, _wrong(calls[key], verdict))


def _of_node(plan: Plan, result: EngineResult, entry: str, node: str) -> tuple[tuple[Group, ...], tuple[GroupCycles, ...]]:
    places = [i for i, group in enumerate(plan.groups) if (group.entry, group.node) == (entry, node)]
    measured = tuple(result.cycles.groups[i] for i in places) if result.cycles else ()
    return tuple(plan.groups[i] for i in places), measured


def _wrong(call: Call, verdict: Verdict) -> tuple[Finding, ...]:
    """Failures of what a node writes; of a trained tensor, those of its buffer and of its update."""
    names = {f"{value}_kept" for value in call.writes} | set(call.reads)
    kinds = (verdict.state, verdict.gradients if call.entry == "step" else verdict.parameters)
    return tuple(finding for kind in kinds for finding in kind.failures if finding.tensor in names)
