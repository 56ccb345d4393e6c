"""LeNet-5 with maximum pooling: digits in 28x28 images."""

from __future__ import annotations

import onnx

from deeploy_ext.training.network import NetworkBuilder


def build(seed: int) -> onnx.ModelProto:
    net = NetworkBuilder(seed)

    def pooled(name: str, x: str) -> str:
        return net.node("MaxPool", f"{name}_pool", [net.relu(f"{name}_relu", x)], kernel_shape=[2, 2], strides=[2, 2])

    x = net.input("image", [1, 1, 28, 28])
    x = pooled("conv1", net.conv("conv1", x, (1, 6), 5, pad=2))
    x = pooled("conv2", net.conv("conv2", x, (6, 16), 5))
    x = net.node("Flatten", "flat", [x])
    for i, features in enumerate(((400, 120), (120, 84)), 1):
        x = net.relu(f"relu{i}", net.dense(f"dense{i}", x, features, gain=2.0))
    return net.model("lenet", net.dense("classifier", x, (84, 10)), [1, 10])
