"""Gemm of stacks of matrices, which some exporters write though the standard knows matrices only: MatMul means it."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from deeploy_ext.graph.invocation import checked_attributes, operator_of, set_type, type_of
from deeploy_ext.operators.spec import ONNX, TensorType


def is_stacked_gemm(node: ir.Node) -> bool:
    """Whether a Gemm, whose operands are typed, has one of rank above 2."""
    ranks = [len(found.shape) for value in node.inputs[:2] if (found := type_of(value)) is not None]
    return (node.domain, node.op_type) == (ONNX, "Gemm") and max(ranks, default=0) > 2


def replace_stacked_gemm(graph: ir.Graph, node: ir.Node) -> list[ir.Node]:
    """Puts Transpose, MatMul, Mul and Add, as far as they are needed, in the place of a Gemm; returns them, not yet typed."""
    attributes, made, result = checked_attributes(node, operator_of(node)), list[ir.Node](), node.outputs[0]
    name = result.name or ""

    def put(op_type: str, inputs: list[ir.Value | None], **given: list[int]) -> ir.Value:
        new = ir.Node(ONNX, op_type, inputs, ir.convenience.convert_attributes(given), name=f"{node.name}/{len(made)}")
        new.outputs[0].name = f"{name}/{len(made)}"
        graph.insert_before(node, new)
        made.append(new)
        return new.outputs[0]

    def turned(value: ir.Value | None, flag: str) -> ir.Value | None:
        rank = len(found.shape) if (found := type_of(value)) is not None else 0
        return put("Transpose", [value], perm=[*range(rank - 2), rank - 1, rank - 2]) if attributes[flag] else value

    def scaled(value: ir.Value | None, flag: str) -> ir.Value | None:
        if attributes[flag] == 1.0:
            return value
        factor = ir.Value(name=f"{name}/{flag}", const_value=ir.tensor(np.array(attributes[flag], np.float32)))
        set_type(factor, TensorType(np.dtype(np.float32), ()))
        graph.register_initializer(factor)
        return put("Mul", [value, factor])

    total = scaled(put("MatMul", [turned(node.inputs[0], "transA"), turned(node.inputs[1], "transB")]), "alpha")
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    if bias is not None and attributes["beta"] != 0.0:
        total = put("Add", [total, scaled(bias, "beta")])
    assert total is not None
    result.name, total.name = None, name
    result.replace_all_uses_with(total, replace_graph_outputs=True)
    graph.remove(node, safe=True)
    return made
