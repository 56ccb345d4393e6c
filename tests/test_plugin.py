"""A real plugin package: built, installed in a fresh venv, and trained through the command, with tiles, on its own target."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from fresh_venv import ROOT, fresh_venv, install, quiet_pip


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("hatchling", reason="hatchling is not installed here")
    pytest.importorskip("pip", reason="pip is not installed here")
    found = fresh_venv(tmp_path_factory.mktemp("plugin") / "venv")
    install(found, ROOT / "tests" / "plugin_example")
    return found


def runner(python: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(python), "-m", "deeploy_ext", *arguments]
    return subprocess.run(command, cwd=folder, env=quiet_pip(), capture_output=True, text=True, check=False)


def test_a_network_of_the_plugin_trains_with_tiles_on_its_target(python: Path, tmp_path: Path) -> None:
    options = ("-p", "gap9half", "--promote", "--db", "--l1", "17k", "--engine", "host", "--json", "r.json", "--dump", "d")
    done = runner(python, tmp_path, "-t", "BumpNet", *options)
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads((tmp_path / "r.json").read_text())
    assert (report["test"], report["target"], report["exit"]) == ("BumpNet", "gap9half", 0)
    assert report["checks"]["errors"] == 0 < report["checks"]["total"]
    plan = json.loads((tmp_path / "d" / "plan.json").read_text())
    tiles = {
        node: [loop["extent"] > loop["tile"] for loop in group["loops"]] for group in plan["groups"] for node in group["nodes"]
    }
    assert any(tiles["bump"]) and any(tiles["bump_grad/BumpGrad"])
    assert "cost model gap9half" in done.stdout
    assert "Bump_main_1" in (tmp_path / "d" / "c" / "net.c").read_text()


def test_what_the_plugin_announces_is_listed(python: Path, tmp_path: Path) -> None:
    done = runner(python, tmp_path, "--list")
    assert "BumpNet" in done.stdout and "gap9half" in done.stdout.split("targets:")[1]


@pytest.mark.slow
def test_the_plugin_passes_its_check(python: Path, tmp_path: Path) -> None:
    done = runner(python, tmp_path, "check-operator", "Bump", "BumpGrad", "--engine", "host")
    assert done.returncode == 0 and "FAILED" not in done.stdout, done.stdout + done.stderr
