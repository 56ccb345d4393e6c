"""ResNet8 of MLPerf Tiny: image classification on 3x32x32 images, 10 classes, three residual stacks."""

from __future__ import annotations

import onnx

from deeploy_ext.training.network import NetworkBuilder


def _block(net: NetworkBuilder, name: str, x: str, channels: tuple[int, int], stride: int) -> str:
    """Two 3x3 convolutions beside a shortcut, which is a strided 1x1 convolution where the shape changes."""
    y = net.conv(f"{name}_conv1", x, channels, 3, stride, pad=1)
    y = net.relu(f"{name}_relu1", net.batch_norm(f"{name}_bn1", y, channels[1]))
    y = net.conv(f"{name}_conv2", y, (channels[1], channels[1]), 3, pad=1)
    y = net.batch_norm(f"{name}_bn2", y, channels[1])
    if channels[0] != channels[1]:
        x = net.conv(f"{name}_shortcut", x, channels, 1, stride)
        x = net.batch_norm(f"{name}_shortcut_bn", x, channels[1])
    return net.relu(f"{name}_relu2", net.add(f"{name}_add", y, x))


def build(seed: int) -> onnx.ModelProto:
    net = NetworkBuilder(seed)
    x = net.input("image", [1, 3, 32, 32])
    x = net.conv("stem", x, (3, 16), 3, pad=1)
    x = net.relu("stem_relu", net.batch_norm("stem_bn", x, 16))
    for name, channels, stride in (("stack1", (16, 16), 1), ("stack2", (16, 32), 2), ("stack3", (32, 64), 2)):
        x = _block(net, name, x, channels, stride)
    x = net.dense("classifier", net.pool("pool", x), (64, 10))
    return net.model("resnet8", x, [1, 10])
