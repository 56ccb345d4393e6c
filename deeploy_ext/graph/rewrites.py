"""Passes that bring an inference export to the operators that can be trained; each runs on a graph of opset ``OPSET``.

Every pass changes the graph in place and returns what a person should know about it, one line per change; a rewrite that
means the same as before returns nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from onnx.reference import ReferenceEvaluator
from onnx_ir.passes import common

from deeploy_ext.errors import BadInputError
from deeploy_ext.graph.invocation import constant_of, label, set_type, type_of
from deeploy_ext.operators.spec import ONNX, OPSET, TensorType

LARGEST_FOLDED = 1 << 20
"""Elements of the largest constant that folding makes: shape arithmetic is small, anything else stays in the graph."""


def _is(node: ir.Node | None, *op_types: str) -> bool:
    return node is not None and node.domain == ONNX and node.op_type in op_types


def _attribute(node: ir.Node, name: str, default: Any) -> Any:
    return node.attributes[name].value if name in node.attributes else default


def _input(node: ir.Node, position: int) -> ir.Value | None:
    return node.inputs[position] if position < len(node.inputs) else None


def _replace(graph: ir.Graph, node: ir.Node, value: ir.Value) -> None:
    """Let everybody read ``value`` instead of the node's first output, and drop the node; the graph's output keeps its name."""
    old = node.outputs[0]
    if old.is_graph_output() and not value.is_graph_input():
        old.name, value.name = None, old.name
    old.replace_all_uses_with(value, replace_graph_outputs=True)
    graph.remove(node, safe=True)


def _single_reader(value: ir.Value | None) -> bool:
    return value is not None and len(value.uses()) == 1 and not value.is_graph_output()


def _put(graph: ir.Graph, old: ir.Node, made: ir.Node) -> None:
    """Put a node of the same meaning in the place of another."""
    before, after = old.outputs[0], made.outputs[0]
    found = type_of(before)
    if found is not None:
        set_type(after, found)
    made.name = old.name
    graph.insert_before(old, made)
    name = before.name
    before.replace_all_uses_with(after, replace_graph_outputs=True)
    graph.remove(old, safe=True)
    after.name = name


def _constant(graph: ir.Graph, name: str, array: np.ndarray) -> ir.Value:
    unique, count = name, 1
    while unique in graph.initializers:
        unique, count = f"{name}_{count}", count + 1
    value = ir.Value(name=unique, const_value=ir.tensor(array, name=unique))
    set_type(value, TensorType(array.dtype, array.shape))
    graph.register_initializer(value)
    return value


def drop_dropouts(graph: ir.Graph) -> list[str]:
    """Dropout passes its input on, as it does in inference."""
    dropped: list[str] = []
    for node in [node for node in graph if _is(node, "Dropout")]:
        flag = constant_of(_input(node, 2))
        mask = node.outputs[1] if len(node.outputs) > 1 else None
        if mask is not None and (mask.uses() or mask.is_graph_output()):
            raise BadInputError(f"{label(node)}: a mask that is read is not supported; export the model for inference.")
        if _input(node, 2) is not None and (flag is None or bool(flag.any())):
            raise BadInputError(f"{label(node)}: training with dropout is not supported; export the model for inference.")
        assert node.inputs[0] is not None
        dropped.append(node.name or "")
        _replace(graph, node, node.inputs[0])
    return [f"{len(dropped)} Dropout left out"] if dropped else []


def drop_last_softmax(graph: ir.Graph, loss: str) -> list[str]:
    """A Softmax or LogSoftmax that gives the prediction is part of the cross-entropy; other losses need the operator."""
    last = graph.outputs[0].producer()
    if last is None or not _is(last, "Softmax", "LogSoftmax") or loss != "cross_entropy":
        return []
    scores, axis = last.inputs[0], int(_attribute(last, "axis", -1))
    assert scores is not None
    rank = None if scores.shape is None else scores.shape.rank()
    if rank is not None and axis % rank != 1:
        raise BadInputError(f"{label(last)}: classes on axis {axis} of {rank} are not supported; put them on axis 1.")
    _replace(graph, last, scores)
    return [f"{last.op_type} at the end left to the loss"]


def fold_constants(graph: ir.Graph, weights: Collection[str]) -> list[str]:
    """Compute what depends on shapes and constants only; ``weights`` (names of floating-point initializers) stay."""
    model = ir.Model(graph, ir_version=10)
    while True:
        common.ShapeInferencePass(check_type=False, strict_mode=False, data_prop=True)(model)
        if not sum(_fold(graph, node, weights) for node in tuple(graph)):
            return []


def _fold(graph: ir.Graph, node: ir.Node, weights: Collection[str]) -> bool:
    if _is(node, "Shape"):
        result = _shape(node)
    elif _is(node, "CastLike"):
        result = _cast(node)
    else:
        result = _computed(node, weights)
    if result is None or node.outputs[0].is_graph_output():
        return False
    made = _constant(graph, f"{node.outputs[0].name}/folded", result)
    node.outputs[0].replace_all_uses_with(made)
    graph.remove(node, safe=True)
    return True


def _shape(node: ir.Node) -> np.ndarray | None:
    operand = type_of(node.inputs[0])
    if operand is None:
        return None
    start, end = _attribute(node, "start", 0), _attribute(node, "end", None)
    return np.array(operand.shape[start:end], np.int64)


def _cast(node: ir.Node) -> np.ndarray | None:
    """A constant in the element type of another value, of which only the type matters."""
    array, like = constant_of(node.inputs[0]), node.inputs[1]
    return None if array is None or like is None or like.dtype is None else array.astype(like.dtype.numpy())


def _computed(node: ir.Node, weights: Collection[str]) -> np.ndarray | None:
    """The value of a node all of whose inputs are constants, or None."""
    given = [value for value in node.inputs if value is not None]
    arrays = [constant_of(value) for value in given]
    known = node.outputs[0].shape
    if (
        node.domain != ONNX
        or not given
        or len(node.outputs) != 1
        or any(array is None for array in arrays)
        or any(value.name in weights for value in given)
        or known is None
        or not known.is_static()
        or int(np.prod(known.numpy(), dtype=object)) > LARGEST_FOLDED
        or not _deterministic(node.op_type)
    ):
        return None
    inputs = [onnx.helper.make_tensor_value_info(str(v.name), v.dtype or 1, None) for v in given]
    output = onnx.helper.make_tensor_value_info(str(node.outputs[0].name), 0, None)
    body = onnx.helper.make_graph([ir.to_proto(node)], "fold", inputs, [output])
    model = onnx.helper.make_model(body, opset_imports=[onnx.helper.make_opsetid(ONNX, OPSET)])
    feeds = {str(value.name): array for value, array in zip(given, arrays, strict=True)}
    try:
        (made,) = list(ReferenceEvaluator(model).run(None, feeds))
        return np.asarray(made)
    except Exception:  # an operator without reference, or operands that do not fit: reported with the graph's other faults
        return None


def _deterministic(op_type: str) -> bool:
    return op_type not in ("Bernoulli", "Multinomial") and not op_type.startswith("Random")


def means_to_pools(graph: ir.Graph) -> list[str]:
    """ReduceMean over all axes of the image is GlobalAveragePool, without them (keepdims=0) a Reshape behind it."""
    for node in [node for node in graph if _is(node, "ReduceMean")]:
        data, result = type_of(node.inputs[0]), type_of(node.outputs[0])
        axes = constant_of(_input(node, 1))
        if data is None or result is None or axes is None or len(data.shape) < 3:
            continue
        if sorted(int(axis) % len(data.shape) for axis in axes.reshape(-1)) != list(range(2, len(data.shape))):
            continue
        pool = ir.Node(ONNX, "GlobalAveragePool", [node.inputs[0]], name=node.name)
        if len(result.shape) == len(data.shape):
            _put(graph, node, pool)
            continue
        graph.insert_before(node, pool)
        pool.outputs[0].name = f"{node.outputs[0].name}/pooled"
        _put(graph, node, _reshape(graph, node, pool.outputs[0], result.shape))
    return []


def _reshape(graph: ir.Graph, old: ir.Node, data: ir.Value | None, shape: Sequence[int]) -> ir.Node:
    wanted = _constant(graph, f"{old.outputs[0].name}/shape", np.array(shape, np.int64))
    return ir.Node(ONNX, "Reshape", [data, wanted])


def transposes_to_reshapes(graph: ir.Graph) -> list[str]:
    """Transposes that only move axes of extent 1 are Reshapes; shapes are static."""
    for node in [node for node in graph if _is(node, "Transpose") and "perm" in node.attributes]:
        data, result = type_of(node.inputs[0]), type_of(node.outputs[0])
        if data is None or result is None:
            continue
        moved = [axis for axis in _attribute(node, "perm", ()) if data.shape[axis] != 1]
        if moved == sorted(moved):
            _put(graph, node, _reshape(graph, node, node.inputs[0], result.shape))
    return []


def gathers_to_slices(graph: ir.Graph) -> list[str]:
    """Gather of one known row is a Slice, and a Reshape behind it: the other rows are not moved."""
    for node in [node for node in graph if _is(node, "Gather")]:
        data, result = type_of(node.inputs[0]), type_of(node.outputs[0])
        rows = constant_of(_input(node, 1))
        if data is None or result is None or rows is None or rows.size != 1:
            continue
        axis = int(_attribute(node, "axis", 0)) % len(data.shape)
        row = int(rows.reshape(())) % data.shape[axis]
        name = node.outputs[0].name
        limits = {"starts": row, "ends": row + 1, "axes": axis}
        constants = [_constant(graph, f"{name}/{what}", np.array([number], np.int64)) for what, number in limits.items()]
        part = ir.Node(ONNX, "Slice", [node.inputs[0], *constants], name=f"{node.name}/slice")
        graph.insert_before(node, part)
        part.outputs[0].name = f"{name}/slice"
        _put(graph, node, _reshape(graph, node, part.outputs[0], result.shape))
    return []


def stacks_to_gemms(graph: ir.Graph) -> list[str]:
    """MatMul of a stack of matrices with one constant matrix is Gemm of all their rows, with the bias that is added behind."""
    for node in [node for node in graph if _is(node, "MatMul")]:
        a, b, y = (type_of(value) for value in (*node.inputs[:2], node.outputs[0]))
        matrix = node.inputs[1]
        if a is None or b is None or y is None or len(a.shape) < 3 or len(b.shape) != 2:
            continue
        if matrix is None or not matrix.is_initializer():
            continue
        name, (k, n) = node.outputs[0].name, b.shape
        last, bias = node, None
        uses = list(node.outputs[0].uses())
        if _single_reader(node.outputs[0]) and _is(uses[0][0], "Add"):
            (other,) = (value for value in uses[0][0].inputs if value is not node.outputs[0])
            found = type_of(other)
            if other is not None and other.is_initializer() and found is not None and found.shape in ((n,), (1,), ()):
                last, bias = uses[0][0], other
        rows = _reshape(graph, node, node.inputs[0], (a.elements // k, k))
        gemm = ir.Node(ONNX, "Gemm", [rows.outputs[0], matrix, *([bias] if bias else [])], name=f"{node.name}/rows")
        for made, what in ((rows, "rows"), (gemm, "product")):
            graph.insert_before(last, made)
            made.outputs[0].name = f"{name}/{what}"
        set_type(gemm.outputs[0], TensorType(y.dtype, (a.elements // k, n)))
        _put(graph, last, _reshape(graph, last, gemm.outputs[0], y.shape))
        if last is not node:
            graph.remove(node, safe=True)
    return []


def products_to_gemms(graph: ir.Graph) -> list[str]:
    """MatMul of two matrices is Gemm, also with a transposed matrix, and with the bias that is added behind it."""
    for node in [node for node in graph if _is(node, "MatMul")]:
        a, b = (type_of(value) for value in node.inputs[:2])
        if a is not None and b is not None and len(a.shape) == len(b.shape) == 2:
            _put(graph, node, ir.Node(ONNX, "Gemm", node.inputs))
    for node in [node for node in graph if _is(node, "Gemm")]:
        for position, flag in ((0, "transA"), (1, "transB")):
            value = node.inputs[position]
            turned = value.producer() if value is not None else None
            if turned is None or not _is(turned, "Transpose") or type_of(value) is None:
                continue
            if list(_attribute(turned, "perm", (1, 0))) == [1, 0]:
                node.replace_input_with(position, turned.inputs[0])
                node.attributes[flag] = ir.AttrInt64(flag, 1 - _attribute(node, flag, 0))
                if not turned.outputs[0].uses() and not turned.outputs[0].is_graph_output():
                    graph.remove(turned, safe=True)
    for node in [node for node in graph if _is(node, "Add")]:
        for product, bias in (node.inputs[:2], node.inputs[1::-1]):
            gemm = product.producer() if product is not None else None
            if gemm is None or not _is(gemm, "Gemm") or _input(gemm, 2) is not None or not _single_reader(product):
                continue
            if bias is not None and bias.is_initializer() and _broadcasts(bias, gemm.outputs[0]):
                _put(graph, node, ir.Node(ONNX, "Gemm", [*gemm.inputs[:2], bias], list(gemm.attributes.values())))
                graph.remove(gemm, safe=True)
                break
    return []


def _broadcasts(bias: ir.Value, result: ir.Value) -> bool:
    """Whether a bias fits a Gemm: it broadcasts to the product without widening it."""
    small, large = type_of(bias), type_of(result)
    if small is None or large is None or len(small.shape) > 2:
        return False
    padded = (1,) * (2 - len(small.shape)) + small.shape
    return all(extent in (1, whole) for extent, whole in zip(padded, large.shape, strict=True))


def set_batch_norms(graph: ir.Graph, mode: str | None) -> list[str]:
    """Batch normalisation with its stored statistics (``frozen``) or those of the mini-batch (``train``); None: as exported."""
    nodes = [node for node in graph if _is(node, "BatchNormalization")]
    for node in nodes:
        training = bool(_attribute(node, "training_mode", 0))
        if mode == "train" and not training:
            node.resize_outputs(3)
        elif mode == "frozen" and training:
            for value in node.outputs[1:]:
                if value.uses():
                    raise BadInputError(f"{label(node)}: its statistics are read; leave --batchnorm frozen out.")
                if value.is_graph_output():
                    graph.outputs.remove(value)
            node.resize_outputs(1)
        if mode is not None:
            node.attributes["training_mode"] = ir.AttrInt64("training_mode", int(mode == "train"))
        if _attribute(node, "training_mode", 0):
            _show_statistics(graph, node)
    if mode == "train" and not nodes:
        raise BadInputError("--batchnorm train: the model has no BatchNormalization; exporters fold it, see docs/tutorial.md.")
    trained = sum(bool(_attribute(node, "training_mode", 0)) for node in nodes)
    parts = ((trained, "trained"), (len(nodes) - trained, "frozen"))
    return [f"{count} BatchNormalization {what}" for count, what in parts if count]


def _show_statistics(graph: ir.Graph, node: ir.Node) -> None:
    """Running statistics are state: named outputs of the graph."""
    node.resize_outputs(3)
    for value, name in zip(node.outputs[1:], ("running_mean", "running_var"), strict=True):
        if not value.name:
            value.name = f"{node.outputs[0].name}/{name}"
        if not value.is_graph_output():
            graph.outputs.append(value)
