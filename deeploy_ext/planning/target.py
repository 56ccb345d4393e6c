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
    """One memory level: total bytes, bytes not available to tensors, alignment of every block in bytes."""

    name: str
    capacity: int
    reserved: int
    alignment: int

    def align(self, size: int) -> int:
        """``size`` rounded up to the alignment."""
        return -(-size // self.alignment) * self.alignment


@dataclass(frozen=True)
class Target:
    """Everything the planner knows about the chip.

    Attributes:
        name: as given to ``--target``.
        model: name printed beside predicted cycles.
        cores: worker cores of the cluster.
        costs: numbers of ``[dma]``, ``[ram]``, ``[cycles]`` in cycles and bytes per cycle.
        work: cycles per innermost iteration, all cores together, by cost class.
        runtime_bytes: L1 bytes of the runtime's own state.
        folder: where ``hal/``, ``runtime/`` and ``kernels/`` are.
    """

    name: str
    model: str
    cores: int
    l1_fixed: int
    stack_per_core: int
    runtime_bytes: int
    levels: Mapping[str, Level]
    costs: Mapping[str, float]
    work: Mapping[str, float]
    folder: Path

    def reserved_l1(self, cores: int) -> int:
        """Bytes of L1 that are not arena: stacks of workers and controller, runtime state."""
        return self.l1_fixed + cores * self.stack_per_core


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
    l1 = data["levels"]["L1"]
    reserved = {"L1": 0, "L2": data["levels"]["L2"]["code"], "L3": 0}
    levels = {n: Level(n, v["capacity"], reserved[n], v["alignment"]) for n, v in data["levels"].items()}
    costs = {f"{table}.{key}": float(value) for table in ("dma", "ram") for key, value in data[table].items()}
    costs |= {key: float(value) for key, value in data["cycles"].items() if key != "work"}
    return Target(
        name=data["name"],
        model=data["model"],
        cores=data["cores"],
        l1_fixed=l1["controller_stack"] + l1["runtime"],
        stack_per_core=l1["worker_stack"],
        runtime_bytes=l1["runtime"],
        levels=levels,
        costs=costs,
        work={k: float(v) for k, v in data["cycles"]["work"].items()},
        folder=folder,
    )
