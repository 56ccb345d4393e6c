"""A training directory as the other exporter writes it, small and correct; tests then break it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def _info(name: str, shape: list[int | str], kind: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def _train_nodes() -> list[onnx.NodeProto]:
    """Forward, loss and backward of one dense layer, as the exporter writes them."""
    return [
        helper.make_node("InPlaceAccumulatorV2", ["w_buffer", "dw", "reset"], ["flag"], domain="com.microsoft", name="acc"),
        helper.make_node("Constant", [], ["axis"], value=numpy_helper.from_array(np.array([0], np.int64))),
        helper.make_node("Identity", ["x"], ["x_same"]),
        helper.make_node("Gemm", ["x_same", "w"], ["scores"], transB=1, description="a layer", name="layer"),
        helper.make_node("SoftmaxCrossEntropyLoss", ["scores", "labels"], ["loss", "log_prob"], name="layer"),
        helper.make_node("SoftmaxCrossEntropyLossGrad", ["log_prob", "labels"], ["ds"], domain="com.microsoft"),
        helper.make_node("ReduceSum", ["ds"], ["unused"], axes=[0], keepdims=0),
        helper.make_node("Gemm", ["ds", "x_same"], ["dw"], transA=1),
    ]


def write_directory(parent: Path) -> Path:
    """``net_train`` and ``net_optimizer`` in a folder: 2 samples of 3 features, 4 classes. Returns ``net_train``."""
    train, optimizer = parent / "net_train", parent / "net_optimizer"
    train.mkdir()
    optimizer.mkdir()
    inputs = [
        _info("x", [2, 3]), _info("labels", [2], TensorProto.INT64), _info("w", [4, 3]),
        _info("w_buffer", [4, 3]), _info("reset", [1], TensorProto.BOOL),
    ]  # fmt: skip
    graph = helper.make_graph(_train_nodes(), "train", inputs, [_info("loss", []), _info("flag", [1], TensorProto.BOOL)])
    opsets = [helper.make_opsetid(*pair) for pair in (("", 21), ("", 17), ("com.microsoft", 1), ("com.microsoft", 1))]
    onnx.save(helper.make_model(graph, ir_version=8, opset_imports=opsets), train / "network.onnx")
    sgd = helper.make_node("SGD", ["w", "w_buffer"], ["w_updated"], lr=0.1)
    graph = helper.make_graph([sgd], "update", [_info("w", [4, 3]), _info("w_buffer", [4, 3])], [_info("w_updated", [4, 3])])
    onnx.save(helper.make_model(graph, ir_version=10), optimizer / "network.onnx")
    write_arrays(train, {})
    return train


def _arrays() -> dict[str, np.ndarray]:
    generator = np.random.RandomState(0)
    return {
        "arr_0000": generator.standard_normal((2, 3)).astype(np.float32),
        "arr_0001": np.array([0, 3], np.int64),
        "arr_0002": generator.standard_normal((4, 3)).astype(np.float32),
        "arr_0003": np.array([True]),
        "mb1_arr_0001": np.array([1, 2], np.int64),
        "meta_n_batches": np.array([4]),
        "meta_data_size": np.array([2]),
    }


def write_arrays(folder: Path, changes: dict[str, np.ndarray | None]) -> None:
    """The data of a directory; None leaves an array out."""
    arrays = {name: array for name, array in (_arrays() | changes).items() if array is not None}
    np.savez(folder / "inputs.npz", **arrays)  # pyright: ignore[reportArgumentType]
