"""Convolutional networks of odd geometry in every tile regime: strides, dilations, groups, sizes that do not divide."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from deeploy_ext.harness.golden import run_golden
from deeploy_ext.training.network import NetworkBuilder
from deeploy_ext.training.task import TrainingSpec
from support import FIXED_L1, assert_right, planned, task_from, trained

SPEC = TrainingSpec(steps=2, accumulation=2, learning_rate=0.05, seed=3)

# image (N, C, H, W), then per layer: output channels, kernel, attributes
GEOMETRIES: dict[str, tuple[tuple[int, ...], list[tuple[int, tuple[int, int], dict[str, Any]]]]] = {
    "stride_not_dividing": ((1, 3, 11, 8), [(5, (3, 3), {"strides": [2, 3], "pads": [1, 0, 1, 2]}), (4, (2, 2), {})]),
    "dilated": ((1, 2, 13, 10), [(4, (3, 2), {"dilations": [2, 3]}), (3, (3, 3), {"strides": [2, 2], "dilations": [2, 1]})]),
    "pointwise_stride": ((1, 7, 9, 9), [(5, (1, 1), {"strides": [2, 2]}), (6, (1, 1), {"strides": [1, 2]})]),
    "groups": ((1, 6, 8, 7), [(4, (3, 3), {"group": 2, "pads": [1, 1, 1, 1]}), (8, (3, 3), {"group": 4})]),
    "depthwise": ((1, 5, 9, 8), [(5, (3, 3), {"group": 5, "pads": [1, 1, 1, 1], "strides": [2, 1]}), (7, (1, 1), {})]),
    "depthwise_blocked": (
        (2, 5, 15, 9),
        [
            (5, (3, 3), {"group": 5, "pads": [1, 1, 1, 1]}),
            (5, (3, 3), {"group": 5, "pads": [1, 0, 2, 1], "strides": [2, 2]}),
            (5, (4, 4), {"group": 5, "pads": [2, 1, 1, 2]}),
        ],
    ),
    "depthwise_large_stride": (
        (1, 3, 14, 11),
        [(3, (2, 2), {"group": 3}), (3, (4, 4), {"group": 3, "pads": [2, 1, 1, 2], "strides": [2, 2]}), (4, (1, 1), {})],
    ),
    "batch_of_three": ((3, 2, 7, 5), [(4, (3, 3), {"pads": [1, 1, 1, 1]}), (3, (3, 3), {"strides": [2, 2]})]),
    "two_rows": ((1, 3, 2, 3), [(3, (3, 3), {"pads": [1, 1, 1, 1]}), (4, (3, 3), {"pads": [1, 1, 1, 1]})]),
    "kernel_as_image": ((1, 2, 5, 4), [(6, (5, 4), {}), (4, (1, 1), {})]),
    "asymmetric_pads": (
        (1, 2, 9, 6),
        [(3, (3, 4), {"pads": [0, 3, 2, 1], "strides": [2, 1]}), (4, (3, 3), {"pads": [2, 0, 0, 1]})],
    ),
}

REGIMES: dict[str, dict[str, Any]] = {
    "whole": {"promote": True},
    "tiles": {"l1": FIXED_L1 + 760, "promote": True},
    "portable kernels": {"l1": FIXED_L1 + 760, "promote": True, "kernels": "portable"},
    "smallest tiles, staged, double-buffered": {"l1": FIXED_L1 + 260, "l2_room": 16_000, "double_buffer": True},
}


def network(image: tuple[int, ...], layers: list[tuple[int, tuple[int, int], dict[str, Any]]]) -> onnx.ModelProto:
    """Convolutions with bias, each with batch normalisation and Relu, then pooling and a classifier."""
    net = NetworkBuilder(7)
    x, channels = net.input("image", image), image[1]
    for i, (out, kernel, attributes) in enumerate(layers):
        per_group = channels // attributes.get("group", 1)
        w = net.weight(f"w{i}", (out, per_group, *kernel), per_group * kernel[0] * kernel[1])
        b = net.initializer(f"b{i}", 0.1 * np.arange(out))
        x = net.node("Conv", f"conv{i}", [x, w, b], **attributes)
        x, channels = net.relu(f"relu{i}", net.batch_norm(f"bn{i}", x, out)), out
    return net.model("geometry", net.dense("classifier", net.pool("pool", x), (channels, 3)), [image[0], 3])


@pytest.mark.parametrize(
    "regime",
    [pytest.param(name, marks=pytest.mark.slow) if name in ("whole", "portable kernels") else name for name in REGIMES],
)
@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_every_gradient_in_every_regime(geometry: str, regime: str, tmp_path: Path) -> None:
    task = task_from(network(*GEOMETRIES[geometry]), SPEC)
    made = planned(task, **REGIMES[regime])
    if regime != "whole":
        assert any(g.tiles > 1 for g in made.plan.groups)
    assert_right(task, run_golden(task), trained(task, tmp_path, dma="random", **REGIMES[regime]))


@pytest.mark.parametrize("shapes", [((2, 6), (1, 6)), ((3, 4), (4,)), ((2, 3, 5, 4), (3, 1, 1)), ((2, 3, 4), (1, 3, 4))])
def test_broadcasting_add_and_mul_train(shapes: tuple[tuple[int, ...], tuple[int, ...]], tmp_path: Path) -> None:
    net = NetworkBuilder(5)
    x = net.input("image", shapes[0])
    features = int(np.prod(shapes[0][1:]))
    x = net.node(
        "Mul", "scaled", [x, net.initializer("scale", np.linspace(0.5, 1.5, int(np.prod(shapes[1]))).reshape(shapes[1]))]
    )
    x = net.node(
        "Add", "shifted", [x, net.initializer("shift", np.linspace(-1, 1, int(np.prod(shapes[1]))).reshape(shapes[1]))]
    )
    x = net.node("Flatten", "flat", [x])
    w = net.weight("w", (3, features), features)
    task = task_from(net.model("broadcast", net.node("Gemm", "dense", [x, w], transB=1), [shapes[0][0], 3]), SPEC, loss="mse")
    result = trained(task, tmp_path, l1=FIXED_L1 + 160, double_buffer=True)
    assert_right(task, run_golden(task), result)
