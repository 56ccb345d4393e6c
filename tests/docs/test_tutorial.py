"""The tutorial does what it says: its scripts and commands run in order, and print what it shows, up to numbers."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
_BLOCK = re.compile(r"(?:<!-- (with|without) torch -->\n)?```(\w+)\n(.*?)```\n", re.DOTALL)
_NUMBER = re.compile(r"\d[\d,.]*")


class Block(NamedTuple):
    """One fenced block; ``only`` names the reader that it is for, "" both."""

    only: str
    kind: str
    text: str


def blocks(reader: str) -> list[Block]:
    """What a reader ``with`` or ``without`` torch sees, in order."""
    found = [Block(*parts) for parts in _BLOCK.findall((ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8"))]
    assert len(found) == (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8").count("```") // 2
    return [block for block in found if block.only in ("", reader)]


def masked(text: str) -> list[str]:
    """Lines with numbers and spacing out of the way."""
    return [" ".join(_NUMBER.sub("#", line).split()) for line in text.strip().splitlines()]


def environment(folder: Path) -> dict[str, str]:
    """A PATH on which ``python`` and ``deeployRunner`` are those under test."""
    tools = folder / "bin"
    tools.mkdir()
    for name, arguments in (("python", ""), ("deeployRunner", "-m deeploy_ext")):
        script = tools / name
        script.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {arguments} "$@"\n')
        script.chmod(0o755)
    path = os.pathsep.join([str(tools), os.environ.get("PATH", "")])
    return os.environ | {"PATH": path, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"}


@pytest.mark.parametrize("reader", ["without", "with"])
def test_tutorial(tmp_path: Path, reader: str) -> None:
    if reader == "with" and not all(importlib.util.find_spec(name) for name in ("torch", "onnxscript")):
        pytest.skip("the PyTorch parts of the tutorial need torch and onnxscript")
    settings, work, printed = environment(tmp_path), tmp_path / "work", ""
    work.mkdir()
    for block in blocks(reader):
        if block.kind == "python":
            name = block.text.splitlines()[0].removeprefix("# ")
            assert re.fullmatch(r"\w+\.py", name)
            (work / name).write_text(block.text, encoding="utf-8")
        elif block.kind == "sh":
            command = ["sh", "-e", "-c", block.text]
            done = subprocess.run(command, cwd=work, env=settings, capture_output=True, text=True, check=False)
            assert done.returncode == 0, f"{block.text}\n{done.stdout}\n{done.stderr}"
            printed = done.stdout
        else:
            assert masked(printed) == masked(block.text)
            if "right" in block.text:
                assert int(re.findall(r"(\d+)% right", printed)[-1]) > 90
