"""Rewrites of inference exports: the network means what the file means."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from onnx import helper, numpy_helper
from own_models import info, model, network, operators, same_as, tensor, write

from deeploy_ext.graph.lower import lower
from deeploy_ext.training.autodiff import differentiate


def test_shape_arithmetic_of_exporters_folds(tmp_path: Path) -> None:
    """``x.view(x.size(0), -1)`` with a symbolic mini-batch, and a bias made by Expand and CastLike."""
    ints = {"zero": np.array(0), "first": np.array([0]), "rest": np.array([-1]), "two": np.array([2])}
    tensors = [tensor("w", 12, 2), *(numpy_helper.from_array(array, name) for name, array in ints.items())]
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "zero"], ["n"], axis=0),
        helper.make_node("Unsqueeze", ["n", "first"], ["n1"]),
        helper.make_node("Concat", ["n1", "rest"], ["shape"], axis=0),
        helper.make_node("Reshape", ["x", "shape"], ["flat"]),
        helper.make_node("Constant", [], ["nil"], value=numpy_helper.from_array(np.array(0.25))),
        helper.make_node("CastLike", ["nil", "flat"], ["nil32"]),
        helper.make_node("Expand", ["nil32", "two"], ["bias"]),
        helper.make_node("Gemm", ["flat", "w", "bias"], ["y"]),
    ]
    proto = model(nodes, [info("x", ["n", 3, 4])], [info("y", ["n", 2])], tensors)
    found = network(write(proto, tmp_path))
    assert operators(found) == ["Reshape", "Gemm"] and found.trainable == ("w",)
    same_as(proto, found, shape=(1, 3, 4))


def test_views_and_transposed_weights(tmp_path: Path) -> None:
    """Transposes that move nothing are Reshapes; a transposed weight is part of its Gemm."""
    axes = [numpy_helper.from_array(np.array([1]), "one"), numpy_helper.from_array(np.array([1]), "axis")]
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], perm=[0, 3, 1, 2]),
        helper.make_node("Squeeze", ["t", "one"], ["s"]),
        helper.make_node("Unsqueeze", ["s", "axis"], ["u"]),
        helper.make_node("Flatten", ["u"], ["f"]),
        helper.make_node("Transpose", ["w"], ["wt"], perm=[1, 0]),
        helper.make_node("MatMul", ["f", "wt"], ["p"]),
        helper.make_node("Add", ["b", "p"], ["y"]),
    ]
    proto = model(nodes, [info("x", [1, 4, 3, 1])], [info("y", [1, 2])], [tensor("w", 2, 12), tensor("b", 2), *axes])
    found = network(write(proto, tmp_path), "mse")
    assert operators(found) == ["Reshape", "Squeeze", "Unsqueeze", "Flatten", "Gemm"]
    assert found.trainable == ("w", "b")
    same_as(proto, found, shape=(1, 4, 3, 1))


def test_functions_are_inlined_and_shared_weights_untied(tmp_path: Path) -> None:
    body = [helper.make_node("Gemm", ["a", "b", "c"], ["o"]), helper.make_node("Relu", ["o"], ["r"])]
    layer = helper.make_function("local", "Layer", ["a", "b", "c"], ["r"], body, [helper.make_opsetid("", 21)])
    nodes = [
        helper.make_node("Identity", ["b1"], ["b2"]),
        helper.make_node("Layer", ["x", "w1", "b1"], ["h"], domain="local"),
        helper.make_node("Layer", ["h", "w2", "b2"], ["y"], domain="local"),
    ]
    proto = model(nodes, [info("x", [1, 3])], [info("y", [1, 3])], [tensor("w1", 3, 3), tensor("b1", 3), tensor("w2", 3, 3)])
    proto.functions.append(layer)
    proto.opset_import.append(helper.make_opsetid("local", 1))
    found = network(write(proto, tmp_path), "mse")
    assert found.notes[0] == "1 weights that the file shares made independent"
    assert found.trainable == ("w1", "b1", "w2", "b2")
    same_as(proto, found, shape=(1, 3))


def test_stacks_and_rows(tmp_path: Path) -> None:
    """A product of a stack with a weight is one Gemm with the bias behind it; one known row is a Slice, not a Gather."""
    numbers = [numpy_helper.from_array(np.array(-1), "row")]
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"]),
        helper.make_node("Add", ["b", "p"], ["s"]),
        helper.make_node("Relu", ["s"], ["r"]),
        helper.make_node("Gather", ["r", "row"], ["g"], axis=1),
        helper.make_node("MatMul", ["g", "v"], ["y"]),
    ]
    tensors = [tensor("w", 4, 6), tensor("b", 6), tensor("v", 6, 2), *numbers]
    proto = model(nodes, [info("x", [1, 3, 4])], [info("y", [1, 2])], tensors)
    found = network(write(proto, tmp_path), "mse")
    assert operators(found) == ["Reshape", "Gemm", "Reshape", "Relu", "Slice", "Reshape", "Gemm"]
    assert found.trainable == ("w", "b", "v")
    same_as(proto, found, shape=(1, 3, 4))


def test_transposed_factors_are_read_by_columns(tmp_path: Path) -> None:
    """Lowering exchanges no axes for a product of stacks, and none twice; what goes back to the factor is turned, once."""
    nodes = [
        helper.make_node("Gemm", ["x", "w"], ["h"], transB=1),
        helper.make_node("Reshape", ["h", "shape"], ["a"]),
        helper.make_node("Transpose", ["a"], ["t"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["a", "t"], ["p"]),
        helper.make_node("Flatten", ["p"], ["y"]),
    ]
    shape = numpy_helper.from_array(np.array([2, 3, 2]), "shape")
    proto = model(nodes, [info("x", [2, 4])], [info("y", [2, 9])], [tensor("w", 6, 4), shape])
    program = lower(differentiate(network(write(proto, tmp_path), "mse")))
    products = [c.invocation for c in program.calls if c.invocation.operator.op_type in ("MatMul", "FusedMatMul")]
    step = [(p.operator.op_type, p.attributes.get("transA", 0), p.attributes.get("transB", 0)) for p in products[:3]]
    assert sorted(step) == [("FusedMatMul", 0, 0), ("FusedMatMul", 0, 1), ("FusedMatMul", 1, 0)]
    turned = [c.entry for c in program.calls if c.invocation.operator.op_type == "Transpose"]
    assert turned == ["step"]
