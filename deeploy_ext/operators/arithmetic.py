"""Element-wise arithmetic with numpy broadcasting."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from deeploy_ext.operators.expression import Term, operand, operands_of, power, sqrt, work_of
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


A, B = operand("A"), operand("B")


def reduced(
    call: Invocation, node: ir.Node, build: GraphBuilder, *made: Callable[[], ir.Value | None]
) -> list[ir.Value | None]:
    """Gradients of broadcast operands: those that are wanted are made with C's shape and summed over the copies."""
    found: list[ir.Value | None] = []
    for name, make, wanted in zip(call.operator.inputs, made, build.wanted(node), strict=True):
        grad = make() if wanted else None
        found.append(None if grad is None else reduce_to(build, grad, call["C"].shape, call[name].shape))
    return found


def _number(call: Invocation) -> float | None:
    """The value of B if it is one number that is known."""
    known = call.constants.get("B")
    return float(known.reshape(())) if known is not None and known.size == 1 else None


class Broadcasting(Operator):
    """``C = formula(A, B)`` of operands that broadcast; ``kernel_function`` does the same where neither does."""

    template = "Broadcasting"
    inputs = ("A", "B")
    outputs = ("C",)
    in_place = (("A", "C"), ("B", "C"))
    formula: ClassVar[Term]
    kernel_function: ClassVar[str | None] = None
    cases = (
        Case({"A": (2, 3), "B": (2, 3)}),
        Case({"A": (2, 1, 3), "B": (4, 1)}),
        Case({"A": (), "B": (2, 3)}),
        Case({"A": (2, 3, 5, 7), "B": (3, 1, 1)}),
    )

    def infer(self, call: Invocation) -> tuple[TensorType, ...]:
        return (broadcast(call),)

    def value(self, call: Invocation) -> Term:
        """The formula of this use, where another does the same in less time."""
        return self.formula

    def phases(self, call: Invocation) -> tuple[Phase, ...]:
        formula = self.value(call)
        return (broadcasting(call, operands_of(formula), "C", work_of(formula)),)


class Add(Broadcasting):
    """``C = A + B``."""

    op_type = "Add"
    formula = A + B
    kernel_function = "net_add"

    def gradient(
        self, call: Invocation, node: ir.Node, grads: Sequence[ir.Value | None], build: GraphBuilder
    ) -> Sequence[ir.Value | None]:
        return reduced(call, node, build, lambda: grads[0], lambda: grads[0])


class Mul(Broadcasting):
    """``C = A * B``."""

    op_type = "Mul"
    formula = A * B
    kernel_function = "net_mul"

    def gradient(
        self, call: Invocation, node: ir.Node, grads: Sequence[ir.Value | None], build: GraphBuilder
    ) -> Sequence[ir.Value | None]:
        a, b = node.inputs
        return reduced(call, node, build, lambda: build.node("Mul", [grads[0], b]), lambda: build.node("Mul", [grads[0], a]))


class Sub(Broadcasting):
    """``C = A - B``."""

    op_type = "Sub"
    formula = A - B

    def gradient(
        self, call: Invocation, node: ir.Node, grads: Sequence[ir.Value | None], build: GraphBuilder
    ) -> Sequence[ir.Value | None]:
        return reduced(call, node, build, lambda: grads[0], lambda: build.node("Neg", [grads[0]]))


_DIVISORS = {"B": (0.3, 3.0)}


class Div(Broadcasting):
    """``C = A / B``."""

    op_type = "Div"
    formula = A / B
    cases = tuple(Case(case.inputs, ranges=_DIVISORS) for case in Broadcasting.cases)

    def value(self, call: Invocation) -> Term:
        divisor = _number(call)
        return self.formula if not divisor else A * (1 / divisor)

    def gradient(
        self, call: Invocation, node: ir.Node, grads: Sequence[ir.Value | None], build: GraphBuilder
    ) -> Sequence[ir.Value | None]:
        by = build.node("Div", [grads[0], node.inputs[1]])
        return reduced(call, node, build, lambda: by, lambda: build.node("Neg", [build.node("Mul", [by, node.outputs[0]])]))


_BASES = {"A": (0.3, 3.0)}


class Pow(Broadcasting):
    """``C = A ** B``. The gradient of B needs the logarithm of A: A must be positive where B is trained."""

    op_type = "Pow"
    formula = power(A, B)
    cases = (
        *(Case(case.inputs, ranges=_BASES) for case in Broadcasting.cases),
        *(Case({"A": (2, 3, 5), "B": np.array(exponent, np.float32)}) for exponent in (2, 3)),
        Case({"A": (2, 3, 5), "B": np.array([0.5], np.float32)}, ranges=_BASES),
    )

    def value(self, call: Invocation) -> Term:
        exponent = _number(call)
        shorter = {-1.0: 1.0 / A, 0.5: sqrt(A), 1.0: A, 2.0: A * A, 3.0: A * A * A}
        return self.formula if exponent is None else shorter.get(exponent, self.formula)

    def gradient(
        self, call: Invocation, node: ir.Node, grads: Sequence[ir.Value | None], build: GraphBuilder
    ) -> Sequence[ir.Value | None]:
        a, b, c = node.inputs[0], node.inputs[1], node.outputs[0]

        def of_base() -> ir.Value:
            exponent, one = call.constants.get("B"), np.array(1, np.float32)
            less = build.constant("less", exponent - one) if exponent is not None else None
            less = less or build.node("Sub", [b, build.constant("one", one)])
            return build.node("Mul", [build.node("Mul", [grads[0], b]), build.node("Pow", [a, less])])

        def of_exponent() -> ir.Value:
            return build.node("Mul", [build.node("Mul", [grads[0], c]), build.node("Log", [a])])

        return reduced(call, node, build, of_base, of_exponent)
