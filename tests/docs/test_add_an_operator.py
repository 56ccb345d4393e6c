"""docs/add-an-operator.md does what it says, in a fresh venv: the skeleton works, and so does what becomes of it."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest
from fresh_venv import fresh_venv, quiet_pip
from pages import masked, run_page, tools


def test_the_page(tmp_path: Path) -> None:
    pytest.importorskip("hatchling", reason="hatchling is not installed here")
    pytest.importorskip("pip", reason="pip is not installed here")
    python, work = shlex.quote(str(fresh_venv(tmp_path / "venv"))), tmp_path / "work"
    pip = f"{shlex.quote(sys.executable)} -m pip --python {python}"
    path = tools(tmp_path / "bin", {"python": python, "pip": pip, "deeployRunner": f"{python} -m deeploy_ext"})
    work.mkdir()
    outputs = run_page("add-an-operator.md", work, quiet_pip() | {"PATH": path})
    assert len(outputs) == 4
    for block, printed in outputs:
        assert masked(printed) == masked(block.text)
