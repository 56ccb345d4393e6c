"""The result of one run as a value, and as the JSON that other tools read (``--json``)."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

from deeploy_ext.errors import EXIT_MISMATCH, EXIT_PASS
from deeploy_ext.harness.compare import Category, Verdict
from deeploy_ext.planning.plan import LevelUse, Traffic
from deeploy_ext.planning.traffic import Moved, TensorTraffic, moved_by, title_of

SCHEMA = "deeploy_ext/report/1"

STAGES = ("load", "autodiff", "golden", "plan", "emit", "build", "run")
"""Stages with a time of their own, in the order they run."""


@dataclass(frozen=True)
class CycleReport:
    """Cycles of one execution of each entry.

    Attributes:
        kind: "predicted" (a cost model's) or "measured" (a simulator's or a board's); never print one as the other.
        model: what the figures come from.
        minibatch, update, inference: cycles of one mini-batch, of one update (None: it is part of the mini-batch), and of
            one inference (None: the program has none).
        per_node: entry, node, phases of it (joined by "+") and cycles, in execution order.
        kernel, wait: of each row of ``per_node``: cycles between the barriers that start and end kernels, and cycles of
            waiting for transfers outside kernels; empty where that is not measured.
    """

    kind: str
    model: str
    minibatch: int
    update: int | None
    inference: int | None
    per_node: tuple[tuple[str, str, str, int], ...]
    kernel: tuple[int, ...] = ()
    wait: tuple[int, ...] = ()


@dataclass(frozen=True)
class Report:
    """Everything the terminal and the JSON show.

    Attributes:
        test, target, engine: names, as resolved.
        options: the run's options by name.
        verdict: engine against golden run.
        expected: engine against what the network's maker says comes out; None where that does not apply.
        repeat: where the second round in the same process differs from the first; None if bit-identical.
        computed, golden: losses of every mini-batch.
        fused: the update is part of the step: it is compared, and there are no gradients to compare.
        cycles: measured by the engine if it can, else predicted.
        predicted: the cost model's cycles beside measured ones; None if ``cycles`` are those.
        counters: the engine's, of one round of all steps: bodies run of each kind ("gather", "scatter") and more.
        memory: per level, bytes.
        traffic: per entry ("step" is one mini-batch), bytes.
        tensors: traffic of every tensor.
        macs: multiply-accumulates of one mini-batch.
        seconds: wall-clock time per stage, and "total".
        sides, makers_sides: Relu inputs that are zero within rounding and on the other side than in the golden run, in
            this run and in the maker's; the comparisons were made with these sides.
    """

    test: str
    target: str
    engine: str
    options: Mapping[str, Any]
    verdict: Verdict
    expected: Verdict | None
    repeat: str | None
    computed: list[float]
    golden: list[float]
    cycles: CycleReport
    predicted: CycleReport | None
    counters: Mapping[str, int]
    memory: Mapping[str, LevelUse]
    traffic: Mapping[str, Traffic]
    tensors: Sequence[TensorTraffic]
    macs: int
    seconds: Mapping[str, float]
    sides: tuple[str, ...] = ()
    makers_sides: tuple[str, ...] = ()
    fused: bool = False

    @property
    def exit_status(self) -> int:
        """0 if every number was proven, else 1."""
        proven = self.verdict.passed and (self.expected is None or self.expected.passed) and self.repeat is None
        return EXIT_PASS if proven else EXIT_MISMATCH


def report_json(report: Report) -> dict[str, Any]:
    """The report as a dict of JSON values in a fixed key order; not-a-number and infinity become strings.

    Equal runs give equal values in everything but ``seconds``.
    """
    checks: dict[str, Any] = {name: _category(category) for name, category in report.verdict.categories().items()}
    checks |= {"errors": report.verdict.errors, "total": report.verdict.total, "repeat": report.repeat}
    checks |= {"sides": list(report.sides)}
    if report.expected:
        checks["expected"] = {name: _category(getattr(report.expected, name)) for name in ("losses", "parameters")}
        checks["expected"] |= {"errors": report.expected.errors, "total": report.expected.total}
        checks["expected"] |= {"sides": list(report.makers_sides)}
    value = {
        "schema": SCHEMA,
        "test": report.test,
        "target": report.target,
        "engine": report.engine,
        "options": dict(report.options),
        "checks": checks,
        "gradients": "fused" if report.fused else "compared",
        "losses": {"computed": report.computed, "golden": report.golden},
        "cycles": cycles_json(report.cycles),
        "predicted": cycles_json(report.predicted) if report.predicted else None,
        "counters": dict(sorted(report.counters.items())),
        "dispatch": {name: report.counters.get(name, 0) for name in ("gather", "scatter", "halo")},
        "memory": {
            name: {"capacity": use.capacity, "used": use.used, "lower_bound": use.lower_bound}
            for name, use in sorted(report.memory.items())
        },
        "traffic": traffic_json(report.traffic, report.tensors),
        "tensors": tensors_json(report.tensors),
        "macs": report.macs,
        "seconds": {name: round(report.seconds.get(name, 0.0), 4) for name in (*STAGES, "total")},
        "exit": report.exit_status,
    }
    return {key: plain(item) for key, item in value.items()}


def cycles_json(cycles: CycleReport) -> dict[str, Any]:
    """The cycles of a report as JSON values."""
    rows = [{"entry": entry, "node": node, "phase": phase, "cycles": count} for entry, node, phase, count in cycles.per_node]
    for row, kernel, wait in zip(rows, cycles.kernel, cycles.wait, strict=False):
        row |= {"kernel": kernel, "wait": wait}
    return {
        "kind": cycles.kind,
        "model": cycles.model,
        "minibatch": cycles.minibatch,
        "update": cycles.update,
        "inference": cycles.inference,
        "per_node": rows,
    }


def traffic_json(traffic: Mapping[str, Traffic], tensors: Sequence[TensorTraffic]) -> dict[str, Any]:
    """The traffic of a report as JSON values: that of a mini-batch, and below it that of the other entries."""

    def entry_json(entry: str) -> dict[str, int]:
        moved = moved_by(use for tensor in tensors if tensor.entry == entry for use in tensor.uses)
        commands = {"l3_l2_commands": moved.l3_l2.commands, "l2_l1_commands": moved.l2_l1.commands}
        return asdict(traffic.get(entry, Traffic(0, 0))) | commands

    return {**entry_json("step"), "update": entry_json("update"), "infer": entry_json("infer")}


def tensors_json(tensors: Sequence[TensorTraffic]) -> list[dict[str, Any]]:
    """Traffic of every tensor per entry: what its nests fetch and store, the reload factors, and the nests that reload it."""

    def hop(fetched: Moved, stored: Moved, factor: Fraction) -> dict[str, Any]:
        commands = fetched.commands + stored.commands
        return {"fetched": fetched.bytes, "stored": stored.bytes, "commands": commands, "factor": round(float(factor), 4)}

    return [
        {
            "entry": tensor.entry,
            "tensor": tensor.value,
            "level": tensor.home,
            "bytes": tensor.bytes,
            "readers": tensor.readers,
            "l3_l2": hop(tensor.fetched.l3_l2, tensor.stored.l3_l2, tensor.factors[0]),
            "l2_l1": hop(tensor.fetched.l2_l1, tensor.stored.l2_l1, tensor.factors[1]),
            "reloads": [
                {
                    "nest": title_of(use.group),
                    "hops": use.reloads,
                    "factor": round(float(use.factor), 4),
                    "reasons": [str(reason) for reason in use.reasons],
                }
                for use in tensor.uses
                if use.reloads
            ],
        }
        for tensor in tensors
    ]


def report_text(report: Report) -> str:
    """:func:`report_json` as the text of the file."""
    return json.dumps(report_json(report), indent=1, allow_nan=False) + "\n"


def _category(category: Category) -> dict[str, Any]:
    worst = category.worst
    return {
        "errors": category.errors,
        "total": category.total,
        "max_abs": category.max_abs,
        "max_rel": category.max_rel,
        "worst": None
        if worst is None
        else {
            "tensor": worst.tensor,
            "position": worst.position,
            "index": list(worst.index),
            "golden": worst.golden,
            "measured": worst.measured,
            "note": worst.note,
        },
    }


def plain(value: Any) -> Any:
    """Floats that JSON cannot hold become "nan", "inf" or "-inf"."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value
