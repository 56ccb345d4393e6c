"""The flags that shape a plan."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PlanOptions:
    """The flags that shape a plan; sizes in bytes, None for the target's own.

    ``dispatch`` is "runtime", "static", or the name of the one variant that is taken wherever its tiles allow; ``planner`` is
    "joint" or "greedy".
    """

    promote: bool = False
    double_buffer: bool = False
    l1: int | None = None
    l2: int | None = None
    default_level: str = "L3"
    cores: int | None = None
    dispatch: str = "runtime"
    kernels: str = "fast"
    planner: str = "joint"
