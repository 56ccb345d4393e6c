"""Mini-batches for a network: from the user's arrays, or generated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx_ir as ir

from deeploy_ext.errors import BadInputError
from deeploy_ext.graph.files import check_batches, classes_of, read_arrays
from deeploy_ext.graph.invocation import type_of
from deeploy_ext.operators.spec import TensorType
from deeploy_ext.training.losses import find_loss
from deeploy_ext.training.task import Arrays, TrainingSpec


def random_batches(graph: ir.Graph, kind: str, spec: TrainingSpec) -> list[Arrays]:
    """Standard normal inputs and targets, uniform labels; the same for the same seed, whatever the count.

    ``graph`` ends in the loss of that ``kind``; its last input is the loss's target.
    """
    generator, classes = np.random.RandomState(spec.seed), _scores_of(graph).shape[-1]
    types = {value.name or "": type_of(value) for value in graph.inputs}
    batches: list[Arrays] = []
    for _ in range(spec.mini_batches):
        batch: Arrays = {}
        for name, found in types.items():
            assert found is not None
            if name == graph.inputs[-1].name and found.dtype.kind == "i":
                batch[name] = generator.randint(0, classes, found.shape).astype(found.dtype)
            else:
                batch[name] = generator.standard_normal(found.shape).astype(found.dtype)
        batches.append(batch)
    return batches


def _scores_of(graph: ir.Graph) -> TensorType:
    """Type of the prediction: the first input of the node that gives the loss."""
    producer = graph.outputs[0].producer()
    assert producer is not None
    found = type_of(producer.inputs[0])
    assert found is not None
    return found


def generated_batches(graph: ir.Graph, inputs: Sequence[ir.Value], spec: TrainingSpec) -> list[Arrays]:
    """Standard normal values for floating-point inputs, uniform labels for those that a loss reads as such, else 0 or 1."""
    generator, classes = np.random.RandomState(spec.seed), classes_of(graph)
    batches: list[Arrays] = []
    for _ in range(spec.mini_batches):
        batch: Arrays = {}
        for value in inputs:
            name, found = value.name or "", type_of(value)
            assert found is not None
            whole = found.dtype.kind != "f"
            drawn = generator.randint(0, classes.get(name, 2), found.shape) if whole else generator.standard_normal(found.shape)
            batch[name] = np.asarray(drawn, found.dtype)
        batches.append(batch)
    return batches


def batches_from(file: Path, graph: ir.Graph, kind: str) -> list[Arrays]:
    """The mini-batches in an npz file: one array named as the data input and one as the loss's target, samples on axis 0.

    Args:
        graph: has the data input, the target, and ends in the loss of that ``kind``.

    Raises:
        BadInputError: as :func:`batches_in`.
    """
    return batches_in(file, graph, list(graph.inputs), {find_loss(kind).target: graph.inputs[-1].name or ""})


def batches_in(file: Path, graph: ir.Graph, inputs: Sequence[ir.Value], also: Mapping[str, str]) -> list[Arrays]:
    """The mini-batches in an npz file: one array named as each of the inputs, samples on axis 0.

    Args:
        also: other names by which inputs may be known.

    Raises:
        BadInputError: an array is missing, unknown or of another type or shape; samples that do not fill mini-batches;
            NaN; labels that are no class.
    """
    stored = read_arrays(file)
    for other, name in also.items():
        if name not in stored and other in stored:  # the model itself uses that name for something else
            stored[name] = stored.pop(other)
    parts: dict[str, list[np.ndarray]] = {}
    for value in inputs:
        name, found = value.name or "", type_of(value)
        assert found is not None
        if name not in stored:
            wanted = ", ".join(f"'{other.name}'" for other in inputs)
            raise BadInputError(f"{file}: '{name}' is missing; write arrays {wanted}, samples along the first axis.")
        parts[name] = _split(file, name, stored[name], found)
    unknown = sorted(set(stored) - set(parts))
    if unknown:
        raise BadInputError(f"{file}: '{unknown[0]}' is no input of the network; write only {', '.join(sorted(parts))}.")
    counts = {name: len(found) for name, found in parts.items()}
    if len(set(counts.values())) != 1:
        raise BadInputError(f"{file}: the arrays have different numbers of samples; write one target for every sample.")
    batches = [dict(zip(parts, row, strict=True)) for row in zip(*parts.values(), strict=True)]
    check_batches(str(file), graph, inputs, batches)
    return batches


def _split(file: Path, name: str, array: np.ndarray, wanted: TensorType) -> list[np.ndarray]:
    """Samples cut into mini-batches; labels of any integer type become that of the graph."""
    if array.ndim != len(wanted.shape) or array.shape[1:] != wanted.shape[1:]:
        shape = "(samples" + "".join(f", {extent}" for extent in wanted.shape[1:]) + ")"
        raise BadInputError(f"{file}: '{name}' has shape {array.shape}; the network wants {shape}.")
    if array.dtype.kind in "iu" and wanted.dtype.kind == "i":
        array = array.astype(wanted.dtype)
    batch = wanted.shape[0]
    if not len(array) or len(array) % batch:
        raise BadInputError(f"{file}: '{name}' has {len(array)} samples; give a multiple of the mini-batch size {batch}.")
    return [np.ascontiguousarray(array[start : start + batch]) for start in range(0, len(array), batch)]
