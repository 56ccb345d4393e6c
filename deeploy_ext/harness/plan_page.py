"""``--plan-html``: the plan as one page that needs nothing else, for people to look at. Equal plans give equal bytes."""

from __future__ import annotations

import json
import re
from typing import Any

from deeploy_ext.codegen.body import lookup
from deeploy_ext.harness.plan_report import PlanReport, bound_by, reserved_for, tiles_text
from deeploy_ext.harness.plan_view import PlanView
from deeploy_ext.harness.plan_why import EXECUTION
from deeploy_ext.planning.traffic import Hops, TensorTraffic, tensor_traffic, title_of
from deeploy_ext.resources import resource

LONGEST = 160
"""Characters of a word that are shown."""


def plan_page(report: PlanReport) -> bytes:
    """The page; names are shown with what is not printable escaped, and very long ones cut."""
    view = PlanView(report)
    context = {
        "test": report.test, "target": report.target.name, "model": report.target.model, "cores": report.plan.options["cores"],
        "flags": _flags(report), "figures": _figures(view), "memory": _memory(report), "nests": _nests(view),
        "tensors": [_tensor(tensor) for tensor in tensor_traffic(report.plan)], "places": _places(view),
    }  # fmt: skip
    folder = resource("templates", "plan")
    style, *scripts = ((folder / name).read_text(encoding="utf-8") for name in ("page.css", "page.js", "tables.js"))
    page = lookup().get_template("plan/page.html.mako")
    text = str(page.render(**legible(context), style=style, scripts=scripts, data=_json(legible(view.data()))))
    return text.encode("utf-8")


def legible(value: Any) -> Any:
    """The value with all its texts as a page may show them: printable, and not endless."""
    if isinstance(value, str):
        safe = "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in value)
        return re.sub(rf"\S{{{LONGEST},}}", lambda word: f"{word[0][: LONGEST // 2]} ... {word[0][-LONGEST // 2 :]}", safe)
    if isinstance(value, dict):
        return {key: legible(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [legible(item) for item in value]
    return value


def _json(value: Any) -> str:
    """JSON for the inside of a script element: nothing in it can end the element."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _flags(report: PlanReport) -> str:
    options = report.plan.options
    flags = [flag for flag, name in (("--promote", "promote"), ("--db", "double_buffer")) if options[name]]
    return " ".join([*flags, f"--l1 {options['l1']}", f"--l2 {options['l2']}", f"--default-level {options['default_level']}"])


def _figures(view: PlanView) -> list[tuple[str, str, str, str]]:
    """Of every entry: what an execution is, its cycles, and what it moves over each hop."""

    def hop(size: int, commands: int) -> str:
        return f"{size:,} bytes in {commands:,} commands"

    rows: list[tuple[str, str, str, str]] = []
    for entry in view.plan.entries:
        moved = view.moved(entry)
        far, near = hop(moved.l3_l2.bytes, moved.l3_l2.commands), hop(moved.l2_l1.bytes, moved.l2_l1.commands)
        rows.append((EXECUTION.get(entry, entry), f"{view.plan.cycles(entry):,}", far, near))
    return rows


def _memory(report: PlanReport) -> list[tuple[str, ...]]:
    return [
        (name, *(f"{size:,}" for size in (use.capacity, use.used, use.lower_bound, use.gap)), reserved_for(report, name))
        for name, use in sorted(report.plan.memory.items())
    ]


def _nests(view: PlanView) -> list[dict[str, Any]]:
    """Rows of the table of nests; shares are of the largest, in percent."""
    moved = [Hops() for _ in view.plan.groups]
    for use in view.uses:
        moved[use.nest] += use.fetched + use.stored
    most = max((group.cycles.total for group in view.plan.groups), default=0)
    far, near = (max((size(hops) for hops in moved), default=0) for size in (_far, _near))
    return [
        {
            "entry": group.entry, "node": title_of(group), "operator": view.report.operators[position],
            "tiles": tiles_text(group), "buffering": "double" if group.double_buffer else "single", "bound": bound_by(group),
            "bars": [
                (f"{size:,}", 100 * size // max(largest, 1))
                for size, largest in ((group.cycles.total, most), (_far(hops), far), (_near(hops), near))
            ],
        }
        for group, position, hops in zip(view.plan.groups, view.positions, moved, strict=True)
    ]  # fmt: skip


def _far(hops: Hops) -> int:
    return hops.l3_l2.bytes


def _near(hops: Hops) -> int:
    return hops.l2_l1.bytes


def _tensor(tensor: TensorTraffic) -> dict[str, Any]:
    fetched, stored = tensor.fetched, tensor.stored
    far, near = (f"{float(factor):.2f}" if factor else "" for factor in tensor.factors)
    reloads = [use for use in tensor.uses if use.reloads]
    reasons = [f"{title_of(use.group)}, {use.reloads}: {'; '.join(map(str, use.reasons))}" for use in reloads]
    if max(tensor.factors) > 1 and tensor.readers > 1:
        reasons.insert(0, f"{tensor.readers} nests read it")
    numbers = (tensor.bytes, fetched.l3_l2.bytes, stored.l3_l2.bytes, fetched.l2_l1.bytes, stored.l2_l1.bytes)
    commands = sum(hop.commands for moved in (fetched, stored) for hop in (moved.l3_l2, moved.l2_l1))
    size, far_in, far_out, near_in, near_out = (f"{number:,}" if number else "" for number in numbers)
    return {
        "cells": [tensor.entry, tensor.value, tensor.home],
        "numbers": [size, far_in, far, far_out, near_in, near, near_out, f"{commands:,}" if commands else ""],
        "reasons": reasons,
    }


def _places(view: PlanView) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for p in view.plan.placements:
        live = "always" if p.persistent else f"{p.first} to {p.last}"
        rows.append((p.storage, p.level, f"{p.address:,}", f"{p.bytes:,}", live, view.whys.why(p)))
    return rows
