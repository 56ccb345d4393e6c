"""Padding that a model leaves to the runtime (``auto_pad``), as exporters of TensorFlow models do, written out in ``pads``."""

from __future__ import annotations

import onnx_ir as ir

from deeploy_ext.graph.invocation import type_of
from deeploy_ext.operators import find


def write_auto_pads(node: ir.Node) -> str | None:
    """Replaces ``auto_pad`` of a node whose operands are typed by the ``pads`` that it means; returns it, None: there was none.

    SAME makes results of ceil(image / stride) elements; an odd element of padding stands behind (SAME_UPPER) or before the
    image (SAME_LOWER). What is no convolution or pooling of known sizes keeps it, to be refused.
    """
    operator, mode = find(node.domain, node.op_type), node.attributes.get("auto_pad")
    if operator is None or mode is None or not {"auto_pad", "pads"} <= set(operator.attributes):
        return None
    given, kernel = str(mode.value), _kernel(node)
    data = type_of(node.inputs[0])
    if given not in ("VALID", "SAME_UPPER", "SAME_LOWER") or kernel is None or data is None or "pads" in node.attributes:
        return None
    image = data.shape[2:]
    strides, dilations = (_numbers(node, name, [1] * len(image)) for name in ("strides", "dilations"))
    if not len(image) == len(kernel) == len(strides) == len(dilations) or min(strides) < 1:
        return None
    total = [0] * len(image)
    if given != "VALID":
        sizes = zip(image, kernel, strides, dilations, strict=True)
        total = [max((-(-extent // s) - 1) * s + (k - 1) * d + 1 - extent, 0) for extent, k, s, d in sizes]
    less = [pad // 2 for pad in total]
    more = [pad - half for pad, half in zip(total, less, strict=True)]
    node.attributes.add(ir.AttrInt64s("pads", [*less, *more] if given != "SAME_LOWER" else [*more, *less]))
    del node.attributes["auto_pad"]
    return given


def _numbers(node: ir.Node, name: str, default: list[int]) -> list[int]:
    return list(node.attributes[name].as_ints()) if name in node.attributes else default


def _kernel(node: ir.Node) -> list[int] | None:
    """Sizes of the window: an attribute, or those of the weight."""
    if "kernel_shape" in node.attributes:
        return _numbers(node, "kernel_shape", [])
    weight = type_of(node.inputs[1]) if len(node.inputs) > 1 else None
    return None if weight is None else list(weight.shape[2:])
