"""Artifacts of onnxruntime's on-device training, written after its public schemas, with its gradient builder's idioms."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

MS = "com.microsoft"
WEIGHTS: dict[str, tuple[int, ...]] = {"conv.weight": (4, 2, 3, 3), "conv.bias": (4,), "fc.weight": (3, 72), "fc.bias": (3,)}
_POOL: dict[str, Any] = {"kernel_shape": [2, 2], "strides": [2, 2]}
_CONV: dict[str, Any] = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}


def weights() -> dict[str, np.ndarray]:
    random = np.random.RandomState(5)
    return {name: (0.3 * random.standard_normal(shape)).astype(np.float32) for name, shape in WEIGHTS.items()}


def info(name: str, shape: list[int | str], kind: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def _constant(name: str, array: np.ndarray) -> onnx.NodeProto:
    return helper.make_node("Constant", [], [name], value=numpy_helper.from_array(array))


def _microsoft(op_type: str, inputs: list[str], outputs: list[str], **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(op_type, inputs, outputs, domain=MS, **attributes)


def forward_nodes(concat: str = "Concat") -> list[onnx.NodeProto]:
    """Convolution, Relu, maximum pooling, itself twice side by side, a dense layer."""
    outputs, domain = (["cat", "lengths"], MS) if concat == "ConcatTraining" else (["cat"], "")
    return [
        helper.make_node("Conv", ["x", "conv.weight", "conv.bias"], ["c"], "conv", **_CONV),
        helper.make_node("Relu", ["c"], ["r"], "relu"),
        helper.make_node("MaxPool", ["r"], ["p", "places"], "pool", **_POOL),
        helper.make_node(concat, ["p", "p"], outputs, "twice", domain=domain, axis=1),
        helper.make_node("Flatten", ["cat"], ["flat"], "flatten"),
    ]


def loss_nodes() -> list[onnx.NodeProto]:
    return [
        _microsoft("FusedMatMul", ["flat", "fc.weight"], ["product"], transB=1),
        helper.make_node("Add", ["product", "fc.bias"], ["scores"], "bias"),
        helper.make_node("SoftmaxCrossEntropyLoss", ["scores", "labels"], ["loss", "log_prob"], "loss"),
    ]


def gradient_nodes() -> list[onnx.NodeProto]:
    """What the gradient builder writes behind the loss, up to ``<weight>_grad``."""
    return [
        _constant("one", np.array(1, np.float32)),
        helper.make_node("Identity", ["one"], ["loss_grad"]),
        _microsoft("SoftmaxCrossEntropyLossGrad", ["loss_grad", "log_prob", "labels"], ["ds"], reduction="mean"),
        _constant("four", np.array(4, np.float32)),
        _microsoft("Scale", ["ds", "four"], ["ds_4"]),
        _microsoft("Scale", ["ds_4", "four"], ["dscores"], scale_down=1),
        _constant("rows", np.array([0], np.int64)),
        _microsoft("ReduceSumTraining", ["dscores", "rows"], ["fc.bias_grad"], keepdims=0),
        _microsoft("FusedMatMul", ["dscores", "flat"], ["fc.weight_grad"], transA=1),
        helper.make_node("MatMul", ["dscores", "fc.weight"], ["dflat"]),
        helper.make_node("Shape", ["cat"], ["cat_shape"]),
        helper.make_node("Reshape", ["dflat", "cat_shape"], ["dcat"]),
        _constant("halves", np.array([4, 4], np.int64)),
        _microsoft("SplitTraining", ["dcat", "halves"], ["dp1", "dp2"], axis=1),
        helper.make_node("Add", ["dp1", "dp2"], ["dp"]),
        helper.make_node("MaxPoolGrad", ["dp", "places"], ["dr"], **_POOL),
        _microsoft("ReluGrad", ["dr", "r"], ["dc"]),
        _microsoft("ConvGrad", ["dc", "x", "conv.weight"], ["", "conv.weight_grad", "conv.bias_grad"], **_CONV),
    ]


def _model(graph: onnx.GraphProto) -> onnx.ModelProto:
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid(MS, 1)], ir_version=8)


def training_model(batch: int | str) -> onnx.ModelProto:
    buffers = {name: f"{name}_grad.accumulation.buffer" for name in WEIGHTS}
    flags = {name: f"{name}_grad.accumulation.out" for name in WEIGHTS}
    accumulators = [
        _microsoft("InPlaceAccumulatorV2", [buffers[name], f"{name}_grad", "lazy_reset_grad"], [flags[name]])
        for name in WEIGHTS
    ]
    inputs = [info("x", [batch, 2, 6, 6]), info("labels", [batch], TensorProto.INT64)]
    inputs += [info(name, list(shape)) for name, shape in WEIGHTS.items()]
    inputs += [info(buffers[name], list(shape)) for name, shape in WEIGHTS.items()]
    inputs.append(info("lazy_reset_grad", [1], TensorProto.BOOL))
    outputs = [info("loss", []), *(info(flag, [1], TensorProto.BOOL) for flag in flags.values())]
    nodes = [*forward_nodes("ConcatTraining"), *loss_nodes(), *gradient_nodes(), *accumulators]
    known = [info("flat", [batch, 72]), info("dscores", [batch, 3])]
    return _model(helper.make_graph(nodes, "training", inputs, outputs, value_info=known))


def optimizer_model(op_type: str) -> onnx.ModelProto:
    """One node over sequences of tensors."""
    names = ["learning_rate", "params", "gradients"]
    sequence = helper.make_tensor_sequence_value_info
    inputs = [info("learning_rate", [1]), *(sequence(name, TensorProto.FLOAT, None) for name in names[1:])]
    outputs = [info("update_completed", [1], TensorProto.BOOL), sequence("updated_params", TensorProto.FLOAT, None)]
    node = _microsoft(op_type, names, [value.name for value in outputs])
    return _model(helper.make_graph([node], "optimizer", inputs, outputs))


def checkpoint(arrays: dict[str, np.ndarray]) -> bytes:
    """FlatBuffers of onnxruntime's schema; all arrays train."""
    build = flatbuffers.Builder(1024)
    tensors: list[int] = []
    for name, array in arrays.items():
        data = build.CreateByteVector(array.tobytes())
        text = build.CreateString(name)
        build.StartVector(8, array.ndim, 8)
        for extent in reversed(array.shape):
            build.PrependInt64(extent)
        dims = build.EndVector()
        build.StartObject(7)
        build.PrependUOffsetTRelativeSlot(0, text, 0)
        build.PrependUOffsetTRelativeSlot(2, dims, 0)
        build.PrependInt32Slot(3, TensorProto.FLOAT, 0)
        build.PrependUOffsetTRelativeSlot(4, data, 0)
        tensors.append(build.EndObject())
    build.StartVector(4, len(tensors), 4)
    for tensor in reversed(tensors):
        build.PrependUOffsetTRelative(tensor)
    parameters = build.EndVector()
    build.StartObject(3)
    build.PrependUOffsetTRelativeSlot(0, parameters, 0)
    state = build.EndObject()
    build.StartObject(4)
    build.PrependInt32Slot(0, 1, 0)
    build.PrependUOffsetTRelativeSlot(1, state, 0)
    build.Finish(build.EndObject(), b"ODTC")
    return bytes(build.Output())


def write_artifacts(folder: Path, batch: int | str = 2, optimizer: str = "SGDOptimizerV2") -> Path:
    folder.mkdir()
    onnx.save(training_model(batch), folder / "training_model.onnx")
    onnx.save(optimizer_model(optimizer), folder / "optimizer_model.onnx")
    (folder / "checkpoint").write_bytes(checkpoint(weights()))
    return folder


def one_shot(batch: int = 2, rate: float = 0.05, accumulators: bool = False) -> onnx.ModelProto:
    """The same network in one graph with an SGD node per weight; weights, and buffers if there are any, are initializers."""
    tensors = [numpy_helper.from_array(array, name) for name, array in weights().items()]
    nodes = [*forward_nodes("ConcatTraining"), *loss_nodes(), *gradient_nodes()]
    if accumulators:
        tensors += [numpy_helper.from_array(np.zeros(shape, np.float32), f"{name}_buffer") for name, shape in WEIGHTS.items()]
        tensors.append(numpy_helper.from_array(np.array([True]), "reset"))
    for name in WEIGHTS:
        gradient = f"{name}_grad"
        if accumulators:
            inputs, gradient = [f"{name}_buffer", gradient, "reset"], f"{name}_sum"
            nodes.append(_microsoft("InPlaceAccumulatorV2", inputs, [f"{name}_flag", gradient]))
        nodes.append(helper.make_node("SGD", [name, gradient], [f"{name}_updated"], f"update {name}", lr=rate))
    outputs = [info("loss", []), *(info(f"{name}_updated", list(shape)) for name, shape in WEIGHTS.items())]
    inputs = [info("x", [batch, 2, 6, 6]), info("labels", [batch], TensorProto.INT64)]
    known = [info("flat", [batch, 72]), info("dscores", [batch, 3])]
    return _model(helper.make_graph(nodes, "one_shot", inputs, outputs, tensors, value_info=known))


def inference_model(batch: int = 2) -> onnx.ModelProto:
    """The same network before the loss, for our own autodiff."""
    tensors = [numpy_helper.from_array(array, name) for name, array in weights().items()]
    dense = helper.make_node("Gemm", ["flat", "fc.weight", "fc.bias"], ["scores"], "dense", transB=1)
    nodes = [*forward_nodes(), dense]
    nodes[2].output.pop()
    graph = helper.make_graph(nodes, "plain", [info("x", [batch, 2, 6, 6])], [info("scores", [batch, 3])], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def samples(count: int) -> dict[str, np.ndarray]:
    random = np.random.RandomState(2)
    return {"x": random.standard_normal((count, 2, 6, 6)).astype(np.float32), "labels": random.randint(0, 3, count)}
