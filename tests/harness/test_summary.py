"""The report as Markdown: measured and predicted cycles never mixed up, failures said, bad input in one line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from deeploy_ext.cli import main as runner
from deeploy_ext.harness.report import SCHEMA
from deeploy_ext.harness.summary import SHOWN, main

GOOD: dict[str, Any] = {
    "schema": SCHEMA,
    "test": "net_a",
    "engine": "gvsoc",
    "checks": {
        **{name: {"errors": 0, "total": 4, "worst": None} for name in ("losses", "gradients", "parameters")},
        **{name: {"errors": 0, "total": 0, "worst": None} for name in ("state", "predictions")},
        "errors": 0,
        "total": 12,
        "repeat": None,
    },
    "losses": {"computed": [2.5, 1.25], "golden": [2.5, 1.5]},
    "cycles": {"kind": "measured", "model": "GVSoC gap9like", "minibatch": 40000, "update": 500, "inference": 9000},
    "predicted": {"kind": "predicted", "model": "cost model x", "minibatch": 10000, "update": 0, "inference": 4500},
    "exit": 0,
}


def changed(*path: str, to: Any) -> dict[str, Any]:
    """A good report with another value at one place."""
    report = deepcopy(GOOD)
    inner = report
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = to
    return report


def shown(report: Any, folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
    file = folder / "report.json"
    file.write_text(json.dumps(report))
    assert main([str(file)]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


def test_losses_and_cycles_of_both_kinds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(GOOD, tmp_path, capsys) == (
        "### net\\_a, engine gvsoc: passed\n"
        "\n"
        "Losses: 0 out of 4. Errors: 0 out of 12.\n"
        "\n"
        "| mini-batch | loss | golden run | difference |\n"
        "|--:|--:|--:|--:|\n"
        "| 0 | 2.5 | 2.5 | 0 |\n"
        "| 1 | 1.25 | 1.5 | -2.5e-01 |\n"
        "\n"
        "| cycles | measured: GVSoC gap9like | predicted: cost model x | ratio |\n"
        "|---|--:|--:|--:|\n"
        "| per mini-batch | 40,000 | 10,000 | 4.00 |\n"
        "| per update | 500 | 0 | inf |\n"
        "| per inference | 9,000 | 4,500 | 2.00 |\n"
    )


def test_predicted_cycles_alone_are_not_called_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A report of the host engine itself, from a run."""
    file = tmp_path / "report.json"
    assert runner(["-t", "SimpleMLP", "--engine", "host", "--json", str(file)]) == 0
    capsys.readouterr()
    report = json.loads(file.read_text())
    text = shown(report, tmp_path, capsys)
    assert "measured" not in text and f"| predicted: {report['cycles']['model']} |\n|---|--:|\n" in text
    assert f"| per mini-batch | {report['cycles']['minibatch']:,} |\n" in text
    assert f"Errors: 0 out of {report['checks']['total']}." in text
    assert text.count("\n| ") == len(report["losses"]["golden"]) + 2 + (3 if report["cycles"]["inference"] is not None else 2)


def test_failures_are_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = changed("exit", to=1)
    report["checks"] |= {"errors": 3, "repeat": "round 2: w", "expected": {"errors": 1, "total": 2}}
    report["checks"]["gradients"] = {"errors": 3, "total": 4, "worst": {"tensor": "conv|w"}}
    text = shown(report, tmp_path, capsys)
    assert text.startswith("### net\\_a, engine gvsoc: FAILED\n\nLosses: 0 out of 4. Errors: 3 out of 12.\n")
    assert "Errors in gradients: 3 out of 4, worst in conv\\|w.\n" in text
    assert "Errors against the maker's own losses and weights: 1 out of 2.\n" in text
    assert "Second round in the same process differs from the first: round 2: w.\n" in text


def test_losses_that_are_no_numbers_and_hostile_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = changed("losses", to={"computed": ["nan", "inf", 1], "golden": [1.0, "inf", 1.0]})
    report["test"] = "a\n## <img>|`\ud800"
    report["cycles"]["inference"] = report["predicted"]["inference"] = None
    text = shown(report, tmp_path, capsys)
    assert text.startswith("### a \\#\\# \\<img\\>\\|\\`?, engine")
    assert "| 0 | nan | 1 | nan |\n| 1 | inf | inf | 0 |\n| 2 | 1 | 1 | 0 |\n" in text
    assert "per inference" not in text


def test_many_losses_are_cut_short(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    losses = [float(i) for i in range(SHOWN + 5)]
    text = shown(changed("losses", to={"computed": losses, "golden": losses}), tmp_path, capsys)
    rows = text.split("|--:|--:|--:|--:|\n")[1].split("\n\n")[0].splitlines()
    assert len(rows) == SHOWN + 1 and rows[SHOWN // 2] == "| 5 more | | | |"
    assert (rows[SHOWN // 2 - 1].split()[1], rows[SHOWN // 2 + 1].split()[1]) == ("19", "25")


BAD: dict[str, tuple[Any, str]] = {
    "no object": ([1], "not the report of a run"),
    "another schema": (changed("schema", to="deeploy_ext/plan-report/1"), "not the report of a run"),
    "no losses": (changed("losses", to={}), "losses.computed is missing"),
    "losses that are no list": (changed("losses", "golden", to=1.0), "losses.golden is not a list"),
    "a loss that is a word": (changed("losses", "golden", to=["x", 1]), "losses.golden holds what is no number"),
    "a loss that is a list": (changed("losses", "golden", to=[[1], 1]), "losses.golden holds what is no number"),
    "a loss that is huge": (changed("losses", "golden", to=[10**400, 1]), "losses.golden holds a number beyond"),
    "fewer losses": (changed("losses", "golden", to=[1.0]), "losses: 2 computed, 1 golden"),
    "cycles that are a list": (changed("cycles", to=[]), "cycles is not an object"),
    "cycles that are negative": (changed("cycles", "update", to=-1), "cycles.update is not a count"),
    "cycles that are true": (changed("cycles", "update", to=True), "cycles.update is not a count"),
    "cycles that are huge": (changed("predicted", "update", to=10**400), "predicted.update is not a count"),
    "no kind": (changed("cycles", "kind", to=None), "cycles.kind is not a text"),
    "a prediction without inference": (changed("predicted", "inference", to=None), "predicted.inference is not a count"),
    "no worst tensor": (changed("checks", "state", to={"errors": 1, "total": 1, "worst": 1}), "checks.state.worst is not"),
}


@pytest.mark.parametrize("name", list(BAD))
def test_bad_reports_end_in_one_line(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    value, said = BAD[name]
    refuse(json.dumps(value).encode(), said, tmp_path, capsys)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[" * 200_000, b"9" * 10_000], ids=lambda content: content[:2])
def test_what_is_no_json_ends_in_one_line(content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    refuse(content, "not JSON", tmp_path, capsys)


def refuse(content: bytes, said: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = folder / "report.json"
    file.write_bytes(content)
    assert main([str(file)]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith(f"summary: {file}: {said}") and err.count("\n") == 1


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["none.json"], "none.json: No such file"),
        (["."], ".: Is a directory"),
        (["a\nb"], r"a\nb: No such file"),
        (["a\0b"], r"a\x00b: "),
        ([], "give one file"),
        (["a", "b"], "give one file"),
    ],
)
def test_other_arguments_end_in_one_line(
    given: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(given) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith(f"summary: {said}") and err.count("\n") == 1


def test_as_a_command(tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    command = [sys.executable, "-m", "deeploy_ext.harness.summary", str(file)]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"summary: {file}: No such file or directory\n")
    file.write_text(json.dumps(GOOD))
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "") and done.stdout.startswith("### net")
