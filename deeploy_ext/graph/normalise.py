"""Small passes that bring a graph from any exporter to the one form that everything else works on.

One opset, own domain for custom operators, constants as initializers, topological order, static shapes, unique names,
no dead nodes. Each pass changes the graph in place and returns what it changed, one line per change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import onnx_ir as ir
from onnx_ir.passes import common

from deeploy_ext.errors import BadInputError
from deeploy_ext.graph.frames import frames_to_parts
from deeploy_ext.graph.invocation import label
from deeploy_ext.graph.lines import lines_to_images
from deeploy_ext.graph.shapes import infer_shapes
from deeploy_ext.operators import find, registry
from deeploy_ext.operators.joining import MOST_PARTS
from deeploy_ext.operators.spec import MICROSOFT, ONNX, OWN

Pass = Callable[[ir.Graph], list[str]]


def refuse_subgraphs(graph: ir.Graph) -> list[str]:
    """Control flow cannot be planned ahead of time."""
    for node in graph:
        if any(attribute.type in (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS) for attribute in node.attributes.values()):
            raise BadInputError(f"{label(node)}: control flow is not supported; export the model without loops and branches.")
    return []


def drop_descriptions(graph: ir.Graph) -> list[str]:
    """Drop ``description`` attributes: text for people that no operator knows."""
    described = [node for node in graph if "description" in node.attributes]
    for node in described:
        del node.attributes["description"]
    return [f"{label(node)}: dropped the description" for node in described]


_SHARED = (OWN, MICROSOFT, ONNX)
"""Domains among which exporters move operators; a name in any other is that domain's own."""


def use_known_names(graph: ir.Graph) -> list[str]:
    """Operators that are written under another name, or in another of the shared domains, than the one they are known by."""
    aliases = {
        (alias.domain, alias.op_type): (operator, alias) for operator in registry().values() for alias in operator.aliases
    }
    changed: list[str] = []
    for node in graph:
        if find(node.domain, node.op_type) is not None:
            continue
        before = label(node)
        if (node.domain, node.op_type) in aliases:
            operator, alias = aliases[node.domain, node.op_type]
            node.domain, node.op_type = operator.key
            for name in [name for name in alias.renamed if name in node.attributes]:
                value = node.attributes.pop(name)
                node.attributes.add(ir.Attr(alias.renamed[name], value.type, value.value))
            node.attributes.update({n: ir.convenience.convert_attribute(n, value) for n, value in alias.given.items()})
            changed.append(f"{before}: is {operator.op_type}")
            continue
        for domain in _SHARED if node.domain in _SHARED else ():
            if find(domain, node.op_type) is not None:
                node.domain = domain
                changed.append(f"{before}: moved to domain {domain or 'ai.onnx'}")
                break
    return changed


def axes_to_inputs(graph: ir.Graph) -> list[str]:
    """Operators whose ``axes`` became an input (ReduceSum, Squeeze, Unsqueeze): attribute, list or single number, to input."""
    changed: list[str] = []
    for node in graph:
        operator = find(node.domain, node.op_type)
        if operator is None or "axes" not in node.attributes or "axes" not in operator.inputs:
            continue
        given = node.attributes.pop("axes")
        axes = [given.as_int()] if given.type == ir.AttributeType.INT else list(given.as_ints())
        position = operator.inputs.index("axes")
        node.resize_inputs(max(len(node.inputs), position + 1))
        node.replace_input_with(position, _new_constant(graph, f"{node.outputs[0].name}/axes", np.array(axes, np.int64)))
        changed.append(f"{label(node)}: axes {axes} made an input")
    return changed


def split_concats(graph: ir.Graph) -> list[str]:
    """A Concat of more inputs than a tile nest can have becomes a tree of Concats."""
    changed: list[str] = []
    for node in [n for n in graph if (n.domain, n.op_type) == (ONNX, "Concat") and len(n.inputs) > MOST_PARTS]:
        parts, made = list(node.inputs), 0
        while len(parts) > MOST_PARTS:
            rows = [parts[start : start + MOST_PARTS] for start in range(0, len(parts), MOST_PARTS)]
            parts = [row[0] for row in rows]
            for place, row in enumerate(rows):
                if len(row) == 1:
                    continue
                one = ir.Node(ONNX, "Concat", row, list(node.attributes.values()), name=f"{node.name}/{made}")
                one.outputs[0].name = f"{node.outputs[0].name}/{made}"
                graph.insert_before(node, one)
                parts[place], made = one.outputs[0], made + 1
        changed.append(f"{label(node)}: {len(node.inputs)} inputs put together by {made} more Concats")
        node.resize_inputs(len(parts))
        for place, value in enumerate(parts):
            node.replace_input_with(place, value)
    return changed


def complete_operands(graph: ir.Graph) -> list[str]:
    """Nodes written without their first operand where the operator says what is meant then (gradients of losses)."""
    changed: list[str] = []
    for node in graph:
        operator = find(node.domain, node.op_type)
        if operator is None or operator.implied is None or len(node.inputs) != len(operator.inputs) - 1:
            continue
        implied = np.array(operator.implied, np.float32)
        inputs = [_new_constant(graph, f"{node.outputs[0].name}/{operator.inputs[0]}", implied), *node.inputs]
        node.resize_inputs(len(inputs))
        for i, value in enumerate(inputs):
            node.replace_input_with(i, value)
        changed.append(f"{label(node)}: operand '{operator.inputs[0]}' = {operator.implied:g} added")
    return changed


def _new_constant(graph: ir.Graph, name: str, array: np.ndarray) -> ir.Value:
    names = {value.name for value in _values(graph)}
    unique, count = name, 1
    while unique in names:
        unique, count = f"{name}_{count}", count + 1
    value = ir.Value(name=unique, const_value=ir.tensor(array, name=unique))
    graph.register_initializer(value)
    return value


def _values(graph: ir.Graph) -> Iterator[ir.Value]:
    yield from graph.inputs
    yield from graph.initializers.values()
    for node in graph:
        yield from node.outputs


def fix_names(graph: ir.Graph) -> list[str]:
    """Give every node and value a name of its own."""
    return _with_model(graph, common.NameFixPass(), "made names unique")


def lift_constants(graph: ir.Graph) -> list[str]:
    """Constant nodes become initializers."""
    return _with_model(graph, common.LiftConstantsToInitializersPass(True, 0), "made Constant nodes initializers")


def sort_nodes(graph: ir.Graph) -> list[str]:
    """Topological order, stable for graphs that are sorted already."""
    try:
        return _with_model(graph, common.TopologicalSortPass(), "sorted the nodes")
    except ValueError as error:  # the sort's own word for a cycle
        raise BadInputError("the graph has a cycle: a node needs what it gives; export the model again.") from error


def drop_identities(graph: ir.Graph) -> list[str]:
    """Identity nodes vanish where they do not connect an input of the graph with an output."""
    return _with_model(graph, common.IdentityEliminationPass(), "dropped Identity nodes")


def drop_dead(graph: ir.Graph) -> list[str]:
    """Nodes and initializers without influence on an output of the graph."""
    return _with_model(graph, common.RemoveUnusedNodesPass(), "dropped dead nodes")


def _with_model(graph: ir.Graph, one: ir.passes.InPlacePass, said: str) -> list[str]:
    return [said] if one(ir.Model(graph, ir_version=10)).modified else []


def settle_outputs(graph: ir.Graph) -> list[str]:
    """Every node lists all outputs of its operator: optional ones without use have an empty name, ``needed`` ones a name.

    The last output of a function keeps its name, used or not: files drop trailing empty names, and a runtime then misses
    an output of the function.
    """
    changed: list[str] = []
    names = {value.name for value in _values(graph)}
    for node in graph:
        operator = find(node.domain, node.op_type)
        if operator is None or operator.variadic:
            continue
        if len(node.outputs) < len(operator.outputs):
            node.resize_outputs(len(operator.outputs))
        for name, value in zip(operator.outputs, node.outputs, strict=False):
            used = bool(value.uses()) or value.is_graph_output() or name in operator.needed or name not in operator.optional
            if used or (operator.function is not None and name == operator.outputs[-1]):
                if not value.name:
                    value.name = f"{node.name}/{name}"
                    while value.name in names:
                        value.name += "_"
                    names.add(value.name)
                    changed.append(f"{label(node)}: output '{name}' named")
            elif value.name != "":
                value.name = ""
                changed.append(f"{label(node)}: unused output '{name}' cleared")
    return changed


PASSES: tuple[Pass, ...] = (
    refuse_subgraphs,
    drop_descriptions,
    use_known_names,
    axes_to_inputs,
    split_concats,
    complete_operands,
    fix_names,
    lift_constants,
    sort_nodes,
    drop_identities,
    lines_to_images,
    infer_shapes,
    frames_to_parts,
    drop_dead,
    settle_outputs,
    infer_shapes,
)


def normalise(graph: ir.Graph, before: tuple[Pass, ...] = ()) -> list[str]:
    """Run ``before`` and all passes on a graph; returns what changed.

    Raises:
        BadInputError: the graph holds something that is not supported.
    """
    try:
        return [line for one in (*before, *PASSES) for line in one(graph)]
    except ir.passes.PassError as error:
        cause = error.__cause__ or error
        raise BadInputError(f"the graph is not valid ONNX: {cause}; check it with onnx.checker.") from error
