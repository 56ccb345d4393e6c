"""DS-CNN of MLPerf Tiny: keyword spotting on 49x10 features, 12 words, depthwise-separable convolutions of 64 channels."""

from __future__ import annotations

import onnx

from deeploy_ext.training.network import NetworkBuilder

CHANNELS, BLOCKS, WORDS = 64, 4, 12


def build(seed: int) -> onnx.ModelProto:
    net = NetworkBuilder(seed)

    def normalised(name: str, x: str) -> str:
        return net.relu(f"{name}_relu", net.batch_norm(f"{name}_bn", x, CHANNELS))

    x = net.input("features", [1, 1, 49, 10])
    x = normalised("stem", net.conv("stem", x, (1, CHANNELS), (10, 4), 2, pad=(4, 1, 5, 1)))
    for i in range(1, BLOCKS + 1):
        both = (CHANNELS, CHANNELS)
        x = normalised(f"depthwise{i}", net.conv(f"depthwise{i}", x, both, 3, pad=1, group=CHANNELS))
        x = normalised(f"pointwise{i}", net.conv(f"pointwise{i}", x, both, 1))
    return net.model("dscnn", net.dense("classifier", net.pool("pool", x), (CHANNELS, WORDS)), [1, WORDS])
