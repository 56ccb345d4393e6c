"""The output that the README shows is what the main job prints, times apart."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from deeploy_ext.cli import main

ROOT = Path(__file__).resolve().parents[2]


def shown() -> list[str]:
    """The indented block behind ``and prints:``."""
    text = (ROOT / "README.md").read_text(encoding="utf-8").split("and prints:\n", 1)[1]
    block = re.match(r"\n((?:    .*\n)+)", text)
    assert block is not None
    return [line[4:] for line in block[1].splitlines()]


def without_times(lines: list[str]) -> list[str]:
    return [re.sub(r" +\d+\.\d\d s", " T", line) for line in lines]


def test_readme_shows_what_the_main_job_prints(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["-t", "ResNet8", "--promote", "--db", "--engine", "host"]) == 0
    assert without_times(capsys.readouterr().out.splitlines()) == without_times(shown())
