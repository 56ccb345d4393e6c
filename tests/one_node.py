"""Models of one node, and whether they mean the same once they are normalised."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from deeploy_ext.graph.normalise import normalise


def model_of(node: onnx.NodeProto, shapes: list[tuple[int, ...]], **constants: Any) -> onnx.ModelProto:
    """A model of one node; inputs ``x0``, ``x1``, ... of these shapes."""
    inputs = [helper.make_tensor_value_info(f"x{i}", TensorProto.FLOAT, shape) for i, shape in enumerate(shapes)]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    arrays = [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    graph = helper.make_graph([node], "g", inputs, outputs, arrays)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def normalised(model: onnx.ModelProto) -> onnx.ModelProto:
    graph = ir.from_proto(model).graph
    normalise(graph)
    return ir.to_proto(ir.Model(graph, ir_version=10))


def assert_means_the_same(model: onnx.ModelProto) -> onnx.ModelProto:
    """onnxruntime computes the same bits with both; returns the normalised one."""
    made = normalised(model)
    random = np.random.RandomState(1)
    feeds = {
        value.name: random.standard_normal([d.dim_value for d in value.type.tensor_type.shape.dim]).astype(np.float32)
        for value in model.graph.input
    }
    before, after = (
        onnxruntime.InferenceSession(one.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, feeds)[0]
        for one in (model, made)
    )
    np.testing.assert_array_equal(before, after)
    return made
