"""Deep AutoEncoder of MLPerf Tiny: it learns to give 640 features of a machine's noise back through a bottleneck of 8 numbers.

Batches of eight: batch normalisation of dense layers needs several samples (docs/numerics.md).
"""

from __future__ import annotations

import numpy as np
import onnx

from deeploy_ext.training.network import NetworkBuilder

BATCH, FEATURES = 8, 640
WIDTHS = (128, 128, 128, 128, 8, 128, 128, 128, 128)


def build(seed: int) -> onnx.ModelProto:
    net = NetworkBuilder(seed)
    x, width = net.input("features", [BATCH, FEATURES]), FEATURES
    for i, out in enumerate(WIDTHS, 1):
        x = net.dense(f"dense{i}", x, (width, out), gain=2.0)
        x, width = net.relu(f"relu{i}", net.batch_norm(f"bn{i}", x, out)), out
    x = net.dense("reconstruction", x, (width, FEATURES))
    return net.model("deep_autoencoder", x, [BATCH, FEATURES])


def data(seed: int, count: int) -> list[dict[str, np.ndarray]]:
    generator = np.random.RandomState(seed)
    samples = [generator.standard_normal((BATCH, FEATURES)).astype(np.float32) for _ in range(count)]
    return [{"features": sample, "target": sample} for sample in samples]
