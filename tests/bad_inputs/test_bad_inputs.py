"""Every bad input gets its exit status and one or two lines that name the thing and the remedy, and leaves nothing behind."""

from __future__ import annotations

import tempfile
import time
import warnings
from pathlib import Path

import bad_data
import bad_folders
import bad_models
import bad_operators
import bad_own_models
import bad_places
import bad_plans
import pytest
from bad_case import Case

from deeploy_ext.cli import main

CASES: tuple[Case, ...] = (
    *bad_models.CASES,
    *bad_operators.CASES,
    *bad_own_models.CASES,
    *bad_folders.CASES,
    *bad_data.CASES,
    *bad_plans.CASES,
    *bad_places.CASES,
)


def tree(folder: Path) -> dict[str, bytes | None]:
    """Everything below a folder: contents of files, None for folders."""
    return {str(p.relative_to(folder)): p.read_bytes() if p.is_file() else None for p in sorted(folder.rglob("*"))}


def test_names_are_unique_and_many() -> None:
    assert len({case.name for case in CASES}) == len(CASES) >= 60


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_refused(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    work, scratch = tmp_path / "work", tmp_path / "scratch"
    work.mkdir()
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    monkeypatch.chdir(work)
    case.build(work)
    before = tree(tmp_path)
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        status = main([*case.arguments, *case.outputs])
    seconds = time.process_time() - start
    out, err = capfd.readouterr()
    lines = err.strip("\n").split("\n")
    assert status == case.status, (out, err)
    assert lines[0].startswith("deeployRunner: ") and len(lines) <= 2 and all(len(line) < 1000 for line in lines), err
    for word in case.words:
        assert word in err, f"{word!r} is not in: {err}"
    for mark in ("Traceback", "internal error", "Errors:", "object at 0x"):
        assert mark not in out + err, err
    assert all(character.isprintable() for line in lines for character in line), err
    assert tree(tmp_path) == before
    assert seconds < 5.0
