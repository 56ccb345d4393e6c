"""The compiler for programs and notebooks: :func:`compile` a network, run the :class:`Program`, read the :class:`Run`.

The same stages as ``deeployRunner``: the command line is ``pipeline.run``, which is ``pipeline.compiled`` and
``pipeline.execute``, and so is this.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

import numpy as np
import onnx

from deeploy_ext import engines, pipeline
from deeploy_ext.codegen.emit import emit
from deeploy_ext.engines import DmaMode, Engine, EngineOptions, EngineResult, Sanitizer
from deeploy_ext.graph.options import LoadOptions
from deeploy_ext.harness.files import Outputs
from deeploy_ext.harness.report import CycleReport, Report
from deeploy_ext.harness.terminal import Terminal
from deeploy_ext.planning.options import PlanOptions
from deeploy_ext.planning.plan import Plan
from deeploy_ext.run_options import RunOptions

__all__ = ["PlanOptions", "Program", "Run", "Training", "compile"]

Training = LoadOptions
"""How to train: loss, what trains, data, steps, accumulation, learning rate; None leaves a value to the network."""

Arrays = Mapping[str, np.ndarray[Any, Any]]


@dataclass(frozen=True)
class Run:
    """What came out of a run on an engine.

    Attributes:
        report: verdict against the golden run, cycles, memory, traffic: what ``--json`` writes.
        result: trajectories of all rounds and the engine's counters.
    """

    report: Report
    result: EngineResult

    @property
    def passed(self) -> bool:
        """Whether every number agrees with the golden run."""
        return self.report.exit_status == 0

    @property
    def losses(self) -> list[float]:
        """One for every mini-batch."""
        return list(self.result.rounds[0].losses)

    @property
    def weights(self) -> Arrays:
        """Trained parameters after the last step, by name, in the shapes of the network."""
        return dict(self.result.rounds[0].parameters[-1])


@dataclass(frozen=True)
class Program:
    """A network that is differentiated, planned, and ready to be emitted."""

    made: pipeline.Compiled

    @property
    def name(self) -> str:
        return self.made.task.name

    @property
    def plan(self) -> Plan:
        """Tiles, levels, addresses: all decisions."""
        return self.made.plan

    @property
    def golden_losses(self) -> list[float]:
        """Losses of the golden run, one for every mini-batch."""
        return list(self.made.golden.losses)

    @property
    def predicted(self) -> CycleReport:
        """Cycles by the target's cost model."""
        return pipeline.predicted_cycles(self.made.plan, self.made.target)

    def emit(self, folder: str | Path) -> Path:
        """Writes the C, weights and data into ``folder``, which is made if need be, and returns it."""
        return emit(self.made.task, self.made.program, self.made.plan, Path(folder)).directory

    def run(
        self,
        engine: Literal["auto", "host", "gvsoc"] | EngineOptions | Engine = "auto",
        *,
        dma: DmaMode = "eager",
        sanitize: Sanitizer | None = None,
    ) -> Run:
        """Trains on an engine and compares every number with the golden run.

        Args:
            engine: its name, options for one, or an engine that is there already.
            dma, sanitize: of the host engine: when transfers move data, and with which sanitizer to build.

        Raises:
            BadInputError, ToolError: the engine is not there, or fails. Wrong numbers are no error: see :attr:`Run.passed`.
        """
        if isinstance(engine, str):
            engine = EngineOptions(engine, host_only=dma != "eager" or sanitize is not None)
        chosen = engines.select(engine) if isinstance(engine, EngineOptions) else engine
        return Run(*pipeline.execute(self.made, chosen, Outputs(), Terminal(verbosity=-1), dma=dma, sanitize=sanitize))


def compile(
    model: str | Path | onnx.ModelProto,
    training: Training | None = None,
    target: str = "gap9",
    plan_options: PlanOptions | None = None,
) -> Program:
    """From a network to a program: load, differentiate, run the golden run, plan.

    Args:
        model: all that ``-t`` accepts (docs/networks.md), or a model that is in memory.
        training: how to train it; a model of your own needs at least ``Training(loss=...)``.
        target: name of the chip.
        plan_options: what the planner may do; the default leaves all tensors in L3, as the command line without flags.

    Raises:
        BadInputError: the model or an option cannot be used.
        InfeasibleError: no plan fits the memories.
        ToolError: onnxruntime fails.
    """
    given = {**_values(training or Training()), **_values(plan_options or PlanOptions())}
    known = {name: value for name, value in given.items() if name in {field.name for field in fields(RunOptions)}}
    texts: dict[str, Any] = {name: str(value) if isinstance(value, Path) else value for name, value in known.items()}
    with tempfile.TemporaryDirectory(prefix="deeploy_ext-") as folder:
        if isinstance(model, onnx.ModelProto):
            file = Path(folder, f"{model.graph.name if model.graph.name.isidentifier() else 'model'}.onnx")
            onnx.save(model, file)
            model = file
        options = RunOptions(test=str(model), target=target, **texts)
        return Program(pipeline.compiled(options, Outputs(), Terminal(verbosity=-1)))


def _values(options: Training | PlanOptions) -> dict[str, Any]:
    return {field.name: getattr(options, field.name) for field in fields(options)}
