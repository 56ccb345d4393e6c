"""A target: its memories, its transfer engines and the costs of work, read from ``targets/<name>/target.toml``."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from deeploy_ext.errors import BadInputError
from deeploy_ext.plugins import TARGETS, announced
from deeploy_ext.resources import resource

LEVELS = ("L1", "L2", "L3")


@dataclass(frozen=True)
class Level:
    """One memory level: total bytes, alignment of every block in bytes."""

    name: str
    capacity: int
    alignment: int

    def align(self, size: int) -> int:
        """``size`` rounded up to the alignment."""
        return -(-size // self.alignment) * self.alignment


@dataclass(frozen=True)
class OperatingPoint:
    """A clock that all domains of the chip can have, in MHz, and the supply it needs, in mV."""

    mhz: int
    millivolts: int


@dataclass(frozen=True)
class Target:
    """Everything the planner knows about the chip.

    Attributes:
        name: as given to ``--target``.
        model: name printed beside predicted cycles.
        cores: worker cores of the cluster.
        fpus: floating-point units that they share.
        runtime_bytes: L1 bytes of the runtime's own state.
        code: bytes of L2 that a program takes, of ``[code]`` and ``[code.kernel]``, the latter named ``kernel.<class>``.
        costs: numbers of ``[dma]``, ``[ram]``, ``[cycles]`` in cycles and bytes per cycle, by name; those of
            ``[cycles.body]`` and ``[cycles.iteration]`` are named ``body.<class>`` and ``iteration.<class>``.
        power_gpio: pin of the board that tells a power meter when the cluster works.
        operating_points: what the board may be set to; the first is the default.
        folders: where ``hal/``, ``runtime/``, ``kernels/`` and ``driver/`` are: its own, then those of what it is based on.
    """

    name: str
    model: str
    cores: int
    fpus: int
    controller_stack: int
    worker_stack: int
    runtime_bytes: int
    code: Mapping[str, int]
    levels: Mapping[str, Level]
    costs: Mapping[str, float]
    folders: tuple[Path, ...]
    power_gpio: int
    operating_points: tuple[OperatingPoint, ...]

    @property
    def folder(self) -> Path:
        """Its own folder."""
        return self.folders[0]

    def part(self, name: str) -> Path:
        """One of the folders of the target, e.g. ``hal``: its own, or that of what it is based on."""
        return next((path for folder in self.folders if (path := folder / name).is_dir()), self.folder / name)

    def reserved(self, cores: int, code: int) -> dict[str, int]:
        """Bytes per level that tensors cannot have: in L1 stacks and runtime state, in L2 so many of ``code``."""
        return {
            "L1": self.controller_stack + cores * self.worker_stack + self.runtime_bytes,
            "L2": code,
            "L3": 0,
        }


def _folders() -> dict[str, Path]:
    """Folder of every target, shipped and announced, by name, sorted."""
    roots = [("deeploy_ext", resource("targets"))]
    roots += [(plugin.origin, folder) for plugin in announced(TARGETS) for folder in plugin.folders]
    found: dict[str, Path] = {}
    claims: dict[str, str] = {}
    for origin, root in roots:
        for file in sorted(root.glob("*/target.toml")):
            name = file.parent.name
            if found.setdefault(name, file.parent) != file.parent:
                raise BadInputError(f"target {name} is claimed by {claims[name]} and by {origin}; uninstall one.")
            claims[name] = origin
    return dict(sorted(found.items()))


def target_names() -> list[str]:
    """Names accepted by :func:`load_target`, sorted."""
    return list(_folders())


@cache
def load_target(name: str) -> Target:
    """Read a target, shipped or of a plugin.

    A ``target.toml`` that says ``based_on = "gap9"`` gives only what differs: numbers that it leaves out are those of the
    other target, and so are the files of folders that it does not have.

    Raises:
        BadInputError: no target has that name, or its file is wrong.
    """
    folders = _folders()
    if name not in folders:
        raise BadInputError(f"unknown target '{name}'; available: {', '.join(folders)}.")
    data, found = _read(name, folders, ())
    file = folders[name] / "target.toml"
    try:
        return _target(name, data, tuple(found))
    except KeyError as error:
        raise BadInputError(f'{file}: {error} is missing; add it, or say based_on = "gap9".') from error
    except (TypeError, ValueError, AttributeError) as error:
        raise BadInputError(f"{file}: a value is of the wrong type ({error}); compare with that of gap9.") from error


def _read(name: str, folders: Mapping[str, Path], before: tuple[str, ...]) -> tuple[dict[str, Any], list[Path]]:
    """The tables of a target over those of what it is based on, and the folders to look for files in."""
    file = folders[name] / "target.toml"
    try:
        data: dict[str, Any] = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadInputError(f"{file}: not readable as TOML ({error}); correct it.") from error
    base = data.pop("based_on", None)
    if base is None:
        return data, [folders[name]]
    if base not in folders or base in (*before, name):
        raise BadInputError(f"{file}: based_on {base!r} is no other target; use one of {', '.join(set(folders) - {name})}.")
    below, further = _read(base, folders, (*before, name))
    del below["model"]  # predictions with other numbers are of another model
    return _merged(below, data), [folders[name], *further]


def _merged(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    both = {k: _merged(below[k], v) for k, v in above.items() if isinstance(v, dict) and isinstance(below.get(k), dict)}
    return {**below, **above, **both}


def _target(name: str, data: dict[str, Any], folders: tuple[Path, ...]) -> Target:
    l1, code = data["levels"]["L1"], data["code"]
    levels = {n: Level(n, v["capacity"], v["alignment"]) for n, v in data["levels"].items()}
    costs = {f"{table}.{key}": float(value) for table in ("dma", "ram") for key, value in data[table].items()}
    cycles = data["cycles"]
    costs |= {key: float(value) for key, value in cycles.items() if not isinstance(value, dict)}
    costs |= {f"{table}.{key}": float(value) for table in ("body", "iteration") for key, value in cycles[table].items()}
    return Target(
        name=name,
        model=data["model"],
        cores=data["cores"],
        fpus=data["fpus"],
        controller_stack=l1["controller_stack"],
        worker_stack=l1["worker_stack"],
        runtime_bytes=l1["runtime"],
        code={
            **{key: value for key, value in code.items() if key != "kernel"},
            **{f"kernel.{key}": value for key, value in code["kernel"].items()},
        },
        levels=levels,
        costs=costs,
        folders=folders,
        power_gpio=data["board"]["power_gpio"],
        operating_points=tuple(OperatingPoint(**point) for point in data["board"]["operating_points"]),
    )
