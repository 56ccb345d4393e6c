"""``--save-weights``: trained parameters and running statistics, as the engine left them in memory."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
import onnx

from deeploy_ext.errors import BadInputError
from deeploy_ext.training.task import Arrays, TrainingTask, Trajectory


def check_saveable(task: TrainingTask, path: Path) -> None:
    """Raises BadInputError when the task has no inference model that an ``.onnx`` could be made from."""
    if path.suffix == ".onnx" and task.original is None:
        raise BadInputError(f"--save-weights: {task.name} came without an inference model; give a name that ends in .npz.")


def trained_weights(task: TrainingTask, run: Trajectory) -> Arrays:
    """Parameters after the last step and state after the last mini-batch, by name, sorted."""
    found = {parameter.weight: run.parameters[-1][parameter.weight] for parameter in task.parameters}
    found |= {state.before: run.states[-1][state.before] for state in task.states}
    return dict(sorted(found.items()))


def saved_weights(task: TrainingTask, run: Trajectory, suffix: str) -> bytes:
    """Contents of the file: an npz archive, or the inference model with these weights, otherwise as the user gave it."""
    weights = trained_weights(task, run)
    if suffix == ".npz":
        return _archive(weights)
    assert task.original is not None
    model = onnx.ModelProto()
    model.CopyFrom(task.original)
    for tensor in model.graph.initializer:
        if tensor.name in weights:
            _fill(tensor, weights[tensor.name])
    return model.SerializeToString(deterministic=True)


def _fill(tensor: onnx.TensorProto, values: np.ndarray) -> None:
    """Put values into a float32 tensor; its name, shape and documentation stay."""
    tensor.ClearField("float_data")
    tensor.raw_data = np.ascontiguousarray(values, "<f4").tobytes()


def _archive(arrays: Arrays) -> bytes:
    """An npz archive; numpy's own writer takes no array named ``file``."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, array in arrays.items():
            entry = io.BytesIO()
            np.lib.format.write_array(entry, np.ascontiguousarray(array, "<f4"), allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), entry.getvalue())
    return made.getvalue()
