"""dW of a layer with few channels is summed by parts of the image's rows; the number of parts is one of sizes only."""

from __future__ import annotations

import re

import onnx_ir as ir
import pytest

from deeploy_ext.graph.invocation import invocation_of
from deeploy_ext.operators.conv import ConvGradW
from deeploy_ext.operators.convolution import WINOGRAD_BLOCK, WINOGRAD_STEP
from deeploy_ext.operators.spec import OWN
from deeploy_ext.resources import resource

F32 = ir.TensorType(ir.DataType.FLOAT)


@pytest.mark.parametrize(
    ("co", "ci", "size", "taps", "parts"),
    [
        (16, 3, 32, 3, 4),
        (4, 1, 32, 3, 8),
        (16, 16, 32, 3, 1),  # tasks enough
        (16, 3, 8, 3, 1),  # done before another step pays
        (16, 3, 32, 1, 1),
    ],
)
def test_rows_are_cut_where_tasks_are_few_and_large(co: int, ci: int, size: int, taps: int, parts: int) -> None:
    pad = taps // 2
    shapes = {"dY": (1, co, size, size), "X": (1, ci, size, size), "W": (co, ci, taps, taps)}
    inputs = [ir.Value(name=n, type=F32, shape=ir.Shape(s)) for n, s in shapes.items()]
    dw = ir.Value(name="dW", type=F32, shape=ir.Shape(shapes["W"]))
    node = ir.node("ConvGradW", inputs, {"pads": [pad] * 4}, domain=OWN, outputs=[dw], name="conv")
    call = invocation_of(node)
    assert isinstance(call.operator, ConvGradW)
    assert call.operator.parts(call) == parts
    kernel = next(kernel for kernel in call.operator.kernels(call) if "product" not in kernel.steps)
    assert ("reduce" in kernel.steps) == (parts > 1)
    tile = {"n": 1, "g": 1, "co": co, "ci": ci, "oy": 4, "ox": size}
    padded = ci * (4 + 2 * pad) * (size + 2 * pad) if taps > 1 else 0
    sums = parts * co * ci * taps * taps if parts > 1 else 0
    assert kernel.scratch(tile) == 4 * (padded + sums)


def test_minimal_filtering_counts_scratch_as_its_kernels_do() -> None:
    text = (resource("targets", "gap9", "kernels") / "winograd_loops.h").read_text(encoding="ascii")
    defined = dict(re.findall(r"#define NET_WINOGRAD_(\w+) +(\d+)", text))
    assert defined == {"STEP": str(WINOGRAD_STEP), "BLOCK": str(WINOGRAD_BLOCK)}
