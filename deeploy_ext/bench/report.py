"""What the bench prints, and its JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from deeploy_ext.bench.run import Row
from deeploy_ext.planning.target import Target

SCHEMA = "deeploy_ext/bench/1"

STALLS = {"load_stalls": "load", "fetch_stalls": "fetch", "bank_stalls": "bank", "fpu_stalls": "FPU"}


def head(measured: bool) -> str:
    """Titles of the columns."""
    if not measured:
        return f"{'predicted':>11}{'MAC':>11}{'tiles':>6}  {'operator':<24}case"
    stalls = "".join(f"{name:>7}" for name in STALLS.values())
    return (
        f"{'total':>11}{'kernel':>11}{'waiting':>9}{'MAC/cycle':>10}{'limit':>7}"
        f"{'predicted':>11}{'error':>7}{stalls}{'tiles':>6}  {'operator':<24}case"
    )


def line(row: Row, target: Target) -> str:
    """A row of the table. Stalls are shares of the kernel's cycles on worker 0; *error* is of the prediction."""
    name = f"{row.case.operator.op_type:<24}{row.case.name.replace(f'{row.case.operator.op_type} ', '')}"
    name += "".join(f"\n    WRONG: {finding.tensor} {list(finding.index)}: {finding.measured:.9g}, golden {finding.golden:.9g}"
                    for finding in row.wrong)  # fmt: skip
    if not row.measured:
        return f"{row.predicted:>11,}{row.macs:>11,}{row.tiles:>6}  {name}"
    rate = f"{row.macs / row.kernel:.2f}" if row.macs and row.kernel else ""
    stalls = "".join(f"{share(row, event):>7.1%}" for event in STALLS)
    return (
        f"{row.total:>11,}{row.kernel:>11,}{row.wait:>9,}{rate:>10}{row.reached(target):>7.0%}{row.predicted:>11,}"
        f"{row.predicted / row.total - 1:>+7.0%}{stalls}{row.tiles:>6}  {name}"
    )


def share(row: Row, event: str) -> float:
    """Of the kernel's cycles, those that worker 0 lost to something."""
    return row.events.get(event, 0) / row.kernel if row.kernel else 0.0


def summary(rows: Sequence[Row]) -> Iterator[str]:
    """What all rows say together, operator by operator."""
    wrong = sum(bool(row.wrong) for row in rows)
    yield f"Errors: {wrong} out of {len(rows)} cases"
    if not all(row.measured for row in rows):
        yield "Cycles are predicted: this engine measures none"
        return
    for op_type in sorted({row.case.operator.op_type for row in rows}):
        mine = [row for row in rows if row.case.operator.op_type == op_type]
        errors = [abs(row.predicted / row.total - 1) for row in mine]
        kernel, macs = sum(row.kernel for row in mine), sum(row.macs for row in mine)
        rate = f"{macs / kernel:.2f} MAC/cycle in kernels, " if macs else ""
        yield (
            f"{op_type}: {len(mine)} cases, {rate}prediction off by {sum(errors) / len(errors):.1%} on average, "
            f"{max(errors):.1%} at most"
        )


def report_text(rows: Sequence[Row], target: Target, engine: str, model: str, options: dict[str, Any]) -> str:
    """The bench as JSON; equal runs give equal bytes."""
    value = {
        "schema": SCHEMA,
        "engine": engine,
        "model": model,
        "target": target.name,
        "options": options,
        "cases": [_row(row, target) for row in rows],
    }
    return json.dumps(value, indent=1) + "\n"


def _row(row: Row, target: Target) -> dict[str, Any]:
    case = row.case
    value: dict[str, Any] = {
        "case": case.name,
        "layer": case.layer,
        "operator": case.operator.op_type,
        "inputs": {name: list(shape) for name, shape in case.inputs.items()},
        "attributes": dict(case.attributes),
        "tiles": row.tiles,
        "macs": row.macs,
        "bytes": row.moved,
        "limit": row.limit(target),
        "predicted": row.predicted,
        "errors": len(row.wrong),
        "measured": None,
    }
    if row.measured:
        value["measured"] = {"cycles": row.total, "kernel": row.kernel, "wait": row.wait, **row.events}
    return value
