"""Networks of the operators that other people's models are made of, loaded as such, trained in small tiles."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from deeploy_ext.graph.load import LoadOptions, load
from deeploy_ext.harness.golden import run_golden
from deeploy_ext.training.autodiff import differentiate
from deeploy_ext.training.network import NetworkBuilder
from deeploy_ext.training.task import ForwardNetwork, TrainingTask
from support import FIXED_L1, assert_right, planned, trained

REGIMES: dict[str, dict[str, Any]] = {
    "whole": {"promote": True},
    "tiles": {"l1": FIXED_L1 + 480, "promote": True, "double_buffer": True},
}


def known(model: onnx.ModelProto, **values: Any) -> onnx.ModelProto:
    """The model with constants, which are no weights."""
    for name, value in values.items():
        constant = helper.make_node("Constant", [], [name], value=numpy_helper.from_array(np.asarray(value), name))
        model.graph.node.insert(0, constant)
    return model


def attention() -> onnx.ModelProto:
    """Two heads of attention on 5 tokens, as exporters write it: LayerNormalization, batched products, Gelu, a class token."""
    net = NetworkBuilder(3)
    x = net.input("tokens", (2, 5, 6))
    scale, bias = net.initializer("ln_scale", np.linspace(0.5, 1.5, 6)), net.initializer("ln_bias", np.linspace(-1, 1, 6))
    normal = net.node("LayerNormalization", "ln", [x, scale, bias], axis=-1)
    heads: dict[str, str] = {}
    for name, perm in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3])):
        flat = net.node("MatMul", f"{name}_product", [normal, net.weight(f"{name}_weight", (6, 8), 6)])
        flat = net.node("Add", f"{name}_sum", [net.initializer(f"{name}_bias", np.linspace(-0.5, 0.5, 8)), flat])
        split = net.node("Reshape", f"{name}_split", [flat, "split"])
        heads[name] = net.node("Transpose", name, [split], perm=perm)
    scores = net.node("Div", "scaled", [net.node("MatMul", "scores", [heads["q"], heads["k"]]), "root"])
    mixed = net.node("MatMul", "mixed", [net.node("Softmax", "soft", [scores], axis=-1), heads["v"]])
    joined = net.node("Reshape", "joined", [net.node("Transpose", "back", [mixed], perm=[0, 2, 1, 3]), "join"])
    y = net.node("MatMul", "out", [joined, net.weight("out_weight", (8, 6), 8)])
    y = net.node("Gelu", "gelu", [net.node("Add", "skip", [x, y])])
    first = net.node("Gather", "first", [y, "row"], axis=1)
    mean = net.node("ReduceMean", "mean", [y, "axes"], keepdims=0)
    both = net.node("Concat", "both", [first, mean], axis=1)
    model = net.model("attention", net.dense("classifier", both, (12, 3)), [2, 3])
    shapes = {"split": np.array([0, 0, 2, 4]), "join": np.array([0, 0, 8])}
    return known(model, **shapes, root=np.array(2, np.float32), row=np.array(0), axes=np.array([1]))


def lines() -> onnx.ModelProto:
    """1-D convolutions with normalisation by groups, pooling, and parts that are cut, padded and put together."""
    net = NetworkBuilder(4)
    x = net.input("signal", (2, 3, 23))
    w, b = net.weight("w0", (6, 3, 5), 15), net.initializer("b0", np.linspace(-1, 1, 6))
    x = net.node("Conv", "conv0", [x, w, b], strides=[2], pads=[2, 1])
    x = net.node(
        "GroupNormalization", "gn", [x, net.initializer("gs", np.ones(6)), net.initializer("gb", np.zeros(6))], num_groups=2
    )
    x = net.node("HardSwish", "swish", [x])
    pooled = [
        net.node("MaxPool", "max", [x], kernel_shape=[3], strides=[2], pads=[1, 1]),
        net.node("AveragePool", "mean", [x], kernel_shape=[3], strides=[2], pads=[1, 1]),
    ]
    x = net.node("Concat", "pooled", pooled, axis=1)
    x = net.node("Conv", "conv1", [x, net.weight("w1", (8, 3, 3), 9)], group=4, dilations=[2], pads=[2, 2])
    x = net.node("InstanceNormalization", "in", [x, net.initializer("is", np.ones(8)), net.initializer("ib", np.zeros(8))])
    x = net.node("Pad", "pad", [net.node("Slice", "part", [x, "start", "end", "axis"]), "pads"])
    gates = [net.node("Sigmoid", "gate", [x]), net.node("Tanh", "tanh", [x])]
    x = net.node("Mul", "gated", gates)
    x = net.node("Flatten", "flat", [net.node("GlobalMaxPool", "peak", [x])])
    model = net.model("lines", net.dense("classifier", x, (8, 3)), [2, 3])
    return known(model, start=np.array([1]), end=np.array([5]), axis=np.array([2]), pads=np.array([0, 0, 1, 0, 0, 2]))


def powers() -> onnx.ModelProto:
    """Normalisation and activations written out in elementary functions, a Split, and an embedding's rows."""
    net = NetworkBuilder(5)
    x = net.input("x", (3, 10))
    y = net.node("Add", "rows", [x, net.node("Gather", "table", [net.weight("embedding", (4, 10), 4), "numbers"])])
    centred = net.node("Sub", "centred", [y, net.node("ReduceMean", "average", [y, "axes"])])
    variance = net.node("ReduceMean", "variance", [net.node("Pow", "squares", [centred, "two"]), "axes"])
    y = net.node("Div", "normal", [centred, net.node("Sqrt", "deviation", [net.node("Add", "more", [variance, "little"])])])
    y = net.node("Clip", "clipped", [y, "low", "high"])
    shrunk = net.node("Add", "plus", [net.node("Exp", "e", [net.node("Neg", "minus", [y])]), "one"])
    y = net.node("Mul", "silu", [y, net.node("Reciprocal", "inverse", [shrunk])])
    y = net.node("LogSoftmax", "logs", [net.dense("mix", y, (10, 8))], axis=1)
    model = net.model("powers", net.dense("classifier", y, (8, 3)), [3, 3])
    one = {"two": 2, "little": 1e-3, "low": -1.2, "high": 1.5, "one": 1}
    numbers = {name: np.array(value, np.float32) for name, value in one.items()}
    return known(model, **numbers, axes=np.array([-1]), numbers=np.array([2, 0, 2]))


def frames() -> onnx.ModelProto:
    """Images framed by their own elements, pooled in windows beyond the border, and more parts than one node puts together."""
    net = NetworkBuilder(6)
    x = net.input("image", (2, 2, 5, 4))
    for number, mode in enumerate(("reflect", "edge", "wrap")):
        x = net.node("Pad", mode, [x, "pads"], mode=mode)
        x = net.node("Conv", f"conv{number}", [x, net.weight(f"w{number}", (2, 2, 3, 3), 18)])
    x = net.node("AveragePool", "mean", [x], kernel_shape=[2, 3], strides=[2, 2], ceil_mode=1)
    scales = [net.initializer(f"scale{number}", np.array([0.5 + number / 10])) for number in range(11)]
    x = net.node("Concat", "all", [net.node("Mul", f"part{n}", [x, scale]) for n, scale in enumerate(scales)], axis=1)
    model = net.model("frames", net.dense("classifier", net.node("Flatten", "flat", [x]), (132, 3)), [2, 3])
    return known(model, pads=np.array([0, 0, 1, 1, 0, 0, 1, 1]))


def task_of(model: onnx.ModelProto, folder: Path) -> TrainingTask:
    file = folder / "model.onnx"
    onnx.save(model, file)
    network = load(str(file), LoadOptions(loss="cross_entropy", learning_rate=0.05, seed=3))
    assert isinstance(network, ForwardNetwork)
    assert set(network.trainable) == {tensor.name for tensor in model.graph.initializer}
    return differentiate(network)


@pytest.mark.parametrize("regime", [pytest.param("whole", marks=pytest.mark.slow), "tiles"])
@pytest.mark.parametrize("network", [attention, lines, powers, frames], ids=lambda network: network.__name__)
def test_networks_train(network: Any, regime: str, tmp_path: Path) -> None:
    task = task_of(network(), tmp_path)
    if regime != "whole":
        assert any(group.tiles > 1 for group in planned(task, **REGIMES[regime]).plan.groups)
    assert_right(task, run_golden(task), trained(task, tmp_path, dma="random", **REGIMES[regime]))
