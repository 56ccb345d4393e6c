"""A network as Keras exports it through tf2onnx: channels last, transposed around the convolutions, MatMul and Softmax last."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from deeploy_ext.cli import main
from support import FIXED_L1


def keras_like(file: Path) -> None:
    """Write the model; its batch dimension is symbolic and its image is (8, 6, 3)."""
    random = np.random.RandomState(3)

    def weight(name: str, *shape: int) -> onnx.TensorProto:
        return numpy_helper.from_array((random.standard_normal(shape) * 0.3).astype(np.float32), name)

    def node(op_type: str, inputs: list[str], output: str, **attributes: Any) -> onnx.NodeProto:
        return helper.make_node(op_type, inputs, [output], name=f"model/{output}", **attributes)

    nodes = [
        node("Transpose", ["image"], "nchw", perm=[0, 3, 1, 2]),
        node("Conv", ["nchw", "kernel", "bias"], "conv", pads=[1, 1, 1, 1], kernel_shape=[3, 3]),
        node("Relu", ["conv"], "relu"),
        node("MaxPool", ["relu"], "pool", kernel_shape=[2, 2], strides=[2, 2]),
        node("Transpose", ["pool"], "nhwc", perm=[0, 2, 3, 1]),
        node("Reshape", ["nhwc", "flat_shape"], "flat"),
        node("MatMul", ["flat", "dense"], "product"),
        node("Add", ["product", "dense_bias"], "logits"),
        node("Softmax", ["logits"], "probabilities"),
    ]
    shape = numpy_helper.from_array(np.array([-1, 4 * 3 * 5], np.int64), "flat_shape")
    weights = [weight("kernel", 5, 3, 3, 3), weight("bias", 5), weight("dense", 60, 4), weight("dense_bias", 4), shape]
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, ["unk__1", 8, 6, 3])
    result = helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["unk__2", 4])
    graph = helper.make_graph(nodes, "keras", [image], [result], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15)]), file)


TILED = ("--promote", "--db", "--l1", str(FIXED_L1 + 760), "--dma", "random")


@pytest.mark.parametrize("flags", [(), TILED], ids=["plain", "tiled"])
def test_channels_last_trains(flags: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keras_like(tmp_path / "model.onnx")
    status = main(["-t", str(tmp_path / "model.onnx"), "--loss", "cross_entropy", "--lr", "0.05", *flags])
    printed = capsys.readouterr()
    assert status == 0, printed.err
    assert "Losses: 0 out of 4" in printed.out
