"""Lowering: from the training ONNX to the :class:`Program` that is planned and emitted.

A list of small passes over each graph; each pass says what it does in its docstring.
"""

from __future__ import annotations

from itertools import accumulate

import numpy as np
import onnx_ir as ir

from deeploy_ext.errors import BadInputError
from deeploy_ext.graph.fuse import fuse_updates
from deeploy_ext.graph.invocation import checked_attributes, invocation_of, set_type
from deeploy_ext.graph.program import Call, Program, root
from deeploy_ext.operators import find
from deeploy_ext.operators.joining import Split
from deeploy_ext.operators.spec import MICROSOFT, ONNX, OWN, Operator, TensorType
from deeploy_ext.training.task import TrainingTask


def split_conv_grad(graph: ir.Graph) -> None:
    """ConvGrad becomes one node per gradient that is used; an output is known by its place in ONNX's operand order."""
    for node in [n for n in graph if (n.domain, n.op_type) == (MICROSOFT, "ConvGrad")]:
        dy, x, w = node.inputs[:3]
        parts = (("ConvGradX", [dy, w, x]), ("ConvGradW", [dy, x, w]), ("ConvGradB", [dy]))
        for (op_type, inputs), output in zip(parts, node.outputs, strict=False):
            if not _used(output):
                continue
            attributes = [] if op_type == "ConvGradB" else list(node.attributes.values())
            made = ir.Node(OWN, op_type, inputs, attributes, name=f"{node.name}/{op_type[-1]}")
            _move_output(output, made.outputs[0])
            graph.insert_before(node, made)
        graph.remove(node, safe=False)


def take_training_forms(graph: ir.Graph) -> None:
    """Operators without loops of their own become the operator that takes their place in training."""
    for node in graph:
        operator = _operator(node)
        form = operator.training_form(checked_attributes(node, operator))
        if form is not None and type(operator).phases is Operator.phases:
            node.domain, node.op_type = form


def split_to_slices(graph: ir.Graph) -> None:
    """Each output of a Split that is used becomes a Slice of its own."""
    for node in [n for n in graph if (n.domain, n.op_type) == (ONNX, "Split")]:
        call = invocation_of(node)
        assert isinstance(call.operator, Split)
        axis, sizes = call.operator.sizes(call)
        ends = list(accumulate(sizes))
        for number, (output, size, end) in enumerate(zip(node.outputs, sizes, ends, strict=True)):
            if not _used(output):
                continue
            limits = {"starts": end - size, "ends": end, "axes": axis}
            constants = [_constant(graph, f"{node.name}/{number}/{name}", limit) for name, limit in limits.items()]
            made = ir.Node(ONNX, "Slice", [node.inputs[0], *constants], name=f"{node.name}/{number}")
            _move_output(output, made.outputs[0])
            graph.insert_before(node, made)
        graph.remove(node, safe=False)


def turn_products(graph: ir.Graph) -> None:
    """A MatMul reads a matrix by columns instead of having its last two axes exchanged by a Transpose before it."""
    for node in [n for n in graph if (n.domain, n.op_type) == (ONNX, "MatMul")]:
        if min(len(found.shape) if found else 0 for found in invocation_of(node).inputs) < 2:
            continue
        chains = [_turns_before(value) for value in node.inputs]
        if not any(chains):
            continue
        sources = [chain[-1].inputs[0] if chain else value for chain, value in zip(chains, node.inputs, strict=True)]
        flags = {flag: len(chain) % 2 for flag, chain in zip(("transA", "transB"), chains, strict=True)}
        made = ir.Node(MICROSOFT, "FusedMatMul", sources, ir.convenience.convert_attributes(flags), name=node.name)
        _move_output(node.outputs[0], made.outputs[0])
        graph.insert_before(node, made)
        graph.remove(node, safe=True)
        for turn in {id(turn): turn for chain in chains for turn in chain}.values():
            if not _used(turn.outputs[0]):
                graph.remove(turn, safe=True)


def _turns_before(value: ir.Value | None) -> list[ir.Node]:
    """The Transposes that a matrix has passed through before, the last one first."""
    found: list[ir.Node] = []
    while value is not None and (turn := value.producer()) is not None and _turns_matrices(turn):
        found.append(turn)
        value = turn.inputs[0]
    return found


def _turns_matrices(node: ir.Node) -> bool:
    """Whether a Transpose exchanges the last two axes and leaves the others where they are."""
    if (node.domain, node.op_type) != (ONNX, "Transpose"):
        return False
    perm = list(checked_attributes(node, _operator(node))["perm"]) or list(range(len(node.outputs[0].shape or ())))[::-1]
    return perm == [*range(len(perm) - 2), len(perm) - 1, len(perm) - 2]


def _constant(graph: ir.Graph, name: str, number: int) -> ir.Value:
    array = np.array([number], np.int64)
    value = ir.Value(name=name, const_value=ir.tensor(array, name=name))
    set_type(value, TensorType(array.dtype, array.shape))
    graph.register_initializer(value)
    return value


def drop_unused_outputs(graph: ir.Graph) -> None:
    """Optional outputs that nobody reads lose their name, so no code or memory is spent on them."""
    for node in graph:
        operator = _operator(node)
        for name, output in zip(operator.outputs, node.outputs, strict=False):
            if name in operator.optional and name not in operator.needed and not _used(output):
                output.name = ""


def name_needed_outputs(graph: ir.Graph) -> None:
    """Outputs that an operator's phases need are named even when the graph does not read them."""
    for node in graph:
        operator = _operator(node)
        if len(node.outputs) < len(operator.outputs) and operator.needed:
            node.resize_outputs(len(operator.outputs))
        invocation = None
        for name in operator.needed:
            output = node.outputs[operator.outputs.index(name)]
            if not output.name or output.shape is None:
                invocation = invocation or invocation_of(node)
                types = operator.infer(invocation)
                wanted = types[operator.outputs.index(name)]
                output.name = output.name or f"{node.name}/{name}"
                output.type = ir.TensorType(ir.DataType.from_numpy(wanted.dtype))
                output.shape = ir.Shape(wanted.shape)


def narrow_labels(graph: ir.Graph) -> None:
    """int64 graph inputs (labels) are stored as int32 on the device."""
    for value in graph.inputs:
        if value.dtype == ir.DataType.INT64:
            value.type = ir.TensorType(ir.DataType.INT32)


PASSES = (
    take_training_forms,
    split_conv_grad,
    split_to_slices,
    turn_products,
    drop_unused_outputs,
    name_needed_outputs,
    narrow_labels,
)


def lower(task: TrainingTask, *, fuse: bool = False) -> Program:
    """Lower all graphs of a task; the nodes stay in the graphs' order.

    Args:
        fuse: update each weight within the step, where that is possible (:func:`fuse_updates`).
    """
    calls: list[Call] = []
    values: dict[str, TensorType] = {}
    same: dict[str, str] = {}
    constants: dict[str, np.ndarray] = {}
    models = {"step": task.step, "update": task.update} | ({"infer": task.infer} if task.infer else {})
    for entry, model in models.items():
        graph = model.clone().graph
        for run in PASSES:
            run(graph)
        inputs = {value.name or "" for value in graph.inputs}
        outputs = {value.name or "" for value in graph.outputs}
        constants |= {n: v.const_value.numpy() for n, v in graph.initializers.items() if v.const_value is not None}
        made = [_call(entry, node, values, same, inputs, outputs) for node in graph]
        calls += [call for call in made if not call.invocation.operator.view]
    fused = fuse_updates(task, calls, same) if fuse else None
    if fused:
        calls = fused
        _forget(task, calls, values, same)
    for state in task.states:
        if state.before not in values:  # nobody reads it: it is where the result is kept
            values[state.before] = values[state.after]
            same[state.after] = state.before
    read = {value for call in calls for value in call.reads}
    kept = {name: array for name, array in constants.items() if root(name, same) in {root(v, same) for v in read}}
    persistent = [p.weight for p in task.parameters] + [p.buffer for p in task.parameters]
    persistent += [s.before for s in task.states] + [*task.data, task.loss, *kept]
    persistent += [task.prediction] if task.prediction else []
    arguments = tuple(name for name in (task.reset, task.learning_rate) if name in values)
    return Program(
        tuple(calls), values, same, arguments, task.data, task.loss, kept, tuple(n for n in persistent if n in values)
    )


def _forget(task: TrainingTask, calls: list[Call], values: dict[str, TensorType], same: dict[str, str]) -> None:
    """Drop the accumulators' operands that nobody uses now."""
    used = {value for call in calls for value in call.operands.values()} | set(same.values())
    for name in [task.reset, *(n for p in task.parameters for n in (p.buffer_out, p.buffer))]:
        if name not in used:
            values.pop(name, None)
            same.pop(name, None)


def _call(
    entry: str,
    node: ir.Node,
    values: dict[str, TensorType],
    same: dict[str, str],
    inputs: set[str],
    outputs: set[str],
) -> Call:
    invocation = invocation_of(node)
    operator = invocation.operator
    operands: dict[str, str] = {}
    for names, slots, types in (
        (operator.inputs, node.inputs, invocation.inputs),
        (operator.outputs, node.outputs, invocation.outputs),
    ):
        for name, value, kind in zip(names, slots, types, strict=False):
            if value is None or not value.name or kind is None:
                continue
            if values.get(value.name, kind) != kind:
                raise BadInputError(f"value '{value.name}' has two types in step and update; rename one of them.")
            values[value.name] = kind
            operands[name] = value.name
    if operator.view:
        same[operands[operator.outputs[0]]] = operands[operator.inputs[0]]
    for before, after in operator.state:
        if operands.get(before) in inputs and operands.get(after) in outputs:
            same[operands[after]] = operands[before]
    return Call(entry, invocation, operands)


def _operator(node: ir.Node) -> Operator:
    operator = find(node.domain, node.op_type)
    assert operator is not None, f"{node.op_type} was checked while loading"
    return operator


def _used(value: ir.Value) -> bool:
    return bool(value.name) and (bool(value.uses()) or value.is_graph_output())


def _move_output(old: ir.Value, new: ir.Value) -> None:
    new.name, new.shape, new.type = old.name, old.shape, old.type
    old.replace_all_uses_with(new, replace_graph_outputs=True)
    old.name = None
