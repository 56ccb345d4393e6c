"""Reading the users' files: every way in which they can be wrong has an answer of one or two lines."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from deeploy_ext.errors import BadInputError
from deeploy_ext.graph.external import read_proto
from deeploy_ext.graph.invocation import operator_of, type_of
from deeploy_ext.graph.sanity import check_proto
from deeploy_ext.operators.spec import TensorType
from deeploy_ext.training.task import Arrays


def read_model(path: Path) -> ir.Model:
    """The ONNX file as IR. Raises BadInputError when it is missing or not ONNX."""
    if not path.is_file():
        raise BadInputError(f"{path}: no such file; check the path.")
    return parse_model(read_proto(path), str(path))


def parse_model(proto: onnx.ModelProto, origin: str) -> ir.Model:
    """A parsed file as IR; ``origin`` names it in messages. Raises BadInputError when it does not describe a graph."""
    check_proto(proto, origin)
    try:
        return ir.from_proto(proto)
    except (ir.serde.SerdeError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise BadInputError(f"{origin}: broken ONNX model ({_first_line(error)}); check it with onnx.checker.") from error


def read_arrays(path: Path) -> Arrays:
    """All arrays of an npz file. Raises BadInputError when it is missing, truncated, or needs pickle."""
    if not path.is_file():
        raise BadInputError(f"{path}: no such file; check the path.")
    try:
        with path.open("rb") as stream:
            archive = np.load(stream, allow_pickle=False)
            if not isinstance(archive, np.lib.npyio.NpzFile):
                raise BadInputError(f"{path}: a single array, not an npz archive; write it with numpy.savez.")
            names: Sequence[str] = archive.files
            arrays = {name: archive[name] for name in names}
    except (zipfile.BadZipFile, zlib.error, OSError, EOFError, KeyError, ValueError, AttributeError) as error:
        if "pickle" in str(error):
            raise BadInputError(f"{path}: holds Python objects (pickle); save plain numeric arrays.") from error
        raise BadInputError(f"{path}: not a readable npz archive ({_first_line(error)}); write it again.") from error
    if any(array.dtype == object for array in arrays.values()):
        raise BadInputError(f"{path}: holds Python objects (pickle); save plain numeric arrays.")
    return arrays


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def check_array(origin: str, name: str, array: np.ndarray[Any, Any], wanted: TensorType) -> None:
    """Refuse an array of another shape or element type than the graph's input, or with NaN or infinity in it."""
    if array.shape != wanted.shape:
        raise BadInputError(f"{origin}: '{name}' has shape {array.shape}, the graph wants {wanted.shape}; write it again.")
    if array.dtype != wanted.dtype:
        raise BadInputError(f"{origin}: '{name}' is {array.dtype}, the graph wants {wanted.dtype}; convert it.")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise BadInputError(f"{origin}: '{name}' holds NaN or infinity; give finite values.")


def check_batches(origin: str, graph: ir.Graph, inputs: Sequence[ir.Value], batches: Sequence[Mapping[str, Any]]) -> None:
    """Refuse mini-batches that do not fit the data inputs of a graph, or with labels that are no class.

    Raises:
        BadInputError: missing or unknown names, wrong shape or type, NaN, labels out of range, or no mini-batch at all.
    """
    if not batches:
        raise BadInputError(f"{origin}: no data; give at least one mini-batch.")
    names = {value.name for value in inputs}
    classes = classes_of(graph)
    for index, batch in enumerate(batches):
        where = f"{origin}, mini-batch {index}"
        if names != set(batch):
            different = ", ".join(sorted(str(name) for name in names.symmetric_difference(batch)))
            raise BadInputError(f"{where}: missing or unknown data: {different}; give exactly the inputs of the graph.")
        for value in inputs:
            array, wanted = batch[value.name or ""], type_of(value)
            assert wanted is not None
            check_array(where, value.name or "", np.asarray(array), wanted)
            count = classes.get(value.name or "")
            if count is not None and not ((array >= 0) & (array < count)).all():
                raise BadInputError(
                    f"{where}: label {int(array.max() if array.max() >= count else array.min())} of '{value.name}' "
                    f"is out of range; the network knows classes 0 to {count - 1}."
                )


def classes_of(graph: ir.Graph) -> dict[str, int]:
    """Number of classes by name of the input that holds their labels."""
    found: dict[str, int] = {}
    for node in graph:
        operator = operator_of(node)
        if "labels" not in operator.inputs or "scores" not in operator.inputs:
            continue
        labels, scores = (node.inputs[operator.inputs.index(name)] for name in ("labels", "scores"))
        scores_type = type_of(scores)
        if labels is not None and scores_type is not None:
            found[labels.name or ""] = scores_type.shape[1]
    return found
