"""Two dense layers: 64 features, 10 classes."""

from __future__ import annotations

import onnx

from deeploy_ext.training.network import NetworkBuilder


def build(seed: int) -> onnx.ModelProto:
    net = NetworkBuilder(seed)
    x = net.input("features", [1, 64])
    x = net.relu("relu", net.dense("hidden", x, (64, 23), gain=2.0))
    x = net.dense("classifier", x, (23, 10))
    return net.model("simple_mlp", x, [1, 10])
