"""Element-wise operators that a formula says all about, and the elementary functions among them.

An operator of one operand states its formula, and names the operator of its gradient, which states another.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from deeploy_ext.operators.expression import (
    Term,
    absolute,
    ceil,
    erf,
    exp,
    floor,
    larger,
    log,
    onnx_function,
    operand,
    smaller,
    sqrt,
    where,
    work_of,
)
from deeploy_ext.operators.nests import flat
from deeploy_ext.operators.spec import MICROSOFT, OWN, Case, Invocation, Operator, Phase, TensorType

if TYPE_CHECKING:
    import onnx_ir as ir

    from deeploy_ext.training.builder import GraphBuilder

X, Y, DY = operand("x"), operand("y"), operand("dy")


class Elementwise(Operator):
    """All operands have one shape, but the ``scalars``, which have one element; the one output is ``formula`` of them."""

    template = "Elementwise"
    formula: ClassVar[Term]
    scalars: ClassVar[tuple[str, ...]] = ()

    def value(self, call: Invocation) -> Term:
        """The formula of this use, where it depends on attributes or on what operands are given."""
        return self.formula

    def infer(self, call: Invocation) -> tuple[TensorType, ...]:
        first = call[self.inputs[0]]
        for name in self.inputs[1:]:
            found = call.get(name)
            if found is None or found == first or (name in self.scalars and found.elements == 1):
                continue
            wanted = "use one element" if name in self.scalars else "give both one shape"
            raise call.refuse(f"{name} of shape {found.shape} with {self.inputs[0]} of shape {first.shape}", wanted)
        return (first,)

    def phases(self, call: Invocation) -> tuple[Phase, ...]:
        reads = [name for name in self.inputs if name not in self.scalars]
        scalars = [name for name in self.scalars if call.get(name)]
        return (flat(call, reads, self.outputs, scalars, work_of(self.value(call))),)


class Slope(Elementwise):
    """The gradient of an operator of one operand, from that of its result ``dy`` and from ``x`` or from its result ``y``."""

    outputs = ("dx",)
    in_place = (("dy", "dx"),)


class Unary(Elementwise):
    """``y = formula(x)``; ``backward`` is the operator of its gradient."""

    inputs = ("x",)
    outputs = ("y",)
    in_place = (("x", "y"),)
    backward: ClassVar[type[Slope]]
    cases = (Case({"x": (3, 7, 5)}),)

    def slope(self, call: Invocation) -> type[Slope]:
        """The operator of the gradient of this use."""
        return self.backward

    def gradient(
        self, call: Invocation, node: ir.Node, grads: Sequence[ir.Value | None], build: GraphBuilder
    ) -> Sequence[ir.Value | None]:
        slope = self.slope(call)
        operands = [{"dy": grads[0], "x": node.inputs[0], "y": node.outputs[0]}[name] for name in slope.inputs]
        attributes = {name: call.attributes[name] for name in slope.attributes}
        return (build.node(slope.op_type, operands, domain=slope.domain, **attributes),)


_SLOPES = (Case({"dy": (3, 7, 5), "x": (3, 7, 5)}),)
_SLOPES_OF_RESULTS = (Case({"dy": (3, 7, 5), "y": (3, 7, 5)}),)


class Neg(Unary):
    """``y = -x``."""

    op_type = "Neg"
    formula = -X

    def gradient(
        self, call: Invocation, node: ir.Node, grads: Sequence[ir.Value | None], build: GraphBuilder
    ) -> Sequence[ir.Value | None]:
        return (build.node("Neg", [grads[0]]),)


class Exp(Unary):
    """``y = e**x``."""

    op_type = "Exp"
    formula = exp(X)

    def gradient(
        self, call: Invocation, node: ir.Node, grads: Sequence[ir.Value | None], build: GraphBuilder
    ) -> Sequence[ir.Value | None]:
        return (build.node("Mul", [grads[0], node.outputs[0]]),)


class Log(Unary):
    """``y`` = natural logarithm of x."""

    op_type = "Log"
    formula = log(X)
    cases = (Case({"x": (3, 7, 5)}, ranges={"x": (0.1, 4.0)}),)

    def gradient(
        self, call: Invocation, node: ir.Node, grads: Sequence[ir.Value | None], build: GraphBuilder
    ) -> Sequence[ir.Value | None]:
        return (build.node("Div", [grads[0], node.inputs[0]]),)


class SqrtGrad(Slope):
    """``dx = dy / (2 * y)`` of ``y = sqrt(x)``."""

    domain = MICROSOFT
    op_type = "SqrtGrad"
    inputs = ("dy", "y")
    formula = DY * (0.5 / Y)
    function = onnx_function(formula, inputs, "dx")
    cases = (Case({"dy": (3, 7, 5), "y": (3, 7, 5)}, ranges={"y": (0.3, 2.0)}),)


class Sqrt(Unary):
    """``y = x**0.5``."""

    op_type = "Sqrt"
    formula = sqrt(X)
    backward = SqrtGrad
    cases = (Case({"x": (3, 7, 5)}, ranges={"x": (0.1, 4.0)}),)


class ReciprocalGrad(Slope):
    """``dx = -dy * y**2`` of ``y = 1 / x``."""

    domain = OWN
    op_type = "ReciprocalGrad"
    inputs = ("dy", "y")
    formula = -(DY * (Y * Y))
    function = onnx_function(formula, inputs, "dx")
    cases = _SLOPES_OF_RESULTS


class Reciprocal(Unary):
    """``y = 1 / x``."""

    op_type = "Reciprocal"
    formula = 1.0 / X
    backward = ReciprocalGrad
    cases = (Case({"x": (3, 7, 5)}, ranges={"x": (0.3, 4.0)}),)


class AbsGrad(Slope):
    """``dx = dy * sign(x)`` of ``y = abs(x)``."""

    domain = OWN
    op_type = "AbsGrad"
    inputs = ("dy", "x")
    formula = where(X > 0.0, DY, where(X < 0.0, -DY, 0.0))
    function = onnx_function(formula, inputs, "dx")
    cases = _SLOPES


class Abs(Unary):
    """``y = abs(x)``."""

    op_type = "Abs"
    formula = absolute(X)
    backward = AbsGrad


class ErfGrad(Slope):
    """``dx = dy * 2 / sqrt(pi) * e**(-x**2)`` of ``y = erf(x)``."""

    domain = MICROSOFT
    op_type = "ErfGrad"
    inputs = ("dy", "x")
    formula = DY * (2 / math.sqrt(math.pi) * exp(-(X * X)))
    function = onnx_function(formula, inputs, "dx")
    cases = _SLOPES


class Erf(Unary):
    """``y = erf(x)``, the error function."""

    op_type = "Erf"
    formula = erf(X)
    backward = ErfGrad


class _Steps(Unary):
    """Functions that are constant between jumps: the gradient is zero."""

    def gradient(
        self, call: Invocation, node: ir.Node, grads: Sequence[ir.Value | None], build: GraphBuilder
    ) -> Sequence[ir.Value | None]:
        return (build.node("Mul", [grads[0], build.constant("zero", np.array(0, np.float32))]),)


class Floor(_Steps):
    """``y`` = the largest integer up to x. Its gradient is zero."""

    op_type = "Floor"
    formula = floor(X)


class Ceil(_Steps):
    """``y`` = the smallest integer from x on. Its gradient is zero."""

    op_type = "Ceil"
    formula = ceil(X)


class ClipGrad(Slope):
    """``dx = dy where min <= x <= max else 0``."""

    domain = OWN
    op_type = "ClipGrad"
    inputs = ("dy", "x", "min", "max")
    scalars = ("min", "max")
    formula = where((operand("min") <= X) & (operand("max") >= X), DY, 0.0)
    function = onnx_function(formula, inputs, "dx")
    cases = (Case({"dy": (3, 7, 5), "x": (3, 7, 5), "min": np.array(-0.5, np.float32), "max": np.array(0.7, np.float32)}),)


class Clip(Elementwise):
    """``output = input`` between ``min`` and ``max``, each a scalar or absent."""

    op_type = "Clip"
    inputs = ("input", "min", "max")
    outputs = ("output",)
    optional = frozenset({"min", "max"})
    scalars = ("min", "max")
    in_place = (("input", "output"),)
    cases = (
        Case({"input": (3, 7, 5), "min": np.array(-0.5, np.float32), "max": np.array(0.7, np.float32)}),
        Case({"input": (3, 5), "min": np.array([-0.5], np.float32)}),
        Case({"input": (3, 5), "max": np.array(0.7, np.float32)}),
    )

    def value(self, call: Invocation) -> Term:
        found = operand("input")
        if call.get("min"):
            found = larger(found, operand("min"))
        return smaller(found, operand("max")) if call.get("max") else found

    def gradient(
        self, call: Invocation, node: ir.Node, grads: Sequence[ir.Value | None], build: GraphBuilder
    ) -> Sequence[ir.Value | None]:
        if any(build.wanted(node)[1:]):
            raise call.refuse("training the limits", "make them constants")
        largest = np.finfo(np.float32).max
        limits = [
            node.inputs[place] if call.get(name) else build.constant(name, np.array(limit, np.float32))
            for place, name, limit in ((1, "min", -largest), (2, "max", largest))
        ]
        return (build.node("ClipGrad", [grads[0], node.inputs[0], *limits], domain=OWN), None, None)
