"""Engines build and run emitted C: on this machine, or in a simulator of the cluster."""

from __future__ import annotations

from dataclasses import dataclass

from deeploy_ext.engines.base import Built, DmaMode, Engine, EngineResult, GroupCycles, MeasuredCycles, Sanitizer
from deeploy_ext.engines.gvsoc import GvsocEngine
from deeploy_ext.engines.host import HostEngine
from deeploy_ext.errors import BadInputError, ToolError

__all__ = [
    "NAMES", "Built", "DmaMode", "Engine", "EngineOptions", "EngineResult", "GroupCycles", "GvsocEngine", "HostEngine",
    "MeasuredCycles", "Sanitizer", "select",
]  # fmt: skip

NAMES = ("host", "gvsoc", "board", "auto")


@dataclass(frozen=True)
class EngineOptions:
    """What the command line says of an engine; None leaves it to the engine.

    Attributes:
        name: one of :data:`NAMES`.
        compiler: name or path of the C compiler: this machine's for host, RISC-V for gvsoc.
        gvsoc: prefix of GVSoC.
        gvsoc_target: model of the board.
        isa: instruction set that kernels may use on gvsoc.
        time_limit: seconds of wall-clock time for a run.
        events: count instructions and stalls on gvsoc, too.
        host_only: an option is given that only the host engine has; ``auto`` is host then.
    """

    name: str = "auto"
    compiler: str | None = None
    gvsoc: str | None = None
    gvsoc_target: str = "gap9like"
    isa: str = "xpulp"
    time_limit: float | None = None
    events: bool = False
    host_only: bool = False


def select(options: EngineOptions) -> Engine:
    """The engine of that name; ``auto`` takes gvsoc if it is there, else host, and :attr:`Engine.note` says which and why.

    Raises:
        BadInputError: no such name; an option has no such value.
        ToolError: the engine is not available, or there is no C compiler.
    """
    if options.name == "host":
        return _host(options, "")
    if options.name == "gvsoc":
        return _gvsoc(options, "")
    if options.name == "auto":
        if options.host_only:
            return _host(options, "auto: host, since --dma and --sanitize are its options")
        try:
            return _gvsoc(options, "auto: gvsoc")
        except ToolError as error:
            if options.gvsoc:
                raise
            return _host(options, f"auto: host ({str(error).splitlines()[0]})")
    if options.name in NAMES:
        raise ToolError(f"engine {options.name} runs nothing; it writes a project with --dump DIR")
    raise BadInputError(f"unknown engine {options.name}\nuse one of {', '.join(NAMES)}")


def _host(options: EngineOptions, note: str) -> HostEngine:
    if options.time_limit is None:
        return HostEngine(options.compiler, note=note)
    return HostEngine(options.compiler, time_limit=options.time_limit, note=note)


def _gvsoc(options: EngineOptions, note: str) -> GvsocEngine:
    return GvsocEngine(
        options.gvsoc,
        target=options.gvsoc_target,
        isa=options.isa,
        compiler=options.compiler,
        time_limit=options.time_limit,
        events=options.events,
        note=note,
    )
