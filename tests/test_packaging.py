"""The wheel holds the package and its data folders, nothing loose, and runs from another folder."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from deeploy_ext import __version__
from deeploy_ext.resources import resource

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built by the installed back end itself, without a network."""
    pytest.importorskip("hatchling", reason="hatchling is not installed here")
    folder = tmp_path_factory.mktemp("wheel")
    build = "import sys, hatchling.build as b; print(b.build_wheel(sys.argv[1]))"
    done = subprocess.run([sys.executable, "-c", build, str(folder)], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (built,) = folder.glob("*.whl")
    return built


def test_the_wheel_holds_everything_under_the_package(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names} == {"deeploy_ext", f"deeploy_ext-{__version__}.dist-info"}
    assert not [name for name in names if "__pycache__" in name]
    for folder in ("templates", "targets", "testnets"):
        here = {
            p.relative_to(ROOT).as_posix() for p in (ROOT / folder).rglob("*") if p.is_file() and "__pycache__" not in p.parts
        }
        assert here, f"{folder}/ is empty"
        assert here <= {name.removeprefix("deeploy_ext/") for name in names}


def test_the_unpacked_wheel_finds_its_data(wheel: Path, tmp_path: Path) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    code = "import deeploy_ext.resources as r; print(r.resource('targets', 'gap9', 'target.toml'))"
    found = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path / "site", capture_output=True, text=True, check=True
    ).stdout.strip()
    assert Path(found) == (tmp_path / "site/deeploy_ext/targets/gap9/target.toml").resolve()
    assert Path(found).read_text() == resource("targets", "gap9", "target.toml").read_text()
