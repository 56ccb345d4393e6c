"""What a bad input is: how to make it, what to type, and what the answer must be. And small things to make bad ones from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Build = Callable[[Path], object]
"""Makes the input in the (empty) working folder."""

OUTPUTS = ("--out", "c", "--dump", "d", "--json", "r.json")


@dataclass(frozen=True)
class Case:
    """One bad input.

    Attributes:
        name: of the test.
        arguments: of the command, run in the working folder.
        words: all of them must be in the message: the thing that is wrong, and the remedy.
        build: makes the input.
        outputs: options for the places that must stay empty.
        status: exit status.
    """

    name: str
    arguments: Sequence[str]
    words: Sequence[str]
    build: Build = lambda folder: None
    outputs: Sequence[str] = OUTPUTS
    status: int = 2


FROM_FILE = """
from pathlib import Path
import onnx
def build(seed):
    return onnx.load(Path(__file__).with_name("model.onnx"))
"""
SETTINGS = 'description = "made by a test"\nloss = "cross_entropy"\n'


def network(folder: Path, *, build: str = FROM_FILE, settings: str = SETTINGS, data: str = "") -> None:
    """A test network's folder ``net`` whose ``build.py`` reads the ``model.onnx`` beside it, unless it is given."""
    (folder / "net").mkdir(exist_ok=True)
    (folder / "net/build.py").write_text(build + data)
    (folder / "net/test.toml").write_text(settings)


def info(name: str, shape: Sequence[int | str] | None, kind: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def weight(name: str, *shape: int, dtype: Any = np.float32) -> onnx.TensorProto:
    values = np.random.RandomState(len(name)).standard_normal(shape).astype(dtype)
    return numpy_helper.from_array(values, name)


def dense() -> onnx.ModelProto:
    """A correct model: x[1, 4] -> first (Gemm) -> act (Relu) -> last (Gemm) -> y[1, 3]."""
    nodes = [
        helper.make_node("Gemm", ["x", "w1", "b1"], ["h"], name="first", transB=1),
        helper.make_node("Relu", ["h"], ["r"], name="act"),
        helper.make_node("Gemm", ["r", "w2", "b2"], ["y"], name="last", transB=1),
    ]
    weights = [weight("w1", 5, 4), weight("b1", 5), weight("w2", 3, 5), weight("b2", 3)]
    graph = helper.make_graph(nodes, "dense", [info("x", [1, 4])], [info("y", [1, 3])], weights)
    return helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 21)])


def one(op_type: str, shape: Sequence[int], *weights: onnx.TensorProto, domain: str = "", **attributes: Any) -> onnx.ModelProto:
    """A model of one node, "node", on an image ``x``, then pooled, flattened and classified by a Gemm."""
    names = [tensor.name for tensor in weights]
    nodes = [
        helper.make_node(op_type, ["x", *names], ["h"], name="node", domain=domain, **attributes),
        helper.make_node("GlobalAveragePool", ["h"], ["p"], name="pool"),
        helper.make_node("Flatten", ["p"], ["f"], name="flat"),
        helper.make_node("Gemm", ["f", "classes"], ["y"], name="last"),
    ]
    graph = helper.make_graph(nodes, "one", [info("x", shape)], [info("y", [1, 3])], [*weights, weight("classes", 2, 3)])
    return helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 21)])


def changed(change: Callable[[onnx.ModelProto], object], make: Callable[[], onnx.ModelProto] = dense) -> onnx.ModelProto:
    """A correct model, after a change."""
    model = make()
    change(model)
    return model
