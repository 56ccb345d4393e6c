"""From a node of the graph to what the operator's methods see of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from deeploy_ext.errors import BadInputError
from deeploy_ext.operators import find
from deeploy_ext.operators.spec import REQUIRED, Invocation, Operator, TensorType


def label(node: ir.Node) -> str:
    """How a message names a node: ``name (op_type)``."""
    return f"{node.name or 'unnamed node'} ({node.op_type})"


def operator_of(node: ir.Node) -> Operator:
    """The operator of a node. Raises BadInputError for an operator that is not in the registry."""
    operator = find(node.domain, node.op_type)
    if operator is None:
        domain = node.domain or "ai.onnx"
        raise BadInputError(f"{label(node)}: operator {domain}::{node.op_type} is not supported; replace it in the model.")
    return operator


def type_of(value: ir.Value | None) -> TensorType | None:
    """Element type and static shape of a value; None while they are unknown or the operand is absent."""
    if value is None or value.name == "" or value.dtype is None or value.shape is None or not value.shape.is_static():
        return None
    return TensorType(value.dtype.numpy(), value.shape.numpy())


def set_type(value: ir.Value, found: TensorType) -> None:
    """Write element type and shape into a value of the graph."""
    value.dtype = ir.DataType.from_numpy(found.dtype)
    value.shape = ir.Shape(found.shape)


def constant_of(value: ir.Value | None) -> np.ndarray[Any, Any] | None:
    """What a value is at compile time, or None when only the run time knows."""
    if value is None or value.const_value is None or value.is_graph_input():
        return None
    return value.const_value.numpy()


def _plain(attribute: ir.Attr) -> Any:
    """Value of an attribute as Python data: int, float, str, lists of these, or a numpy array."""
    if attribute.type == ir.AttributeType.TENSOR:
        return attribute.as_tensor().numpy()
    value = attribute.value
    return list(value) if isinstance(value, (tuple, list)) else value


def checked_attributes(node: ir.Node, operator: Operator) -> dict[str, Any]:
    """All attributes of the operator with defaults filled in. Refuses attributes and types that it does not list."""
    found: dict[str, Any] = {}
    for attribute in node.attributes.values():
        if attribute.name in operator.redundant_attributes:
            continue
        if attribute.name not in operator.attributes:
            raise BadInputError(
                f"{label(node)}: attribute '{attribute.name}' is not supported; export the model without it "
                f"(supported: {', '.join(sorted(operator.attributes)) or 'none'})."
            )
        found[attribute.name] = _plain(attribute)
    for name, default in operator.attributes.items():
        if name not in found and default is REQUIRED:
            raise BadInputError(f"{label(node)}: attribute '{name}' is missing; set it in the model.")
        given = found.setdefault(name, default)
        if default is not REQUIRED and type(given) is not type(default):
            raise BadInputError(
                f"{label(node)}: attribute '{name}' is {type(given).__name__}, not {type(default).__name__}; correct the model."
            )
    return {name: found[name] for name in sorted(found)}


def _check_operands(node: ir.Node, operator: Operator, kind: str, values: Sequence[Any], names: Sequence[str]) -> None:
    if len(values) > len(names):
        raise BadInputError(f"{label(node)}: {len(values)} {kind}s where {len(names)} are known; correct the model.")
    missing = [
        name for i, name in enumerate(names) if name not in operator.optional and (i >= len(values) or values[i] is None)
    ]
    if missing and kind == "input":
        raise BadInputError(f"{label(node)}: input '{missing[0]}' is missing; give it in the model.")


def invocation_of(node: ir.Node) -> Invocation:
    """The node with types, checked attributes and constant inputs.

    Raises:
        BadInputError: unknown operator, attribute or operand, or an operand that must be there and is not.
    """
    operator = operator_of(node)
    _check_operands(node, operator, "input", node.inputs, operator.inputs)
    _check_operands(node, operator, "output", node.outputs, operator.outputs)
    constants: Mapping[str, Any] = {
        name: constant
        for name, value in zip(operator.inputs, node.inputs, strict=False)
        if (constant := constant_of(value)) is not None
    }
    return Invocation(
        name=node.name or node.op_type,
        operator=operator,
        inputs=tuple(type_of(value) for value in node.inputs),
        outputs=tuple(type_of(value) for value in node.outputs),
        attributes=checked_attributes(node, operator),
        constants=constants,
        redundant={a.name: _plain(a) for a in node.attributes.values() if a.name in operator.redundant_attributes},
    )
