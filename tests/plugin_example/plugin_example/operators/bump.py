"""Bump, which is steep in the middle and falls off on both sides, and its gradient."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from deeploy_ext.operators.nests import flat
from deeploy_ext.operators.spec import REQUIRED, Case, Invocation, Operator, Phase, TensorType

if TYPE_CHECKING:
    import onnx_ir as ir

    from deeploy_ext.training.builder import GraphBuilder


class Bump(Operator):
    """``y = height * x / (1 + x * x)``."""

    domain = "plugin_example"
    op_type = "Bump"
    inputs = ("x",)
    outputs = ("y",)
    attributes = {"height": REQUIRED}
    cases = (Case({"x": (3, 5)}, {"height": 2.0}), Case({"x": (2, 3, 7, 5)}, {"height": 0.5}))
    function = """<height> (x) => (y) {
        one_float = Constant <value_float: float = 1.0> ()
        one = CastLike (one_float, x)
        height_float = Constant <value_float: float = @height> ()
        h = CastLike (height_float, x)
        square = Mul (x, x)
        below = Add (square, one)
        above = Mul (x, h)
        y = Div (above, below)
    }"""

    def infer(self, call: Invocation) -> tuple[TensorType, ...]:
        return (call["x"],)

    def gradient(
        self, call: Invocation, node: ir.Node, grads: Sequence[ir.Value | None], build: GraphBuilder
    ) -> Sequence[ir.Value | None]:
        return (build.node("BumpGrad", [grads[0], node.inputs[0]], domain=self.domain, **call.attributes),)

    def phases(self, call: Invocation) -> tuple[Phase, ...]:
        return (flat(call, ("x",), ("y",)),)


class BumpGrad(Operator):
    """``dx = dy * height * (1 - x * x) / (1 + x * x)**2``."""

    domain = "plugin_example"
    op_type = "BumpGrad"
    inputs = ("dy", "x")
    outputs = ("dx",)
    attributes = {"height": REQUIRED}
    cases = (Case({"dy": (2, 3, 7, 5), "x": (2, 3, 7, 5)}, {"height": 2.0}),)
    function = """<height> (dy, x) => (dx) {
        one_float = Constant <value_float: float = 1.0> ()
        one = CastLike (one_float, x)
        height_float = Constant <value_float: float = @height> ()
        h = CastLike (height_float, x)
        square = Mul (x, x)
        below = Add (square, one)
        squared = Mul (below, below)
        rest = Sub (one, square)
        slope = Div (rest, squared)
        scaled = Mul (slope, h)
        dx = Mul (dy, scaled)
    }"""

    def infer(self, call: Invocation) -> tuple[TensorType, ...]:
        return (call["dy"],)

    def phases(self, call: Invocation) -> tuple[Phase, ...]:
        return (flat(call, ("dy", "x"), ("dx",)),)
