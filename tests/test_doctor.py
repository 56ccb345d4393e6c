"""``deeployRunner doctor`` on machines that lack something: says what and how to get it, with the right exit status."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from email.message import Message
from pathlib import Path

import pytest

from deeploy_ext import cli, doctor
from deeploy_ext.doctor import in_range
from deeploy_ext.engines.compiler import find_compiler

ROOT = Path(__file__).resolve().parents[1]
COMPILER, PATH = find_compiler(), os.environ["PATH"]


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder in PATH, empty."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


def script(file: Path, text: str) -> None:
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)


def ask(capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    status = cli.main(["doctor"])
    out, err = capsys.readouterr()
    assert err == ""
    return status, out


def marks(text: str) -> dict[str, str]:
    """Check -> mark."""
    return {name: mark for mark, name in re.findall(r"^  (\S+) +(\S.*?)  ", text, re.MULTILINE)}


def test_here_everything_needed_is_there_and_the_answer_repeats(capsys: pytest.CaptureFixture[str]) -> None:
    status, text = ask(capsys)
    assert status == 0, text
    assert "MISSING" not in text and text.endswith("Everything is there: deeployRunner -t ResNet8 --promote --db\n")
    assert marks(text)["GVSoC"] == "absent" and "GVSOC_HOME: no GVSoC in '/no/such/gvsoc'" in text
    assert ask(capsys) == (0, text)


@pytest.mark.gvsoc
def test_with_gvsoc_its_boards_are_described(gvsoc: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, text = ask(capsys)
    assert status == 0 and gvsoc in text
    names = ("RISC-V compiler", "GVSoC", "GVSoC target gap9like", "GVSoC target pulp-open")
    assert [marks(text)[name] for name in names] == ["ok"] * 4


def test_without_any_tool(tools: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, text = ask(capsys)
    assert status == 4
    assert marks(text)["C compiler"] == "MISSING" and marks(text)["cmake"] == "absent"
    assert marks(text)["GVSoC"] == "absent"
    assert "none of cc, gcc, clang in PATH" in text
    assert "get it: apt install gcc libc6-dev (Debian)" in text and "get it: apt install cmake" in text
    assert text.endswith("Missing: C compiler.\n")


def test_a_compiler_that_compiles_nothing(tools: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script(tools / "cc", 'case "$1" in --version) echo "fakecc 1.0";; *) echo "cc: error: no libc"; exit 1;; esac')
    status, text = ask(capsys)
    assert status == 4
    assert f"{tools}/cc: fakecc 1.0" in text and "does not build: cc: error: no libc" in text
    assert marks(text)["C compiler"] == "ok" and marks(text)["C11 with threads"] == "MISSING"
    assert text.endswith("Missing: C11 with threads.\n")


@pytest.mark.parametrize("trouble", ["exit 3", "kill -9 $$", "printf '\\377\\000'"])
def test_tools_that_misbehave(trouble: str, tools: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("cc", "cmake"):
        script(tools / name, trouble)
    status, text = ask(capsys)
    assert status == 4 and "Traceback" not in text
    assert marks(text)["C11 with threads"] == "MISSING"


def test_a_tool_that_is_no_program(tools: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tools / "cc").write_bytes(b"\x7fELF")
    (tools / "cc").chmod(0o755)
    status, text = ask(capsys)
    assert (status, marks(text)["C compiler"]) == (4, "MISSING")


def test_missing_sanitizers_and_cmake_are_no_obstacle(tools: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script(
        tools / "cc",
        'for a in "$@"; do case $a in -fsanitize=thread) echo "cannot find -ltsan"; exit 1;; esac; done\n'
        f'PATH="{PATH}" exec {COMPILER} "$@"',
    )
    status, text = ask(capsys)
    assert status == 0, text
    assert marks(text)["--sanitize thread"] == marks(text)["cmake"] == "absent"
    assert "does not build: cannot find -ltsan" in text


def test_without_any_package() -> None:
    """``-S``: Python without its site-packages."""
    command = [sys.executable, "-S", "-m", "deeploy_ext", "doctor"]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (4, ""), done
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = [line.split(">")[0] for line in project["dependencies"]]
    assert done.stdout.endswith(f"Missing: {', '.join([*names, 'onnxruntime runs'])}.\n")
    for name, line in zip(names, project["dependencies"], strict=True):
        assert f"get it: pip install '{line}'" in done.stdout
        assert f"{name}  " in done.stdout


def test_versions_out_of_range(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    real = doctor.importlib.metadata.version
    monkeypatch.setattr(doctor.importlib.metadata, "version", lambda name: "1.2.3" if name == "numpy" else real(name))
    monkeypatch.setattr(doctor.platform, "python_version", lambda: "3.14.0")
    status, text = ask(capsys)
    assert status == 4
    assert marks(text)["numpy"] == marks(text)["Python"] == "MISSING" and "1.2.3 (>=1.26,<3)" in text
    assert "get it: pip install 'numpy>=1.26,<3'" in text


def test_an_onnxruntime_that_fails(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    import onnxruntime

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("libfoo.so\nnot found")

    monkeypatch.setattr(onnxruntime, "InferenceSession", broken)
    status, text = ask(capsys)
    assert (status, marks(text)["onnxruntime runs"]) == (4, "MISSING")
    assert "RuntimeError: libfoo.so not found" in text


def test_an_incomplete_installation(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(doctor, "resource", lambda *parts: tmp_path.joinpath(*parts))
    status, text = ask(capsys)
    assert status == 4 and text.endswith("Missing: templates, targets, testnets.\n")


@pytest.mark.parametrize(
    ("version", "wanted", "good"),
    [
        ("1.26.0", ">=1.26,<3", True), ("1.26", ">=1.26.0", True), ("2.9.9rc1", ">=1.26,<3", True), ("3.0", ">=1.26,<3", False),
        ("1.9", ">=1.10", False), ("1.10", "<2, >=1.9", True), ("3.13.1", ">=3.11,<3.14", True),
        ("3.14.0", ">=3.11,<3.14", False),
    ],
)  # fmt: skip
def test_in_range(version: str, wanted: str, good: bool) -> None:
    assert in_range(version, wanted) is good


def test_it_takes_no_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["doctor", "--now"]) == 2
    assert "doctor takes no arguments" in capsys.readouterr().err


def test_it_explains_itself(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["doctor", "--help"]) == 0
    assert capsys.readouterr().out.startswith("usage: deeployRunner doctor\n")


def test_an_installed_package_knows_its_requirements(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where there is no pyproject.toml beside the package, as in a wheel."""
    meta = Message()
    meta["Requires-Python"] = "<3.14,>=3.11"
    for line in ("numpy<3,>=1.26", "onnx-ir>=0.1.9", "torch>=2.2; extra == 'torch'"):
        meta["Requires-Dist"] = line
    monkeypatch.setattr(doctor, "__file__", str(tmp_path / "deeploy_ext" / "doctor.py"))
    monkeypatch.setattr(doctor.importlib.metadata, "metadata", lambda _: meta)
    assert doctor._required() == ("<3.14,>=3.11", [("numpy", "<3,>=1.26"), ("onnx-ir", ">=0.1.9")])
