"""The lowered program: its graphs as calls in execution order, and which values share storage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from deeploy_ext.operators.spec import Invocation, TensorType


@dataclass(frozen=True)
class Call:
    """One node of the schedule: the entry it belongs to, its invocation and the value of every operand that is present."""

    entry: str
    invocation: Invocation
    operands: Mapping[str, str]

    @property
    def name(self) -> str:
        return self.invocation.name

    @property
    def reads(self) -> tuple[str, ...]:
        """Input values, without those known at compile time."""
        operator = self.invocation.operator
        names = [n for n in operator.inputs if n in self.operands and n not in operator.constant_inputs]
        return tuple(self.operands[n] for n in names)

    @property
    def writes(self) -> tuple[str, ...]:
        return tuple(self.operands[n] for n in self.invocation.operator.outputs if n in self.operands)


@dataclass(frozen=True)
class Program:
    """What is to be computed, before any decision about memory.

    Attributes:
        calls: all nodes of all entries in execution order, views left out.
        values: type of every value, as stored on the device.
        same: value -> the value whose storage it must share (views, buffers updated in place).
        arguments: scalar run-time arguments (reset flag, learning rate).
        data: inputs that change with every mini-batch.
        loss: the loss value.
        constants: compile-time contents of values that are neither data nor trained.
    """

    calls: tuple[Call, ...]
    values: Mapping[str, TensorType]
    same: Mapping[str, str]
    arguments: tuple[str, ...]
    data: tuple[str, ...]
    loss: str
    constants: Mapping[str, np.ndarray]
    persistent: tuple[str, ...]

    @property
    def entries(self) -> tuple[str, ...]:
        """Names of the entries in execution order."""
        return tuple(dict.fromkeys(call.entry for call in self.calls))

    @property
    def fused(self) -> bool:
        """Whether the step updates the parameters itself, so that there is no gradient to accumulate or look at."""
        return "update" not in self.entries


def root(value: str, same: Mapping[str, str]) -> str:
    """The value at the end of the chain of shared storage."""
    while value in same:
        value = same[value]
    return value
