"""Plugins: packages that announce operators, targets and test networks through entry points.

What a plugin gets wrong is reported as its own: the message names the package, what it announces, and what was expected.
"""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType

from deeploy_ext.errors import BadInputError, DeeployError

OPERATORS, TARGETS, TESTNETS = "deeploy_ext.operators", "deeploy_ext.targets", "deeploy_ext.testnets"
"""Entry point groups. Each entry names a module: one with operators, or a package that is a folder of targets or networks."""


@dataclass(frozen=True)
class Announced:
    """A module that a package announces; ``origin`` is how messages name the two."""

    origin: str
    module: ModuleType

    @property
    def folders(self) -> list[Path]:
        """Where its files are."""
        return [Path(path) for path in getattr(self.module, "__path__", ())]


def announced(group: str) -> list[Announced]:
    """What all installed packages announce in a group, sorted by the entries' names and packages.

    Raises:
        BadInputError: a module cannot be imported, or is not of the form that the group needs.
    """
    found: list[Announced] = []
    for entry in sorted(entry_points(group=group), key=lambda entry: (entry.name, entry.value, _package(entry))):
        origin = f"{_package(entry)} ({entry.value})"
        if any(entry.value == other.module.__name__ and origin == other.origin for other in found):
            continue  # the metadata of one package may be seen twice, through two entries of the path
        remedy = f"correct or uninstall {_package(entry)}"
        try:
            module = entry.load()
        except (Exception, SystemExit) as error:  # the package's code may raise anything
            raise BadInputError(f"plugin {origin}, entry point '{group}': {raised(error)}; {remedy}.") from error
        if not isinstance(module, ModuleType):
            raise BadInputError(f"plugin {origin}, entry point '{group}': names no module; {remedy}.")
        if group != OPERATORS and not getattr(module, "__path__", ()):
            raise BadInputError(f"plugin {origin}, entry point '{group}': names no package, which is a folder; {remedy}.")
        found.append(Announced(origin, module))
    return found


def _package(entry: EntryPoint) -> str:
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist is not None else "a package without metadata"


def raised(error: BaseException) -> str:
    """Type and message of an error of other people's code, and the line that raised it, in one line."""
    frames = traceback.extract_tb(error.__traceback__)
    text = " ".join(f"{type(error).__name__}: {error}".split())
    text = text if len(text) <= 300 else f"{text[:300]}..."
    if isinstance(error, (DeeployError, SyntaxError)) or not frames:  # those say where by themselves
        return text
    return f"{text} ({Path(frames[-1].filename).name}, line {frames[-1].lineno})"
