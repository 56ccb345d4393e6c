"""A transformer small enough to read its C: two samples of five tokens of twelve numbers, one layer with two heads."""

from __future__ import annotations

import onnx

from deeploy_ext.training.network import NetworkBuilder

BATCH, TOKENS, WIDTH, CLASSES = 2, 5, 12, 3


def build(seed: int) -> onnx.ModelProto:
    net = NetworkBuilder(seed)
    x = net.input("tokens", [BATCH, TOKENS, WIDTH])
    x = net.transformer_layer("layer", x, (TOKENS, WIDTH), 2, 20, batch=BATCH)
    x = net.layer_norm("norm", x, WIDTH)
    x = net.reshape("flat", x, (BATCH, TOKENS * WIDTH))
    return net.model("tiny_transformer", net.dense("classifier", x, (TOKENS * WIDTH, CLASSES)), [BATCH, CLASSES])
