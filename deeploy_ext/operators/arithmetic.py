"""Element-wise arithmetic with numpy broadcasting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from deeploy_ext.operators.nests import broadcasting
from deeploy_ext.operators.spec import Case, Invocation, Operator, Phase, TensorType

if TYPE_CHECKING:
    import onnx_ir as ir

    from deeploy_ext.training.builder import GraphBuilder


def broadcast(call: Invocation) -> TensorType:
    """Type of the result of an element-wise operator with operands ``A`` and ``B``."""
    a, b = call["A"], call["B"]
    try:
        shape = np.broadcast_shapes(a.shape, b.shape)
    except ValueError:
        raise call.refuse(f"A {a.shape} with B {b.shape}", "give both shapes that broadcast") from None
    if a.dtype != b.dtype:
        raise call.refuse(f"A of {a.dtype} with B of {b.dtype}", "give both one element type")
    return TensorType(a.dtype, shape)


def reduce_to(build: GraphBuilder, grad: ir.Value, have: Sequence[int], want: Sequence[int]) -> ir.Value:
    """Gradient of an operand of shape ``want`` that was broadcast to shape ``have``: summed over the copies."""
    padded = [1] * (len(have) - len(want)) + list(want)
    axes = [axis for axis, (h, w) in enumerate(zip(have, padded, strict=True)) if h != w]
    if axes:
        grad = build.node("ReduceSum", [grad, build.constant("axes", np.array(axes, np.int64))], keepdims=1)
    if len(want) != len(have):
        grad = build.node("Reshape", [grad, build.constant("shape", np.array(want, np.int64))])
    return grad


class Broadcasting(Operator):
    """An element-wise operator of two operands that broadcast; what it computes is in its template."""

    inputs = ("A", "B")
    outputs = ("C",)
    in_place = (("A", "C"), ("B", "C"))
    cases = (
        Case({"A": (2, 3), "B": (2, 3)}),
        Case({"A": (2, 1, 3), "B": (4, 1)}),
        Case({"A": (), "B": (2, 3)}),
        Case({"A": (2, 3, 5, 7), "B": (3, 1, 1)}),
    )

    def infer(self, call: Invocation) -> tuple[TensorType, ...]:
        return (broadcast(call),)

    def phases(self, call: Invocation) -> tuple[Phase, ...]:
        return (broadcasting(call, ("A", "B"), "C"),)


class Add(Broadcasting):
    """``C = A + B``."""

    op_type = "Add"

    def gradient(
        self, call: Invocation, node: ir.Node, grads: Sequence[ir.Value | None], build: GraphBuilder
    ) -> Sequence[ir.Value | None]:
        grad = grads[0]
        assert grad is not None
        shape = call["C"].shape
        return [
            reduce_to(build, grad, shape, call[name].shape) if wanted else None
            for name, wanted in zip(self.inputs, build.wanted(node), strict=True)
        ]


class Mul(Broadcasting):
    """``C = A * B``."""

    op_type = "Mul"

    def gradient(
        self, call: Invocation, node: ir.Node, grads: Sequence[ir.Value | None], build: GraphBuilder
    ) -> Sequence[ir.Value | None]:
        shape = call["C"].shape
        others = (node.inputs[1], node.inputs[0])
        return [
            reduce_to(build, build.node("Mul", [grads[0], other]), shape, call[name].shape) if wanted else None
            for name, other, wanted in zip(self.inputs, others, build.wanted(node), strict=True)
        ]
