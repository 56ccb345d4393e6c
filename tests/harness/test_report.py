"""The report as JSON (keys, order, determinism, not-a-number) and as lines of text."""

from __future__ import annotations

import io
import json
import math
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from deeploy_ext.errors import EXIT_MISMATCH, EXIT_PASS
from deeploy_ext.harness.compare import Category, Finding, Verdict
from deeploy_ext.harness.report import CycleReport, Report, report_json, report_text
from deeploy_ext.harness.terminal import SHOWN, Terminal
from deeploy_ext.planning.plan import LevelUse, Traffic
from deeploy_ext.planning.traffic import moved_by, tensor_traffic
from support import planned, task_of

GOOD = Verdict(
    losses=Category(0, 4, 1e-7, 1e-7, Finding("loss", 1, (), 2.0, 2.0000001, 1e-7, 1e-7)),
    gradients=Category(0, 8, 0.0, 0.0, Finding("w", 0, (1, 2), 1.0, 1.0, 0.0, 0.0)),
    parameters=Category(0, 4, 0.0, 0.0, Finding("w", 0, (1, 2), 1.0, 1.0, 0.0, 0.0)),
)


HOPS = ("L3-L2", "L2-L1")


def make(verdict: Verdict = GOOD) -> Report:
    return Report(
        test="net",
        target="gap9",
        engine="host",
        options={"promote": True, "tolerance": 1e-5},
        verdict=verdict,
        expected=None,
        repeat=None,
        computed=[2.0, 1.5],
        golden=[2.0, 1.5],
        cycles=CycleReport(
            "predicted", "a model", 12345, 678, 99, (("step", "conv", "main", 12000), ("update", "sgd", "main", 678))
        ),
        predicted=None,
        counters={"gather": 3, "scatter": 4, "tiles": 99},
        memory={"L2": LevelUse(1000, 10, 500, 400), "L1": LevelUse(100, 10, 50, 40)},
        traffic={"step": Traffic(7000, 8000), "update": Traffic(70, 80)},
        tensors=tensor_traffic(planned(task_of("SimpleMLP")).plan),
        macs=1000000,
        seconds={"load": 0.25, "total": 1.5},
    )


def test_a_fused_update_is_named_where_gradients_would_be_counted() -> None:
    fused = replace(
        make(replace(GOOD, gradients=Category())), fused=True, traffic={"step": Traffic(7000, 8000)},
        cycles=CycleReport("predicted", "a model", 12345, None, 99, ()),
    )  # fmt: skip
    assert (report_json(fused)["gradients"], report_json(make())["gradients"]) == ("fused", "compared")
    assert report_json(fused)["cycles"]["update"] is None
    text = "\n".join(printed(fused))
    assert "gradients: fused" in text and "12,345 per mini-batch with its update, 99 per inference" in text
    assert "per update" not in text and fused.exit_status == 0


def failing(count: int) -> Report:
    failures = tuple(Finding(f"w{i}", i, (0, i), 1.0, 1.0 + i, float(i), float(i)) for i in range(1, count + 1))
    return make(replace(GOOD, gradients=Category(count, 8, float(count), float(count), failures[-1], failures)))


def printed(report: Report, verbosity: int = 0) -> list[str]:
    text = io.StringIO()
    Terminal(verbosity, Console(file=text, width=40, highlight=False, markup=False)).report(report)
    return text.getvalue().splitlines()


def test_keys_and_their_order() -> None:
    value = report_json(make())
    assert " ".join(value) == (
        "schema test target engine options checks gradients losses cycles predicted counters dispatch memory traffic tensors "
        "macs seconds exit"
    )
    checks = value["checks"]
    kinds = ["losses", "gradients", "parameters", "state", "predictions"]
    assert list(checks)[:7] == [*kinds, "errors", "total"]
    assert checks["total"] == sum(checks[kind]["total"] for kind in kinds)
    assert list(checks["losses"]) == ["errors", "total", "max_abs", "max_rel", "worst"]
    assert (checks["errors"], checks["total"], checks["state"]["worst"]) == (0, 16, None)
    assert value["schema"] == "deeploy_ext/report/1"
    assert list(value["memory"]["L1"]) == ["capacity", "used", "lower_bound"]
    assert list(value["seconds"]) == ["load", "autodiff", "golden", "plan", "emit", "build", "run", "total"]
    assert value["dispatch"] == {"gather": 3, "scatter": 4, "halo": 0}
    assert (value["traffic"]["l3_l2"], value["traffic"]["l2_l1"]) == (7000, 8000)
    assert (value["cycles"]["kind"], value["cycles"]["minibatch"], value["cycles"]["update"]) == ("predicted", 12345, 678)
    assert value["exit"] == EXIT_PASS


def test_equal_reports_give_equal_bytes_and_only_seconds_may_differ() -> None:
    assert report_text(make()) == report_text(make())
    first, second = report_json(make()), report_json(replace(make(), seconds={"total": 9.0}))
    assert [key for key in first if first[key] != second[key]] == ["seconds"]


@pytest.mark.parametrize(("value", "text"), [(math.nan, "nan"), (math.inf, "inf"), (-math.inf, "-inf")])
def test_values_that_json_cannot_hold(value: float, text: str) -> None:
    worst = Finding("w", 0, (0,), 1.0, value, math.inf, math.inf)
    report = replace(make(replace(GOOD, gradients=Category(1, 8, math.inf, math.inf, worst, (worst,)))), computed=[value])
    read: Any = json.loads(report_text(report))
    assert read["losses"]["computed"] == [text]
    assert read["checks"]["gradients"]["worst"]["measured"] == text
    assert read["checks"]["gradients"]["max_rel"] == "inf"
    assert read["exit"] == EXIT_MISMATCH


def test_whatever_is_not_proven_fails() -> None:
    assert make().exit_status == EXIT_PASS
    assert failing(1).exit_status == EXIT_MISMATCH
    assert make(Verdict()).exit_status == EXIT_MISMATCH
    assert replace(make(), repeat="loss of mini-batch 0").exit_status == EXIT_MISMATCH
    expected = Verdict(losses=Category(1, 4, 1.0, 1.0, None, (Finding("loss", 0),)))
    assert replace(make(), expected=expected).exit_status == EXIT_MISMATCH
    checks = report_json(replace(make(), expected=expected))["checks"]
    assert (checks["errors"], checks["total"]) == (0, 16)
    assert (checks["expected"]["errors"], checks["expected"]["total"]) == (1, 4)


def test_lines_of_a_passing_run() -> None:
    lines = printed(make())
    assert lines[:2] == ["Losses: 0 out of 4", "Errors: 0 out of 16"]
    text = "\n".join(lines)
    assert "Cycles (predicted, a model): 12,345 per mini-batch, 678 per update, 99 per inference" in lines
    gaps = "L1 50 of 100 bytes (10 above the lower bound), L2 500 of 1,000 bytes (100 above the lower bound)"
    assert f"Peak memory: {gaps}" in lines
    moved = moved_by(use for tensor in make().tensors if tensor.entry == "step" for use in tensor.uses)
    hops = [
        f"{name} {hop.bytes:,} bytes in {hop.commands:,} commands" for name, hop in zip(HOPS, vars(moved).values(), strict=True)
    ]
    assert f"Moved per mini-batch: {', '.join(hops)}" in lines and moved.l3_l2.bytes > 0
    assert "gather 3, scatter 4" in text and "differ" not in text


def test_measured_cycles_stand_beside_predicted_ones() -> None:
    """Neither is ever printed as the other; with -v nest by nest."""
    predicted = make().cycles
    rows = (("step", "conv", "main", 15000), ("update", "sgd", "main", 900))
    measured = CycleReport("measured", "GVSoC gap9like", 15000, 900, None, rows, kernel=(14000, 500), wait=(100, 50))
    report = replace(make(), cycles=measured, predicted=predicted)
    lines = printed(report, verbosity=1)
    assert "Cycles (measured, GVSoC gap9like): 15,000 per mini-batch, 900 per update" in lines
    assert "Cycles (predicted, a model): 12,345 per mini-batch, 678 per update, 99 per inference" in lines
    assert "        15,000        14,000         100        12,000  step: conv (main)" in lines
    value = report_json(report)
    assert (value["cycles"]["kind"], value["predicted"]["kind"]) == ("measured", "predicted")
    assert value["cycles"]["per_node"][1] == {
        "entry": "update", "node": "sgd", "phase": "main", "cycles": 900, "kernel": 500, "wait": 50
    }  # fmt: skip
    assert report_json(make())["predicted"] is None and "kernel" not in report_json(make())["cycles"]["per_node"][0]


def test_quiet_prints_the_verdict_only() -> None:
    assert printed(make(), verbosity=-1) == ["Losses: 0 out of 4", "Errors: 0 out of 16"]


def test_the_worst_elements_of_a_failing_run_come_first() -> None:
    lines = printed(failing(8))
    assert lines[1] == "Errors: 8 out of 16"
    assert lines[2] == "gradients: 8 of 8 differ"
    assert lines[3].startswith("  w8[0, 8], mini-batch 8: 9, golden 1 (relative 8, allowed 0.001")
    assert lines[3 + SHOWN] == "  and 3 more; -v lists all"
    assert sum(line.startswith("  w") for line in printed(failing(8), verbosity=1)) == 8


def test_what_is_missing_is_said() -> None:
    missing = Finding("w", 1, note="missing in the measured run")
    lines = printed(make(replace(GOOD, parameters=Category(1, 4, math.inf, math.inf, missing, (missing,)))))
    assert "  w, update of step 1: missing in the measured run" in lines


def test_stages_have_a_line_and_a_time_unless_they_fail() -> None:
    text = io.StringIO()
    terminal = Terminal(0, Console(file=text, width=40, highlight=False, markup=False))
    with terminal.stage("load") as stage:
        stage.note = "3 things"
    with pytest.raises(ZeroDivisionError), terminal.stage("plan"):
        raise ZeroDivisionError
    assert text.getvalue().splitlines() == [f"load        {terminal.seconds['load']:.2f} s  3 things"]
    assert set(terminal.elapsed()) == {"load", "total"}
