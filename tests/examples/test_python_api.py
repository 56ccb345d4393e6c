"""The notebook of examples/python_api runs cell by cell, and the API says what the command line says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import deeploy_ext
from deeploy_ext import PlanOptions, Training
from deeploy_ext.cli import main
from deeploy_ext.errors import BadInputError, InfeasibleError
from deeploy_ext.harness.report import report_json
from support import FIXED_L1

NOTEBOOK = Path(__file__).resolve().parents[2] / "examples" / "python_api" / "train.py"


def test_the_notebook(capsys: pytest.CaptureFixture[str]) -> None:
    cells = NOTEBOOK.read_text(encoding="utf-8").split("# %%")
    names: dict[str, Any] = {}
    for cell in (cells[0], *("#" + cell for cell in cells[1:])):
        exec(compile(cell, str(NOTEBOOK), "exec"), names)
    assert len(cells) == 5 and names["run"].passed
    assert "passed: True" in capsys.readouterr().out
    assert np.allclose(names["run"].losses, names["program"].golden_losses, rtol=1e-4)
    assert (Path(deeploy_ext.__file__).parent / "py.typed").is_file()


def test_the_api_says_what_the_command_line_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["-t", "SimpleMLP", "--promote", "--lr", "0.1", "--engine", "host", "-q", "--json", "r.json"]) == 0
    program = deeploy_ext.compile("SimpleMLP", Training(learning_rate=0.1), "gap9", PlanOptions(promote=True))
    said, asked = report_json(program.run("host").report), json.loads(Path("r.json").read_text())
    for value in (said, asked):
        value.pop("seconds")
        value.pop("options")
    assert json.loads(json.dumps(said)) == asked


def test_emitting_needs_no_engine(tmp_path: Path) -> None:
    program = deeploy_ext.compile("SimpleMLP", plan_options=PlanOptions(promote=True))
    assert (program.emit(tmp_path / "c") / "net.c").read_text().startswith("/* Training of network 'SimpleMLP'")
    assert program.predicted.kind == "predicted"


def test_errors_are_those_of_the_stages() -> None:
    with pytest.raises(BadInputError, match="unknown network"):
        deeploy_ext.compile("nothing")
    with pytest.raises(BadInputError, match="loss"):
        deeploy_ext.compile(onnx.load_from_string(_own_model()))
    with pytest.raises(InfeasibleError):
        deeploy_ext.compile("SimpleMLP", plan_options=PlanOptions(l1=FIXED_L1 + 8))
    with pytest.raises(AttributeError):
        _ = deeploy_ext.nothing  # pyright: ignore[reportAttributeAccessIssue]


def _own_model() -> bytes:
    x, y = (onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, 2]) for name in ("x", "y"))
    w = onnx.numpy_helper.from_array(np.eye(2, dtype=np.float32), "w")
    graph = onnx.helper.make_graph([onnx.helper.make_node("Gemm", ["x", "w"], ["y"])], "own", [x], [y], [w])
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8).SerializeToString()
