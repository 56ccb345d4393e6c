"""The flags that shape a plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class PlanOptions:
    """The flags that shape a plan; sizes in bytes, None for the target's own.

    ``dispatch`` is "runtime", "static", or the name of the one variant that is taken wherever its tiles allow.
    ``planner`` is "joint" or "greedy". ``groups`` is "joint", or "single" for nests of one node each.
    ``variants`` picks bodies by node: "portable" instead of a team kernel, or one of the operator's variants. ``largest``
    limits tiles, where checks need small ones: by node, then by loop, the most iterations of a tile; ``buffer_all`` has double
    buffering wherever a nest has several tiles, whether it pays or not.
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
    groups: str = "joint"
    variants: Mapping[str, str] = field(default_factory=dict[str, str])
    buffer_all: bool = False
    largest: Mapping[str, Mapping[str, int]] = field(default_factory=dict[str, Mapping[str, int]])

    @property
    def forced(self) -> bool:
        """Whether tiles are not chosen for their cycles alone."""
        return self.buffer_all or bool(self.largest)
