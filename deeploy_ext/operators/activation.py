"""Element-wise activations and their gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from deeploy_ext.operators.nests import flat
from deeploy_ext.operators.spec import MICROSOFT, Invocation, Operator, Phase, TensorType

if TYPE_CHECKING:
    import onnx_ir as ir

    from deeploy_ext.training.builder import GraphBuilder


class Relu(Operator):
    """``y = max(x, 0)``."""

    op_type = "Relu"
    inputs = ("x",)
    outputs = ("y",)
    in_place = (("x", "y"),)

    def infer(self, call: Invocation) -> tuple[TensorType, ...]:
        return (call["x"],)

    def gradient(
        self, call: Invocation, node: ir.Node, grads: Sequence[ir.Value | None], build: GraphBuilder
    ) -> Sequence[ir.Value | None]:
        return (build.node("ReluGrad", [grads[0], node.outputs[0]], domain=MICROSOFT),)

    def phases(self, call: Invocation) -> tuple[Phase, ...]:
        return (flat(call, ("x",), ("y",)),)


class ReluGrad(Operator):
    """``dx = dy where y > 0 else 0`` (y is Relu's output)."""

    domain = MICROSOFT
    op_type = "ReluGrad"
    inputs = ("dy", "y")
    outputs = ("dx",)
    decided_by = "y"
    in_place = (("dy", "dx"),)
    function = """(dy, y) => (dx) {
        zero = Constant <value_float: float = 0.0> ()
        zero_like = CastLike (zero, dy)
        positive = Greater (y, zero_like)
        dx = Where (positive, dy, zero_like)
    }"""

    def infer(self, call: Invocation) -> tuple[TensorType, ...]:
        if call["dy"] != call["y"]:
            raise call.refuse(f"dy of shape {call['dy'].shape} with y of shape {call['y'].shape}", "give both one shape")
        return (call["dy"],)

    def phases(self, call: Invocation) -> tuple[Phase, ...]:
        return (flat(call, ("dy", "y"), ("dx",)),)
