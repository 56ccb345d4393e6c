"""Nothing that a model or a user calls something reaches a shell, C text unescaped, or a place outside the given folders."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from bad_case import dense, info, network
from onnx import helper, numpy_helper

from deeploy_ext.cli import main

HOSTILE = (
    "*/ int planted; /*", "// planted", '"; planted(); "', "'planted'", "back\\slash planted\\", "%s%n planted", "??/ planted",
    "$(touch planted)", "`touch planted`", "; touch planted;", "../../planted", "/planted", "${planted}", "<%planted%>",
    "## planted", "#include <planted>", "%planted", "emoji 😀 planted", "\u202eplanted", "int", "while", "main", "net_step",
    "__proto__", "__class__", "labels", "loss", "loss_grad", "reset", "learning_rate", "infer/a",
    "w_updated", "w", "a", "w.1", "w_1", "w/1", "w:1", "w 1", " ",
    "x" * 10_000,
)  # fmt: skip
"""Names that mean something to C, a shell, a template, a path or to us, or become equal when made identifiers."""

CONTROL = ("a\0b", "a\nb", "a\x1b[31mb", "a\u2028b", "a\rb", "a\x7fb", "a\x85b")

PLACES = ('it\'s a "place" ; touch planted', "-rf", "--promote", "$(touch planted) `touch planted`", "%s*?[x] \\ 😀 é")
"""Names of files and folders that mean something to a shell, an option parser or a pattern."""


def chain(names: Sequence[str]) -> onnx.ModelProto:
    """Dense layers one after the other; nodes, weights and values are named like that, and all texts say the same."""
    nodes, weights, last = [], [], "input *"
    for name in names:
        weights.append(numpy_helper.from_array(np.eye(3, dtype=np.float32) + 0.01, name))
        weights[-1].doc_string = f"{name} */ planted"
        nodes.append(helper.make_node("Gemm", [last, weights[-1].name], [f"{name}*/"], name=f"*{name}", doc_string=name))
        last = f"{name}*/"
    graph = helper.make_graph(nodes, names[0], [info("input *", [1, 3])], [info(last, [1, 3])], weights, doc_string=names[0])
    model = helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 21)], doc_string="*/ planted")
    model.producer_name, model.domain = "*/ planted\n", "$(touch planted)"
    helper.set_model_props(model, {"labels": "*/ planted\n", "$(touch planted)": "`touch planted`"})
    return model


def code_of(text: str) -> str:
    """C without comments and string literals; asserts that both end where they should."""
    token = re.compile(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.DOTALL)
    return token.sub(" ", text)


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder two levels down, so that ``../../x`` would be seen; temporary files are seen too."""
    work, scratch = tmp_path / "a/b/work", tmp_path / "scratch"
    work.mkdir(parents=True)
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    monkeypatch.chdir(work)
    return work


def assert_only(work: Path, *names: str) -> None:
    """The folder holds these entries, and nothing appeared outside it."""
    assert {path.name for path in work.iterdir()} == set(names)
    outside = [path for path in work.parents[2].rglob("*") if path not in work.parents and not path.is_relative_to(work)]
    assert [path.name for path in outside] == ["scratch"] or {path.name for path in outside} == {"b", "work", "a", "scratch"}


def test_hostile_names_train_and_stay_where_they_belong(work: Path, capfd: pytest.CaptureFixture[str]) -> None:
    onnx.save(chain(HOSTILE), work / "model.onnx")
    arguments = ["-t", "model.onnx", "--loss", "cross_entropy", "--lr", "1e-3", "--tolerance", "1e-3"]
    assert main([*arguments, "--out", "c", "--dump", "d", "--json", "r.json", "--save-weights", "w.npz"]) == 0
    out, err = capfd.readouterr()
    assert "Errors: 0 out of" in out and err == ""
    assert all(character.isprintable() or character == "\n" for character in out)
    assert_only(work, "model.onnx", "c", "d", "r.json", "w.npz")
    assert set(np.load(work / "w.npz")) == set(HOSTILE)
    written = [path for folder in ("c", "d/c") for path in sorted((work / folder).rglob("*")) if path.is_file()]
    assert any(path.name == "net.c" for path in written)
    for path in written:
        assert "planted" not in str(path.relative_to(work))
        if path.suffix in (".c", ".h"):
            text = path.read_text(encoding="ascii")
            code = code_of(text)
            assert "??" not in text and "planted" not in code and "/*" not in code and "*/" not in code, path
            assert max(map(len, code.splitlines())) < 1000, path
        elif path.name == "CMakeLists.txt" or path.suffix in (".cmake", ".sh"):
            assert "planted" not in path.read_text(encoding="utf-8"), path


@pytest.mark.parametrize("name", CONTROL, ids=ascii)
@pytest.mark.parametrize("place", ["node", "value", "weight", "graph"])
def test_control_characters_are_refused_or_do_not_show(
    name: str, place: str, work: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    model = dense()
    if place == "node":
        model.graph.node[0].name = name
    elif place == "value":
        model.graph.node[0].output[0] = model.graph.node[1].input[0] = name
    elif place == "weight":
        model.graph.initializer[0].name = model.graph.node[0].input[1] = name
    else:
        model.graph.name = name
    network(work)
    onnx.save(model, work / "net/model.onnx")
    for arguments in (["-t", "net"], ["-t", "net/model.onnx", "--loss", "mse"]):
        status = main([*arguments, "--plan-only"])
        out, err = capfd.readouterr()
        assert status == (0 if place == "graph" else 2), err
        assert all(character.isprintable() or character == "\n" for character in out + err)
        if status:
            assert ascii(name)[1:-1] in err and "rename" in err and err.count("\n") == 1
    assert_only(work, "net")


@pytest.mark.parametrize("name", PLACES)
def test_hostile_places_are_used_as_they_are_called(name: str, work: Path, capfd: pytest.CaptureFixture[str]) -> None:
    network(work)
    onnx.save(dense(), work / "net/model.onnx")
    folder = f"t{name}"
    (work / "net").rename(work / folder)
    places = [f"--out=o{name}", f"--dump={name}", f"--json=j{name}", f"--plan-html=h{name}"] if name.startswith("-") else []
    places = places or ["--out", f"o{name}", "--dump", name, "--json", f"j{name}", "--plan-html", f"h{name}"]
    assert main(["-t", folder, *places]) == 0, capfd.readouterr()
    assert_only(work, folder, f"o{name}", name, f"j{name}", f"h{name}")
    assert [path.name for path in sorted((work / folder).iterdir())] == ["build.py", "model.onnx", "test.toml"]
    code = code_of((work / f"o{name}" / "net.c").read_text(encoding="ascii"))
    assert "planted" not in code
    capfd.readouterr()
    for option in ("--plan", "--data"):  # and as inputs
        assert main(["-t", folder, f"{option}={name}"]) == 2
        err = capfd.readouterr().err
        assert "Traceback" not in err and err.count("\n") <= 2
