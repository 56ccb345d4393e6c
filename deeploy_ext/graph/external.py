"""Weights that a model file keeps beside itself: read only from inside the model's own folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError

from deeploy_ext.errors import BadInputError


def read_proto(path: Path) -> onnx.ModelProto:
    """The ONNX file with all weights in it.

    Raises:
        BadInputError: not ONNX, or external data that are missing, too short or outside the model's folder.
    """
    try:
        proto = onnx.load(path, load_external_data=False)
    except (DecodeError, onnx.checker.ValidationError, OSError, ValueError) as error:
        what = (str(error).splitlines() or [type(error).__name__])[0]
        raise BadInputError(f"{path}: not a readable ONNX file ({what}); export the model again.") from error
    for tensor in _tensors(proto):
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            _embed(path, tensor)
    return proto


def _tensors(proto: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """All tensors of a model: weights, constants, and those of functions."""
    yield from proto.graph.initializer
    nodes = [*proto.graph.node, *(node for function in proto.functions for node in function.node)]
    for node in nodes:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors


def _embed(model: Path, tensor: onnx.TensorProto) -> None:
    """Read the bytes of one external tensor into it."""
    where = {entry.key: entry.value for entry in tensor.external_data}
    location, what = where.get("location", ""), f"{model}: the data of '{tensor.name}'"
    if not location or "\0" in location:
        raise BadInputError(f"{what} have no file name; export the model again, with weights in one file.")
    folder = model.resolve().parent
    file = (folder / location).resolve()
    if not file.is_relative_to(folder):
        raise BadInputError(f"{what} are outside the model's folder, at '{location}'; move them beside the model.")
    if not file.is_file():
        raise BadInputError(f"{what} are missing: there is no '{location}' beside it; copy that file along with the model.")
    try:
        offset = int(where.get("offset", "0"))
        length = int(where["length"]) if "length" in where else file.stat().st_size - offset
    except ValueError:
        raise BadInputError(f"{what} have a broken offset or length; export the model again.") from None
    if offset < 0 or length < 0 or offset + length > file.stat().st_size:
        raise BadInputError(f"{what} do not fit into '{location}' ({file.stat().st_size} bytes); copy the whole file.")
    with file.open("rb") as stream:
        stream.seek(offset)
        tensor.raw_data = stream.read(length)
    tensor.data_location = onnx.TensorProto.DEFAULT
    del tensor.external_data[:]
