"""Operators with attributes or operands that are not implemented or make no sense: refused, never ignored."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from bad_case import Case, changed, network, one, weight
from onnx import helper, numpy_helper

IMAGE = (1, 2, 6, 5)


def _case(name: str, make: Callable[[], onnx.ModelProto], *words: str) -> Case:
    def build(folder: Path) -> None:
        network(folder)
        onnx.save(make(), folder / "net/model.onnx")

    return Case(f"operator: {name}", ("-t", "net"), words, build)


def _conv(name: str, *words: str, kernel: tuple[int, ...] = (2, 2, 3, 3), **attributes: Any) -> Case:
    return _case(f"Conv {name}", lambda: one("Conv", IMAGE, weight("k", *kernel), **attributes), "node (Conv)", *words)


def _set(node: int, name: str, value: Any) -> Callable[[], onnx.ModelProto]:
    return lambda: changed(lambda model: model.graph.node[node].attribute.append(helper.make_attribute(name, value)))


def _batch_norm(size: int, **attributes: Any) -> Callable[[], onnx.ModelProto]:
    return lambda: one("BatchNormalization", IMAGE, *(weight(name, size) for name in ("s", "b", "m", "v")), **attributes)


def _shape(*extents: int) -> onnx.TensorProto:
    return numpy_helper.from_array(np.array(extents, np.int64), "shape")


def _rounding_up() -> onnx.ModelProto:
    return one("AveragePool", IMAGE, kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1, count_include_pad=1)


CASES: tuple[Case, ...] = (
    _case("unknown attribute", _set(1, "slope", 0.5), "act (Relu)", "'slope'", "not supported"),
    _case("attribute of wrong type", _set(0, "alpha", 2), "first (Gemm)", "'alpha'", "not float"),
    _case("reference to an attribute of nobody", lambda: changed(_reference), "first (Gemm)", "'alpha'"),
    _case("Gemm of shapes that do not match", lambda: changed(_mismatch), "last (Gemm)", "(3, 6)"),
    _case("Relu of two operands", lambda: changed(lambda m: m.graph.node[1].input.append("w1")), "act (Relu)", "2 inputs"),
    _case("Relu of nothing", lambda: changed(lambda m: m.graph.node[1].ClearField("input")), "act (Relu)", "missing"),
    _conv("with unknown automatic padding", "auto_pad", auto_pad="SAME"),
    _conv("with groups that do not divide", "group", group=3),
    _conv("with zero stride", "strides", strides=[0, 1]),
    _conv("with negative pads", "pads", pads=[-1, 0, 0, 0]),
    _conv("with a kernel beyond the image", "kernel", kernel=(2, 2, 9, 3)),
    _conv("with channels of another image", "channel", kernel=(2, 5, 3, 3)),
    _conv("whose kernel_shape is another", "kernel_shape", kernel_shape=[2, 2]),
    _conv("with strides of one axis", "strides", strides=[1]),
    _conv("of other rank", "rank", kernel=(2, 2, 3)),
    _case("BatchNormalization of other channels", _batch_norm(7), "node (BatchNormalization)", "(7,)"),
    _case("Reshape to another size", lambda: one("Reshape", IMAGE, _shape(1, 2, 7, 5)), "node (Reshape)", "as many elements"),
    _case("Reshape with two unknowns", lambda: one("Reshape", IMAGE, _shape(1, 2, -1, -1)), "node (Reshape)", "-1"),
    _case("Flatten beyond the rank", lambda: one("Flatten", IMAGE, axis=7), "node (Flatten)", "axis"),
    _case("ReduceSum beyond the rank", lambda: one("ReduceSum", IMAGE, _axes(9)), "node (ReduceSum)", "axis"),
    _case("Add of shapes that do not match", lambda: one("Add", IMAGE, weight("w", 3)), "node (Add)", "(3,)"),
    _case("AveragePool that rounds up and counts pads", _rounding_up, "AveragePool", "ceil_mode=1 with count_include_pad=1"),
    _case("GlobalAveragePool of no image", lambda: one("Flatten", IMAGE), "pool (GlobalAveragePool)"),
)


def _reference(model: onnx.ModelProto) -> None:
    model.graph.node[0].attribute.append(onnx.AttributeProto(name="alpha", type=1, ref_attr_name="outer"))


def _mismatch(model: onnx.ModelProto) -> None:
    model.graph.initializer[2].CopyFrom(weight("w2", 3, 6))


def _axes(*axes: int) -> onnx.TensorProto:
    return numpy_helper.from_array(np.array(axes, np.int64), "axes")
