"""Finding an installation of GVSoC, and having it describe a simulated board as the file that its launcher runs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from deeploy_ext.errors import BadInputError, ToolError
from deeploy_ext.resources import resource

PREFIXES = ("/opt/gvsoc", "/usr/local/gvsoc", "/usr/local", "/usr", "~/gvsoc", "~/.local")
"""Where installations usually are, after ``--gvsoc``, ``GVSOC_HOME`` and PATH."""

TARGETS = {"gap9like": 0x20000, "pulp-open": 0x10000}
"""Models of the board and their bytes of L1: ours, and the stock one."""

SECONDS = 120.0
"""After that GVSoC's generator is taken for hung."""

_GET_IT = "GVSoC is public (github.com/gvsoc/gvsoc, target pulp-open); point --gvsoc or GVSOC_HOME at its install folder"
_MISSING_MODULE = re.compile(r"(?:No module named|Dependency) '([\w.]+)'")


@dataclass(frozen=True)
class Installation:
    """An installed GVSoC.

    Attributes:
        folder: its prefix, with ``bin/gvsoc``.
        found: how it was found, in words.
    """

    folder: Path
    found: str

    @property
    def command(self) -> Path:
        """The program that users call."""
        return self.folder / "bin" / "gvsoc"

    @property
    def launcher(self) -> Path:
        """The program that simulates what a configuration describes."""
        return self.folder / "bin" / "gvsoc_launcher"

    def environment(self) -> dict[str, str]:
        """The variables that GVSoC's programs need, on top of ours."""
        paths = {"PATH": "bin", "PYTHONPATH": "python", "LD_LIBRARY_PATH": "lib"}
        ours = {name: f"{self.folder / part}{os.pathsep}{os.environ.get(name, '')}" for name, part in paths.items()}
        return {**os.environ, **ours}


def find_installation(explicit: str | None = None) -> Installation:
    """The installation in ``explicit`` (``--gvsoc``), else in ``GVSOC_HOME``, else by PATH, else in a usual prefix.

    A folder may be the prefix itself or a source tree with the prefix ``install`` in it.

    Raises:
        ToolError: there is none; a folder that is named has none.
    """
    for where, named in (("--gvsoc", explicit), ("GVSOC_HOME", os.environ.get("GVSOC_HOME"))):
        if named:
            if folder := _prefix(Path(named).expanduser()):
                return Installation(folder, f"{where} {named}")
            raise ToolError(f"{where}: no GVSoC in '{named}' (no bin/gvsoc with bin/gvsoc_launcher there)\n{_GET_IT}")
    for folder, found in _usual():
        if prefix := _prefix(folder):
            return Installation(prefix, found)
    raise ToolError(f"GVSoC not found (looked at --gvsoc, GVSOC_HOME, PATH and {', '.join(PREFIXES)})\n{_GET_IT}")


def _usual() -> Iterator[tuple[Path, str]]:
    if command := shutil.which("gvsoc"):
        yield Path(command).resolve().parent.parent, f"{command} in PATH"
    for prefix in PREFIXES:
        yield Path(prefix).expanduser(), prefix


def _prefix(folder: Path) -> Path | None:
    for prefix in (folder, folder / "install"):
        if all((prefix / "bin" / name).is_file() for name in ("gvsoc", "gvsoc_launcher")):
            return prefix.absolute()
    return None


def describe_board(installation: Installation, target: str, binary: Path, directory: Path) -> Path:
    """Writes the configuration of a board that runs ``binary`` into ``directory``, and returns its path.

    Raises:
        BadInputError: no such target.
        ToolError: GVSoC's generator fails.
    """
    if target not in TARGETS:
        raise BadInputError(f"unknown GVSoC target '{target}'; use {' or '.join(TARGETS)}.")
    arguments = [f"--target={target}", "--binary", str(binary), "--work-dir", str(directory), "prepare"]
    if target == "gap9like":
        arguments = ["--target-dir", str(resource("targets", "gap9", "gvsoc")), *arguments]
    configuration = directory / "gvsoc_config.json"
    configuration.unlink(missing_ok=True)
    log = directory / "prepare.log"
    said = ""
    for environment in _environments(installation):
        try:
            done = subprocess.run(
                [str(installation.command), *arguments],
                cwd=directory,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise ToolError(f"{installation.command} did not describe {target} within {SECONDS:g} s") from error
        except OSError as error:
            raise ToolError(f"{installation.command} does not start: {error.strerror}") from error
        said = done.stdout.decode(errors="replace")
        log.write_text(said, encoding="utf-8")
        if done.returncode == 0 and configuration.is_file():
            return configuration
        if not _MISSING_MODULE.search(said):
            break
    raise ToolError(f"GVSoC does not describe its target {target}: {_reason(said)}\nlog: {log}")


def _environments(installation: Installation) -> Iterator[dict[str, str]]:
    """One per Python in PATH: GVSoC runs in the first, which in a virtual environment may lack GVSoC's own packages."""
    environment = installation.environment()
    yield environment
    for folder in dict.fromkeys(environment["PATH"].split(os.pathsep)):
        if Path(folder, "python3").is_file():
            yield {**environment, "PATH": f"{folder}{os.pathsep}{environment['PATH']}"}


def _reason(said: str) -> str:
    if missing := _MISSING_MODULE.search(said):
        return f"its Python package '{missing[1]}' is missing in every python3 of PATH; see GVSoC's documentation"
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return lines[-1] if lines else "it says nothing"
