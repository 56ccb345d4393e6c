"""Operators outside the ONNX standard as model-local functions, so that any ONNX runtime executes the training graph."""

from __future__ import annotations

from functools import cache

import onnx
import onnx_ir as ir

from deeploy_ext.graph.invocation import checked_attributes, operator_of
from deeploy_ext.operators import find
from deeploy_ext.operators.bodies import body_of, opset_version
from deeploy_ext.operators.spec import ONNX

IR_VERSION = 10
"""Of every model written: the newest that all supported onnxruntime releases read."""


@cache
def function_proto(domain: str, op_type: str) -> onnx.FunctionProto | None:
    """The reference body of an operator, with its attributes and their defaults; None for standard operators."""
    operator = find(domain, op_type)
    return None if operator is None or operator.function is None else body_of(operator)


def _needed(key: tuple[str, str], found: dict[tuple[str, str], onnx.FunctionProto]) -> None:
    """Collect the function of an operator behind those that its body calls."""
    proto = function_proto(*key)
    if proto is not None and key not in found:
        for node in proto.node:
            _needed((node.domain, node.op_type), found)
        found[key] = proto


def add_functions(model: ir.Model) -> None:
    """Give a model the functions that its nodes need and import the domains; callees stand before callers.

    Nodes get all attributes written out, since not every runtime knows the defaults of a function's attributes.
    """
    needed: dict[tuple[str, str], onnx.FunctionProto] = {}
    for key in sorted({(node.domain, node.op_type) for node in model.graph}):
        _needed(key, needed)
    for node in model.graph:
        if (node.domain, node.op_type) in needed:
            for name, value in checked_attributes(node, operator_of(node)).items():
                node.attributes.setdefault(name, ir.convenience.convert_attribute(name, value))
    model.functions.clear()
    for proto in needed.values():
        function = ir.serde.deserialize_function(proto)
        model.functions[function.identifier()] = function
    domains = {ONNX} | {node.domain for node in model.graph} | {domain for domain, _ in needed}
    model.graph.opset_imports.clear()
    model.graph.opset_imports.update({domain: opset_version(domain) for domain in sorted(domains)})
