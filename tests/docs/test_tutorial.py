"""The tutorial does what it says: its scripts and commands run in order, and print what it shows, up to numbers."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import sys
from pathlib import Path

import pytest
from pages import ROOT, masked, run_page, tools


@pytest.mark.parametrize("reader", ["without", "with"])
def test_tutorial(tmp_path: Path, reader: str) -> None:
    if reader == "with" and not all(importlib.util.find_spec(name) for name in ("torch", "onnxscript")):
        pytest.skip("the PyTorch parts of the tutorial need torch and onnxscript")
    python, work = shlex.quote(sys.executable), tmp_path / "work"
    path = tools(tmp_path / "bin", {"python": python, "deeployRunner": f"{python} -m deeploy_ext"})
    work.mkdir()
    settings = os.environ | {"PATH": path, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"}
    for block, printed in run_page("tutorial.md", work, settings, reader):
        assert masked(printed) == masked(block.text)
        if "right" in block.text:
            assert int(re.findall(r"(\d+)% right", printed)[-1]) > 90
