"""The bench runs nodes as networks run them, and finds wrong numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from deeploy_ext.bench import run
from deeploy_ext.cli import main
from deeploy_ext.codegen.program import EmittedProgram

SHAPES = """
conv = [{ of = "small", x = [1, 5, 7, 6], w = [6, 5, 3, 3], pad = 1 }]
gemm = [{ of = "small", m = 2, k = 9, n = 5 }]
normalisation = [{ of = "small", x = [1, 4, 5, 5] }]
elementwise = [{ of = "small", x = [1, 4, 5, 5] }]
pooling = [{ of = "small", x = [1, 4, 5, 5] }]
parameter = [{ of = "small", x = [4, 3] }, { of = "smaller", x = [7] }]
"""


@pytest.fixture
def shapes(tmp_path: Path) -> str:
    file = tmp_path / "shapes.toml"
    file.write_text(SHAPES)
    return str(file)


@pytest.mark.parametrize("options", [[], ["--kernels", "portable"], ["--l1", "17280", "--db"]])
def test_all_kinds_of_layers_are_right(shapes: str, options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--engine", "host", "--shapes", shapes, *options]) == 0
    output = capsys.readouterr().out
    assert "Errors: 0 out of 18 cases" in output
    assert "Cycles are predicted: this engine measures none" in output


def test_json_is_the_same_each_time(shapes: str, tmp_path: Path) -> None:
    for name in ("a", "b"):
        assert main(["bench", "--engine", "host", "--shapes", shapes, "--op", "gemm,sgd", "--json", str(tmp_path / name)]) == 0
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    report = json.loads((tmp_path / "a").read_text())
    assert report["schema"] == "deeploy_ext/bench/1"
    assert [case["macs"] for case in report["cases"]] == [90, 90, 90, 0, 0]
    assert all(case["measured"] is None and case["predicted"] > 0 for case in report["cases"])


def test_the_list_is_not_overwritten(shapes: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--engine", "host", "--shapes", shapes, "--json", shapes]) == 2
    assert "is what --shapes reads" in capsys.readouterr().err
    assert Path(shapes).read_text() == SHAPES


@pytest.mark.parametrize(
    ("change", "operator", "wrong"),
    [
        (("const float rate = learning_rate[0];", "const float rate = -learning_rate[0];"), "sgd", 2),
        ((".accumulate = !range->first", ".accumulate = true"), "convgradw", 1),
    ],
)
def test_wrong_numbers_are_found(
    shapes: str, change: tuple[str, str], operator: str, wrong: int, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    emit = run.emit

    def spoilt(*arguments: Any) -> EmittedProgram:
        emitted = emit(*arguments)
        code = emitted.directory / "net.c"
        code.write_text(code.read_text().replace(*change))
        return emitted

    monkeypatch.setattr(run, "emit", spoilt)
    assert main(["bench", "--engine", "host", "--shapes", shapes, "--op", operator]) == 1
    output = capsys.readouterr().out
    assert f"Errors: {wrong} out of" in output
    assert output.count("WRONG:") >= wrong


@pytest.mark.gvsoc
def test_cycles_and_stalls_are_measured(gvsoc: str, shapes: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "r.json"
    assert (
        main(["bench", "--engine", "gvsoc", "--gvsoc", gvsoc, "--shapes", shapes, "--op", "conv,relu", "--json", str(file)])
        == 0
    )
    assert "MAC/cycle in kernels, prediction off by" in capsys.readouterr().out
    for case in json.loads(file.read_text())["cases"]:
        measured = case["measured"]
        assert 0 < measured["kernel"] < measured["cycles"]
        assert 0 < measured["instructions"] < measured["kernel"]
        assert measured["fetch_stalls"] > 0  # the first instructions are never in the cache


@pytest.mark.gvsoc
def test_the_model_is_fitted(gvsoc: str, shapes: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--engine", "gvsoc", "--gvsoc", gvsoc, "--shapes", shapes, "--op", "relu,add", "--fit"]) == 0
    output = capsys.readouterr().out
    assert "[cycles.iteration]" in output
    assert "fitted: " in output
