"""``--plan-only``: whether a network fits, where everything lives, and what it costs by prediction; nothing runs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from deeploy_ext.errors import EXIT_PASS
from deeploy_ext.harness.plan_why import EXECUTION
from deeploy_ext.harness.report import SCHEMA, STAGES, CycleReport, cycles_json, plain, tensors_json, traffic_json
from deeploy_ext.harness.terminal import moved_line, reload_lines
from deeploy_ext.planning.plan import Group, Placement, Plan
from deeploy_ext.planning.target import Target
from deeploy_ext.planning.traffic import tensor_traffic, title_of

SHOWN = 10
"""Transient storages and nodes listed, unless all are asked for."""


@dataclass(frozen=True)
class PlanReport:
    """A checked plan, and what is needed to explain it.

    Attributes:
        test, target: names, as resolved.
        options: the run's options by name.
        cycles: predicted, one row per tile nest.
        schedule, operators: names of the nodes at every schedule position, and their operator types.
        macs: multiply-accumulates of one mini-batch.
        seconds: wall-clock time per stage, and "total".
    """

    test: str
    target: Target
    options: Mapping[str, Any]
    plan: Plan
    cycles: CycleReport
    schedule: Sequence[str]
    operators: Sequence[str]
    macs: int
    seconds: Mapping[str, float]

    @property
    def ranked(self) -> list[Group]:
        """Tile nests, the most expensive first."""
        return sorted(self.plan.groups, key=lambda group: -group.cycles.total)


def plan_lines(report: PlanReport, *, everything: bool = False) -> Iterable[str]:
    """The report as lines for people; ``everything`` lists every storage and every node."""
    plan, tensors = report.plan, tensor_traffic(report.plan)
    yield f"{report.test} fits {report.target.name} with {plan.options['cores']} cores"
    yield from _table(
        ("memory", "capacity", "used", "lower bound", "gap", "reserved for"),
        [
            (
                name,
                *(f"{size:,}" for size in (use.capacity, use.used, use.lower_bound, use.gap)),
                reserved_for(report, name),
            )
            for name, use in sorted(plan.memory.items())
        ],
    )
    shown, left = _shown(plan.placements, everything)
    yield from _table(
        ("storage", "level", "address", "bytes", "live"),
        [(p.storage, p.level, f"{p.address:,}", f"{p.bytes:,}", _live(report, p)) for p in shown],
    )
    if left:
        yield f"  and {left} smaller transient ones; -v lists all"
    groups = plan.groups if everything else report.ranked[:SHOWN]
    yield from _table(
        ("predicted cycles", "entry", "node", "tiles", "buffering", "bound by"),
        [_node(group) for group in groups],
    )
    if len(groups) < len(plan.groups):
        yield f"  and {len(plan.groups) - len(groups)} cheaper ones; -v lists all"
    if everything:
        yield from reload_lines(tensors)
    for entry in plan.entries:
        cycles = f"{plan.cycles(entry):,} cycles (predicted, {report.target.model})"
        yield f"Per {EXECUTION.get(entry, entry)}: {cycles}; moves {moved_line(tensors, entry)}"
    yield f"Multiply-accumulates: {report.macs:,} per mini-batch"
    yield "Nothing was built or run: no number was compared"
    yield f"Total time: {report.seconds.get('total', 0.0):.2f} s"


def reserved_for(report: PlanReport, level: str) -> str:
    """Bytes of a level that tensors cannot have, and what they are."""
    target, cores, size = report.target, report.plan.options["cores"], report.plan.memory[level].reserved
    nodes = sum(len(nodes) for _, nodes in report.plan.schedule)
    stacks = f"{cores} worker stacks of {target.worker_stack:,}, controller stack {target.controller_stack:,}"
    parts = {
        "L1": f"{stacks}, runtime {target.runtime_bytes:,}",
        "L2": f"code, tables of {nodes} nodes, the controller's stack",
    }
    return f"{size:,}: {parts[level]}" if size and level in parts else f"{size:,}"


def _shown(placements: Sequence[Placement], everything: bool) -> tuple[list[Placement], int]:
    """Persistent storages in the plan's order, then transient ones, the largest first; and how many were left out."""
    persistent = [p for p in placements if p.persistent]
    transient = sorted((p for p in placements if not p.persistent), key=lambda p: -p.bytes)
    shown = transient if everything else transient[:SHOWN]
    return [*persistent, *shown], len(transient) - len(shown)


def _live(report: PlanReport, placement: Placement) -> str:
    if placement.persistent:
        return "always"
    first, last = report.schedule[placement.first], report.schedule[placement.last]
    return f"{placement.first} to {placement.last} of {len(report.schedule)} ({first} to {last})"


def _node(group: Group) -> tuple[str, ...]:
    """A row of the table of nodes."""
    buffering = "double" if group.double_buffer else "single"
    return f"{group.cycles.total:,}", group.entry, title_of(group), tiles_text(group), buffering, bound_by(group)


def tiles_text(group: Group) -> str:
    """Tiles and the loops they split, outermost first: ``8 (co 64/16, oy 16/8)``."""
    split = ", ".join(f"{group.loops[i].name} {group.loops[i].extent}/{group.loops[i].tile}" for i in group.order)
    return f"{group.tiles} ({split})" if split else "1"


def bound_by(group: Group) -> str:
    """The part of a nest that takes most of its predicted cycles."""
    cycles = group.cycles
    parts = {"compute": cycles.compute, "L2-L1": cycles.dma, "L3-L2": cycles.ram}
    return max(parts, key=lambda part: parts[part])


def _table(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterable[str]:
    """Columns as wide as their widest cell; those of plain numbers are set right."""
    cells = [list(heading), *map(list, rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(heading))]
    numeric = [all(row[column].replace(",", "").isdigit() for row in rows) for column in range(len(heading))]
    for row in cells:
        padded = [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, numeric, strict=True)
        ]  # fmt: skip
        yield f"  {'  '.join(padded)}".rstrip()


def plan_report_json(report: PlanReport) -> dict[str, Any]:
    """As :func:`deeploy_ext.harness.report.report_json`, with null for what only a run can say, and ``placements``."""
    plan, tensors = report.plan, tensor_traffic(report.plan)
    cycles = cycles_json(report.cycles)
    for row, group in zip(cycles["per_node"], plan.groups, strict=True):
        row |= {"tiles": group.tiles, "double_buffer": group.double_buffer}
    value: dict[str, Any] = {
        "schema": SCHEMA,
        "test": report.test,
        "target": report.target.name,
        "engine": None,
        "options": dict(report.options),
        "checks": None,
        "gradients": None if "update" in plan.entries else "fused",
        "losses": None,
        "cycles": cycles,
        "predicted": None,
        "counters": None,
        "dispatch": None,
        "memory": {name: asdict(use) for name, use in sorted(plan.memory.items())},
        "traffic": traffic_json(plan.traffic, tensors),
        "tensors": tensors_json(tensors),
        "macs": report.macs,
        "placements": [
            {
                "storage": p.storage,
                "level": p.level,
                "address": p.address,
                "bytes": p.bytes,
                "first": p.first,
                "last": p.last,
                "persistent": p.persistent,
            }
            for p in plan.placements
        ],
        "seconds": {name: round(report.seconds.get(name, 0.0), 4) for name in (*STAGES, "total")},
        "exit": EXIT_PASS,
    }
    return {key: plain(item) for key, item in value.items()}


def plan_report_text(report: PlanReport) -> str:
    """:func:`plan_report_json` as the text of the file."""
    return json.dumps(plan_report_json(report), indent=1, allow_nan=False) + "\n"
