"""One-dimensional convolution and pooling: lines are seen as images of one row, so that 2-D operators compute them."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from deeploy_ext.graph.invocation import label
from deeploy_ext.operators import find
from deeploy_ext.operators.spec import ONNX, Operator

_ROW = ("kernel_shape", "strides", "dilations")
"""Attributes with a number for each image axis, which is 1 for the one row; "pads" has two, which are 0."""


def lines_to_images(graph: ir.Graph) -> list[str]:
    """Operators on operands (N, C, L) work on (N, C, 1, L): views around the node, one more number in its attributes."""
    changed: list[str] = []
    for node in tuple(graph):
        operator = find(node.domain, node.op_type)
        if operator is None or not operator.images or not _is_line(node, operator):
            continue
        for place, (name, value) in enumerate(zip(operator.inputs, node.inputs, strict=False)):
            if value is not None and name in operator.images:
                node.replace_input_with(place, _viewed(graph, node, value, "Unsqueeze"))
        for name, value in list(zip(operator.outputs, node.outputs, strict=False)):
            if value.name and name in operator.images:
                _squeeze(graph, node, value)
        for name in [name for name in (*_ROW, "pads") if name in node.attributes]:
            given = list(node.attributes[name].as_ints())
            middle = len(given) // 2
            wide = [0, *given[:middle], 0, *given[middle:]] if name == "pads" else [1, *given]
            node.attributes.add(ir.AttrInt64s(name, wide))
        changed.append(f"{label(node)}: lines seen as images of one row")
    return changed


def _is_line(node: ir.Node, operator: Operator) -> bool:
    """Whether the operands have one image axis, as far as attributes and known shapes tell."""
    operands = [
        *zip(operator.inputs, node.inputs, strict=False),
        *zip(operator.outputs, node.outputs, strict=False),
    ]
    ranks = [v.shape.rank() for name, v in operands if v is not None and name in operator.images and v.shape is not None]
    lengths = {len(node.attributes[name].as_ints()) for name in _ROW if name in node.attributes}
    return 3 in ranks if ranks else lengths == {1}


def _axes(graph: ir.Graph, name: str) -> ir.Value:
    unique = name
    while unique in graph.initializers:
        unique += "_"
    array = np.array([2], np.int64)
    value = ir.Value(name=unique, const_value=ir.tensor(array, name=unique))
    value.shape, value.dtype = ir.Shape(array.shape), ir.DataType.INT64
    graph.register_initializer(value)
    return value


def _viewed(graph: ir.Graph, node: ir.Node, value: ir.Value, op_type: str) -> ir.Value:
    """The value with a row axis, before the node."""
    name = f"{node.name}/{value.name}"
    view = ir.Node(ONNX, op_type, [value, _axes(graph, f"{name}/axes")], name=f"{name}/{op_type}")
    view.outputs[0].name = f"{name}/image"
    graph.insert_before(node, view)
    return view.outputs[0]


def _squeeze(graph: ir.Graph, node: ir.Node, value: ir.Value) -> None:
    """The node's output loses its row axis behind the node, and keeps its name there."""
    view = ir.Node(ONNX, "Squeeze", [value, _axes(graph, f"{value.name}/axes")], name=f"{node.name}/{value.name}/Squeeze")
    graph.insert_after(node, view)
    made = view.outputs[0]
    name, shape, kind = value.name, value.shape, value.type
    for user, place in list(value.uses()):
        if user is not view:
            user.replace_input_with(place, made)
    for place, output in enumerate(graph.outputs):
        if output is value:
            graph.outputs[place] = made
    value.name, value.shape = f"{name}/image", None
    made.name, made.shape, made.type = name, shape, kind
