"""Inference models as exporters write them, built by code in any opset."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from deeploy_ext.graph.load import LoadOptions, load
from deeploy_ext.training.task import ForwardNetwork

CLASSES = 3


def info(name: str, shape: Sequence[int | str | None], kind: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def weights(seed: int = 0) -> dict[str, np.ndarray]:
    """Weights and statistics of :func:`cnn`, in its order."""
    random = np.random.RandomState(seed)
    shapes = {"conv/W:0": (4, 2, 3, 3), "bn.scale": (4,), "bn.bias": (4,), "bn.mean": (4,), "fc.weight": (4, CLASSES)}
    found = {name: random.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    found["bn.var"] = random.uniform(0.5, 2.0, 4).astype(np.float32)
    found["fc.bias"] = random.standard_normal(CLASSES).astype(np.float32)
    return found


def cnn(opset: int = 21, *, batch: int | str = 1, softmax: bool = True, training: bool = False) -> onnx.ModelProto:
    """Convolution, batch normalisation, Relu, mean over the image, Dropout, MatMul and Add, and mostly a Softmax."""
    tensors = [numpy_helper.from_array(array, name) for name, array in weights().items()]
    mean = {"keepdims": 0} if opset >= 18 else {"keepdims": 0, "axes": [2, 3]}
    if opset >= 18:
        tensors.append(numpy_helper.from_array(np.array([2, 3]), "axes"))
    mode = {"training_mode": 1} if training else {}
    statistics = ["mean_next", "var_next"] if training else []
    nodes = [
        helper.make_node("Conv", ["x", "conv/W:0"], ["c"], "conv", kernel_shape=[3, 3], pads=[1] * 4, strides=[2, 1]),
        helper.make_node(
            "BatchNormalization",
            ["c", "bn.scale", "bn.bias", "bn.mean", "bn.var"],
            ["n", *statistics],
            "bn",
            epsilon=1e-3,
            **mode,
        ),
        helper.make_node("Relu", ["n"], ["r"], "relu"),
        helper.make_node("ReduceMean", ["r", "axes"] if opset >= 18 else ["r"], ["m"], "mean", **mean),
        helper.make_node("Dropout", ["m"], ["d"], "drop", **({"ratio": 0.5} if opset < 12 else {})),
        helper.make_node("MatMul", ["d", "fc.weight"], ["p"], "fc"),
        helper.make_node("Add", ["p", "fc.bias"], ["scores"], "bias"),
    ]
    output = "scores"
    if softmax:
        nodes.append(helper.make_node("Softmax", ["scores"], ["y"], "softmax"))
        output = "y"
    inputs = [info("x", [batch, 2, 6, 5])]
    if opset < 10:  # files of that time list weights among the inputs
        inputs += [info(tensor.name, list(tensor.dims)) for tensor in tensors]
    return model(nodes, inputs, [info(output, [batch, CLASSES])], tensors, opset)


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[onnx.ValueInfoProto],
    tensors: Sequence[onnx.TensorProto],
    opset: int = 21,
) -> onnx.ModelProto:
    graph = helper.make_graph(list(nodes), "own", list(inputs), list(outputs), list(tensors))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=3 if opset < 10 else 8)


def tensor(name: str, *shape: int) -> onnx.TensorProto:
    """Weights that are different everywhere."""
    values = np.random.RandomState(len(name)).standard_normal(shape)
    return numpy_helper.from_array(values.astype(np.float32), name)


def samples(count: int, seed: int = 0) -> dict[str, np.ndarray]:
    """Data for :func:`cnn`."""
    random = np.random.RandomState(seed)
    images = random.standard_normal((count, 2, 6, 5)).astype(np.float32)
    return {"x": images, "labels": random.randint(0, CLASSES, count)}


def write(proto: onnx.ModelProto, folder: Path, name: str = "own.onnx") -> str:
    onnx.save(proto, folder / name)
    return str(folder / name)


def write_samples(arrays: dict[str, np.ndarray], file: Path) -> Path:
    np.savez(file, **arrays)  # type: ignore[arg-type]
    return file


def network(file: str, loss: str = "cross_entropy", **options: Any) -> ForwardNetwork:
    found = load(file, LoadOptions(loss=loss, **options))
    assert isinstance(found, ForwardNetwork)
    return found


def operators(found: ForwardNetwork) -> list[str]:
    return [node.op_type for node in found.model.graph]


def outputs(found: ForwardNetwork, x: np.ndarray) -> np.ndarray:
    session = onnxruntime.InferenceSession(ir.to_proto(found.model).SerializeToString(), providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, {session.get_inputs()[0].name: x})[0])


def same_as(proto: onnx.ModelProto, found: ForwardNetwork, *, shape: tuple[int, ...] = (1, 2, 6, 5)) -> None:
    """The network computes what the file computes under onnx's own reference implementation."""
    x = np.random.RandomState(5).standard_normal(shape).astype(np.float32)
    (wanted,) = list(ReferenceEvaluator(proto).run(None, {proto.graph.input[0].name: x}))
    np.testing.assert_allclose(outputs(found, x), wanted, rtol=1e-5, atol=1e-5)
