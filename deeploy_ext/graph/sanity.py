"""What must hold for any ONNX file before it is read as a graph: ONNX's own rules, which its parsers do not enforce."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator

import numpy as np
import onnx
from onnx import numpy_helper

from deeploy_ext.errors import BadInputError


def check_proto(proto: onnx.ModelProto, origin: str) -> None:
    """Refuse a model that is not one well-formed graph; ``origin`` names it in messages.

    Raises:
        BadInputError: no graph or output; names that are not printable; a value given twice or never; weights that are
            sparse, in another file, or do not hold what they claim.
    """
    graph = proto.graph
    if not proto.HasField("graph"):
        raise BadInputError(f"{origin}: not an ONNX model (no graph in it); export the model again.")
    if not graph.node:
        raise BadInputError(f"{origin}: the graph has no nodes; export the model again.")
    for name in _names(graph):
        if any(unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") for character in name):
            raise BadInputError(f"{origin}: the name {_ascii(name)} holds control characters; rename it in the model.")
    if graph.sparse_initializer:
        name = graph.sparse_initializer[0].values.name
        raise BadInputError(f"{origin}: weight '{name}' is sparse; export the model with dense weights.")
    _check_given_once(graph, origin)
    for tensor in graph.initializer:
        _check_tensor(tensor, f"{origin}: weight '{tensor.name}'", finite=True)
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.TENSOR:
                _check_tensor(attribute.t, f"{origin}: attribute '{attribute.name}' of {node.name or node.op_type}")


def _names(graph: onnx.GraphProto) -> Iterator[str]:
    for values in (graph.input, graph.output, graph.initializer, graph.sparse_initializer):
        for value in values:
            yield value.values.name if isinstance(value, onnx.SparseTensorProto) else value.name
    for value in graph.input:
        for dimension in value.type.tensor_type.shape.dim:
            yield dimension.dim_param
    for node in graph.node:
        yield from (node.name, node.op_type, node.domain, *node.input, *node.output)
        yield from (attribute.name for attribute in node.attribute)


def _ascii(name: str) -> str:
    return ascii(name if len(name) <= 60 else f"{name[:60]}...")


def _check_given_once(graph: onnx.GraphProto, origin: str) -> None:
    """Every value comes from one place. An initializer may repeat an input: old files list weights among the inputs."""
    weights = _unique((tensor.name for tensor in graph.initializer), origin)
    given = _unique((value.name for value in graph.input), origin) | weights
    for node in graph.node:
        for name in node.output:
            if name and name in given:
                raise BadInputError(f"{origin}: '{name}' is given twice, again by {node.name or node.op_type}; rename one.")
            given.add(name)
    if not graph.output:
        raise BadInputError(f"{origin}: the graph has no output; export the model again.")
    for value in graph.output:
        if value.name not in given:
            raise BadInputError(f"{origin}: output '{value.name}' is given by no node; correct the model.")


def _unique(names: Iterable[str], origin: str) -> set[str]:
    found: set[str] = set()
    for name in names:
        if name in found:
            raise BadInputError(f"{origin}: '{name}' is given twice; rename one.")
        found.add(name)
    return found


def _check_tensor(tensor: onnx.TensorProto, what: str, *, finite: bool = False) -> None:
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        raise BadInputError(f"{what} is kept in another file; load the model together with its data.")
    if any(extent < 0 for extent in tensor.dims):
        raise BadInputError(f"{what} has the negative shape {tuple(tensor.dims)}; export the model again.")
    try:
        array = numpy_helper.to_array(tensor)
    except (ValueError, TypeError, KeyError, IndexError, MemoryError, UnicodeDecodeError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise BadInputError(f"{what} has broken data ({reason}); export the model again.") from error
    if finite and array.dtype.kind == "f" and not np.isfinite(array).all():
        raise BadInputError(f"{what} holds NaN or infinity; export a model with finite weights.")
