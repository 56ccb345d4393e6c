"""What an engine is: it builds and runs the C of an :class:`EmittedProgram` and gives back what training produced."""

from __future__ import annotations

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


@dataclass(frozen=True)
class EngineResult:
    """What one run produced.

    Attributes:
        rounds: one full training run each, all from the same start in the same process; they must not differ.
        counters: of one round (the last), by name: bodies run (``gather``, ``scatter``, ``tiles``), bytes moved per hop,
            commands, barriers, kernels.
        kind: whether cycle figures that go with this run are a cost model's or were measured.
        model: what cycle figures come from.
        build_seconds, run_seconds: wall-clock times.
    """

    rounds: list[Trajectory]
    counters: dict[str, int]
    kind: Literal["predicted", "measured"]
    model: str
    build_seconds: float
    run_seconds: float


class Engine(Protocol):
    """Builds and runs emitted C."""

    @property
    def name(self) -> str:
        """Identifier, as given to ``--engine``."""
        ...

    @property
    def note(self) -> str:
        """What the user should know about the choice of this engine; "" for nothing."""
        ...

    def build(self, program: EmittedProgram, directory: Path, sanitize: Sanitizer | None = None) -> Built:
        """Compiles a program into ``directory``.

        Raises:
            ToolError: the compiler fails.
        """
        ...

    def run(self, built: Built, *, dma: DmaMode = "eager", seed: int = 0, rounds: int = 2) -> EngineResult:
        """Trains ``rounds`` times in one process; ``dma`` and ``seed`` say when asynchronous transfers move their data.

        Raises:
            ToolError: the program fails, takes too long, or its output is not what was expected.
        """
        ...
