"""Element types and static shapes of a whole graph, through the operators' own inference."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import onnx_ir as ir

from deeploy_ext.errors import BadInputError
from deeploy_ext.graph.auto_pads import write_auto_pads
from deeploy_ext.graph.invocation import constant_of, invocation_of, label, set_type, type_of
from deeploy_ext.graph.stacks import is_stacked_gemm, replace_stacked_gemm
from deeploy_ext.operators import find
from deeploy_ext.operators.spec import TensorType

_FLOAT = ("float32",)
_INPUT_TYPES = (ir.DataType.FLOAT, ir.DataType.INT64, ir.DataType.INT32, ir.DataType.BOOL)


def infer_node(node: ir.Node) -> None:
    """Type the outputs of a node whose inputs are typed.

    Raises:
        BadInputError: the operator refuses its operands, or an operand has the wrong element type.
    """
    call = invocation_of(node)
    for name, value, found in zip(call.operator.inputs, node.inputs, call.inputs, strict=False):
        if value is not None and found is None:
            raise BadInputError(f"{label(node)}: input '{name}' reads '{value.name}', which nothing gives; correct the model.")
        wanted = call.operator.operand_types.get(name, _FLOAT)
        if found is not None and found.dtype.name not in wanted:
            raise BadInputError(
                f"{label(node)}: input '{name}' ('{value.name if value else ''}') is {_type_name(value)}; "
                f"export the model with {' or '.join(wanted)} there."
            )
    for value, found in zip(node.outputs, call.operator.infer(call), strict=False):
        if 0 in found.shape:
            raise BadInputError(f"{label(node)}: its result would be empty, {found.shape}; correct the shapes in the model.")
        set_type(value, found)


def _type_name(value: ir.Value | None) -> str:
    """Element type as numpy calls it: ONNX's float and double say no size."""
    name = value.dtype.name.lower() if value is not None and value.dtype is not None else "unknown"
    return {"float": "float32", "double": "float64"}.get(name, name)


def check_operators(graph: ir.Graph) -> None:
    """Refuse a graph with operators that nobody knows, naming all of them with their nodes."""
    unknown: dict[str, list[str]] = defaultdict(list)
    for node in graph:
        if find(node.domain, node.op_type) is None and not _is_shape(node):
            unknown[f"{node.domain or 'ai.onnx'}::{node.op_type}"].append(node.name or "unnamed")
    if unknown:
        listed = "; ".join(f"{name} ({_shortened(nodes)})" for name, nodes in sorted(unknown.items()))
        raise BadInputError(
            f"unsupported operators: {listed}.\nReplace them in the model, or add them to the operator registry."
        )


def _shortened(names: list[str], shown: int = 3) -> str:
    rest = len(names) - shown
    return ", ".join(names[:shown]) + (f" and {rest} more" if rest > 0 else "")


def _is_shape(node: ir.Node) -> bool:
    return node.domain == "" and node.op_type == "Shape"


def _check_inputs(graph: ir.Graph) -> None:
    for value in graph.inputs:
        if value.dtype is None or value.shape is None:
            raise BadInputError(f"input '{value.name}' has no type or shape; export the model with static shapes.")
        if not value.shape.is_static():
            dimensions = ", ".join(str(dimension) for dimension in value.shape)
            raise BadInputError(
                f"input '{value.name}' has the dynamic shape ({dimensions}); export with static shapes (batch size 1)."
            )
        if value.dtype not in _INPUT_TYPES:
            raise BadInputError(f"input '{value.name}' is {_type_name(value)}; export the model in float32.")
        found = type_of(value)
        if found is not None and (min(found.shape, default=1) < 1 or found.bytes >= 2**31):
            what = "dimensions below 1" if min(found.shape) < 1 else f"{found.bytes} bytes"
            raise BadInputError(f"input '{value.name}' of shape {found.shape} has {what}; export with usable static shapes.")


def _fold_shape(graph: ir.Graph, node: ir.Node) -> None:
    """Replace a Shape node by the constant that it computes: every shape is static."""
    operand, result = type_of(node.inputs[0]), node.outputs[0]
    assert operand is not None
    start, end = node.attributes.get("start"), node.attributes.get("end")
    extents = operand.shape[start.as_int() if start else None : end.as_int() if end else None]
    constant = ir.Value(name=result.name, const_value=ir.tensor(np.array(extents, np.int64), name=result.name))
    set_type(constant, _typed(np.array(extents, np.int64)))
    result.replace_all_uses_with(constant, replace_graph_outputs=True)
    graph.remove(node, safe=True)
    graph.register_initializer(constant)


def _typed(array: np.ndarray) -> TensorType:
    return TensorType(array.dtype, array.shape)


def infer_shapes(graph: ir.Graph) -> list[str]:
    """Type every value of a graph in topological order; whatever types it came with are replaced.

    On the way Shape nodes are folded, Gemms of stacks of matrices become what they mean, and padding that is left to the
    runtime is written out. Returns these changes, one line each.

    Raises:
        BadInputError: unsupported operators (all of them), dynamic shapes, wrong element types, or a refused operand.
    """
    check_operators(graph)
    _check_inputs(graph)
    for value in graph.initializers.values():
        constant = constant_of(value)
        if constant is not None:
            set_type(value, _typed(constant))
    folded: list[str] = []
    for node in tuple(graph):
        if _is_shape(node):
            folded.append(f"folded Shape of '{node.inputs[0].name if node.inputs[0] else ''}'")
            _fold_shape(graph, node)
            continue
        nodes = [node]
        if is_stacked_gemm(node):
            folded.append(f"{label(node)}: is a MatMul, its operands being stacks of matrices")
            nodes = replace_stacked_gemm(graph, node)
        for one in nodes:
            written = write_auto_pads(one)
            if written:
                folded.append(f"{label(one)}: {written} written out in pads")
            infer_node(one)
    return folded
