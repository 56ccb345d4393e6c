"""Weights from a checkpoint of onnxruntime's on-device training: a FlatBuffers file, of which we read the tensors of the model.

The format is FlatBuffers' own (little-endian; a table starts with the distance back to its vtable, a vtable lists where the
table's fields are, references are distances forward) with onnxruntime's public schema: ``Checkpoint`` has ``version`` and
``module_state``, that has ``requires_grad_params`` and ``frozen_params``, lists of ``Tensor`` with ``name``, ``doc_string``,
``dims``, ``data_type`` and ``raw_data``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx

from deeploy_ext.errors import BadInputError
from deeploy_ext.training.task import Arrays

IDENTIFIER = b"ODTC"

_MODULE_STATE = 1
_PARAMETERS = (0, 1)
_NAME, _DIMS, _TYPE, _DATA = 0, 2, 3, 4


def read_checkpoint(path: Path) -> Arrays:
    """All tensors of the model in a checkpoint, by name; those that train first.

    Raises:
        BadInputError: missing, not a checkpoint, damaged, or its data are in another file.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise BadInputError(f"{path}: cannot be read ({error.strerror}); check the path.") from error
    if content[4:8] != IDENTIFIER:
        raise BadInputError(f"{path}: not a checkpoint of onnxruntime's on-device training; make the artifacts again.")
    try:
        state = _Table.at(content, 0).table(_MODULE_STATE)
        return dict(_tensor(tensor) for field in _PARAMETERS for tensor in state.tables(field)) if state else {}
    except (struct.error, IndexError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise BadInputError(f"{path}: a damaged checkpoint ({error}); make the artifacts again.") from error


def _tensor(tensor: _Table) -> tuple[str, np.ndarray]:
    name, dims = tensor.content(_NAME, 1).decode(), np.frombuffer(tensor.content(_DIMS, 8), "<i8")
    kind = onnx.helper.tensor_dtype_to_np_dtype(tensor.number(_TYPE))
    data = tensor.content(_DATA, 1)
    return name, np.frombuffer(data, kind.newbyteorder("<")).astype(kind).reshape(tuple(int(extent) for extent in dims))


@dataclass(frozen=True)
class _Table:
    """A table of a FlatBuffers file that starts at a position."""

    file: bytes
    start: int

    @staticmethod
    def at(file: bytes, reference: int) -> _Table:
        return _Table(file, reference + _unsigned(file, reference))

    def _field(self, number: int) -> int | None:
        """Position of a field; None if it has its default."""
        vtable = self.start - struct.unpack_from("<i", self.file, self.start)[0]
        (size,) = struct.unpack_from("<H", self.file, vtable)
        if 4 + 2 * number >= size:
            return None
        (offset,) = struct.unpack_from("<H", self.file, vtable + 4 + 2 * number)
        return self.start + offset if offset else None

    def number(self, field: int) -> int:
        """A 32-bit number."""
        place = self._field(field)
        return struct.unpack_from("<i", self.file, place)[0] if place is not None else 0

    def content(self, field: int, size: int) -> bytes:
        """The bytes of a text or of a list of numbers of ``size`` bytes each."""
        place = self._field(field)
        if place is None:
            return b""
        start = place + _unsigned(self.file, place)
        end = start + 4 + size * _unsigned(self.file, start)
        if end > len(self.file):
            raise IndexError(f"it ends at byte {len(self.file)}, before a value that goes to byte {end}")
        return self.file[start + 4 : end]

    def table(self, field: int) -> _Table | None:
        place = self._field(field)
        return None if place is None else _Table.at(self.file, place)

    def tables(self, field: int) -> Iterator[_Table]:
        """A list of tables."""
        place = self._field(field)
        if place is not None:
            start = place + _unsigned(self.file, place)
            for index in range(_unsigned(self.file, start)):
                yield _Table.at(self.file, start + 4 + 4 * index)


def _unsigned(file: bytes, place: int) -> int:
    return int(struct.unpack_from("<I", file, place)[0])
