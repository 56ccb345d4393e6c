"""What a run is asked for, as the command line and the Python API give it, and what each stage is asked for in turn."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from deeploy_ext.engines import EngineOptions
from deeploy_ext.errors import BadInputError
from deeploy_ext.graph.options import LoadOptions
from deeploy_ext.planning.options import PlanOptions
from deeploy_ext.planning.target import Target


@dataclass(frozen=True)
class RunOptions:
    """What the command line asks for; None leaves a value to the network or the target. Sizes are in bytes."""

    test: str
    target: str = "gap9"
    engine: str = "auto"
    cc: str | None = None
    gvsoc: str | None = None
    gvsoc_target: str = "gap9like"
    isa: str = "xpulp"
    time_limit: float | None = None
    promote: bool = False
    double_buffer: bool = False
    l1: int | None = None
    l2: int | None = None
    default_level: Literal["L2", "L3"] = "L3"
    cores: int | None = None
    steps: int | None = None
    accumulation: int | None = None
    learning_rate: float | None = None
    tolerance: float | None = None
    seed: int | None = None
    dispatch: Literal["runtime", "static"] = "runtime"
    kernels: str = "fast"
    planner: Literal["joint", "greedy"] = "joint"
    groups: Literal["joint", "single"] = "joint"
    dma: Literal["eager", "lazy", "random"] = "eager"
    sanitize: Literal["address", "undefined", "thread"] | None = None
    optimizer: str | None = None
    plan: str | None = None
    loss: str | None = None
    trainable: str | None = None
    data: str | None = None
    batchnorm: Literal["frozen", "train"] | None = None
    fuse: bool = True
    override: tuple[str, ...] = ()
    variant: tuple[str, ...] = ()


def load_options(options: RunOptions) -> LoadOptions:
    """How the network is loaded."""
    return LoadOptions(
        steps=options.steps,
        accumulation=options.accumulation,
        learning_rate=options.learning_rate,
        tolerance=options.tolerance,
        seed=options.seed,
        optimizer=Path(options.optimizer) if options.optimizer is not None else None,
        trainable=options.trainable,
        loss=options.loss,
        data=Path(options.data) if options.data is not None else None,
        batchnorm=options.batchnorm,
    )


def engine_options(options: RunOptions) -> EngineOptions:
    """What the engine is asked for."""
    return EngineOptions(
        name=options.engine,
        compiler=options.cc,
        gvsoc=options.gvsoc,
        gvsoc_target=options.gvsoc_target,
        isa=options.isa,
        time_limit=options.time_limit,
        host_only=options.dma != "eager" or options.sanitize is not None,
    )


def plan_options_of(options: RunOptions, target: Target) -> PlanOptions:
    """What the planner is asked for.

    Raises:
        BadInputError: the target has fewer cores or less memory.
    """
    cores = options.cores or target.cores
    if cores > target.cores:
        raise BadInputError(f"--cores {cores}: target '{target.name}' has {target.cores} cores; give at most that.")
    for level, given in (("L1", options.l1), ("L2", options.l2)):
        if given is not None and given > target.levels[level].capacity:
            most = target.levels[level].capacity
            raise BadInputError(f"--{level.lower()} {given}: target '{target.name}' has {most} bytes; give at most that.")
    return PlanOptions(
        promote=options.promote,
        double_buffer=options.double_buffer,
        l1=options.l1,
        l2=options.l2,
        default_level=options.default_level,
        cores=cores,
        dispatch=options.dispatch,
        kernels=options.kernels,
        planner=options.planner,
        groups=options.groups,
    )
