"""A convolution, a Bump and a classifier: 12 x 12 images of 2 channels, 3 classes."""

from __future__ import annotations

import onnx

from deeploy_ext.training.network import NetworkBuilder


def build(seed: int) -> onnx.ModelProto:
    net = NetworkBuilder(seed)
    x = net.conv("conv", net.input("image", [1, 2, 12, 12]), (2, 7), 3, pad=1)
    x = net.node("Bump", "bump", [x], domain="plugin_example", height=1.5)
    return net.model("bump_net", net.dense("classifier", net.pool("pool", x), (7, 3)), [1, 3])
