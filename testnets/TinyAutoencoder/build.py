"""An autoencoder with a bottleneck of 5 numbers: it learns to give its own input back, in batches of 3."""

from __future__ import annotations

import numpy as np
import onnx

from deeploy_ext.training.network import NetworkBuilder

BATCH, FEATURES = 3, 29


def build(seed: int) -> onnx.ModelProto:
    net = NetworkBuilder(seed)
    x = net.input("features", [BATCH, FEATURES])
    x = net.relu("encoder_relu", net.dense("encoder", x, (FEATURES, 17), gain=2.0))
    x = net.dense("bottleneck", x, (17, 5))
    x = net.relu("decoder_relu", net.dense("decoder", x, (5, 17), gain=2.0))
    x = net.dense("reconstruction", x, (17, FEATURES))
    return net.model("tiny_autoencoder", x, [BATCH, FEATURES])


def data(seed: int, count: int) -> list[dict[str, np.ndarray]]:
    generator = np.random.RandomState(seed)
    samples = [generator.standard_normal((BATCH, FEATURES)).astype(np.float32) for _ in range(count)]
    return [{"features": sample, "target": sample} for sample in samples]
