"""``--dump DIR``: the value of each stage in a form that people and other tools can read."""

from __future__ import annotations

import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import onnx_ir as ir

from deeploy_ext.errors import ToolError
from deeploy_ext.harness.golden import save_golden
from deeploy_ext.planning.plan import Plan
from deeploy_ext.training.task import TrainingTask, Trajectory


class Dump:
    """Writes into ``folder``; does nothing if that is None.

    ``forward.onnx`` and ``inference.onnx`` (if autodiff started from one), ``training.onnx``, ``update.onnx``, ``golden.npz``,
    ``measured.npz``, ``plan.json`` and the emitted C in ``c/``.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def task(self, task: TrainingTask) -> None:
        """The graphs; plain onnxruntime runs them."""
        if self._folder:
            graphs = {"forward": task.forward, "training": task.step, "update": task.update, "inference": task.infer}
            for name, model in graphs.items():
                if model is not None:
                    ir.save(model, self._folder / f"{name}.onnx")

    def trajectory(self, task: TrainingTask, run: Trajectory, name: str) -> None:
        """A run as ``<name>.npz``; see :func:`save_golden` for its arrays."""
        if self._folder:
            save_golden(task, run, self._folder / f"{name}.npz")

    def plan(self, plan: Plan) -> None:
        """The plan as ``--plan`` reads it."""
        if self._folder:
            (self._folder / "plan.json").write_text(plan.to_json(), encoding="utf-8")

    def code(self, emitted: Path) -> None:
        """The emitted folder."""
        if self._folder:
            shutil.copytree(emitted, self._folder / "c")

    @contextmanager
    def logs(self, folder: Path) -> Generator[None]:
        """If a tool fails inside, keeps the ``*.log`` files it left in ``folder``, or says how to keep them."""
        try:
            yield
        except ToolError as error:
            what = str(error).split("\nlog: ")[0]
            if self._folder is None:
                raise ToolError(f"{what}\nuse --dump DIR to keep its log and the C") from error
            for log in sorted(folder.glob("*.log")):
                shutil.copyfile(log, self._folder / log.name)
            raise ToolError(f"{what}\nits log and the C are in the --dump folder") from error
