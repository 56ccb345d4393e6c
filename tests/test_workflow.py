"""The workflow of continuous integration asks for what is there: make targets, Pythons, commands and their options."""

from __future__ import annotations

import importlib.util
import re
import shlex
from pathlib import Path

import pytest

from deeploy_ext.cli import parser
from deeploy_ext.doctor import in_range

ROOT = Path(__file__).resolve().parents[1]
WORKFLOW = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
JOBS = dict(re.findall(r"^  ([\w-]+):\n((?:    .*\n|\n)+)", WORKFLOW.split("\njobs:\n")[1], re.MULTILINE))


def test_make_targets_are_there_and_those_of_the_other_script_among_them() -> None:
    used = set(re.findall(r"run: make ([\w-]+)$", WORKFLOW, re.MULTILINE))
    assert used == {"lint", "test", "test-gvsoc"}
    assert used <= set(re.findall(r"^([a-z0-9-]+):.*## ", MAKEFILE, re.MULTILINE))
    assert set(re.findall(r"^make ([\w-]+)", (ROOT / ".ci" / "run").read_text(), re.MULTILINE)) == {"lint", "test"}


def test_pythons_are_all_that_the_package_allows() -> None:
    wanted = re.search(r'^requires-python = "(.*)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert wanted is not None
    allowed = [f"3.{minor}" for minor in range(30) if in_range(f"3.{minor}", wanted[1])]
    matrices = re.findall(r"python: \[(.*)\]", WORKFLOW)
    assert len(matrices) == 2 and all(re.findall(r"3\.\d+", matrix) == allowed for matrix in matrices)


def test_commands_are_ours() -> None:
    (command,) = re.findall(r"run: \.venv/bin/deeployRunner (.*)$", WORKFLOW, re.MULTILINE)
    given = parser().parse_args(shlex.split(command))
    assert (given.test, given.engine, given.json) == ("ResNet8", "gvsoc", "report.json")
    (module,) = re.findall(r"python -m ([\w.]+) report\.json", WORKFLOW)
    assert importlib.util.find_spec(module)


@pytest.mark.parametrize("job", list(JOBS))
def test_jobs_end_in_time_and_use_actions_of_one_major_version(job: str) -> None:
    assert re.search(r"^    timeout-minutes: \d+$", JOBS[job], re.MULTILINE)
    assert all(re.fullmatch(r"actions/[a-z-]+@v\d+", action) for action in re.findall(r"uses: (.*)$", JOBS[job], re.MULTILINE))


def test_rights_are_to_read_and_the_simulator_is_asked_for_or_missed() -> None:
    assert set(JOBS) == {"lint", "test", "gvsoc", "no-gvsoc"}
    assert re.findall(r"permissions:(?: (.*)|\n +(.*))", WORKFLOW) == [("", "contents: read"), ("{}", "")]
    (runs,), (misses,) = (re.findall(r"^    if: (.*)$", JOBS[job], re.MULTILINE) for job in ("gvsoc", "no-gvsoc"))
    assert runs.replace("!= ''", "== ''") == misses != runs
