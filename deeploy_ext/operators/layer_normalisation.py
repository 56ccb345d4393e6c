"""Normalisation of each sample by itself over its last axes: LayerNormalization, RMSNormalization, with gradients."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from deeploy_ext.operators.movement import axes_of
from deeploy_ext.operators.rows import INVERSE_DEVIATION, PROJECTION, Layout, check_dy, check_weights
from deeploy_ext.operators.spec import MICROSOFT, ONNX, OWN, Alias, Case, Invocation, Operator, Phase, TensorType

if TYPE_CHECKING:
    import onnx_ir as ir

    from deeploy_ext.training.builder import GraphBuilder


def _last_axes(call: Invocation) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shape of X before ``axis``, and from there on."""
    shape = call["X"].shape
    (place,) = axes_of(call, [call.attributes["axis"]], len(shape))
    return shape[:place], shape[place:]


class _LastAxes(Operator):
    """Over all axes from ``axis`` on, with a weight for each element of these."""

    def layout(self, call: Invocation) -> Layout:
        outer, inner = map(math.prod, _last_axes(call))
        return Layout({"n": outer}, {"s": inner}, ("s",))


_LAYERS = (
    ({"X": (3, 5, 7), "scale": (7,), "B": (7,)}, {}),
    ({"X": (2, 3, 5, 2), "scale": (3, 5, 2), "B": (3, 5, 2)}, {"axis": 1, "epsilon": 1e-3}),
    ({"X": (5, 11), "scale": (11,)}, {}),
    ({"X": (2, 3, 7), "scale": (3, 7), "B": (3, 7)}, {"axis": -2}),
)


class LayerNormalization(_LastAxes):
    """``Y = (X - mean) * inv_std * scale + B`` over all axes from ``axis`` on, ``inv_std = 1 / sqrt(variance + epsilon)``."""

    op_type = "LayerNormalization"
    template = "Normalisation"
    inputs = ("X", "scale", "B")
    outputs = ("Y", "mean", "inv_std")
    optional = frozenset({"B", "mean", "inv_std"})
    needed = ("mean", "inv_std")
    attributes = {"axis": -1, "epsilon": 1e-5, "stash_type": 1}
    cases = tuple(Case(inputs, attributes) for inputs, attributes in _LAYERS)

    def infer(self, call: Invocation) -> tuple[TensorType, ...]:
        outer, inner = _last_axes(call)
        check_weights(call, inner, "scale", "B")
        if call.attributes["stash_type"] != 1:
            raise call.refuse(f"stash_type={call.attributes['stash_type']}", "keep statistics in float32 (1)")
        row = TensorType(call["X"].dtype, (*outer, *(1 for _ in inner)))
        return (call["X"], row, row)

    def gradient(
        self, call: Invocation, node: ir.Node, grads: Sequence[ir.Value | None], build: GraphBuilder
    ) -> Sequence[ir.Value | None]:
        if any(grad is not None for grad in grads[1:]):
            raise call.refuse("a loss that depends on the statistics", "use only the output Y")
        operands = [grads[0], *node.inputs[:2], *node.outputs[1:3]]
        made = build.node("LayerNormalizationGrad", operands, domain=MICROSOFT, outputs=5, axis=call.attributes["axis"])
        return made[: len(node.inputs)]

    def phases(self, call: Invocation) -> tuple[Phase, ...]:
        return self.layout(call).forward(call)


class LayerNormalizationGrad(_LastAxes):
    """Gradients of LayerNormalization; with x^ = (X - mean) * inv_std and D elements to a row:

    ``dX = inv_std * (dY * scale - sum / D - x^ * product / D)``, ``dscale = sum of dY * x^``, ``dB = sum of dY`` over rows,
    where ``sum`` and ``product`` of each row are the sums of dY * scale and of dY * scale * x^. ONNX Runtime's operator has
    the first three outputs.
    """

    domain = MICROSOFT
    op_type = "LayerNormalizationGrad"
    template = "NormalisationGrad"
    inputs = ("dY", "X", "scale", "mean", "inv_std")
    outputs = ("dX", "dscale", "dB", "sum", "product")
    optional = frozenset(outputs)
    needed = ("sum", "product")
    positive = frozenset({"inv_std"})
    attributes = {"axis": -1}
    redundant_attributes = frozenset({"epsilon", "stash_type"})
    in_place = (("dY", "dX"),)
    cases = (
        Case({"dY": (3, 5, 7), "X": (3, 5, 7), "scale": (7,), "mean": (3, 5, 1), "inv_std": (3, 5, 1)}, outputs=outputs),
        Case(
            {"dY": (2, 3, 5), "X": (2, 3, 5), "scale": (3, 5), "mean": (2, 1, 1), "inv_std": (2, 1, 1)},
            {"axis": 1},
            outputs=outputs,
        ),
    )
    function = f"""<axis> (dY, X, scale, mean, inv_std) => (dX, dscale, dB, sum, product) {{
        x = Flatten <axis: int = @axis> (X)
        dy = Flatten <axis: int = @axis> (dY)
        across = Constant <value_ints: ints = [1, -1]> ()
        down = Constant <value_ints: ints = [-1, 1]> ()
        first = Constant <value_ints: ints = [0]> ()
        last = Constant <value_ints: ints = [1]> ()
        weights = Reshape (scale, across)
        m = Reshape (mean, down)
        i = Reshape (inv_std, down)
        centered = Sub (x, m)
        normalised = Mul (centered, i)
        weighted = Mul (dy, weights){PROJECTION}
        dx = Mul (projected, i)
        shape = Shape (X)
        dX = Reshape (dx, shape)
        shape_of_weights = Shape (scale)
        slopes = Mul (dy, normalised)
        dscale_line = ReduceSum <keepdims: int = 0> (slopes, first)
        dscale = Reshape (dscale_line, shape_of_weights)
        dB_line = ReduceSum <keepdims: int = 0> (dy, first)
        dB = Reshape (dB_line, shape_of_weights)
        shape_of_rows = Shape (mean)
        sums = ReduceSum <keepdims: int = 1> (weighted, last)
        sum = Reshape (sums, shape_of_rows)
        sums_of_products = ReduceSum <keepdims: int = 1> (products, last)
        product = Reshape (sums_of_products, shape_of_rows)
    }}"""

    def infer(self, call: Invocation) -> tuple[TensorType, ...]:
        check_dy(call)
        check_weights(call, _last_axes(call)[1], "scale")
        rows = math.prod(_last_axes(call)[0])
        for name in ("mean", "inv_std"):
            if call[name].elements != rows:
                raise call.refuse(f"'{name}' of shape {call[name].shape} with X {call['X'].shape}", f"give {rows} elements")
        return (call["X"], call["scale"], call["scale"], call["mean"], call["mean"])

    def phases(self, call: Invocation) -> tuple[Phase, ...]:
        return self.layout(call).backward(call)


class RMSNormalization(_LastAxes):
    """``Y = X * inv_std * scale`` over all axes from ``axis`` on, ``inv_std = 1 / sqrt(mean of X**2 + epsilon)``; standard from
    opset 23 on, therefore of our domain here."""

    domain = OWN
    op_type = "RMSNormalization"
    aliases = (Alias(ONNX, "RMSNorm", {"eps": "epsilon"}),)
    template = "Normalisation"
    inputs = ("X", "scale")
    outputs = ("Y", "inv_std")
    optional = frozenset({"inv_std"})
    needed = ("inv_std",)
    attributes = {"axis": -1, "epsilon": 1e-5, "stash_type": 1}
    cases = tuple(
        Case({name: inputs[name] for name in ("X", "scale")}, attributes)  # pyright: ignore[reportArgumentType]
        for inputs, attributes in _LAYERS
    )
    function = f"""<axis, epsilon, stash_type> (X, scale) => (Y, inv_std) {{
        x = Flatten <axis: int = @axis> (X)
        across = Constant <value_ints: ints = [1, -1]> ()
        last = Constant <value_ints: ints = [1]> ()
        weights = Reshape (scale, across)
        squares = Mul (x, x)
        variance = ReduceMean <keepdims: int = 1> (squares, last){INVERSE_DEVIATION}
        normalised = Mul (x, inv_std)
        y = Mul (normalised, weights)
        shape = Shape (X)
        Y = Reshape (y, shape)
    }}"""

    def infer(self, call: Invocation) -> tuple[TensorType, ...]:
        outer, inner = _last_axes(call)
        check_weights(call, inner, "scale")
        if call.attributes["stash_type"] != 1:
            raise call.refuse(f"stash_type={call.attributes['stash_type']}", "keep statistics in float32 (1)")
        return (call["X"], TensorType(call["X"].dtype, (math.prod(outer), 1)))

    def gradient(
        self, call: Invocation, node: ir.Node, grads: Sequence[ir.Value | None], build: GraphBuilder
    ) -> Sequence[ir.Value | None]:
        operands = [grads[0], *node.inputs, node.outputs[1]]
        return build.node("RMSNormalizationGrad", operands, domain=OWN, outputs=3, axis=call.attributes["axis"])[:2]

    def phases(self, call: Invocation) -> tuple[Phase, ...]:
        return self.layout(call).forward(call)


class RMSNormalizationGrad(_LastAxes):
    """Gradients of RMSNormalization: those of LayerNormalization with a mean of 0 that does not depend on X."""

    domain = OWN
    op_type = "RMSNormalizationGrad"
    template = "NormalisationGrad"
    inputs = ("dY", "X", "scale", "inv_std")
    outputs = ("dX", "dscale", "product")
    optional = frozenset(outputs)
    needed = ("product",)
    positive = frozenset({"inv_std"})
    attributes = {"axis": -1}
    in_place = (("dY", "dX"),)
    cases = (
        Case({"dY": (3, 5, 7), "X": (3, 5, 7), "scale": (7,), "inv_std": (15, 1)}, outputs=outputs),
        Case({"dY": (2, 3, 5), "X": (2, 3, 5), "scale": (3, 5), "inv_std": (2, 1)}, {"axis": 1}, outputs=outputs),
    )
    function = """<axis> (dY, X, scale, inv_std) => (dX, dscale, product) {
        x = Flatten <axis: int = @axis> (X)
        dy = Flatten <axis: int = @axis> (dY)
        across = Constant <value_ints: ints = [1, -1]> ()
        first = Constant <value_ints: ints = [0]> ()
        last = Constant <value_ints: ints = [1]> ()
        weights = Reshape (scale, across)
        normalised = Mul (x, inv_std)
        weighted = Mul (dy, weights)
        products = Mul (weighted, normalised)
        mean_product = ReduceMean <keepdims: int = 1> (products, last)
        along = Mul (normalised, mean_product)
        projected = Sub (weighted, along)
        dx = Mul (projected, inv_std)
        shape = Shape (X)
        dX = Reshape (dx, shape)
        slopes = Mul (dy, normalised)
        dscale_line = ReduceSum <keepdims: int = 0> (slopes, first)
        shape_of_weights = Shape (scale)
        dscale = Reshape (dscale_line, shape_of_weights)
        product = ReduceSum <keepdims: int = 1> (products, last)
    }"""

    def infer(self, call: Invocation) -> tuple[TensorType, ...]:
        check_dy(call)
        check_weights(call, _last_axes(call)[1], "scale")
        return (call["X"], call["scale"], call["inv_std"])

    def phases(self, call: Invocation) -> tuple[Phase, ...]:
        return self.layout(call).backward(call)
