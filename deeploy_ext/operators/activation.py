"""Element-wise activations and their gradients."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from deeploy_ext.operators.elementwise import DY, Slope, Unary, X, Y
from deeploy_ext.operators.expression import Term, attribute, erf, exp, larger, onnx_function, smaller, tanh, where
from deeploy_ext.operators.nests import flat
from deeploy_ext.operators.spec import MICROSOFT, OWN, Alias, Case, Invocation, Operator, Phase, TensorType

if TYPE_CHECKING:
    import onnx_ir as ir

    from deeploy_ext.training.builder import GraphBuilder


class Relu(Operator):
    """``y = max(x, 0)``."""

    op_type = "Relu"
    inputs = ("x",)
    outputs = ("y",)
    in_place = (("x", "y"),)
    cases = (Case({"x": (3, 5)}), Case({"x": (2, 3, 7, 5)}))

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
    cases = (Case({"dy": (2, 3, 7, 5), "y": (2, 3, 7, 5)}),)
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


_PAIR = (Case({"dy": (3, 7, 5), "x": (3, 7, 5)}),)


class SigmoidGrad(Slope):
    """``dx = dy * y * (1 - y)`` of ``y = sigmoid(x)``."""

    domain = MICROSOFT
    op_type = "SigmoidGrad"
    inputs = ("dy", "y")
    formula = DY * (Y * (1.0 - Y))
    function = onnx_function(formula, inputs, "dx")
    cases = (Case({"dy": (3, 7, 5), "y": (3, 7, 5)}, ranges={"y": (0.0, 1.0)}),)


class Sigmoid(Unary):
    """``y = 1 / (1 + e**-x)``."""

    op_type = "Sigmoid"
    formula = 1.0 / (1.0 + exp(-X))
    backward = SigmoidGrad


class TanhGrad(Slope):
    """``dx = dy * (1 - y**2)`` of ``y = tanh(x)``."""

    domain = MICROSOFT
    op_type = "TanhGrad"
    inputs = ("dy", "y")
    formula = DY * (1.0 - Y * Y)
    function = onnx_function(formula, inputs, "dx")
    cases = (Case({"dy": (3, 7, 5), "y": (3, 7, 5)}, ranges={"y": (-1.0, 1.0)}),)


class Tanh(Unary):
    """``y = tanh(x)``."""

    op_type = "Tanh"
    formula = tanh(X)
    backward = TanhGrad


_ALPHA, _BETA = attribute("alpha"), attribute("beta")


class LeakyReluGrad(Slope):
    """``dx = dy where x > 0 else alpha * dy`` of LeakyRelu."""

    domain = MICROSOFT
    op_type = "LeakyReluGrad"
    inputs = ("dy", "x")
    attributes = {"alpha": 0.01}
    formula = where(X > 0.0, DY, _ALPHA * DY)
    function = onnx_function(formula, inputs, "dx", ("alpha",))
    cases = _PAIR


class LeakyRelu(Unary):
    """``y = x where x > 0 else alpha * x``."""

    op_type = "LeakyRelu"
    attributes = {"alpha": 0.01}
    formula = where(X > 0.0, X, _ALPHA * X)
    backward = LeakyReluGrad
    cases = (*Unary.cases, Case({"x": (3, 5)}, {"alpha": 0.3}))


class HardSigmoidGrad(Slope):
    """``dx = alpha * dy where 0 < alpha * x + beta < 1 else 0`` of HardSigmoid."""

    domain = OWN
    op_type = "HardSigmoidGrad"
    inputs = ("dy", "x")
    attributes = {"alpha": 0.2, "beta": 0.5}
    formula = where((_ALPHA * X + _BETA > 0.0) & (_ALPHA * X + _BETA < 1.0), _ALPHA * DY, 0.0)
    function = onnx_function(formula, inputs, "dx", ("alpha", "beta"))
    cases = _PAIR


class HardSigmoid(Unary):
    """``y = alpha * x + beta``, between 0 and 1."""

    op_type = "HardSigmoid"
    attributes = {"alpha": 0.2, "beta": 0.5}
    formula = larger(smaller(_ALPHA * X + _BETA, 1.0), 0.0)
    backward = HardSigmoidGrad
    cases = (*Unary.cases, Case({"x": (3, 5)}, {"alpha": 0.7, "beta": 0.4}))


class HardSwishGrad(Slope):
    """``dx = dy * (0 below -3, x / 3 + 0.5 up to 3, then 1)`` of HardSwish."""

    domain = OWN
    op_type = "HardSwishGrad"
    inputs = ("dy", "x")
    formula = where(X > 3.0, DY, where(X < -3.0, 0.0, DY * (X * (1 / 3) + 0.5)))
    function = onnx_function(formula, inputs, "dx")
    cases = (Case({"dy": (3, 7, 5), "x": (3, 7, 5)}, ranges={"x": (-5.0, 5.0)}),)


class HardSwish(Unary):
    """``y = x * (x / 6 + 0.5, between 0 and 1)``."""

    op_type = "HardSwish"
    formula = X * larger(smaller(X * (1 / 6) + 0.5, 1.0), 0.0)
    backward = HardSwishGrad
    cases = (Case({"x": (3, 7, 5)}, ranges={"x": (-5.0, 5.0)}),)


_GATE = 1.0 / (1.0 + exp(-(_ALPHA * X)))


class SwishGrad(Slope):
    """``dx = dy * (s + alpha * x * s * (1 - s))`` with ``s = sigmoid(alpha * x)``, of Swish."""

    domain = OWN
    op_type = "SwishGrad"
    inputs = ("dy", "x")
    attributes = {"alpha": 1.0}
    formula = DY * (_GATE + _ALPHA * X * (_GATE * (1.0 - _GATE)))
    function = onnx_function(formula, inputs, "dx", ("alpha",))
    cases = _PAIR


class Swish(Unary):
    """``y = x * sigmoid(alpha * x)``; standard from opset 24 on, therefore of our domain here."""

    domain = OWN
    op_type = "Swish"
    attributes = {"alpha": 1.0}
    formula = X * _GATE
    function = onnx_function(formula, Unary.inputs, "y", ("alpha",))
    backward = SwishGrad
    cases = (*Unary.cases, Case({"x": (3, 5)}, {"alpha": 1.7}))


_HALF = 0.5 * (1.0 + erf(X * math.sqrt(0.5)))
_STEEP = math.sqrt(2 / math.pi)
_BEND = tanh(_STEEP * (X + 0.044715 * (X * X * X)))


class GeluGrad(Slope):
    """``dx = dy * (P(x) + x * p(x))`` with the normal distribution's P and its density p, of the exact Gelu."""

    domain = MICROSOFT
    op_type = "GeluGrad"
    inputs = ("dy", "x")
    formula = DY * (_HALF + X * (1 / math.sqrt(2 * math.pi) * exp(X * X * -0.5)))
    function = onnx_function(formula, inputs, "dx")
    cases = _PAIR


class FastGeluGrad(Slope):
    """The gradient of Gelu with ``approximate='tanh'``."""

    domain = MICROSOFT
    op_type = "FastGeluGrad"
    inputs = ("dy", "x")
    formula = DY * (0.5 * (1.0 + _BEND) + 0.5 * X * (1.0 - _BEND * _BEND) * (_STEEP + 3 * 0.044715 * _STEEP * (X * X)))
    function = onnx_function(formula, inputs, "dx")
    cases = _PAIR


class Gelu(Unary):
    """``y = x * P(x)`` with the normal distribution's P; with ``approximate='tanh'`` a sigmoid-like curve instead of P."""

    op_type = "Gelu"
    aliases = (Alias(MICROSOFT, "FastGelu", given={"approximate": "tanh"}),)
    attributes = {"approximate": "none"}
    cases = (*Unary.cases, Case({"x": (3, 5)}, {"approximate": "tanh"}))

    def infer(self, call: Invocation) -> tuple[TensorType, ...]:
        if call.attributes["approximate"] not in ("none", "tanh"):
            raise call.refuse(f"approximate='{call.attributes['approximate']}'", "use 'none' or 'tanh'")
        return super().infer(call)

    def value(self, call: Invocation) -> Term:
        return X * (_HALF if call.attributes["approximate"] == "none" else 0.5 * (1.0 + _BEND))

    def slope(self, call: Invocation) -> type[Slope]:
        return GeluGrad if call.attributes["approximate"] == "none" else FastGeluGrad
