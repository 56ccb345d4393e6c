"""The golden run: onnxruntime executes the training graph itself, one mini-batch and one update after the other."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir
import onnxruntime

from deeploy_ext.errors import BadInputError, ToolError
from deeploy_ext.training.task import Arrays, TrainingTask, Trajectory


class Session:
    """A model under onnxruntime, deterministic: one thread, no fusions that change the order of sums."""

    def __init__(self, model: ir.Model, name: str) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
        options.log_severity_level = 4
        self.name = name
        try:
            self._session = onnxruntime.InferenceSession(
                ir.to_proto(model).SerializeToString(), options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # onnxruntime raises a dozen types of its own, all derived from Exception
            raise ToolError(
                f"onnxruntime cannot load the {name} graph: {_first_line(error)}; inspect it with --dump."
            ) from error
        self.inputs = [value.name for value in self._session.get_inputs()]
        self.outputs = [value.name for value in self._session.get_outputs()]

    def run(self, values: Arrays) -> Arrays:
        """All outputs by name; ``values`` may hold more than the graph's inputs."""
        try:
            made = self._session.run(self.outputs, {name: values[name] for name in self.inputs})
        except Exception as error:  # as above
            raise ToolError(
                f"onnxruntime failed on the {self.name} graph: {_first_line(error)}; inspect it with --dump."
            ) from error
        return {name: np.asarray(value) for name, value in zip(self.outputs, made, strict=True)}


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def run_golden(task: TrainingTask) -> Trajectory:
    """All steps of a task: per step ``accumulation`` mini-batches, the first of which overwrites the buffers, then the update.

    Raises:
        ToolError: onnxruntime refuses the graph.
        BadInputError: training diverges, so that there are no numbers to compare with.
    """
    step, update = Session(task.step, "training"), Session(task.update, "update")
    values: Arrays = dict(task.initial)
    values[task.learning_rate] = np.array(task.spec.learning_rate, np.float32)
    for value in task.step.graph.inputs:
        if value.name in {parameter.buffer for parameter in task.parameters}:
            assert value.shape is not None
            values[value.name or ""] = np.zeros(value.shape.numpy(), np.float32)
    trajectory = Trajectory([], [], [], [])
    for index in range(task.spec.mini_batches):
        values.update(task.batch(index))
        values[task.reset] = np.array([index % task.spec.accumulation == 0])
        made = step.run(values)
        trajectory.losses.append(float(made[task.loss].reshape(-1)[0]))
        _check_finite(task, index, made)
        values.update({parameter.buffer: made[parameter.buffer_out] for parameter in task.parameters})
        values.update({state.before: made[state.after] for state in task.states})
        trajectory.gradients.append({parameter.weight: made[parameter.buffer_out] for parameter in task.parameters})
        trajectory.states.append({state.before: made[state.after] for state in task.states})
        if (index + 1) % task.spec.accumulation == 0:
            made = update.run(values)
            values.update({parameter.weight: made[parameter.updated] for parameter in task.parameters})
            trajectory.parameters.append({parameter.weight: made[parameter.updated] for parameter in task.parameters})
    if task.infer is not None:
        infer = Session(task.infer, "inference")
        trajectory.predictions.extend(infer.run({**values, **batch}) for batch in task.batches)
    return trajectory


def _check_finite(task: TrainingTask, index: int, made: Arrays) -> None:
    names = {task.loss: "the loss"} | {p.buffer_out: f"the gradient of '{p.weight}'" for p in task.parameters}
    names |= {state.after: f"the state '{state.before}'" for state in task.states}
    for name, what in names.items():
        if not np.isfinite(made[name]).all():
            slower = f"use a smaller --lr than {task.spec.learning_rate:g}, or " if index >= task.spec.accumulation else ""
            raise BadInputError(
                f"{what} is not finite in mini-batch {index} of the golden run; {slower}check weights and data."
            )


def save_golden(task: TrainingTask, trajectory: Trajectory, path: Path) -> None:
    """Write a trajectory as npz: ``losses``, ``gradient/<mini-batch>/<weight>``, ``parameter/<step>/<weight>``,
    ``state/<mini-batch>/<name>``, ``prediction/<mini-batch>/<name>``, and the initial values as ``initial/<name>``."""
    arrays: Arrays = {"losses": np.array(trajectory.losses, np.float64)}
    arrays |= {f"initial/{name}": value for name, value in sorted(task.initial.items())}
    for kind, rows in (
        ("gradient", trajectory.gradients),
        ("parameter", trajectory.parameters),
        ("state", trajectory.states),
        ("prediction", trajectory.predictions),
    ):
        for index, row in enumerate(rows):
            arrays |= {f"{kind}/{index}/{name}": value for name, value in sorted(row.items())}
    np.savez(path, **arrays)  # pyright: ignore[reportArgumentType]
