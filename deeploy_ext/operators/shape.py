"""Operators that show a tensor under another shape (the same storage, no code), and Transpose, which moves its elements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from deeploy_ext.operators.nests import MAX_RANK
from deeploy_ext.operators.relations import axis
from deeploy_ext.operators.spec import Access, Case, Invocation, Loop, Operator, Phase, TensorType

if TYPE_CHECKING:
    import onnx_ir as ir

    from deeploy_ext.training.builder import GraphBuilder


def _back(build: GraphBuilder, grad: ir.Value | None, shape: tuple[int, ...]) -> ir.Value:
    return build.node("Reshape", [grad, build.constant("shape", np.array(shape, np.int64))])


class Reshape(Operator):
    """``reshaped = data`` under ``shape``: 0 copies the extent of data (with allowzero=0), one -1 takes what is left."""

    op_type = "Reshape"
    inputs = ("data", "shape")
    outputs = ("reshaped",)
    attributes = {"allowzero": 0}
    view = True
    constant_inputs = ("shape",)
    operand_types = {"shape": ("int64",)}
    cases = (
        Case({"data": (2, 3, 5), "shape": np.array([0, -1])}),
        Case({"data": (2, 3, 5), "shape": np.array([5, 6])}, {"allowzero": 1}),
    )

    def infer(self, call: Invocation) -> tuple[TensorType, ...]:
        data, shape = call["data"], call.constants.get("shape")
        if shape is None:
            raise call.refuse("a shape computed at run time", "make it a constant of the model")
        wanted = [int(extent) for extent in shape.reshape(-1)]
        copied = [
            data.shape[i] if extent == 0 and not call.attributes["allowzero"] and i < len(data.shape) else extent
            for i, extent in enumerate(wanted)
        ]
        known = math.prod(extent for extent in copied if extent != -1)
        if copied.count(-1) == 1 and known > 0:
            copied[copied.index(-1)] = data.elements // known
        if min(copied, default=1) < 1 or math.prod(copied) != data.elements:
            raise call.refuse(f"reshaping {data.shape} to {wanted}", "give a shape with as many elements")
        return (TensorType(data.dtype, tuple(copied)),)

    def gradient(
        self, call: Invocation, node: ir.Node, grads: Sequence[ir.Value | None], build: GraphBuilder
    ) -> Sequence[ir.Value | None]:
        return (_back(build, grads[0], call["data"].shape), None)


class Flatten(Operator):
    """``output = input`` as a matrix: axes before ``axis`` make the rows, the others the columns."""

    op_type = "Flatten"
    inputs = ("input",)
    outputs = ("output",)
    attributes = {"axis": 1}
    view = True
    cases = tuple(Case({"input": (2, 3, 5)}, {"axis": axis}) for axis in (0, 2, -2))

    def infer(self, call: Invocation) -> tuple[TensorType, ...]:
        data, axis = call["input"], call.attributes["axis"]
        rank = len(data.shape)
        if not -rank <= axis <= rank:
            raise call.refuse(f"axis={axis} of a tensor of rank {rank}", "name an axis within the rank")
        split = axis + rank if axis < 0 else axis
        return (TensorType(data.dtype, (math.prod(data.shape[:split]), math.prod(data.shape[split:]))),)

    def gradient(
        self, call: Invocation, node: ir.Node, grads: Sequence[ir.Value | None], build: GraphBuilder
    ) -> Sequence[ir.Value | None]:
        return (_back(build, grads[0], call["input"].shape),)


class Identity(Operator):
    """``output = input``."""

    op_type = "Identity"
    inputs = ("input",)
    outputs = ("output",)
    view = True
    cases = (Case({"input": (2, 3)}),)

    def infer(self, call: Invocation) -> tuple[TensorType, ...]:
        return (call["input"],)

    def gradient(
        self, call: Invocation, node: ir.Node, grads: Sequence[ir.Value | None], build: GraphBuilder
    ) -> Sequence[ir.Value | None]:
        return (grads[0],)


class Transpose(Operator):
    """``transposed[i0, i1, ...] = data`` with its axes in the order ``perm``; the default (an empty list) reverses them."""

    op_type = "Transpose"
    inputs = ("data",)
    outputs = ("transposed",)
    attributes = {"perm": list[int]()}
    cases = (
        Case({"data": (2, 3, 4, 5)}, {"perm": [0, 3, 1, 2]}),
        Case({"data": (2, 3, 4)}, {"perm": [1, 2, 0]}),
        Case({"data": (5, 7)}),
    )

    def infer(self, call: Invocation) -> tuple[TensorType, ...]:
        data, perm = call["data"], _permutation(call)
        if sorted(perm) != list(range(len(data.shape))):
            raise call.refuse(f"perm {perm} of a tensor of rank {len(data.shape)}", "name every axis once")
        if len(perm) > MAX_RANK:
            raise call.refuse(f"a tensor of rank {len(perm)}", f"use at most {MAX_RANK} axes")
        return (TensorType(data.dtype, tuple(data.shape[i] for i in perm)),)

    def gradient(
        self, call: Invocation, node: ir.Node, grads: Sequence[ir.Value | None], build: GraphBuilder
    ) -> Sequence[ir.Value | None]:
        perm = _permutation(call)
        return (build.node("Transpose", [grads[0]], perm=[perm.index(i) for i in range(len(perm))]),)

    def phases(self, call: Invocation) -> tuple[Phase, ...]:
        perm = _permutation(call)
        loops = tuple(Loop(f"i{i}", extent) for i, extent in enumerate(call["transposed"].shape)) or (Loop("i0", 1),)
        names = [f"i{perm.index(i)}" for i in range(len(perm))] or ["i0"]
        read = Access("data", tuple(map(axis, names)))
        return (Phase("main", loops, (read,), (Access("transposed", tuple(axis(loop.name) for loop in loops)),)),)


def _permutation(call: Invocation) -> list[int]:
    return list(call.attributes["perm"]) or list(range(len(call["data"].shape)))[::-1]
