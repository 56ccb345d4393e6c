"""Load: from what the user names with ``-t`` to a network that is ready for autodiff, or to a whole training task."""

from __future__ import annotations

import difflib
import errno
from pathlib import Path

from deeploy_ext.errors import BadInputError
from deeploy_ext.graph.artifacts import is_artifact_folder, load_artifacts
from deeploy_ext.graph.external import read_proto
from deeploy_ext.graph.foreign import is_training_directory, load_training_directory
from deeploy_ext.graph.one_shot import is_one_shot, load_one_shot
from deeploy_ext.graph.options import LoadOptions
from deeploy_ext.graph.own_model import load_own_model
from deeploy_ext.graph.testnets import is_network_folder, load_network, network_folders
from deeploy_ext.training.task import ForwardNetwork, TrainingTask

__all__ = ["LoadOptions", "load"]

_FORMS = (
    "give the name of a test network (--list), a model.onnx, a folder with build.py and test.toml, "
    "a training folder <x>_train with network.onnx and inputs.npz, or a folder with training_model.onnx"
)


def load(reference: str, options: LoadOptions | None = None) -> ForwardNetwork | TrainingTask:
    """The network that a name or path stands for. A name of a shipped network goes before a path.

    Raises:
        BadInputError: nothing of that name, or its files cannot be used as they are.
    """
    options, path, known = options or LoadOptions(), Path(reference), network_folders()
    try:
        path.stat()
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENOTDIR):
            raise BadInputError(f"{reference}: {error.strerror};\n{_FORMS}.") from error
    if reference in known or is_network_folder(path):
        options.refuse(f"test network {reference}", "optimizer", "loss", "data", "batchnorm")
        return load_network(known.get(reference, path.resolve()), options)
    if is_training_directory(path):
        options.refuse(f"training directory {reference}", "loss", "data", "batchnorm", "trainable")
        return load_training_directory(path, options)
    if is_artifact_folder(path):
        options.refuse(f"artifacts {reference}", "loss", "batchnorm", "trainable", "optimizer")
        return load_artifacts(path, options)
    if path.is_dir():
        missing = [name for name in ("network.onnx", "inputs.npz") if not (path / name).is_file()]
        raise BadInputError(f"{path}: no {' and no '.join(missing)} in this folder;\n{_FORMS}.")
    if path.is_file():
        options.refuse(f"model file {reference}", "optimizer")
        proto = read_proto(path) if options.loss is None else None
        if proto is not None and is_one_shot(proto):
            options.refuse(f"{reference}, which updates its own weights", "batchnorm", "trainable")
            return load_one_shot(proto, path, options)
        return load_own_model(path, options)
    if len(path.parts) > 1 or path.suffix:
        raise BadInputError(f"{path}: no such file or folder;\n{_FORMS}.")
    near = difflib.get_close_matches(reference.lower(), [name.lower() for name in known], n=1, cutoff=0.4)
    nearest = [f" Did you mean {name}?" for name in known if name.lower() in near]
    raise BadInputError(f"unknown network '{reference}'.{''.join(nearest)}\nTest networks: {', '.join(known)}.")
