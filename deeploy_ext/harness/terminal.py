"""What a run prints: one live line per stage with its time, then the verdict and the figures."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass

from rich.console import Console

from deeploy_ext.harness.compare import RTOL, Category, Finding
from deeploy_ext.harness.report import CycleReport, Report
from deeploy_ext.planning.plan import LevelUse
from deeploy_ext.planning.traffic import TensorTraffic, moved_by, title_of

SHOWN = 5
"""Failing tensors listed per category, unless all are asked for."""


@dataclass
class Stage:
    """A stage while it runs; ``note`` says in a few words what came out."""

    note: str = ""


class Terminal:
    """Prints to standard output; wraps nothing, so that lines can be searched for.

    Args:
        verbosity: negative prints the verdict only, positive lists every failing tensor and the cycles of each node.
    """

    def __init__(self, verbosity: int = 0, console: Console | None = None) -> None:
        self.verbosity = verbosity
        self.seconds: dict[str, float] = {}
        self._console = console or Console(highlight=False, markup=False, soft_wrap=True, emoji=False)
        self._start = time.perf_counter()

    def line(self, text: str) -> None:
        """Prints one line as it is."""
        self._console.print(text, soft_wrap=True)

    @contextmanager
    def stage(self, name: str) -> Generator[Stage]:
        """Shows that a stage runs; when it ends without an error, prints its time in seconds and keeps it."""
        stage = Stage()
        start = time.perf_counter()
        live: AbstractContextManager[object] = nullcontext()
        if self.verbosity >= 0 and self._console.is_terminal:
            live = self._console.status(f"{name} ...")
        with live:
            yield stage
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start
        if self.verbosity >= 0:
            self.line(f"{name:<9}{self.seconds[name]:7.2f} s  {stage.note}".rstrip())

    def elapsed(self) -> dict[str, float]:
        """Seconds per stage so far, and "total" since this object was made."""
        return {**self.seconds, "total": time.perf_counter() - self._start}

    def report(self, report: Report) -> None:
        """Prints the verdict and, unless quiet, the figures."""
        losses = report.verdict.losses
        self.line(f"Losses: {losses.errors} out of {losses.total}")
        self.line(f"Errors: {report.verdict.errors} out of {report.verdict.total}")
        for name, category in report.verdict.categories().items():
            self._failures(name, category, report)
        self._sides("this run", report.sides)
        if report.expected:
            expected = report.expected
            self.line(f"Errors against the maker's own losses and weights: {expected.errors} out of {expected.total}")
            for name in ("losses", "parameters"):
                self._failures(f"{name} expected by the maker", getattr(report.expected, name), report)
            self._sides("the maker's run", report.makers_sides)
        if report.repeat:
            self.line(f"Second round in the same process differs from the first: {report.repeat}")
        if self.verbosity < 0:
            return
        for text in _figures(report):
            self.line(text)
        if self.verbosity > 0:
            for text in _nodes(report):
                self.line(text)
            for text in reload_lines(report.tensors):
                self.line(text)
        self.line(f"Total time: {report.seconds.get('total', 0.0):.2f} s")

    def _sides(self, whose: str, sides: Sequence[str]) -> None:
        if sides:
            self.line(f"Relu inputs that are zero within rounding, on the other side in {whose}: {len(sides)}")
        for side in sides:
            self.line(f"  {side}")

    def _failures(self, name: str, category: Category, report: Report) -> None:
        if not category.errors:
            return
        self.line(f"{name}: {category.errors} of {category.total} differ")
        tolerance = float(report.options.get("tolerance") or 0.0) if name.startswith("losses") else RTOL
        ranked = sorted(category.failures, key=lambda finding: -finding.relative)
        shown = ranked if self.verbosity > 0 else ranked[:SHOWN]
        unit = (
            "update of step" if name.startswith("parameters") else "change in mini-batch" if name == "state" else "mini-batch"
        )
        for finding in shown:
            self.line(f"  {_finding(finding, unit, tolerance)}")
        if len(shown) < len(ranked):
            self.line(f"  and {len(ranked) - len(shown)} more; -v lists all")


def _finding(finding: Finding, unit: str, tolerance: float) -> str:
    where = f"{finding.tensor}{list(finding.index) if finding.index else ''}, {unit} {finding.position}"
    if finding.note:
        return f"{where}: {finding.note}"
    allowed = f", allowed {tolerance:g}" if tolerance else ""
    return f"{where}: {finding.measured:.9g}, golden {finding.golden:.9g} (relative {finding.relative:.3g}{allowed})"


def _figures(report: Report) -> Iterable[str]:
    cycles = report.cycles
    counts = {name: f"{category.total} {name}" for name, category in report.verdict.categories().items()}
    if report.fused:
        counts["gradients"] = "gradients: fused"
    kinds = ", ".join(counts.values())
    yield f"Compared with the golden run: {kinds}"
    yield _cycles(cycles)
    if report.predicted:
        yield _cycles(report.predicted)
    yield f"Multiply-accumulates: {report.macs:,} per mini-batch"
    yield f"Peak memory: {_memory(report.memory)}"
    if "stack_worker_bytes" in report.counters:
        used = ", ".join(f"{who} {report.counters[f'stack_{who}_bytes']:,} bytes" for who in ("worker", "controller"))
        yield f"Most that was used of a stack: {used}"
    for entry, label in (("step", "mini-batch"), ("update", "update")):
        if entry != "update" or not report.fused:
            yield f"Moved per {label}: {moved_line(report.tensors, entry)}"
    yield "ConvGradX calls: " + ", ".join(f"{name} {report.counters.get(name, 0):,}" for name in ("gather", "scatter", "halo"))


def moved_line(tensors: Sequence[TensorTraffic], entry: str) -> str:
    """What one execution of an entry moves over each hop."""
    moved = moved_by(use for tensor in tensors if tensor.entry == entry for use in tensor.uses)
    hops = (("L3-L2", moved.l3_l2), ("L2-L1", moved.l2_l1))
    return ", ".join(f"{name} {hop.bytes:,} bytes in {hop.commands:,} commands" for name, hop in hops)


def reload_lines(tensors: Sequence[TensorTraffic]) -> Iterable[str]:
    """A line for every nest that fetches more of a tensor than there is of it, the largest excess of bytes first."""
    uses = [use for tensor in tensors for use in tensor.uses if use.reloads]
    for use in sorted(uses, key=lambda use: use.bytes - use.once.l2_l1.bytes):
        why = "; ".join(map(str, use.reasons))
        where = f"{use.group.entry}: {title_of(use.group)}"
        yield f"{float(use.factor):>7.2f} times {use.block.value} ({use.bytes:,} bytes), {use.reloads}, {where}: {why}"


def _cycles(cycles: CycleReport) -> str:
    inference = f", {cycles.inference:,} per inference" if cycles.inference is not None else ""
    update = f", {cycles.update:,} per update" if cycles.update is not None else " with its update"
    figures = f"{cycles.minibatch:,} per mini-batch{update}{inference}"
    return f"Cycles ({cycles.kind}, {cycles.model}): {figures}"


def _nodes(report: Report) -> Iterable[str]:
    """A line per tile nest: its cycles, beside measured ones those that were predicted."""
    if not report.predicted:
        for entry, node, phase, cycles in report.cycles.per_node:
            yield f"{cycles:>14,}  {entry}: {node} ({phase})"
        return
    yield f"{'measured':>14}{'kernel':>14}{'waiting':>12}{'predicted':>14}"
    rows = zip(report.cycles.per_node, report.cycles.kernel, report.cycles.wait, report.predicted.per_node, strict=True)
    for (entry, node, phase, cycles), kernel, wait, (*_, predicted) in rows:
        yield f"{cycles:>14,}{kernel:>14,}{wait:>12,}{predicted:>14,}  {entry}: {node} ({phase})"


def _memory(memory: Mapping[str, LevelUse]) -> str:
    def level(name: str, use: LevelUse) -> str:
        gap = f" ({use.gap:,} above the lower bound)" if use.gap else ""
        return f"{name} {use.used:,} of {use.capacity:,} bytes{gap}"

    return ", ".join(level(name, use) for name, use in sorted(memory.items()))
