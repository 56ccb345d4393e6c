"""A target: its memories, its transfer engines and the costs of work, read from ``targets/<name>/target.toml``."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deeploy_ext.errors import BadInputError
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
        folder: where ``hal/``, ``runtime/`` and ``kernels/`` are.
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
    folder: Path
    power_gpio: int
    operating_points: tuple[OperatingPoint, ...]

    def reserved(self, cores: int, code: int) -> dict[str, int]:
        """Bytes per level that tensors cannot have: in L1 stacks and runtime state, in L2 so many of ``code``."""
        return {
            "L1": self.controller_stack + cores * self.worker_stack + self.runtime_bytes,
            "L2": code,
            "L3": 0,
        }


def target_names() -> list[str]:
    """Names accepted by :func:`load_target`, sorted."""
    return sorted(p.parent.name for p in resource("targets").glob("*/target.toml"))


def load_target(name: str) -> Target:
    """Read a shipped target.

    Raises:
        BadInputError: no target has that name.
    """
    if name not in target_names():
        raise BadInputError(f"unknown target '{name}'; available: {', '.join(target_names())}.")
    folder = resource("targets", name)
    data: dict[str, Any] = tomllib.loads((folder / "target.toml").read_text())
    l1, code = data["levels"]["L1"], data["code"]
    levels = {n: Level(n, v["capacity"], v["alignment"]) for n, v in data["levels"].items()}
    costs = {f"{table}.{key}": float(value) for table in ("dma", "ram") for key, value in data[table].items()}
    cycles = data["cycles"]
    costs |= {key: float(value) for key, value in cycles.items() if not isinstance(value, dict)}
    costs |= {f"{table}.{key}": float(value) for table in ("body", "iteration") for key, value in cycles[table].items()}
    return Target(
        name=data["name"],
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
        folder=folder,
        power_gpio=data["board"]["power_gpio"],
        operating_points=tuple(OperatingPoint(**point) for point in data["board"]["operating_points"]),
    )
