"""MobileNetV1 with a quarter of the channels, of MLPerf Tiny: persons in 3x96x96 images, two classes.

Batches of two images: with one, the last layers would normalise over 9 values, which makes gradients hardly computable in
float32 (docs/numerics.md).
"""

from __future__ import annotations

import onnx

from deeploy_ext.training.network import NetworkBuilder

BATCH = 2
BLOCKS = ((16, 1), (32, 2), (32, 1), (64, 2), (64, 1), (128, 2), *[(128, 1)] * 5, (256, 2), (256, 1))
"""Output channels and stride of each depthwise-separable block."""


def build(seed: int) -> onnx.ModelProto:
    net = NetworkBuilder(seed)

    def normalised(name: str, x: str, channels: int) -> str:
        return net.relu(f"{name}_relu", net.batch_norm(f"{name}_bn", x, channels))

    x, channels = net.input("image", [BATCH, 3, 96, 96]), 8
    x = normalised("stem", net.conv("stem", x, (3, channels), 3, 2, pad=(0, 0, 1, 1)), channels)
    for i, (out, stride) in enumerate(BLOCKS, 1):
        pad = (0, 0, 1, 1) if stride == 2 else 1
        x = net.conv(f"depthwise{i}", x, (channels, channels), 3, stride, pad, group=channels)
        x = normalised(f"depthwise{i}", x, channels)
        x = normalised(f"pointwise{i}", net.conv(f"pointwise{i}", x, (channels, out), 1), out)
        channels = out
    return net.model("mobilenetv1", net.dense("classifier", net.pool("pool", x), (channels, 2)), [BATCH, 2])
