"""new-operator: what it writes, and what it refuses; that its skeleton works is shown where docs/add-an-operator.md is run."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from deeploy_ext.cli import main
from deeploy_ext.workshop import new_operator

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def files(folder: Path) -> dict[str, str]:
    return {p.relative_to(folder).as_posix(): p.read_text() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_a_package_takes_one_operator_after_the_other(empty: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["new-operator", "HardSwish", "--package", "tiny-ops"]) == 0
    first = files(empty)
    said = capsys.readouterr().out
    assert {line.split(maxsplit=1)[1] for line in said.splitlines() if line.startswith("wrote")} == set(first)
    assert "tiny-ops/tiny_ops/operators/templates/HardSwishGrad.c.mako" in first
    assert main(["new-operator", "SoftClip", "--package", "tiny-ops"]) == 0
    second = files(empty)
    assert first.items() < second.items()
    assert set(second) - set(first) == {
        "tiny-ops/tiny_ops/operators/soft_clip.py",
        "tiny-ops/tiny_ops/operators/templates/SoftClip.c.mako",
        "tiny-ops/tiny_ops/operators/templates/SoftClipGrad.c.mako",
        "tiny-ops/tiny_ops/testnets/SoftClipNet/build.py",
        "tiny-ops/tiny_ops/testnets/SoftClipNet/test.toml",
    }
    assert not [name for name, text in second.items() if "@" in text.replace("@height", "")]


def test_in_this_repository(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (empty / "templates").mkdir()
    shutil.copy(ROOT / "pyproject.toml", empty)
    monkeypatch.setattr(new_operator, "resource", lambda name: empty / name)
    assert main(["new-operator", "HardSwish"]) == 0
    written = files(empty)
    names = {"deeploy_ext/operators/hard_swish.py", "templates/HardSwish.c.mako", "templates/HardSwishGrad.c.mako"}
    assert names < set(written)
    assert "domain = OWN" in written["deeploy_ext/operators/hard_swish.py"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "NAME"),
        (("hard-swish",), "'hard-swish' is no name of an operator"),
        (("hardSwish", "--package", "x"), "spell it like HardSwish"),
        (("HardSwish", "--package", "1st"), "'1st' is no name of a package"),
        (("HardSwish", "--package", "class"), "'class' is no name of a package"),
        (("HardSwish", "--package", "no/such/place"), "cannot be a folder"),
        (("HardSwish", "--package", "file"), "cannot be a folder"),
        (("HardSwish", "--package", "other"), "has no folder other/operators"),
        (("HardSwish", "--package", "half"), "is there already"),
    ],
)
def test_what_is_refused_leaves_nothing(
    empty: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], said: str
) -> None:
    (empty / "file").touch()
    (empty / "other").mkdir()
    (empty / "other" / "pyproject.toml").touch()
    (empty / "half" / "half" / "operators").mkdir(parents=True)
    (empty / "half" / "half" / "operators" / "hard_swish.py").touch()
    before = files(empty)
    assert main(["new-operator", *arguments]) == 2
    assert said in capsys.readouterr().err
    assert files(empty) == before


def test_an_installed_package_is_not_changed(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(new_operator, "resource", lambda name: empty / name)
    assert main(["new-operator", "HardSwish"]) == 2
    assert files(empty) == {}
