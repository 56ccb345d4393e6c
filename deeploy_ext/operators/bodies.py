"""Reference bodies: from ONNX's textual function syntax to functions, what can be wrong in one, and the types that it gives.

The operators of this package are checked by tests; those of plugins when the registry is read and whenever they infer types
(``guard.py``), so that a mistake in a body is reported as such and not by the runtime that meets it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import onnx
import onnx.parser
from onnx import helper, numpy_helper, shape_inference

from deeploy_ext.operators.spec import ONNX, OPSET, REQUIRED, Invocation, Operator, TensorType


def opset_version(domain: str) -> int:
    """Version of a domain's operator set in all models and functions."""
    return OPSET if domain == ONNX else 1


def body_of(operator: Operator) -> onnx.FunctionProto:
    """The reference body of an operator that has one, with its attributes and their defaults.

    Raises:
        onnx.parser.ParseError: the text is not of ONNX's function syntax.
    """
    assert operator.function is not None
    text = operator.function.lstrip()
    if text.startswith("<"):
        text = text[text.index(">") + 1 :]
    header = f'<domain: "{operator.domain}", opset_import: ["" : {OPSET}]> {operator.op_type}'
    proto = onnx.parser.parse_function(f"{header} {text}")
    for name, default in sorted(operator.attributes.items()):
        if default is REQUIRED:
            proto.attribute.append(name)
        else:
            proto.attribute_proto.append(helper.make_attribute(name, default))
    del proto.opset_import[:]
    for used in sorted({ONNX} | {node.domain for node in proto.node}):
        proto.opset_import.append(helper.make_opsetid(used, opset_version(used)))
    return proto


def mistake_in(operator: Operator, known: Collection[tuple[str, str]]) -> str:
    """What is wrong with a reference body as it stands, where ``known`` operators may be called; "": nothing."""
    if not isinstance(operator.function, str):
        return "it is no text"
    try:
        proto = body_of(operator)
    except onnx.parser.ParseError as error:
        said = error.args[0].decode(errors="replace") if error.args and isinstance(error.args[0], bytes) else str(error)
        return " ".join(said.split())
    except (ValueError, TypeError) as error:
        return f"{type(error).__name__}: {error}"
    for what, given, wanted in (("inputs", proto.input, operator.inputs), ("outputs", proto.output, operator.outputs)):
        if len(given) != len(wanted):
            return f"it has the {what} ({', '.join(given)}), the operator ({', '.join(wanted)})"
    values = {"", *proto.input}
    for node in proto.node:
        standard = node.domain == ONNX and onnx.defs.has(node.op_type, ONNX)
        if not standard and (node.domain, node.op_type) not in known:
            return f"it calls {node.domain or 'ai.onnx'}::{node.op_type}, which is no known operator"
        for name in node.input:
            if name not in values:
                return f"{node.op_type} reads '{name}', which nothing before it gives"
        for attribute in node.attribute:
            if attribute.ref_attr_name and attribute.ref_attr_name not in operator.attributes:
                return f"{node.op_type} asks for the attribute '{attribute.ref_attr_name}', which the operator does not have"
        values.update(node.output)
    missing = [name for name in proto.output if name not in values]
    return f"nothing gives its output '{missing[0]}'" if missing else ""


def types_by_body(call: Invocation) -> Sequence[TensorType | None] | str:
    """Types of a use's outputs as ONNX infers them from the reference body, None where it cannot; why the body does not fit."""
    operator = call.operator
    given = list(zip(operator.inputs, call.inputs, strict=False))
    names = [name if kind is not None or name in call.constants else "" for name, kind in given]
    constants = [numpy_helper.from_array(call.constants[name], name) for name in names if name in call.constants]
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(kind.dtype), kind.shape)
        for name, kind in given
        if kind is not None and name not in call.constants
    ]
    set_here = {
        name: value for name, value in call.attributes.items() if _plain(value) != _plain(operator.attributes.get(name))
    }
    node = helper.make_node(operator.op_type, names, list(operator.outputs), domain=operator.domain, **set_here)
    outputs = [onnx.ValueInfoProto(name=name) for name in operator.outputs]
    body = body_of(operator)
    domains = sorted({ONNX, operator.domain, *(node.domain for node in body.node)})
    model = helper.make_model(
        helper.make_graph([node], "use", inputs, outputs, constants),
        functions=[body],
        opset_imports=[helper.make_opsetid(domain, opset_version(domain)) for domain in domains],
    )
    try:
        inferred = shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
    except shape_inference.InferenceError as error:
        return " ".join(str(error).split())[:300]
    return [_type_of(value) for value in inferred.graph.output]


def _plain(value: object) -> object:
    return list(value) if isinstance(value, (list, tuple)) else value


def _type_of(value: onnx.ValueInfoProto) -> TensorType | None:
    tensor = value.type.tensor_type
    if not tensor.elem_type or not tensor.HasField("shape") or not all(d.HasField("dim_value") for d in tensor.shape.dim):
        return None
    dtype = np.dtype(helper.tensor_dtype_to_np_dtype(tensor.elem_type))
    return TensorType(dtype, tuple(dimension.dim_value for dimension in tensor.shape.dim))
