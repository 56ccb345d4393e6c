"""Normalisation of each sample by itself: over the last axes (Layer, RMS), over groups of channels (Group, Instance).

All are one family: *rows* with a mean and a deviation each, elements *inside* a row, and weights for some of these loops.
Variances are population variances. Statistics and sums of a row are outputs, so that rows may be cut into tiles.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from deeploy_ext.operators.movement import axes_of
from deeploy_ext.operators.nests import planes
from deeploy_ext.operators.relations import axis
from deeploy_ext.operators.spec import (
    MICROSOFT,
    ONNX,
    OWN,
    REQUIRED,
    Access,
    Alias,
    Case,
    Invocation,
    Loop,
    Operator,
    Phase,
    Start,
    TensorType,
)

if TYPE_CHECKING:
    import onnx_ir as ir

    from deeploy_ext.training.builder import GraphBuilder


@dataclass(frozen=True)
class Layout:
    """How X is seen: loops over rows and inside each, outermost first, and the loops that weights are indexed by."""

    rows: Mapping[str, int]
    inside: Mapping[str, int]
    weights: tuple[str, ...]

    @property
    def loops(self) -> Mapping[str, int]:
        return {**self.rows, **self.inside}

    def access(self, operand: str, names: Sequence[str], start: Start = "none") -> Access:
        return Access(operand, tuple(map(axis, names)), tuple(self.loops[name] for name in names), start)

    def whole(self, operand: str) -> Access:
        return self.access(operand, tuple(self.loops))

    def row(self, operand: str, start: Start = "none") -> Access:
        return self.access(operand, tuple(self.rows), start)

    def weight(self, operand: str, start: Start = "none") -> Access:
        return self.access(operand, self.weights, start)

    def nest(self, parallel: Sequence[str]) -> tuple[Loop, ...]:
        """The named loops, then the others as reductions."""
        others = [name for name in self.loops if name not in parallel]
        return (
            *(Loop(name, self.loops[name]) for name in parallel),
            *(Loop(name, self.loops[name], "reduction") for name in others),
        )

    def forward(self, call: Invocation) -> tuple[Phase, ...]:
        """Mean (where there is one), deviation, then Y."""
        rows, loops = self.nest(tuple(self.rows)), self.nest(tuple(self.loops))
        mean = [self.row("mean")] if call.get("mean") else []
        weights = [self.weight(name) for name in ("scale", "B") if call.get(name)]
        means = (Phase("mean", rows, (self.whole("X"),), (self.row("mean", "zero"),), "statistics"),) if mean else ()
        return (
            *means,
            Phase("deviation", rows, (self.whole("X"), *mean), (self.row("inv_std", "zero"),), "statistics"),
            Phase("normalise", loops, (self.whole("X"), *weights, *mean, self.row("inv_std")), (self.whole("Y"),)),
        )

    def backward(self, call: Invocation) -> tuple[Phase, ...]:
        """Sums over each row, sums over all rows for the weights, then dX from those of its row."""
        dy, x = self.whole("dY"), self.whole("X")
        statistics = [self.row(name) for name in ("mean", "inv_std") if call.get(name)]
        sums = [name for name in ("sum", "product") if call.get(name)]
        weights = tuple(self.weight(name, "zero") for name in ("dscale", "dB") if call.get(name))
        rows, loops, over = (self.nest(tuple(names)) for names in (self.rows, self.loops, self.weights))
        reads = (dy, x, self.weight("scale"), *statistics)
        found = [Phase("sums", rows, reads, tuple(self.row(name, "zero") for name in sums), "statistics")]
        if weights:
            found.append(Phase("parameters", over, (dy, x, *statistics), weights, "statistics"))
        if call.get("dX"):  # last: it may lie where dY is
            found.append(Phase("input", loops, (*reads, *map(self.row, sums)), (self.whole("dX"),)))
        return tuple(found)


def _last_axes(call: Invocation) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shape of X before ``axis``, and from there on."""
    shape = call["X"].shape
    (place,) = axes_of(call, [call.attributes["axis"]], len(shape))
    return shape[:place], shape[place:]


def _check_weights(call: Invocation, shape: tuple[int, ...], *names: str) -> None:
    for name in names:
        found = call.get(name)
        if found is not None and found.shape != shape:
            raise call.refuse(f"'{name}' of shape {found.shape} with X {call['X'].shape}", f"use shape {shape}")


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
        _check_weights(call, inner, "scale", "B")
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
    function = """<axis> (dY, X, scale, mean, inv_std) => (dX, dscale, dB, sum, product) {
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
        weighted = Mul (dy, weights)
        products = Mul (weighted, normalised)
        mean_weighted = ReduceMean <keepdims: int = 1> (weighted, last)
        mean_product = ReduceMean <keepdims: int = 1> (products, last)
        along = Mul (normalised, mean_product)
        difference = Sub (weighted, mean_weighted)
        projected = Sub (difference, along)
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
    }"""

    def infer(self, call: Invocation) -> tuple[TensorType, ...]:
        _check_dy(call)
        _check_weights(call, _last_axes(call)[1], "scale")
        rows = math.prod(_last_axes(call)[0])
        for name in ("mean", "inv_std"):
            if call[name].elements != rows:
                raise call.refuse(f"'{name}' of shape {call[name].shape} with X {call['X'].shape}", f"give {rows} elements")
        return (call["X"], call["scale"], call["scale"], call["mean"], call["mean"])

    def phases(self, call: Invocation) -> tuple[Phase, ...]:
        return self.layout(call).backward(call)


def _check_dy(call: Invocation) -> None:
    if call["dY"] != call["X"]:
        raise call.refuse(f"dY of shape {call['dY'].shape} with X of shape {call['X'].shape}", "give both one shape")


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
    function = """<axis, epsilon, stash_type> (X, scale) => (Y, inv_std) {
        x = Flatten <axis: int = @axis> (X)
        across = Constant <value_ints: ints = [1, -1]> ()
        last = Constant <value_ints: ints = [1]> ()
        weights = Reshape (scale, across)
        squares = Mul (x, x)
        power = ReduceMean <keepdims: int = 1> (squares, last)
        epsilon_float = Constant <value_float: float = @epsilon> ()
        epsilon_like = CastLike (epsilon_float, X)
        shifted = Add (power, epsilon_like)
        deviation = Sqrt (shifted)
        inv_std = Reciprocal (deviation)
        normalised = Mul (x, inv_std)
        y = Mul (normalised, weights)
        shape = Shape (X)
        Y = Reshape (y, shape)
    }"""

    def infer(self, call: Invocation) -> tuple[TensorType, ...]:
        outer, inner = _last_axes(call)
        _check_weights(call, inner, "scale")
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
        _check_dy(call)
        _check_weights(call, _last_axes(call)[1], "scale")
        return (call["X"], call["scale"], call["inv_std"])

    def phases(self, call: Invocation) -> tuple[Phase, ...]:
        return self.layout(call).backward(call)


class _Channels(Operator):
    """Over the image and groups of channels, with a weight for each channel; ``num_groups`` of 0: each channel by itself."""

    def groups(self, call: Invocation, *weights: str) -> int:
        """Number of groups; checks the shapes of the weights."""
        x, given = call["X"], call.attributes["num_groups"]
        if len(x.shape) < 3:
            raise call.refuse(f"X of rank {len(x.shape)}", "give it image axes: (N, C, ...)")
        if given < 0 or x.shape[1] % (given or 1):
            raise call.refuse(f"{x.shape[1]} channels in {given} groups", "make groups of equal size")
        _check_weights(call, x.shape[1:2], *weights)
        return given or x.shape[1]

    def layout(self, call: Invocation) -> Layout:
        n, c, s = planes(call["X"].shape)
        groups = self.groups(call)
        if groups == c:
            return Layout({"n": n, "g": c}, {"s": s}, ("g",))
        return Layout({"n": n, "g": groups}, {"c": c // groups, "s": s}, ("g", "c"))


_TO_GROUPS = """
        rows = Constant <value_ints: ints = [0]> ()
        count = Constant <value_int: int = @num_groups> ()
        one = Constant <value_ints: ints = [1]> ()
        groups = Reshape (count, one)
        rest = Constant <value_ints: ints = [-1]> ()
        grouped = Concat <axis: int = 0> (rows, groups, rest)
        planes = Constant <value_ints: ints = [0, 0, -1]> ()
        last = Constant <value_ints: ints = [2]> ()
        column = Constant <value_ints: ints = [1]> ()
        shape = Shape (X)
        flat = Reshape (X, planes)
        flat_shape = Shape (flat)
        x = Reshape (flat, grouped)
        scale_column = Unsqueeze (scale, column)"""


class GroupNormInternal(_Channels):
    """``Y = (X - mean) * inv_std * scale + B`` with the mean and deviation of each sample's group of channels."""

    domain = OWN
    op_type = "GroupNormInternal"
    template = "Normalisation"
    inputs = ("X", "scale", "B")
    outputs = ("Y", "mean", "inv_std")
    needed = ("mean", "inv_std")
    attributes = {"epsilon": 1e-5, "num_groups": 0, "stash_type": 1}
    cases = (
        Case({"X": (2, 6, 5, 3), "scale": (6,), "B": (6,)}, {"num_groups": 3}),
        Case({"X": (3, 4, 7), "scale": (4,), "B": (4,)}, {"num_groups": 1, "epsilon": 1e-3}),
        Case({"X": (2, 3, 5, 7), "scale": (3,), "B": (3,)}),
    )
    function = f"""<epsilon, num_groups, stash_type> (X, scale, B) => (Y, mean, inv_std) {{{_TO_GROUPS}
        mean = ReduceMean <keepdims: int = 1> (x, last)
        centered = Sub (x, mean)
        squares = Mul (centered, centered)
        variance = ReduceMean <keepdims: int = 1> (squares, last)
        epsilon_float = Constant <value_float: float = @epsilon> ()
        epsilon_like = CastLike (epsilon_float, X)
        shifted = Add (variance, epsilon_like)
        deviation = Sqrt (shifted)
        inv_std = Reciprocal (deviation)
        normalised = Mul (centered, inv_std)
        in_planes = Reshape (normalised, flat_shape)
        scaled = Mul (in_planes, scale_column)
        bias_column = Unsqueeze (B, column)
        y = Add (scaled, bias_column)
        Y = Reshape (y, shape)
    }}"""

    def infer(self, call: Invocation) -> tuple[TensorType, ...]:
        if call.attributes["stash_type"] != 1:
            raise call.refuse(f"stash_type={call.attributes['stash_type']}", "keep statistics in float32 (1)")
        row = TensorType(call["X"].dtype, (call["X"].shape[0], self.groups(call, "scale", "B"), 1))
        return (call["X"], row, row)

    def gradient(
        self, call: Invocation, node: ir.Node, grads: Sequence[ir.Value | None], build: GraphBuilder
    ) -> Sequence[ir.Value | None]:
        operands = [grads[0], *node.inputs[:2], *node.outputs[1:3]]
        groups = call.attributes["num_groups"]
        return build.node("GroupNormalizationGrad", operands, domain=OWN, outputs=5, num_groups=groups)[:3]

    def phases(self, call: Invocation) -> tuple[Phase, ...]:
        return self.layout(call).forward(call)


class GroupNormalizationGrad(_Channels):
    """Gradients of GroupNormInternal, as LayerNormalizationGrad has them, with a weight to each channel."""

    domain = OWN
    op_type = "GroupNormalizationGrad"
    template = "NormalisationGrad"
    inputs = ("dY", "X", "scale", "mean", "inv_std")
    outputs = ("dX", "dscale", "dB", "sum", "product")
    optional = frozenset(outputs)
    needed = ("sum", "product")
    positive = frozenset({"inv_std"})
    attributes = {"num_groups": 0}
    in_place = (("dY", "dX"),)
    cases = (
        Case(
            {"dY": (2, 6, 5, 3), "X": (2, 6, 5, 3), "scale": (6,), "mean": (2, 3, 1), "inv_std": (2, 3, 1)},
            {"num_groups": 3},
            outputs=outputs,
        ),
        Case(
            {"dY": (3, 5, 7), "X": (3, 5, 7), "scale": (5,), "mean": (3, 5, 1), "inv_std": (3, 5, 1)},
            outputs=outputs,
        ),
    )
    function = f"""<num_groups> (dY, X, scale, mean, inv_std) => (dX, dscale, dB, sum, product) {{{_TO_GROUPS}
        dy = Reshape (dY, planes)
        over = Constant <value_ints: ints = [0, 2]> ()
        centered = Sub (x, mean)
        normalised = Mul (centered, inv_std)
        weighted_planes = Mul (dy, scale_column)
        weighted = Reshape (weighted_planes, grouped)
        products = Mul (weighted, normalised)
        mean_weighted = ReduceMean <keepdims: int = 1> (weighted, last)
        mean_product = ReduceMean <keepdims: int = 1> (products, last)
        along = Mul (normalised, mean_product)
        difference = Sub (weighted, mean_weighted)
        projected = Sub (difference, along)
        dx = Mul (projected, inv_std)
        dX = Reshape (dx, shape)
        in_planes = Reshape (normalised, flat_shape)
        slopes = Mul (dy, in_planes)
        dscale = ReduceSum <keepdims: int = 0> (slopes, over)
        dB = ReduceSum <keepdims: int = 0> (dy, over)
        sum = ReduceSum <keepdims: int = 1> (weighted, last)
        product = ReduceSum <keepdims: int = 1> (products, last)
    }}"""

    def infer(self, call: Invocation) -> tuple[TensorType, ...]:
        _check_dy(call)
        row = (call["X"].shape[0], self.groups(call, "scale"), 1)
        for name in ("mean", "inv_std"):
            if call[name].shape != row:
                raise call.refuse(f"'{name}' of shape {call[name].shape} with X {call['X'].shape}", f"use shape {row}")
        return (call["X"], call["scale"], call["scale"], call["mean"], call["mean"])

    def phases(self, call: Invocation) -> tuple[Phase, ...]:
        return self.layout(call).backward(call)


class _ByChannel(_Channels):
    """Standard operators that have no outputs for their statistics: :class:`GroupNormInternal` takes their place."""

    outputs = ("Y",)

    def training_form(self, attributes: Mapping[str, Any]) -> tuple[str, str] | None:
        return GroupNormInternal().key

    gradient = GroupNormInternal.gradient


class GroupNormalization(_ByChannel):
    """``Y = (X - mean) * inv_std * scale + bias`` with the mean and deviation of each sample's group of channels."""

    op_type = "GroupNormalization"
    inputs = ("X", "scale", "bias")
    attributes = {"epsilon": 1e-5, "num_groups": REQUIRED, "stash_type": 1}
    cases = (Case({"X": (2, 6, 5, 3), "scale": (6,), "bias": (6,)}, {"num_groups": 3}),)

    def infer(self, call: Invocation) -> tuple[TensorType, ...]:
        self.groups(call, "scale", "bias")
        return (call["X"],)


class InstanceNormalization(_ByChannel):
    """``Y = (X - mean) * inv_std * scale + B`` with the mean and deviation of each sample's channel."""

    op_type = "InstanceNormalization"
    inputs = ("X", "scale", "B")
    attributes = {"epsilon": 1e-5}
    cases = (Case({"X": (2, 3, 5, 7), "scale": (3,), "B": (3,)}), Case({"X": (3, 2, 7), "scale": (2,), "B": (2,)}))

    def infer(self, call: Invocation) -> tuple[TensorType, ...]:
        if len(call["X"].shape) < 3:
            raise call.refuse(f"X of rank {len(call['X'].shape)}", "give it image axes: (N, C, ...)")
        _check_weights(call, call["X"].shape[1:2], "scale", "B")
        return (call["X"],)
