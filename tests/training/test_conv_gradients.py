"""ConvGrad's reference body against direct sums in float64, over random strides, pads, dilations and groups."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
from double_precision import one_node
from hypothesis import given, settings
from hypothesis import strategies as st

from deeploy_ext.operators.spec import MICROSOFT, OWN
from deeploy_ext.training.functions import function_proto
from deeploy_ext.workshop.double_precision import evaluator

PROTOS = [
    proto
    for key in ((OWN, "ConvGradX"), (OWN, "ConvGradW"), (OWN, "ConvGradB"), (MICROSOFT, "ConvGrad"))
    if (proto := function_proto(*key)) is not None
]


def direct_gradients(
    dy: np.ndarray, x: np.ndarray, w: np.ndarray, strides: list[int], pads: list[int], dilations: list[int], group: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """dX, dW, dB by the definition: every output position and tap adds its share."""
    height, width = x.shape[2:]
    co, ci = w.shape[0] // group, w.shape[1]
    padded = np.pad(x, ((0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])))
    dx, dw = np.zeros_like(padded), np.zeros_like(w)
    for g in range(group):
        out, into = slice(g * co, (g + 1) * co), slice(g * ci, (g + 1) * ci)
        for oy, ox in np.ndindex(dy.shape[2:]):
            for ky, kx in np.ndindex(w.shape[2:]):
                iy, ix = strides[0] * oy + dilations[0] * ky, strides[1] * ox + dilations[1] * kx
                dx[:, into, iy, ix] += dy[:, out, oy, ox] @ w[out, :, ky, kx]
                dw[out, :, ky, kx] += dy[:, out, oy, ox].T @ padded[:, into, iy, ix]
    return dx[:, :, pads[0] : pads[0] + height, pads[1] : pads[1] + width], dw, dy.sum((0, 2, 3))


@st.composite
def convolutions(draw: st.DrawFn) -> dict[str, list[int]]:
    """Sizes of one convolution, most of them with an input that the stride does not divide."""
    pair = st.lists(st.integers(1, 3), min_size=2, max_size=2)
    kernel, strides, dilations = draw(pair), draw(pair), draw(pair)
    pads = draw(st.lists(st.integers(0, 2), min_size=4, max_size=4))
    reach = [dilations[i] * (kernel[i] - 1) + 1 - pads[i] - pads[i + 2] for i in (0, 1)]
    image = [max(1, reach[i]) + draw(st.integers(0, 5)) for i in (0, 1)]
    batch, group, co, ci = (draw(st.integers(1, 3)) for _ in range(4))
    return {
        "x": [batch, group * ci, *image], "w": [group * co, ci, *kernel],
        "strides": strides, "pads": pads, "dilations": dilations, "group": [group],
    }  # fmt: skip


@settings(max_examples=150, deadline=None, derandomize=True)
@given(convolutions())
def test_body_agrees_with_the_definition(sizes: dict[str, list[int]]) -> None:
    generator = np.random.RandomState(3)
    x, w = (generator.standard_normal(sizes[name]) for name in ("x", "w"))
    strides, pads, dilations, (group,) = (sizes[name] for name in ("strides", "pads", "dilations", "group"))
    out = [(x.shape[2 + i] + pads[i] + pads[2 + i] - dilations[i] * (w.shape[2 + i] - 1) - 1) // strides[i] + 1 for i in (0, 1)]
    dy = generator.standard_normal((x.shape[0], w.shape[0], *out))
    attributes = {"strides": strides, "pads": pads, "dilations": dilations, "group": group}
    node = onnx.helper.make_node("ConvGrad", ["dy", "x", "w"], ["dx", "dw", "db"], domain=MICROSOFT, **attributes)
    values, wanted = {"dy": dy, "x": x, "w": w}, direct_gradients(dy, x, w, **attributes)
    made = evaluator(one_node(PROTOS, node, values)).run(None, values)
    single = {name: value.astype(np.float32) for name, value in values.items()}
    session = onnxruntime.InferenceSession(
        one_node(PROTOS, node, single).SerializeToString(), providers=["CPUExecutionProvider"]
    )
    for name, exact, got, direct in zip(("dX", "dW", "dB"), made, session.run(None, single), wanted, strict=True):
        assert exact.shape == got.shape == direct.shape, name
        np.testing.assert_allclose(exact, direct, rtol=1e-9, atol=1e-9, err_msg=name)
        np.testing.assert_allclose(got, direct, rtol=1e-4, atol=1e-4, err_msg=name)
