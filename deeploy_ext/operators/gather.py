"""Rows of a tensor by number (embeddings), and the gradient, which adds up what goes to the same row."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from deeploy_ext.operators.movement import axes_of, known
from deeploy_ext.operators.relations import axis
from deeploy_ext.operators.spec import MICROSOFT, Access, Case, Invocation, Loop, Operator, Phase, TensorType

if TYPE_CHECKING:
    import onnx_ir as ir

    from deeploy_ext.training.builder import GraphBuilder

_INDICES = ("int32", "int64")
_NUMBERS = np.array([[2, 0, 4], [-1, 2, 2]])


def _check(call: Invocation, extent: int) -> None:
    numbers = call.constants.get("indices")
    if numbers is not None and numbers.size and not -extent <= numbers.min() <= numbers.max() < extent:
        raise call.refuse(f"an index beyond {extent} elements", "correct the indices")


def _loops(call: Invocation, shape: Sequence[int], place: int) -> tuple[Loop, Loop, Loop]:
    """Loops over what is before, along and behind the axis of the indices."""
    numbers = max(call["indices"].elements, 1)
    return Loop("n", math.prod(shape[:place])), Loop("i", numbers, "parallel"), Loop("s", math.prod(shape[place + 1 :]))


class Gather(Operator):
    """``output[.., indices, ..] = data[.., index, ..]`` along ``axis``; an index below zero counts from the end."""

    op_type = "Gather"
    inputs = ("data", "indices")
    outputs = ("output",)
    attributes = {"axis": 0}
    operand_types = {"indices": _INDICES}
    cases = (
        Case({"data": (5, 7), "indices": _NUMBERS}),
        Case({"data": (2, 5, 3), "indices": _NUMBERS}, {"axis": 1}),
        Case({"data": (3, 5), "indices": np.array(1)}, {"axis": -1}),
        Case({"data": (2, 5, 7), "indices": np.array([3, 1], np.int32)}, {"axis": 1}),
    )

    def infer(self, call: Invocation) -> tuple[TensorType, ...]:
        data = call["data"]
        (place,) = axes_of(call, [call.attributes["axis"]], len(data.shape))
        _check(call, data.shape[place])
        return (TensorType(data.dtype, (*data.shape[:place], *call["indices"].shape, *data.shape[place + 1 :])),)

    def gradient(
        self, call: Invocation, node: ir.Node, grads: Sequence[ir.Value | None], build: GraphBuilder
    ) -> Sequence[ir.Value | None]:
        shape = call["data"].shape
        (place,) = axes_of(call, [call.attributes["axis"]], len(shape))
        operands = [build.constant("shape", np.array(shape, np.int64)), node.inputs[1], grads[0]]
        return (build.node("GatherGrad", operands, domain=MICROSOFT, axis=place), None)

    def phases(self, call: Invocation) -> tuple[Phase, ...]:
        shape = call["data"].shape
        (place,) = axes_of(call, [call.attributes["axis"]], len(shape))
        n, i, s = _loops(call, shape, place)
        data = Access("data", (axis("n"), None, axis("s")), (n.extent, shape[place], s.extent))
        numbers = Access("indices", (axis("i"),), (i.extent,))
        output = Access("output", (axis("n"), axis("i"), axis("s")), (n.extent, i.extent, s.extent))
        return (Phase("main", (n, i, s), (data, numbers), (output,)),)


class GatherGrad(Operator):
    """``dX[.., index, ..] += dY[.., indices, ..]`` along ``axis``, from zero; ``shape`` is that of dX."""

    domain = MICROSOFT
    op_type = "GatherGrad"
    inputs = ("shape", "indices", "dY")
    outputs = ("dX",)
    attributes = {"axis": 0}
    constant_inputs = ("shape",)
    operand_types = {"shape": ("int64",), "indices": _INDICES}
    cases = (
        Case({"shape": np.array([5, 7]), "indices": _NUMBERS, "dY": (2, 3, 7)}),
        Case({"shape": np.array([2, 5, 3]), "indices": _NUMBERS, "dY": (2, 2, 3, 3)}, {"axis": 1}),
    )
    function = """<axis> (shape, indices, dY) => (dX) {
        first = Constant <value_ints: ints = [0]> ()
        one = Constant <value_ints: ints = [1]> ()
        line = Constant <value_ints: ints = [-1]> ()
        axis_int = Constant <value_int: int = @axis> ()
        place = Reshape (axis_int, one)
        next = Add (place, one)
        all = Size (shape)
        rank = Reshape (all, one)
        head = Slice (shape, first, place)
        head_and_one = Concat <axis: int = 0> (one, head)
        rows = ReduceProd <keepdims: int = 1> (head_and_one)
        tail = Slice (shape, next, rank)
        tail_and_one = Concat <axis: int = 0> (one, tail)
        columns = ReduceProd <keepdims: int = 1> (tail_and_one)
        extent = Slice (shape, place, next)
        depth = Squeeze (extent)
        off_on = Constant <value_floats: floats = [0.0, 1.0]> ()
        off_on_like = CastLike (off_on, dY)
        numbers = Reshape (indices, line)
        choice = OneHot <axis: int = 0> (numbers, depth, off_on_like)
        split = Concat <axis: int = 0> (rows, line, columns)
        parts = Reshape (dY, split)
        sums = MatMul (choice, parts)
        dX = Reshape (sums, shape)
    }"""

    def infer(self, call: Invocation) -> tuple[TensorType, ...]:
        shape = tuple(known(call, "shape") or ())
        (place,) = axes_of(call, [call.attributes["axis"]], len(shape))
        wanted = (*shape[:place], *call["indices"].shape, *shape[place + 1 :])
        if call["dY"].shape != wanted:
            raise call.refuse(f"dY of shape {call['dY'].shape} where the forward pass gives {wanted}", "make the shapes agree")
        _check(call, shape[place])
        return (TensorType(call["dY"].dtype, shape),)

    def phases(self, call: Invocation) -> tuple[Phase, ...]:
        shape, place = call["dX"].shape, call.attributes["axis"] % len(call["dX"].shape)
        n, i, s = _loops(call, shape, place)
        i = Loop("i", i.extent, "reduction")
        dy = Access("dY", (axis("n"), axis("i"), axis("s")), (n.extent, i.extent, s.extent))
        dx = Access("dX", (axis("n"), None, axis("s")), (n.extent, shape[place], s.extent), "zero")
        return (Phase("main", (n, s, i), (Access("indices", (axis("i"),), (i.extent,)), dy), (dx,)),)
