"""Rewrites of what onnxruntime's gradient builder writes into training graphs, to operators of the registry.

Each pass changes the graph in place and returns what it changed, one line per change. They run before shapes are known.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from deeploy_ext.errors import BadInputError
from deeploy_ext.graph.invocation import label
from deeploy_ext.operators.spec import MICROSOFT, ONNX, OWN

_RENAMED = {"ConcatTraining": "Concat", "SplitTraining": "Split", "ReduceSumTraining": "ReduceSum"}
"""Twins of standard operators: ConcatTraining also gives the inputs' sizes, the others take as inputs what were attributes."""


def replaced(node: ir.Node, op_type: str, inputs: list[ir.Value | None], domain: str = ONNX, **attributes: Any) -> ir.Node:
    """Puts another node into the place of one, giving its first output."""
    graph = node.graph
    assert isinstance(graph, ir.Graph)
    made = ir.Node(domain, op_type, inputs, ir.convenience.convert_attributes(attributes), name=node.name)
    output, old = made.outputs[0], node.outputs[0]
    output.name, output.shape, output.type = old.name, old.shape, old.type
    old.replace_all_uses_with(output, replace_graph_outputs=True)
    old.name = None
    graph.insert_before(node, made)
    graph.remove(node, safe=True)
    return made


def rename_twins(graph: ir.Graph) -> list[str]:
    """ConcatTraining, SplitTraining and ReduceSumTraining are Concat, Split and ReduceSum."""
    changed: list[str] = []
    for node in graph:
        if node.domain != MICROSOFT or node.op_type not in _RENAMED:
            continue
        if node.op_type == "ConcatTraining" and len(node.outputs) > 1:
            if node.outputs[1].uses():
                raise BadInputError(f"{label(node)}: its second output is used, which is not supported; make it constant.")
            node.resize_outputs(1)
        changed.append(f"{label(node)}: made {_RENAMED[node.op_type]}")
        node.domain, node.op_type = ONNX, _RENAMED[node.op_type]
    return changed


def pool_gradients(graph: ir.Graph) -> list[str]:
    """MaxPoolGrad of the maxima's places (int64): the maxima are found again from the pooled values instead."""
    changed: list[str] = []
    for node in tuple(graph):
        if node.domain == OWN or node.op_type != "MaxPoolGrad" or len(node.inputs) != 2 or node.inputs[1] is None:
            continue
        pool = node.inputs[1].producer()
        if pool is None or pool.op_type != "MaxPool" or len(pool.outputs) < 2 or pool.outputs[1] is not node.inputs[1]:
            continue
        attributes = {name: value.value for name, value in pool.attributes.items()}
        changed.append(f"{label(node)}: looks for the maxima of {label(pool)} again")
        replaced(node, "MaxPoolGrad", [node.inputs[0], pool.inputs[0]], OWN, **attributes)
    for pool in graph:
        if pool.op_type == "MaxPool" and len(pool.outputs) > 1 and not pool.outputs[1].uses():
            pool.resize_outputs(1)
    return changed


def split_fused_products(graph: ir.Graph) -> list[str]:
    """FusedMatMul with its transpositions and factor: Gemm of matrices, else Transpose, MatMul and Mul."""
    changed: list[str] = []
    for node in tuple(graph):
        if (node.domain, node.op_type) != (MICROSOFT, "FusedMatMul"):
            continue
        given = {name: attribute.value for name, attribute in node.attributes.items()}
        alpha, sides = float(given.pop("alpha", 1.0)), [bool(given.pop(name, 0)) for name in ("transA", "transB")]
        if any(given.values()):
            raise BadInputError(f"{label(node)}: {next(name for name in given if given[name])} is not supported; leave it out.")
        ranks = [_rank(value) for value in node.inputs]
        changed.append(f"{label(node)}: made plain products")
        if ranks == [2, 2]:
            replaced(node, "Gemm", list(node.inputs), alpha=alpha, transA=int(sides[0]), transB=int(sides[1]))
            continue
        inputs: list[ir.Value | None] = []
        for value, turned, rank in zip(node.inputs, sides, ranks, strict=True):
            if turned and rank is None:
                raise BadInputError(f"{label(node)}: the rank of '{value.name if value else ''}' is unknown; export its shape.")
            order = [*range((rank or 2) - 2), (rank or 2) - 1, (rank or 2) - 2]
            inputs.append(_before(node, "Transpose", [value], perm=order) if turned else value)
        if alpha != 1.0:
            inputs[0] = _before(node, "Mul", [inputs[0], _constant(graph, f"{node.name}/alpha", alpha)])
        replaced(node, "MatMul", inputs)
    return changed


def scales_to_products(graph: ir.Graph) -> list[str]:
    """Scale (by a scalar, or with ``scale_down`` by one over it) is Mul or Div."""
    changed: list[str] = []
    for node in tuple(graph):
        if (node.domain, node.op_type) == (MICROSOFT, "Scale"):
            down = node.attributes["scale_down"].as_int() if "scale_down" in node.attributes else 0
            changed.append(f"{label(node)}: made {'Div' if down else 'Mul'}")
            replaced(node, "Div" if down else "Mul", list(node.inputs))
    return changed


def _rank(value: ir.Value | None) -> int | None:
    return None if value is None or value.shape is None else len(value.shape)


def _before(node: ir.Node, op_type: str, inputs: list[ir.Value | None], **attributes: Any) -> ir.Value:
    """A new node before another one; returns its output."""
    graph = node.graph
    assert isinstance(graph, ir.Graph)
    made = ir.Node(ONNX, op_type, inputs, ir.convenience.convert_attributes(attributes))
    graph.insert_before(node, made)
    return made.outputs[0]


def _constant(graph: ir.Graph, name: str, number: float) -> ir.Value:
    array = np.array(number, np.float32)
    value = ir.Value(name=name, const_value=ir.tensor(array, name=name))
    graph.register_initializer(value)
    return value


IDIOMS = (rename_twins, pool_gradients, split_fused_products, scales_to_products)
