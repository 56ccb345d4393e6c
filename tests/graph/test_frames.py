"""Pads that are not of a constant, and long Concats: a normalised graph means what it meant; what cannot be is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from deeploy_ext.errors import BadInputError
from deeploy_ext.graph.normalise import normalise
from deeploy_ext.operators.joining import MOST_PARTS


def model_of(node: onnx.NodeProto, shapes: list[tuple[int, ...]], **constants: Any) -> onnx.ModelProto:
    """A model of one node; inputs ``x0``, ``x1``, ... of these shapes."""
    inputs = [helper.make_tensor_value_info(f"x{i}", TensorProto.FLOAT, shape) for i, shape in enumerate(shapes)]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    arrays = [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    graph = helper.make_graph([node], "g", inputs, outputs, arrays)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def pad(shape: tuple[int, ...], pads: list[int], mode: str, **constants: Any) -> onnx.ModelProto:
    names = ["x0", "pads", *(["", *constants] if constants else [])]
    return model_of(helper.make_node("Pad", names, ["y"], name="pad", mode=mode), [shape], pads=np.array(pads), **constants)


def normalised(model: onnx.ModelProto) -> onnx.ModelProto:
    graph = ir.from_proto(model).graph
    normalise(graph)
    return ir.to_proto(ir.Model(graph, ir_version=10))


def assert_means_the_same(model: onnx.ModelProto) -> onnx.ModelProto:
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


@pytest.mark.parametrize("mode", ["edge", "reflect", "wrap"])
@pytest.mark.parametrize(
    ("shape", "pads"),
    [
        ((2, 3, 5, 7), [0, 0, 1, 2, 0, 0, 3, 1]),
        ((2, 3, 5, 7), [1, 2, 4, 6, 1, 2, 4, 6]),
        ((5, 4), [0, 3, 0, 0]),
        ((5,), [0, 4]),
        ((5, 3), [0, 0, 0, 0]),
    ],
)
def test_frames_of_every_mode(mode: str, shape: tuple[int, ...], pads: list[int]) -> None:
    made = assert_means_the_same(pad(shape, pads, mode))
    assert ("Pad" in {node.op_type for node in made.graph.node}) == (not any(pads))


def test_a_frame_of_named_axes() -> None:
    assert_means_the_same(pad((2, 3, 5), [2, 1], "edge", axes=np.array([-1])))


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (pad((2, 5), [0, 5, 0, 0], "reflect"), "pad (Pad): mode='reflect' by 5 elements of 5 is not supported; pad by fewer"),
        (pad((2, 5), [0, 6, 0, 0], "wrap"), "pad (Pad): mode='wrap' by 6 elements of 5"),
        (pad((2, 5), [0, 1, 0, 0], "mirror"), "pad (Pad): mode='mirror' is not supported; use one of constant, edge"),
        (pad((2, 5), [0, -1, 0, 0], "edge"), "pad (Pad): pads [0, -1, 0, 0] of 2 axes"),
    ],
)
def test_frames_that_are_refused(model: onnx.ModelProto, said: str) -> None:
    with pytest.raises(BadInputError) as caught:
        normalised(model)
    assert said in str(caught.value)


@pytest.mark.parametrize("count", [2, MOST_PARTS, MOST_PARTS + 1, 2 * MOST_PARTS, MOST_PARTS**2 + 1])
def test_concats_of_any_number_of_inputs(count: int) -> None:
    shapes = [(2, 1 + number % 3, 3) for number in range(count)]
    names = [f"x{number}" for number in range(count)]
    made = assert_means_the_same(model_of(helper.make_node("Concat", names, ["y"], name="cat", axis=1), shapes))
    assert max(len(node.input) for node in made.graph.node) == min(count, MOST_PARTS)
