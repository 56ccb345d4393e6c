"""CCT-2, a compact convolutional transformer: images of 3x32x32, two convolutions as tokenizer, two layers of attention.

Tokens are the 64 places of an 8x8 image of 128 channels; two heads of 64; a perceptron as wide as the tokens. The prediction
pools the tokens with weights of their own.
"""

from __future__ import annotations

import onnx

from deeploy_ext.training.network import NetworkBuilder

TOKENS, WIDTH, HEADS, LAYERS, CLASSES = 64, 128, 2, 2, 10


def build(seed: int) -> onnx.ModelProto:
    net = NetworkBuilder(seed)
    x, channels = net.input("image", [1, 3, 32, 32]), 3
    for i, out in enumerate((64, WIDTH), 1):
        x = net.relu(f"tokenizer{i}_relu", net.conv(f"tokenizer{i}", x, (channels, out), 3, pad=1))
        x = net.node("MaxPool", f"tokenizer{i}_pool", [x], kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
        channels = out
    x = net.reshape("flat", x, (1, WIDTH, TOKENS))
    x = net.node("Transpose", "tokens", [x], perm=[0, 2, 1])
    places = net.weight("places", (1, TOKENS, WIDTH), WIDTH)
    x = net.add("placed", x, places)
    for i in range(1, LAYERS + 1):
        x = net.transformer_layer(f"layer{i}", x, (TOKENS, WIDTH), HEADS, WIDTH)
    x = net.layer_norm("norm", x, WIDTH)
    shares = net.node("Softmax", "pool_shares", [net.project("pool", x, (WIDTH, 1))], axis=1)
    turned = net.node("Transpose", "pool_turned", [shares], perm=[0, 2, 1])
    pooled = net.reshape("pooled", net.node("MatMul", "pool_mean", [turned, x]), (1, WIDTH))
    return net.model("cct2", net.dense("classifier", pooled, (WIDTH, CLASSES)), [1, CLASSES])
