"""Attributes of a convolution that contradict its operands, or are not implemented, are refused: never ignored."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir
import pytest

from deeploy_ext.errors import BadInputError
from deeploy_ext.graph.invocation import invocation_of

F32 = ir.TensorType(ir.DataType.FLOAT)


def infer(x: tuple[int, ...], w: tuple[int, ...], **attributes: Any) -> tuple[int, ...]:
    """Shape of the convolution's result."""
    inputs = [ir.Value(name=n, type=F32, shape=ir.Shape(s)) for n, s in (("X", x), ("W", w))]
    node = ir.node("Conv", inputs, attributes, name="conv")
    call = invocation_of(node)
    return call.operator.infer(call)[0].shape


def test_what_agrees_is_accepted() -> None:
    assert infer((1, 2, 8, 8), (3, 2, 3, 3), kernel_shape=[3, 3], pads=[1, 1, 1, 1]) == (1, 3, 8, 8)


@pytest.mark.parametrize(
    ("x", "w", "attributes"),
    [
        ((1, 2, 8, 8), (3, 2, 3, 3), {"kernel_shape": [5, 3]}),
        ((1, 2, 8, 8), (3, 2, 3, 3), {"strides": [2]}),
        ((1, 2, 8, 8), (3, 2, 3, 3), {"strides": [0, 1]}),
        ((1, 2, 8, 8), (3, 2, 3, 3), {"dilations": [0, 1]}),
        ((1, 2, 8, 8), (3, 2, 3, 3), {"pads": [1, 1]}),
        ((1, 2, 8, 8), (3, 2, 3, 3), {"pads": [-1, 0, 0, 0]}),
        ((1, 2, 8, 8), (3, 2, 3, 3), {"auto_pad": "SAME_UPPER"}),
        ((1, 2, 8, 8), (3, 2, 3, 3), {"group": 2}),
        ((1, 2, 8, 8), (3, 2, 3, 3), {"group": 0}),
        ((1, 2, 8, 8), (3, 2, 9, 9), {}),
        ((1, 2, 8), (3, 2, 3), {}),
        ((1, 2, 8, 8), (3, 2, 3, 3), {"fancy": 1}),
        ((1, 2, 8, 8), (3, 2, 3, 3), {"group": "one"}),
    ],
)
def test_what_contradicts_is_refused(x: tuple[int, ...], w: tuple[int, ...], attributes: dict[str, Any]) -> None:
    with pytest.raises(BadInputError, match="conv"):
        infer(x, w, **attributes)
