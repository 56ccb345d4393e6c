"""Normalisation of each sample by itself over the image and groups of channels: Group, Instance, with gradients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from deeploy_ext.operators.nests import planes
from deeploy_ext.operators.rows import INVERSE_DEVIATION, PROJECTION, Layout, check_dy, check_weights
from deeploy_ext.operators.spec import OWN, REQUIRED, Case, Invocation, Operator, Phase, TensorType

if TYPE_CHECKING:
    import onnx_ir as ir

    from deeploy_ext.training.builder import GraphBuilder


class _Channels(Operator):
    """Over the image and groups of channels, with a weight for each channel; ``num_groups`` of 0: each channel by itself."""

    def groups(self, call: Invocation, *weights: str) -> int:
        """Number of groups; checks the shapes of the weights."""
        x, given = call["X"], call.attributes["num_groups"]
        if len(x.shape) < 3:
            raise call.refuse(f"X of rank {len(x.shape)}", "give it image axes: (N, C, ...)")
        if given < 0 or x.shape[1] % (given or 1):
            raise call.refuse(f"{x.shape[1]} channels in {given} groups", "make groups of equal size")
        check_weights(call, x.shape[1:2], *weights)
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
        variance = ReduceMean <keepdims: int = 1> (squares, last){INVERSE_DEVIATION}
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
        weighted = Reshape (weighted_planes, grouped){PROJECTION}
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
        check_dy(call)
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
        check_weights(call, call["X"].shape[1:2], "scale", "B")
        return (call["X"],)
