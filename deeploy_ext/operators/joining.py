"""Tensors put together along an axis, and taken apart: Concat, Split."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from deeploy_ext.operators.movement import axes_of, known, slice_of
from deeploy_ext.operators.relations import axis
from deeploy_ext.operators.spec import REQUIRED, Access, Case, Invocation, Loop, Operator, Phase, TensorType

if TYPE_CHECKING:
    import onnx_ir as ir

    from deeploy_ext.training.builder import GraphBuilder

MOST_PARTS = 9
"""Inputs of a Concat: one fewer than the operands that a tile nest can have."""


class Concat(Operator):
    """``concat_result`` = the inputs one behind the other along ``axis``."""

    op_type = "Concat"
    inputs = tuple(f"input_{number}" for number in range(MOST_PARTS))
    outputs = ("concat_result",)
    optional = frozenset(inputs[1:])
    attributes = {"axis": REQUIRED}
    cases = (
        Case({"input_0": (2, 3, 5), "input_1": (2, 7, 5)}, {"axis": 1}),
        Case({"input_0": (2, 3), "input_1": (2, 1), "input_2": (2, 5)}, {"axis": -1}),
        Case({"input_0": (3, 5), "input_1": (1, 5), "input_2": (7, 5)}, {"axis": 0}),
        Case({"input_0": (5,)}, {"axis": 0}),
    )

    def infer(self, call: Invocation) -> tuple[TensorType, ...]:
        given = [found for found in call.inputs if found is not None]
        first = given[0]
        (place,) = axes_of(call, [call.attributes["axis"]], len(first.shape))
        others = {(*found.shape[:place], *found.shape[place + 1 :]) for found in given}
        if len(others) != 1 or len({len(found.shape) for found in given}) != 1:
            shapes = ", ".join(str(found.shape) for found in given)
            raise call.refuse(f"putting {shapes} together", f"make all axes but axis {place} agree")
        length = sum(found.shape[place] for found in given)
        return (TensorType(first.dtype, (*first.shape[:place], length, *first.shape[place + 1 :])),)

    def gradient(
        self, call: Invocation, node: ir.Node, grads: Sequence[ir.Value | None], build: GraphBuilder
    ) -> Sequence[ir.Value | None]:
        (place,) = axes_of(call, [call.attributes["axis"]], len(call["concat_result"].shape))
        made: list[ir.Value | None] = []
        start = 0
        for found, wanted in zip(call.inputs, build.wanted(node), strict=True):
            assert found is not None
            end = start + found.shape[place]
            made.append(slice_of(build, grads[0], place, start, end, 1) if wanted else None)
            start = end
        return made

    def phases(self, call: Invocation) -> tuple[Phase, ...]:
        shape = call["concat_result"].shape
        (place,) = axes_of(call, [call.attributes["axis"]], len(shape))
        rows = math.prod(shape[:place])
        loops = (Loop("n", rows), Loop("s", math.prod(shape[place:])))
        reads: list[Access] = []
        start = 0
        for name, found in zip(self.inputs, call.inputs, strict=False):
            assert found is not None
            size = found.elements // rows
            reads.append(Access(name, (axis("n"), axis("s", offset=-start)), (rows, size)))
            start += size
        write = Access("concat_result", (axis("n"), axis("s")), (rows, start))
        return (Phase("main", loops, tuple(reads), (write,)),)


class Split(Operator):
    """Outputs = consecutive parts of ``input`` along ``axis``, of the sizes in ``split`` or ``num_outputs`` of equal size (the
    last may be smaller). Lowering makes each of them a Slice."""

    op_type = "Split"
    inputs = ("input", "split")
    outputs = tuple(f"output_{number}" for number in range(32))
    optional = frozenset({"split", *outputs})
    variadic = True
    attributes = {"axis": 0, "num_outputs": 0}
    constant_inputs = ("split",)
    operand_types = {"split": ("int64",)}
    cases = (
        Case({"input": (2, 12, 5), "split": np.array([5, 3, 4])}, {"axis": 1}, outputs=("output_0", "output_1", "output_2")),
        Case({"input": (7, 5)}, {"num_outputs": 2}, outputs=("output_0", "output_1")),
    )

    def sizes(self, call: Invocation) -> tuple[int, list[int]]:
        """The axis, and the size of each part along it."""
        shape, count = call["input"].shape, call.attributes["num_outputs"]
        (place,) = axes_of(call, [call.attributes["axis"]], len(shape))
        sizes = known(call, "split")
        if sizes is None:
            count = count or len(call.outputs)
            if not 0 < count <= shape[place]:
                raise call.refuse(f"{count} parts of {shape[place]}", "say how many parts there are")
            most = -(-shape[place] // count)
            sizes = [min(most, shape[place] - number * most) for number in range(count)]
        if sum(sizes) != shape[place] or min(sizes, default=0) < 1 or len(sizes) > len(self.outputs):
            raise call.refuse(f"parts of {sizes} of an axis of {shape[place]}", "give up to 32 sizes that add up to it")
        return place, sizes

    def infer(self, call: Invocation) -> tuple[TensorType, ...]:
        data = call["input"]
        place, sizes = self.sizes(call)
        return tuple(TensorType(data.dtype, (*data.shape[:place], size, *data.shape[place + 1 :])) for size in sizes)

    def gradient(
        self, call: Invocation, node: ir.Node, grads: Sequence[ir.Value | None], build: GraphBuilder
    ) -> Sequence[ir.Value | None]:
        place, _ = self.sizes(call)
        parts = [
            grad if grad is not None else build.constant("zero", np.zeros(found.shape, np.float32))
            for grad, found in zip(grads, self.infer(call), strict=True)
        ]
        while len(parts) > MOST_PARTS:
            parts = [build.node("Concat", parts[:MOST_PARTS], axis=place), *parts[MOST_PARTS:]]
        return (build.node("Concat", parts, axis=place), *(None for _ in node.inputs[1:]))
