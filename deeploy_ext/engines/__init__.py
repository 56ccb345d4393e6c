"""Engines build and run emitted C: on this machine, in a simulator, or on a board."""

from __future__ import annotations

from deeploy_ext.engines.base import Built, DmaMode, Engine, EngineResult, Sanitizer
from deeploy_ext.engines.host import HostEngine
from deeploy_ext.errors import BadInputError, ToolError

__all__ = ["NAMES", "Built", "DmaMode", "Engine", "EngineResult", "HostEngine", "Sanitizer", "select"]

NAMES = ("host", "gvsoc", "board", "auto")


def select(name: str) -> Engine:
    """The engine of that name; ``auto`` takes the best one there is, and :attr:`Engine.note` says which.

    Raises:
        BadInputError: no such name.
        ToolError: the engine is not available, or there is no C compiler.
    """
    if name == "host":
        return HostEngine()
    if name == "auto":
        return HostEngine(note="auto: host (gvsoc and board are not available in this version)")
    if name in NAMES:
        raise ToolError(f"engine {name} is not available in this version; use --engine host")
    raise BadInputError(f"unknown engine {name}\nuse one of {', '.join(NAMES)}")
