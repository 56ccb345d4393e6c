"""Two classes that a straight line separates: the loss must fall when the network trains long enough."""

from __future__ import annotations

import numpy as np
import onnx

from deeploy_ext.training.network import NetworkBuilder

BATCH, FEATURES = 4, 7


def build(seed: int) -> onnx.ModelProto:
    net = NetworkBuilder(seed)
    x = net.input("features", [BATCH, FEATURES])
    x = net.relu("relu", net.dense("hidden", x, (FEATURES, 11), gain=2.0))
    x = net.dense("classifier", x, (11, 2))
    return net.model("tiny_separable", x, [BATCH, 2])


def data(seed: int, count: int) -> list[dict[str, np.ndarray]]:
    """Points at distance 1 from the line on average, labelled by the side."""
    generator = np.random.RandomState(seed)
    normal = generator.standard_normal(FEATURES)
    normal /= np.linalg.norm(normal)
    batches: list[dict[str, np.ndarray]] = []
    for _ in range(count):
        labels = generator.randint(0, 2, BATCH)
        points = generator.standard_normal((BATCH, FEATURES))
        points += np.outer(2 * labels - 1 - 0.5 * points @ normal, normal)
        batches.append({"features": points.astype(np.float32), "labels": labels.astype(np.int64)})
    return batches
