"""What code generation hands to an engine: a folder of C, and the table of tensors that the outside may read and write."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import Any

import numpy as np


class Role(IntEnum):
    """What a persistent tensor is for; the values are those of ``net_role_t`` in ``net_runtime.h``."""

    DATA = 0
    LOSS = 1
    PARAMETER = 2
    GRADIENT = 3
    STATE = 4
    CONSTANT = 5
    PREDICTION = 6


@dataclass(frozen=True)
class TensorEntry:
    """One row of the emitted ``net_tensors`` table.

    Attributes:
        name: ONNX value name; for a gradient buffer the name of its *weight*, for state its input name.
        dtype, shape: as stored by the emitted program (labels are int32 there).
    """

    name: str
    role: Role
    dtype: np.dtype[Any]
    shape: tuple[int, ...]


@dataclass(frozen=True)
class EmittedProgram:
    """A folder with ``net.c``, ``net.h``, ``net_test.h``, ``weights.bin`` and ``data.bin``, ready to be built.

    ``weights.bin`` holds the initial values of all PARAMETER, STATE and CONSTANT tensors in table order, ``data.bin`` the
    DATA tensors of each mini-batch in table order; both raw, little-endian, without padding.

    Attributes:
        tensors: rows of ``net_tensors`` in table order.
        sources: C files to compile, relative to ``directory``.
        batches: distinct mini-batches in ``data.bin``.
        include_dirs: folders for ``-I``, relative to ``directory``, apart from the HAL's.
        target: name of the target that it is for.
        capacities: bytes of each level that its plan counts with.
        predicted: cycles of one execution of each entry by the cost model, for time limits.
        groups: entry of every tile nest, in the order of the emitted tables.
        runtime: names of the files in ``directory`` that are the same for every network: runtime and kernels.
    """

    directory: Path
    tensors: tuple[TensorEntry, ...]
    sources: tuple[str, ...]
    include_dirs: tuple[str, ...]
    steps: int
    accumulation: int
    batches: int
    cores: int
    target: str = "gap9"
    capacities: Mapping[str, int] = field(default_factory=dict[str, int])
    predicted: Mapping[str, int] = field(default_factory=dict[str, int])
    groups: tuple[str, ...] = ()
    runtime: tuple[str, ...] = ()
