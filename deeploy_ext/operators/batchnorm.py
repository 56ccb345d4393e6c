"""Batch normalisation in training mode: statistics over everything but the channel axis (axis 1), then normalise.

Variances are population variances, also in the running statistics (as ONNX BatchNormalization-15 has it).
``BatchNormInternal`` and ``BatchNormalizationGrad`` are the names and operand orders of ONNX Runtime's training graphs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from deeploy_ext.operators.nests import planes
from deeploy_ext.operators.rows import INVERSE_DEVIATION, Layout, check_dy, check_weights
from deeploy_ext.operators.spec import MICROSOFT, OWN, Case, Invocation, Operator, Phase, TensorType

if TYPE_CHECKING:
    import onnx_ir as ir

    from deeploy_ext.training.builder import GraphBuilder


_ALL = ("Y", "running_mean", "running_var", "saved_mean", "saved_inv_std")


def _per_channel(call: Invocation, *operands: str) -> TensorType:
    """Type of a per-channel vector; checks that ``operands`` are such."""
    x = call["X"]
    if len(x.shape) < 2:
        raise call.refuse(f"X of rank {len(x.shape)}", "give it a channel axis: (N, C, ...)")
    check_weights(call, x.shape[1:2], *operands)
    return TensorType(x.dtype, x.shape[1:2])


def _layout(call: Invocation) -> Layout:
    """Each channel is a row, over samples and image."""
    n, c, s = planes(call["X"].shape)
    return Layout({"c": c}, {"n": n, "s": s}, ("c",), ("n", "c", "s"))


class BatchNormInternal(Operator):
    """``Y = scale * (X - saved_mean) * saved_inv_std + B`` with the statistics of this mini-batch.

    ``running = momentum * before + (1 - momentum) * statistic of this mini-batch``.
    """

    domain = MICROSOFT
    op_type = "BatchNormInternal"
    inputs = ("X", "scale", "B", "mean", "var")
    outputs = _ALL
    positive = frozenset({"var"})
    optional = frozenset({"running_mean", "running_var"})
    attributes = {"epsilon": 1e-5, "momentum": 0.9, "training_mode": 1}
    needed = ("saved_mean", "saved_inv_std")
    cases = tuple(
        Case({"X": x, **dict.fromkeys(("scale", "B", "mean", "var"), (2,))}, {"epsilon": 1e-3}, wanted)
        for x in ((3, 2, 4, 3), (5, 2))
        for wanted in ((), _ALL)
    )
    state = (("mean", "running_mean"), ("var", "running_var"))
    function = f"""(X, scale, B, mean, var) => (Y, running_mean, running_var, saved_mean, saved_inv_std) {{
        flat_shape = Constant <value_ints: ints = [0, 0, -1]> ()
        x = Reshape (X, flat_shape)
        axes = Constant <value_ints: ints = [0, 2]> ()
        column = Constant <value_ints: ints = [1]> ()
        m = ReduceMean <keepdims: int = 1> (x, axes)
        centered = Sub (x, m)
        squares = Mul (centered, centered)
        variance = ReduceMean <keepdims: int = 1> (squares, axes){INVERSE_DEVIATION}
        normalised = Mul (centered, inv_std)
        scale_column = Unsqueeze (scale, column)
        bias_column = Unsqueeze (B, column)
        scaled = Mul (normalised, scale_column)
        y = Add (scaled, bias_column)
        shape = Shape (X)
        Y = Reshape (y, shape)
        saved_mean = Squeeze (m, axes)
        saved_inv_std = Squeeze (inv_std, axes)
        saved_var = Squeeze (variance, axes)
        keep_float = Constant <value_float: float = @momentum> ()
        keep = CastLike (keep_float, X)
        one_float = Constant <value_float: float = 1.0> ()
        one = CastLike (one_float, X)
        new = Sub (one, keep)
        kept_mean = Mul (mean, keep)
        new_mean = Mul (saved_mean, new)
        running_mean = Add (kept_mean, new_mean)
        kept_var = Mul (var, keep)
        new_var = Mul (saved_var, new)
        running_var = Add (kept_var, new_var)
    }}"""

    def infer(self, call: Invocation) -> tuple[TensorType, ...]:
        if call.attributes["training_mode"] != 1:
            raise call.refuse(f"training_mode={call.attributes['training_mode']}", "export the model in training mode")
        vector = _per_channel(call, "scale", "B", "mean", "var")
        return (call["X"], vector, vector, vector, vector)

    def gradient(
        self, call: Invocation, node: ir.Node, grads: Sequence[ir.Value | None], build: GraphBuilder
    ) -> Sequence[ir.Value | None]:
        if any(grad is not None for grad in grads[1:]):
            raise call.refuse("a loss that depends on the statistics", "use only the output Y")
        operands = [grads[0], node.inputs[0], node.inputs[1], node.outputs[3], node.outputs[4]]
        made = build.node("BatchNormalizationGrad", operands, domain=MICROSOFT, outputs=3, epsilon=call.attributes["epsilon"])
        return (*made, None, None)

    def phases(self, call: Invocation) -> tuple[Phase, ...]:
        layout = _layout(call)
        rows, loops = layout.nest(("c",)), layout.nest(tuple(layout.loops))
        x, y = layout.whole("X"), layout.whole("Y")
        running = [name for name in ("running_mean", "running_var") if call.get(name)]
        before = [{"running_mean": "mean", "running_var": "var"}[name] for name in running]
        return (
            Phase("mean", rows, (x,), (layout.row("saved_mean", "zero"),), "statistics"),
            Phase(
                "variance",
                rows,
                (x, layout.row("saved_mean"), *map(layout.row, before)),
                (layout.row("saved_inv_std", "zero"), *map(layout.row, running)),
                "statistics",
            ),
            Phase("normalise", loops, (x, *map(layout.row, ("scale", "B", "saved_mean", "saved_inv_std"))), (y,)),
        )


class BatchNormalization(Operator):
    """Standard ONNX. With ``training_mode=0`` the statistics are constants of the network (*frozen*):

    ``Y = (X - input_mean) * scale / sqrt(input_var + epsilon) + B``. With ``training_mode=1`` autodiff replaces it by
    :class:`BatchNormInternal`.
    """

    op_type = "BatchNormalization"
    inputs = ("X", "scale", "B", "input_mean", "input_var")
    outputs = ("Y", "running_mean", "running_var")
    positive = frozenset({"input_var"})
    optional = frozenset({"running_mean", "running_var"})
    attributes = {"epsilon": 1e-5, "momentum": 0.9, "training_mode": 0}
    inference_attributes = {"training_mode": 0}
    cases = tuple(
        Case({"X": x, **dict.fromkeys(("scale", "B", "input_mean", "input_var"), (2,))}, {"training_mode": mode, **epsilon})
        for mode in (0, 1)
        for x, epsilon in (((3, 2, 4, 3), {"epsilon": 1e-3}), ((5, 2), {}))
    )
    state = (("input_mean", "running_mean"), ("input_var", "running_var"))
    in_place = (("X", "Y"),)

    def training_form(self, attributes: Mapping[str, Any]) -> tuple[str, str] | None:
        return BatchNormInternal().key if attributes["training_mode"] == 1 else None

    def infer(self, call: Invocation) -> tuple[TensorType, ...]:
        if call.attributes["training_mode"] not in (0, 1):
            raise call.refuse(f"training_mode={call.attributes['training_mode']}", "use 0 or 1")
        vector = _per_channel(call, "scale", "B", "input_mean", "input_var")
        return (call["X"], vector, vector)

    def gradient(
        self, call: Invocation, node: ir.Node, grads: Sequence[ir.Value | None], build: GraphBuilder
    ) -> Sequence[ir.Value | None]:
        if any(build.wanted(node)[3:]):
            raise call.refuse("training the statistics", "train only scale and B")
        operands = [grads[0], node.inputs[0], node.inputs[1], node.inputs[3], node.inputs[4]]
        epsilon = call.attributes["epsilon"]
        made = build.node("FrozenBatchNormalizationGrad", operands, domain=OWN, outputs=3, epsilon=epsilon)
        return (*(value if want else None for value, want in zip(made, build.wanted(node)[:3], strict=True)), None, None)

    def phases(self, call: Invocation) -> tuple[Phase, ...]:
        layout = _layout(call)
        vectors = map(layout.row, ("scale", "B", "input_mean", "input_var"))
        return (Phase("main", layout.nest(tuple(layout.loops)), (layout.whole("X"), *vectors), (layout.whole("Y"),)),)


class FrozenBatchNormalizationGrad(Operator):
    """Gradients of :class:`BatchNormalization` with frozen statistics; with ``factor = 1 / sqrt(var + epsilon)``:

    ``dX = dY * scale * factor``, ``dscale = sum(dY * (X - mean) * factor)``, ``dB = sum(dY)``.
    """

    domain = OWN
    op_type = "FrozenBatchNormalizationGrad"
    inputs = ("dY", "X", "scale", "mean", "var")
    outputs = ("dX", "dscale", "dB")
    positive = frozenset({"var"})
    optional = frozenset({"dX", "dscale", "dB"})
    cases = tuple(
        Case({"dY": x, "X": x, **dict.fromkeys(("scale", "mean", "var"), (2,))}, outputs=wanted)
        for x, wanted in (((3, 2, 4, 3), ("dX", "dscale", "dB")), ((5, 2), ("dscale",)), ((5, 2), ("dX",)), ((5, 2), ("dB",)))
    )
    attributes = {"epsilon": 1e-5}
    in_place = (("dY", "dX"),)
    function = """(dY, X, scale, mean, var) => (dX, dscale, dB) {
        flat_shape = Constant <value_ints: ints = [0, 0, -1]> ()
        axes = Constant <value_ints: ints = [0, 2]> ()
        column = Constant <value_ints: ints = [1]> ()
        x = Reshape (X, flat_shape)
        dy = Reshape (dY, flat_shape)
        epsilon_float = Constant <value_float: float = @epsilon> ()
        epsilon_like = CastLike (epsilon_float, X)
        shifted = Add (var, epsilon_like)
        deviation = Sqrt (shifted)
        factor = Reciprocal (deviation)
        factor_column = Unsqueeze (factor, column)
        mean_column = Unsqueeze (mean, column)
        centered = Sub (x, mean_column)
        normalised = Mul (centered, factor_column)
        products = Mul (dy, normalised)
        dscale = ReduceSum <keepdims: int = 0> (products, axes)
        dB = ReduceSum <keepdims: int = 0> (dy, axes)
        scale_column = Unsqueeze (scale, column)
        slope = Mul (scale_column, factor_column)
        dx = Mul (dy, slope)
        shape = Shape (X)
        dX = Reshape (dx, shape)
    }"""

    def infer(self, call: Invocation) -> tuple[TensorType, ...]:
        vector = _per_channel(call, "scale", "mean", "var")
        check_dy(call)
        return (call["X"], vector, vector)

    def phases(self, call: Invocation) -> tuple[Phase, ...]:
        layout = _layout(call)
        rows, loops = layout.nest(("c",)), layout.nest(tuple(layout.loops))
        dy, x = layout.whole("dY"), layout.whole("X")
        found: list[Phase] = []
        if call.get("dscale"):
            reads = (dy, x, layout.row("mean"), layout.row("var"))
            found.append(Phase("scale_gradient", rows, reads, (layout.row("dscale", "zero"),), "statistics"))
        if call.get("dB"):
            found.append(Phase("bias_gradient", rows, (dy,), (layout.row("dB", "zero"),)))
        if call.get("dX"):
            found.append(Phase("input_gradient", loops, (dy, layout.row("scale"), layout.row("var")), (layout.whole("dX"),)))
        return tuple(found)


class BatchNormalizationGrad(Operator):
    """Gradients of :class:`BatchNormInternal`; with x^ = (X - saved_mean) * saved_inv_std and means over the mini-batch:

    ``dX = scale * saved_inv_std * (dY - mean(dY) - x^ * mean(dY * x^))``, ``dscale = sum(dY * x^)``, ``dB = sum(dY)``.
    ``epsilon`` is already in saved_inv_std.
    """

    domain = MICROSOFT
    op_type = "BatchNormalizationGrad"
    inputs = ("dY", "X", "scale", "saved_mean", "saved_inv_std")
    outputs = ("dX", "dscale", "dB")
    positive = frozenset({"saved_inv_std"})
    redundant_attributes = frozenset({"epsilon"})
    cases = tuple(
        Case({"dY": x, "X": x, **dict.fromkeys(("scale", "saved_mean", "saved_inv_std"), (2,))}) for x in ((3, 2, 4, 3), (5, 2))
    )
    in_place = (("dY", "dX"),)
    function = """(dY, X, scale, saved_mean, saved_inv_std) => (dX, dscale, dB) {
        flat_shape = Constant <value_ints: ints = [0, 0, -1]> ()
        axes = Constant <value_ints: ints = [0, 2]> ()
        column = Constant <value_ints: ints = [1]> ()
        x = Reshape (X, flat_shape)
        dy = Reshape (dY, flat_shape)
        m = Unsqueeze (saved_mean, column)
        inv_std = Unsqueeze (saved_inv_std, column)
        centered = Sub (x, m)
        normalised = Mul (centered, inv_std)
        products = Mul (dy, normalised)
        dscale = ReduceSum <keepdims: int = 0> (products, axes)
        dB = ReduceSum <keepdims: int = 0> (dy, axes)
        mean_products = ReduceMean <keepdims: int = 1> (products, axes)
        mean_dy = ReduceMean <keepdims: int = 1> (dy, axes)
        along = Mul (normalised, mean_products)
        difference = Sub (dy, mean_dy)
        projected = Sub (difference, along)
        scale_column = Unsqueeze (scale, column)
        factor = Mul (scale_column, inv_std)
        dx = Mul (projected, factor)
        shape = Shape (X)
        dX = Reshape (dx, shape)
    }"""

    def infer(self, call: Invocation) -> tuple[TensorType, ...]:
        vector = _per_channel(call, "scale", "saved_mean", "saved_inv_std")
        check_dy(call)
        return (call["X"], vector, vector)

    def phases(self, call: Invocation) -> tuple[Phase, ...]:
        layout = _layout(call)
        rows, loops = layout.nest(("c",)), layout.nest(tuple(layout.loops))
        dy, x, dx = map(layout.whole, ("dY", "X", "dX"))
        statistics = tuple(map(layout.row, ("saved_mean", "saved_inv_std")))
        sums = tuple(layout.row(name, "zero") for name in ("dscale", "dB"))
        factors = tuple(map(layout.row, ("scale", "dscale", "dB")))
        return (
            Phase("sums", rows, (dy, x, *statistics), sums, "statistics"),
            Phase("apply", loops, (dy, x, *statistics, *factors), (dx,)),
        )
