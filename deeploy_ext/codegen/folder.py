"""What the folders for people (``--out``, ``--engine board``) have in common: copied files, and tables for their README."""

from __future__ import annotations

import math
import shutil
from pathlib import Path

from deeploy_ext.codegen.program import TensorEntry
from deeploy_ext.codegen.text import md_code


def copy(source: Path, destination: Path) -> None:
    """Copies a file, making the folders above it."""
    destination.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, destination)


def first_line(file: Path) -> str:
    """What a C file says of itself."""
    return file.read_text(encoding="ascii").split("\n")[0].removeprefix("/* ").removesuffix(" */").rstrip(".:")


def counted(count: int, one: str, many: str = "") -> str:
    """A number and its noun: "1 step", "2 steps"."""
    return f"{count} {one if count == 1 else many or one + 's'}"


def tensor_row(entry: TensorEntry) -> tuple[str, str, str, int]:
    """Name, type, shape and bytes of a tensor, for a table in Markdown."""
    shape = " x ".join(map(str, entry.shape)) or "scalar"
    return md_code(entry.name), entry.dtype.name, shape, math.prod(entry.shape) * entry.dtype.itemsize
