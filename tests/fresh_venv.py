"""A fresh venv for packages that tests install: it sees this repository and the packages of the tests' own environment."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def fresh_venv(folder: Path) -> Path:
    """Makes one in ``folder``, without pip and without a network; returns its python."""
    venv.create(folder, with_pip=False, symlinks=True)
    python = folder / "bin" / "python"
    (site,) = (folder / "lib").glob("python*/site-packages")
    (site / "tests_environment.pth").write_text(f"{ROOT}\n{sysconfig.get_path('purelib')}\n{sysconfig.get_path('platlib')}\n")
    return python


def install(python: Path, package: Path, *options: str) -> None:
    """Builds a package and installs it for that python, with the build backend that is there."""
    command = [sys.executable, "-m", "pip", "--python", str(python), "install", *options, str(package)]
    done = subprocess.run(command, env=quiet_pip(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def quiet_pip() -> dict[str, str]:
    """An environment in which pip downloads nothing."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    settings = {"NO_INDEX": "1", "NO_DEPS": "1", "NO_BUILD_ISOLATION": "0", "QUIET": "1", "DISABLE_PIP_VERSION_CHECK": "1"}
    return kept | {f"PIP_{name}": value for name, value in settings.items()}
