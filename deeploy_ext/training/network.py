"""A short way to write forward networks: one method per layer, weights drawn as the layer is added."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from deeploy_ext.operators.spec import ONNX
from deeploy_ext.training.functions import IR_VERSION, opset_version


class NetworkBuilder:
    """Collects layers into an ONNX model; the same seed gives the same weights.

    Weights are drawn from a normal distribution with variance gain / fan-in, gain 2 where a Relu follows (He initialisation)
    and 1 elsewhere, so that activations keep their scale from layer to layer. Layers take and return names of values and
    name their weights after themselves.
    """

    def __init__(self, seed: int) -> None:
        self._random = np.random.RandomState(seed)
        self._nodes: list[onnx.NodeProto] = []
        self._initializers: list[onnx.TensorProto] = []
        self._inputs: list[onnx.ValueInfoProto] = []
        self._states: list[onnx.ValueInfoProto] = []

    def input(self, name: str, shape: Sequence[int]) -> str:
        """A float32 input of the network."""
        self._inputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))
        return name

    def weight(self, name: str, shape: Sequence[int], fan_in: int, gain: float = 2.0) -> str:
        """A weight tensor drawn with variance ``gain / fan_in``."""
        values = self._random.standard_normal(tuple(shape)) * math.sqrt(gain / fan_in)
        return self.initializer(name, values)

    def initializer(self, name: str, values: Any) -> str:
        """A weight tensor of given values."""
        self._initializers.append(numpy_helper.from_array(np.asarray(values, np.float32), name))
        return name

    def node(self, op_type: str, name: str, inputs: Sequence[str], **attributes: Any) -> str:
        """Any operator with one output, which is named after the layer; ``domain`` is an attribute where it is not standard."""
        self._nodes.append(helper.make_node(op_type, inputs, [f"{name}_out"], name=name, **attributes))
        return f"{name}_out"

    def conv(
        self,
        name: str,
        x: str,
        channels: tuple[int, int],
        kernel: int | tuple[int, int],
        stride: int = 1,
        pad: int | Sequence[int] = 0,
        group: int = 1,
    ) -> str:
        """2-D convolution without bias; ``channels`` are (in, out), ``pad`` one number, or top, left, bottom and right."""
        ky, kx = (kernel, kernel) if isinstance(kernel, int) else kernel
        per_group = channels[0] // group
        w = self.weight(f"{name}_weight", (channels[1], per_group, ky, kx), per_group * ky * kx)
        pads = [pad] * 4 if isinstance(pad, int) else list(pad)
        return self.node("Conv", name, [x, w], kernel_shape=[ky, kx], strides=[stride] * 2, pads=pads, group=group)

    def batch_norm(self, name: str, x: str, channels: int) -> str:
        """Batch normalisation in training mode, with running statistics as state."""
        scale = self.initializer(f"{name}_scale", np.ones(channels))
        bias = self.initializer(f"{name}_bias", np.zeros(channels))
        mean = self.initializer(f"{name}_mean", np.zeros(channels))
        var = self.initializer(f"{name}_var", np.ones(channels))
        outputs = [f"{name}_out", f"{name}_mean_next", f"{name}_var_next"]
        self._nodes.append(
            helper.make_node("BatchNormalization", [x, scale, bias, mean, var], outputs, name=name, training_mode=1)
        )
        self._states += [helper.make_tensor_value_info(output, TensorProto.FLOAT, [channels]) for output in outputs[1:]]
        return outputs[0]

    def relu(self, name: str, x: str) -> str:
        return self.node("Relu", name, [x])

    def add(self, name: str, a: str, b: str) -> str:
        return self.node("Add", name, [a, b])

    def dense(self, name: str, x: str, features: tuple[int, int], gain: float = 1.0) -> str:
        """Matrix product with bias; ``features`` are (in, out), the weight is stored (out, in). Use gain 2 before a Relu."""
        w = self.weight(f"{name}_weight", features[::-1], features[0], gain)
        b = self.initializer(f"{name}_bias", np.zeros(features[1]))
        return self.node("Gemm", name, [x, w, b], transB=1)

    def pool(self, name: str, x: str) -> str:
        """Global average pooling, then flat: (N, C, H, W) to (N, C)."""
        return self.node("Flatten", f"{name}_flat", [self.node("GlobalAveragePool", name, [x])])

    def reshape(self, name: str, x: str, shape: Sequence[int]) -> str:
        """The same numbers under another shape."""
        target = f"{name}_shape"
        self._initializers.append(numpy_helper.from_array(np.array(shape, np.int64), target))
        return self.node("Reshape", name, [x, target])

    def layer_norm(self, name: str, x: str, width: int) -> str:
        """Layer normalisation over the last axis, with scale and bias."""
        scale = self.initializer(f"{name}_scale", np.ones(width))
        return self.node("LayerNormalization", name, [x, scale, self.initializer(f"{name}_bias", np.zeros(width))])

    def project(self, name: str, x: str, features: tuple[int, int], gain: float = 1.0) -> str:
        """Every row along the last axis times a matrix, plus a bias; ``features`` are (in, out), as the weight is stored."""
        product = self.node("MatMul", name, [x, self.weight(f"{name}_weight", features, features[0], gain)])
        return self.add(f"{name}_biased", product, self.initializer(f"{name}_bias", np.zeros(features[1])))

    def attention(self, name: str, x: str, size: tuple[int, int], heads: int, batch: int = 1) -> str:
        """Self-attention of ``heads`` heads; x is (batch, tokens, width), ``size`` are (tokens, width)."""
        tokens, width = size
        share = width // heads

        def split(part: str, order: Sequence[int]) -> str:
            rows = self.project(f"{name}_{part}", x, (width, width))
            apart = self.reshape(f"{name}_{part}_heads", rows, (batch, tokens, heads, share))
            return self.node("Transpose", f"{name}_{part}_turned", [apart], perm=list(order))

        queries, keys, values = split("query", (0, 2, 1, 3)), split("key", (0, 2, 3, 1)), split("value", (0, 2, 1, 3))
        scale = self.node("Constant", f"{name}_scale", [], value=numpy_helper.from_array(np.array(share**-0.5, np.float32)))
        scores = self.node("Mul", f"{name}_scaled", [self.node("MatMul", f"{name}_scores", [queries, keys]), scale])
        shares = self.node("Softmax", f"{name}_shares", [scores], axis=-1)
        mixed = self.node(
            "Transpose", f"{name}_mixed", [self.node("MatMul", f"{name}_mix", [shares, values])], perm=[0, 2, 1, 3]
        )
        return self.project(f"{name}_out", self.reshape(f"{name}_joined", mixed, (batch, tokens, width)), (width, width))

    def transformer_layer(self, name: str, x: str, size: tuple[int, int], heads: int, hidden: int, batch: int = 1) -> str:
        """Attention and a perceptron with Gelu, each behind a layer normalisation and beside a shortcut."""
        width = size[1]
        y = self.attention(f"{name}_attention", self.layer_norm(f"{name}_norm1", x, width), size, heads, batch)
        x = self.add(f"{name}_add1", x, y)
        y = self.project(f"{name}_hidden", self.layer_norm(f"{name}_norm2", x, width), (width, hidden), gain=2.0)
        y = self.project(f"{name}_back", self.node("Gelu", f"{name}_gelu", [y]), (hidden, width))
        return self.add(f"{name}_add2", x, y)

    def model(self, name: str, output: str, shape: Sequence[int]) -> onnx.ModelProto:
        """The finished model with one prediction; running statistics are further outputs."""
        prediction = helper.make_tensor_value_info(output, TensorProto.FLOAT, shape)
        graph = helper.make_graph(self._nodes, name, self._inputs, [prediction, *self._states], self._initializers)
        domains = sorted({ONNX} | {node.domain for node in self._nodes})
        opsets = [helper.make_opsetid(domain, opset_version(domain)) for domain in domains]
        return helper.make_model(graph, ir_version=IR_VERSION, opset_imports=opsets)
