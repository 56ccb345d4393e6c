"""Pooling over the whole image and its gradient."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from deeploy_ext.operators.nests import broadcasting, reducing
from deeploy_ext.operators.spec import OWN, REQUIRED, Invocation, Operator, Phase, TensorType

if TYPE_CHECKING:
    import onnx_ir as ir

    from deeploy_ext.training.builder import GraphBuilder


class GlobalAveragePool(Operator):
    """``Y[n,c,0,..] = mean of X[n,c,...]``."""

    op_type = "GlobalAveragePool"
    inputs = ("X",)
    outputs = ("Y",)

    def infer(self, call: Invocation) -> tuple[TensorType, ...]:
        x = call["X"]
        if len(x.shape) < 3:
            raise call.refuse(f"X of rank {len(x.shape)}", "give it image axes: (N, C, ...)")
        return (TensorType(x.dtype, (*x.shape[:2], *(1 for _ in x.shape[2:]))),)

    def gradient(
        self, call: Invocation, node: ir.Node, grads: Sequence[ir.Value | None], build: GraphBuilder
    ) -> Sequence[ir.Value | None]:
        return (build.node("GlobalAveragePoolGrad", [grads[0]], domain=OWN, kernel_shape=list(call["X"].shape[2:])),)

    def phases(self, call: Invocation) -> tuple[Phase, ...]:
        return (reducing(call, "X", "Y", range(2, len(call["X"].shape))),)


class GlobalAveragePoolGrad(Operator):
    """``dX[n,c,...] = dY[n,c,0,..] / (elements of the image)``; ``kernel_shape`` is the size of the image."""

    domain = OWN
    op_type = "GlobalAveragePoolGrad"
    inputs = ("dY",)
    outputs = ("dX",)
    attributes = {"kernel_shape": REQUIRED}
    function = """<kernel_shape> (dY) => (dX) {
        image = Constant <value_ints: ints = @kernel_shape> ()
        count_int = ReduceProd <keepdims: int = 0> (image)
        count = CastLike (count_int, dY)
        share = Div (dY, count)
        planes = Shape <start: int = 0, end: int = 2> (dY)
        shape = Concat <axis: int = 0> (planes, image)
        dX = Expand (share, shape)
    }"""

    def infer(self, call: Invocation) -> tuple[TensorType, ...]:
        dy, image = call["dY"], tuple(call.attributes["kernel_shape"])
        if len(dy.shape) != 2 + len(image) or any(extent != 1 for extent in dy.shape[2:]) or min(image) < 1:
            raise call.refuse(
                f"dY of shape {dy.shape} with kernel_shape {list(image)}", "use (N, C, 1, ...) and the image's size"
            )
        return (TensorType(dy.dtype, (*dy.shape[:2], *image)),)

    def phases(self, call: Invocation) -> tuple[Phase, ...]:
        return (broadcasting(call, ("dY",), "dX"),)
