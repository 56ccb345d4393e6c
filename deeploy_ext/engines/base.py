"""What an engine is: it builds and runs the C of an :class:`EmittedProgram` and gives back what training produced."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from deeploy_ext.codegen.program import EmittedProgram
from deeploy_ext.training.task import Trajectory

DmaMode = Literal["eager", "lazy", "random"]
Sanitizer = Literal["address", "undefined", "thread"]


@dataclass(frozen=True)
class Built:
    """An executable made from a program.

    Attributes:
        directory: the engine's own folder: objects, executable, logs and output.
        seconds: wall-clock time of the build.
    """

    program: EmittedProgram
    directory: Path
    executable: Path
    seconds: float


EVENTS = ("instructions", "load_stalls", "fetch_stalls", "bank_stalls", "fpu_stalls")
"""Instructions, and cycles lost to loads that the next instruction waits for, instruction fetches, busy L1 banks, and the
shared FPU; in the order of ``hal_event_t``."""


@dataclass(frozen=True)
class GroupCycles:
    """Measured cycles of one tile nest, of one execution on average.

    Attributes:
        total: all of it.
        kernel: between the barriers that start and end kernels, which is what the slowest core takes.
        wait: for transfers, outside kernels.
        events: what worker 0 counted while kernels ran, in the order of :data:`EVENTS`.
    """

    total: int
    kernel: int
    wait: int
    events: tuple[int, ...] = ()


@dataclass(frozen=True)
class MeasuredCycles:
    """What a simulator or a board has counted.

    Attributes:
        entries: cycles of one execution on average, by entry; fork and join of the team included.
        groups: tile nests in the order of the emitted tables: entries in the order of the plan, each in execution order.
    """

    entries: Mapping[str, int]
    groups: tuple[GroupCycles, ...]


@dataclass(frozen=True)
class EngineResult:
    """What one run produced.

    Attributes:
        rounds: one full training run each, all from the same start in the same process; they must not differ.
        counters: of one round (the last), by name: bodies run (``gather``, ``scatter``, ``tiles``), bytes moved per hop,
            commands, barriers, kernels.
        cycles: what was measured; None: this engine measures none, and the cost model's figures go with the run.
        model: what measured cycles come from; "" without.
        build_seconds, run_seconds: wall-clock times.
    """

    rounds: list[Trajectory]
    counters: dict[str, int]
    build_seconds: float
    run_seconds: float
    cycles: MeasuredCycles | None = None
    model: str = ""


class Engine(Protocol):
    """Builds and runs emitted C."""

    @property
    def name(self) -> str:
        """Identifier, as given to ``--engine``."""
        ...

    @property
    def model(self) -> str:
        """What measured cycles come from; "": this engine measures none."""
        ...

    @property
    def note(self) -> str:
        """What the user should know about the choice of this engine; "" for nothing."""
        ...

    def build(self, program: EmittedProgram, directory: Path, sanitize: Sanitizer | None = None) -> Built:
        """Compiles a program into ``directory``.

        Raises:
            BadInputError: this engine cannot build it that way, or not for these memories.
            ToolError: the compiler fails.
        """
        ...

    def run(self, built: Built, *, dma: DmaMode = "eager", seed: int = 0, rounds: int | None = None) -> EngineResult:
        """Trains ``rounds`` times in one process (None: as often as suits the engine); ``dma`` and ``seed`` say when
        asynchronous transfers move their data, where that can be chosen.

        Raises:
            BadInputError: the mode of transfers cannot be chosen here.
            ToolError: the program fails, takes too long, or its output is not what was expected.
        """
        ...
