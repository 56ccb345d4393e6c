"""Pages of docs/ as tests run them: blocks that are files are written, blocks that are commands run, outputs compared."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
_BLOCK = re.compile(r"(?:<!-- (with|without) torch -->\n)?```(\w+)\n(.*?)```\n", re.DOTALL)
_NUMBER = re.compile(r"\d[\d,.]*")
_NAME = re.compile(r"(?:# |## |/\* )([\w/.]+\.\w+)(?: \*/)?")
_FILES = ("python", "mako", "c")
"""Kinds of blocks that are files; their first line names them."""


class Block(NamedTuple):
    """One fenced block; ``only`` names the reader that it is for, "" both."""

    only: str
    kind: str
    text: str


def blocks(page: str, reader: str = "") -> list[Block]:
    """What a reader of a page sees, in order."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    found = [Block(*parts) for parts in _BLOCK.findall(text)]
    assert len(found) == text.count("```") // 2
    return [block for block in found if block.only in ("", reader)]


def masked(text: str) -> list[str]:
    """Lines with numbers and spacing out of the way."""
    return [" ".join(_NUMBER.sub("#", line).split()) for line in text.strip().splitlines()]


def tools(folder: Path, commands: Mapping[str, str]) -> str:
    """A PATH on which these names are commands, given as words of a shell."""
    folder.mkdir()
    for name, words in commands.items():
        script = folder / name
        script.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
        script.chmod(0o755)
    return os.pathsep.join([str(folder), os.environ.get("PATH", "")])


def write(block: Block, folder: Path) -> None:
    """Writes a block that is a file, with the line that names it."""
    name = _NAME.fullmatch(block.text.splitlines()[0])
    assert name is not None, block.text
    (folder / name[1]).write_text(block.text, encoding="utf-8")


def run_page(page: str, folder: Path, environment: Mapping[str, str], reader: str = "") -> list[tuple[Block, str]]:
    """Does in ``folder`` what a page says; returns the blocks of output, each with what was printed."""
    printed, outputs = "", list[tuple[Block, str]]()
    for block in blocks(page, reader):
        if block.kind in _FILES:
            write(block, folder)
        elif block.kind == "sh":
            command = ["sh", "-e", "-c", block.text]
            done = subprocess.run(command, cwd=folder, env=dict(environment), capture_output=True, text=True, check=False)
            assert done.returncode == 0, f"{block.text}\n{done.stdout}\n{done.stderr}"
            printed = done.stdout
        else:
            outputs.append((block, printed))
    return outputs
