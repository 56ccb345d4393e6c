"""check-operator finds mistakes of every kind; that good operators pass it is tests/operators/test_conformance.py's matter."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from deeploy_ext.bench.cases import Case as Used
from deeploy_ext.cli import main
from deeploy_ext.engines.host import HostEngine
from deeploy_ext.operators import registry
from deeploy_ext.operators.activation import Relu, ReluGrad
from deeploy_ext.operators.spec import Invocation, TensorType
from deeploy_ext.workshop import check
from deeploy_ext.workshop.check import check_operator
from deeploy_ext.workshop.gradients import gradient_errors
from deeploy_ext.workshop.regimes import regimes, run_regime, runnable
from support import GAP9


@pytest.fixture
def relu(monkeypatch: pytest.MonkeyPatch) -> Relu:
    found = registry()["", "Relu"]
    assert isinstance(found, Relu)
    return found


def test_a_wrong_gradient(relu: Relu, monkeypatch: pytest.MonkeyPatch) -> None:
    def through(self: Relu, call: Invocation, node: Any, grads: Sequence[Any], build: Any) -> Sequence[Any]:
        return (grads[0],)

    monkeypatch.setattr(Relu, "gradient", through)
    errors = [error for case in relu.cases for error in gradient_errors(relu, case)]
    assert errors and "gradient of 'x' at" in errors[0] and "differences say 0" in errors[0]


def test_a_missing_gradient(relu: Relu, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Relu, "gradient", lambda *_: (None,))
    assert gradient_errors(relu, relu.cases[0]) == ["no gradient of 'x'"]


def test_shapes_that_onnx_infers_otherwise(relu: Relu, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(Relu, "infer", lambda self, call: (TensorType(call["x"].dtype, call["x"].shape[::-1]),))
    (found,) = check_operator([relu], HostEngine(), "not here", GAP9, tmp_path)  # nothing else can be said then
    assert (found.state, found.name) == ("FAILED", "shapes") and "ONNX infers" in found.said


def test_a_missing_template(relu: Relu, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(Relu, "template", "Nowhere")
    *fine, found = check_operator([relu], HostEngine(), "not here", GAP9, tmp_path)
    assert {one.state for one in fine} == {"ok"}
    assert found.state == "FAILED" and "operator Relu has no template" in found.said and "Nowhere.c.mako; add it" in found.said


def test_what_an_operator_raises_is_a_failed_check(relu: Relu, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(Relu, "gradient", lambda *_: 1 / 0)
    shapes, found, after = islice(check_operator([relu], HostEngine(), "not here", GAP9, tmp_path), 3)
    assert found.name == "gradient rule" and found.state == "FAILED" and "ZeroDivisionError" in found.said
    assert (shapes.state, after.state) == ("ok", "ok")


def test_a_wrong_kernel(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    grad = registry()["com.microsoft", "ReluGrad"]
    monkeypatch.setattr(ReluGrad, "function", "(dy, y) => (dx) { two = Add (dy, dy) dx = Mul (two, y) }")
    from deeploy_ext.training.functions import function_proto

    function_proto.cache_clear()
    cases: list[Used] = runnable([grad])
    outcome = run_regime(cases, regimes(cases)[0], HostEngine(), GAP9, tmp_path)
    monkeypatch.undo()
    function_proto.cache_clear()
    assert check._judged(outcome)[0] == "FAILED"
    assert "onnxruntime gives" in check._judged(outcome)[1]


def test_an_operator_without_cases(relu: Relu, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(Relu, "cases", ())
    (found,) = check_operator([relu], HostEngine(), "not here", GAP9, tmp_path)
    assert found.state == "FAILED" and "Relu has none" in found.said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [((), "NAME"), (("Rellu",), "did you mean Relu?"), (("acme::Relu",), "no operator is called 'acme::Relu'")],
)
def test_names_that_are_none(arguments: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check-operator", *arguments]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.slow
def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check-operator", "ConvGradX", "ai.onnx::BatchNormalization", "--engine", "host"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert not [line for line in lines if line.startswith("FAILED")]
    assert any(line.startswith("ok       variant scatter") for line in lines)
    assert any(line.startswith("ok       cycles (predicted") and "MAC/cycle" in line for line in lines)


@pytest.mark.gvsoc
@pytest.mark.slow
def test_the_command_measures(gvsoc: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check-operator", "Gemm", "--engine", "gvsoc"]) == 0
    assert "ok       cycles (measured, GVSoC gap9like)" in capsys.readouterr().out
