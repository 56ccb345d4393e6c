"""``--plan-only``: the whole answer without a build or a run, for people and as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from deeploy_ext import engines, pipeline
from deeploy_ext.cli import main
from deeploy_ext.harness.files import MANIFEST
from deeploy_ext.planning.plan import Plan

NET = ("-t", "TinyCNN", "--plan-only")


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder, in which neither golden run nor code generation nor an engine may be used."""

    def never(*_: object, **__: object) -> None:
        raise AssertionError("--plan-only must not do this")

    for name in ("run_golden", "emit", "judge"):
        monkeypatch.setattr(pipeline, name, never)
    monkeypatch.setattr(engines, "select", never)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_everything_is_told(empty: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*NET, "--promote", "--l1", "20k"]) == 0
    out = capsys.readouterr().out
    assert "TinyCNN fits gap9 with 8 cores" in out
    lines = [line.split() for line in out.splitlines()]
    assert any(line[:2] == ["L1", "20,480"] and "runtime" in line for line in lines)
    assert any(line[:2] == ["conv1_weight", "L2"] and line[-1] == "always" for line in lines)
    assert any(line[:2] == ["reset", "L1"] for line in lines)
    assert any(line[0] == "conv1_out" and "to" in line for line in lines)
    assert "predicted cycles" in out and "single" in out
    for what in ("Per mini-batch: ", "Per update: ", "no number was compared"):
        assert what in out
    assert "Errors:" not in out


def test_verbose_lists_every_storage_and_node_and_quiet_the_verdict(empty: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*NET, "-v", "--dump", "d"]) == 0
    out = capsys.readouterr().out
    plan = Plan.from_json((empty / "d/plan.json").read_text())
    listed = [line.split()[0] for line in out.splitlines() if line.startswith("  ")]
    assert {placement.storage for placement in plan.placements} <= set(listed)
    assert out.count("single") == len(plan.groups) > 10
    assert main([*NET, "-q"]) == 0
    assert capsys.readouterr().out == "TinyCNN fits gap9 with 8 cores\n"


def test_the_plan_and_the_report_are_written_and_repeat(empty: Path) -> None:
    arguments = [*NET, "--db", "--json", "r.json", "--dump", "d"]
    assert main(arguments) == 0
    report: dict[str, Any] = json.loads((empty / "r.json").read_text())
    first = (empty / "d/plan.json").read_bytes()
    assert (report["exit"], report["engine"], report["checks"], report["losses"]) == (0, None, None, None)
    for entry, key in (("step", "minibatch"), ("update", "update")):
        assert report["cycles"][key] == sum(n["cycles"] for n in report["cycles"]["per_node"] if n["entry"] == entry) > 0
    for level in ("L1", "L2", "L3"):
        assert report["memory"][level]["used"] >= report["memory"][level]["lower_bound"]
    assert {"forward.onnx", "training.onnx", "update.onnx", "plan.json", MANIFEST} <= {p.name for p in (empty / "d").iterdir()}
    (empty / "plan.json").write_bytes(first)
    assert main([*arguments, "--plan", "plan.json"]) == 0
    again = json.loads((empty / "r.json").read_text())
    for value in (report, again):
        del value["seconds"], value["options"]["plan"]
    assert again == report and (empty / "d/plan.json").read_bytes() == first
    assert {path.name for path in empty.iterdir()} == {"d", "r.json", "plan.json"}


def test_the_keys_are_those_of_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["-t", "SimpleMLP", "--json", "run.json", "-q"]) == 0
    assert main(["-t", "SimpleMLP", "--json", "plan.json", "--plan-only", "-q"]) == 0
    run, plan = (json.loads((tmp_path / name).read_text()) for name in ("run.json", "plan.json"))
    assert set(run) <= set(plan)
    for key in ("schema", "test", "target", "macs", "traffic", "exit"):
        assert plan[key] == run[key]
    assert {**run["cycles"], "per_node": None} == {**plan["cycles"], "per_node": None}
    assert all(
        row.items() <= more.items() for row, more in zip(run["cycles"]["per_node"], plan["cycles"]["per_node"], strict=True)
    )
    for level, use in run["memory"].items():
        assert use.items() <= plan["memory"][level].items()


def test_what_does_not_fit_is_explained_and_leaves_nothing(empty: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*NET, "--l1", "8k", "--json", "r.json", "--dump", "d"]) == 3
    out, err = capsys.readouterr()
    assert "fits" not in out and err.count("\n") == 1
    smallest = err.split("--l1 ")[1].split()[0]
    assert not list(empty.iterdir())
    assert main([*NET, "--l1", smallest, "-q"]) == 0


def test_there_is_no_code_to_keep(empty: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*NET, "--out", "c"]) == 2
    assert "--plan-only emits no C" in capsys.readouterr().err
    assert not list(empty.iterdir())
