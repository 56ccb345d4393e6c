"""The output of the test driver (``targets/gap9/runtime/main.c``) as values."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from deeploy_ext.codegen.program import EmittedProgram, Role, TensorEntry
from deeploy_ext.errors import ToolError
from deeploy_ext.training.task import Arrays, Trajectory

_COUNTER = re.compile(r"^(\w+) (\d+)$")


def read_trajectories(path: Path, program: EmittedProgram, rounds: int) -> list[Trajectory]:
    """Reads ``out.bin``: one :class:`Trajectory` per round.

    Raises:
        ToolError: the file is missing, or its size is not exactly that of ``rounds`` rounds.
    """
    by_role = {role: [tensor for tensor in program.tensors if tensor.role is role] for role in Role}
    if [_count(tensor) for tensor in by_role[Role.LOSS]] != [1]:
        raise ToolError("the emitted program must have exactly one loss, a scalar")
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ToolError(f"the emitted program left no output: {path}: {error.strerror}") from error
    size = {role: sum(_bytes(tensor) for tensor in by_role[role]) for role in Role}
    batch = size[Role.LOSS] + size[Role.GRADIENT] + size[Role.STATE]
    expected = program.steps * (program.accumulation * batch + size[Role.PARAMETER])
    expected = rounds * (expected + program.batches * size[Role.PREDICTION])
    if len(content) != expected or not expected:
        raise ToolError(f"the output of the emitted program has {len(content)} bytes where {expected} were expected: {path}")
    reader = _Reader(content)
    trajectories: list[Trajectory] = []
    for _ in range(rounds):
        trajectory = Trajectory(losses=[], gradients=[], parameters=[], states=[])
        for _ in range(program.steps):
            for _ in range(program.accumulation):
                (loss,) = reader.take(by_role[Role.LOSS]).values()
                trajectory.losses.append(float(loss.reshape(-1)[0]))
                trajectory.gradients.append(reader.take(by_role[Role.GRADIENT]))
                trajectory.states.append(reader.take(by_role[Role.STATE]))
            trajectory.parameters.append(reader.take(by_role[Role.PARAMETER]))
        if by_role[Role.PREDICTION]:
            trajectory.predictions.extend(reader.take(by_role[Role.PREDICTION]) for _ in range(program.batches))
        trajectories.append(trajectory)
    return trajectories


def read_counters(text: str) -> dict[str, int]:
    """The ``key value`` lines of the driver; other lines are somebody's debugging and are skipped."""
    return {match[1]: int(match[2]) for line in text.splitlines() if (match := _COUNTER.match(line))}


class _Reader:
    """Takes tensors one after the other from raw little-endian bytes."""

    def __init__(self, content: bytes) -> None:
        self._content, self._position = content, 0

    def take(self, tensors: list[TensorEntry]) -> Arrays:
        arrays: Arrays = {}
        for tensor in tensors:
            stored = np.frombuffer(self._content, tensor.dtype.newbyteorder("<"), _count(tensor), self._position)
            arrays[tensor.name] = stored.astype(tensor.dtype).reshape(tensor.shape)
            self._position += _bytes(tensor)
        return arrays


def _count(tensor: TensorEntry) -> int:
    return int(np.prod(tensor.shape, dtype=np.int64))


def _bytes(tensor: TensorEntry) -> int:
    return _count(tensor) * tensor.dtype.itemsize
