"""Softmax and its logarithm along any axis, with gradients; the axis is never cut into tiles."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from deeploy_ext.operators.movement import axes_of
from deeploy_ext.operators.relations import axis
from deeploy_ext.operators.spec import MICROSOFT, Access, Case, Invocation, Loop, Operator, Phase, TensorType

if TYPE_CHECKING:
    import onnx_ir as ir

    from deeploy_ext.training.builder import GraphBuilder


class _AlongAxis(Operator):
    """The operands have one shape; element (n, a, s) depends on all elements (n, ..., s), where a counts along ``axis``."""

    attributes = {"axis": -1}

    def infer(self, call: Invocation) -> tuple[TensorType, ...]:
        first = call[self.inputs[0]]
        axes_of(call, [call.attributes["axis"]], len(first.shape))
        for name in self.inputs[1:]:
            if call[name] != first:
                shapes = f"{name} of shape {call[name].shape} with {self.inputs[0]} of shape {first.shape}"
                raise call.refuse(shapes, "give both one shape")
        return (first,)

    def phases(self, call: Invocation) -> tuple[Phase, ...]:
        shape = call[self.inputs[0]].shape
        (place,) = axes_of(call, [call.attributes["axis"]], len(shape))
        view = (math.prod(shape[:place]), shape[place], math.prod(shape[place + 1 :]))
        loops = (Loop("n", view[0]), Loop("s", view[2]), Loop("a", view[1], "whole"))
        index = (axis("n"), axis("a"), axis("s"))
        reads, writes = (tuple(Access(name, index, view) for name in names) for names in (self.inputs, self.outputs))
        return (Phase("main", loops, reads, writes, "exponential"),)


class Softmax(_AlongAxis):
    """``output = e**input / sum of e**input`` along ``axis``."""

    op_type = "Softmax"
    inputs = ("input",)
    outputs = ("output",)
    in_place = (("input", "output"),)
    cases = (
        Case({"input": (3, 5)}),
        Case({"input": (2, 3, 5, 7)}),
        Case({"input": (2, 3, 5, 7)}, {"axis": 1}),
        Case({"input": (5, 3)}, {"axis": 0}),
        Case({"input": (3, 1)}),
    )

    def gradient(
        self, call: Invocation, node: ir.Node, grads: Sequence[ir.Value | None], build: GraphBuilder
    ) -> Sequence[ir.Value | None]:
        operands = [grads[0], node.outputs[0]]
        return (build.node(f"{self.op_type}Grad_13", operands, domain=MICROSOFT, axis=call.attributes["axis"]),)


class LogSoftmax(Softmax):
    """``output`` = logarithm of Softmax."""

    op_type = "LogSoftmax"


class _Grad(_AlongAxis):
    inputs = ("dY", "Y")
    outputs = ("dX",)
    in_place = (("dY", "dX"), ("Y", "dX"))
    cases = (
        Case({"dY": (3, 5), "Y": (3, 5)}),
        Case({"dY": (2, 3, 5, 7), "Y": (2, 3, 5, 7)}, {"axis": 2}),
    )


class SoftmaxGrad_13(_Grad):
    """``dX = Y * (dY - sum of dY * Y)`` along ``axis``, with Y = Softmax(X)."""

    domain = MICROSOFT
    op_type = "SoftmaxGrad_13"
    function = """<axis> (dY, Y) => (dX) {
        place = Constant <value_int: int = @axis> ()
        line = Constant <value_ints: ints = [1]> ()
        axes = Reshape (place, line)
        products = Mul (dY, Y)
        sum = ReduceSum <keepdims: int = 1> (products, axes)
        rest = Sub (dY, sum)
        dX = Mul (Y, rest)
    }"""


class SoftmaxGrad(SoftmaxGrad_13):
    """The same of older training graphs, where all axes from ``axis`` on count as one: only where these have one element."""

    op_type = "SoftmaxGrad"
    template = "SoftmaxGrad_13"
    function = SoftmaxGrad_13.function
    cases = (Case({"dY": (3, 5), "Y": (3, 5)}), Case({"dY": (2, 5, 1), "Y": (2, 5, 1)}, {"axis": 1}))

    def infer(self, call: Invocation) -> tuple[TensorType, ...]:
        shape = call["Y"].shape
        (place,) = axes_of(call, [call.attributes["axis"]], len(shape))
        if math.prod(shape[place + 1 :]) > 1:
            raise call.refuse(f"axis {place} of {shape}", "write it as SoftmaxGrad_13, which takes one axis")
        return super().infer(call)


class LogSoftmaxGrad_13(_Grad):
    """``dX = dY - e**Y * sum of dY`` along ``axis``, with Y = LogSoftmax(X)."""

    domain = MICROSOFT
    op_type = "LogSoftmaxGrad_13"
    function = """<axis> (dY, Y) => (dX) {
        place = Constant <value_int: int = @axis> ()
        line = Constant <value_ints: ints = [1]> ()
        axes = Reshape (place, line)
        sum = ReduceSum <keepdims: int = 1> (dY, axes)
        part = Exp (Y)
        share = Mul (part, sum)
        dX = Sub (dY, share)
    }"""
