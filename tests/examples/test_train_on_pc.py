"""The example on a PC: the commands of its README work and print what it says."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from deeploy_ext import cli

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "train_on_pc"
BLOCKS = re.findall(r"(?:^    .*\n)+", (EXAMPLE / "README.md").read_text(), re.MULTILINE)
EMIT, CMAKE, COMPILER, OUTPUT = ("".join(line[4:] for line in block.splitlines(keepends=True)) for block in BLOCKS)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The example's files and the C of its network, elsewhere."""
    copy = tmp_path / "example"
    copy.mkdir()
    for name in ("train_on_pc.c", "CMakeLists.txt"):
        shutil.copyfile(EXAMPLE / name, copy / name)
    monkeypatch.chdir(copy)
    program, *arguments = EMIT.split()
    assert program == "deeployRunner" and cli.main(arguments) == 0
    return copy


def run(commands: str, folder: Path) -> str:
    done = subprocess.run(["sh", "-e", "-c", commands], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_with_a_compiler_alone(folder: Path) -> None:
    assert run(COMPILER.replace("cc ", "cc -Wall -Wextra -Werror ", 1), folder) == OUTPUT


@pytest.mark.skipif(not shutil.which("cmake"), reason="no cmake on this machine")
def test_with_cmake(folder: Path) -> None:
    assert run(CMAKE, folder).endswith(OUTPUT)


def test_what_is_not_of_the_network_is_refused(folder: Path) -> None:
    run(COMPILER.splitlines()[0], folder)
    for content in (b"", (folder / "tinycnn_c/weights.bin").read_bytes() + b"\0"):
        (folder / "tinycnn_c/weights.bin").write_bytes(content)
        done = subprocess.run(["./train_on_pc", "tinycnn_c"], cwd=folder, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr == "train_on_pc: weights.bin or data.bin is not of this network\n"
