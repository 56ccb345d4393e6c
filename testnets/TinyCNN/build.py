"""A convolutional network small enough to read its C: odd sizes, a stride, a residual add, another height than width."""

from __future__ import annotations

import onnx

from deeploy_ext.training.network import NetworkBuilder


def build(seed: int) -> onnx.ModelProto:
    net = NetworkBuilder(seed)
    x = net.input("image", [1, 2, 11, 8])
    x = net.conv("conv1", x, (2, 5), 3, stride=2, pad=1)
    x = net.relu("relu1", net.batch_norm("bn1", x, 5))
    y = net.conv("conv2", x, (5, 5), 3, pad=1)
    x = net.relu("relu2", net.add("add", y, x))
    x = net.dense("classifier", net.pool("pool", x), (5, 3))
    return net.model("tiny_cnn", x, [1, 3])
