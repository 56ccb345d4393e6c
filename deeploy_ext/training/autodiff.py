"""Reverse-mode differentiation: from a forward network to its training graph and its update graph.

The sweep walks the forward nodes backwards; each operator's gradient rule turns gradients of outputs into gradients of
inputs, and a value that several nodes read gets the sum. Nothing is computed that no trained parameter needs.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from deeploy_ext.errors import BadInputError
from deeploy_ext.graph.invocation import checked_attributes, invocation_of, label, operator_of, type_of
from deeploy_ext.graph.normalise import drop_dead, settle_outputs
from deeploy_ext.graph.shapes import infer_shapes
from deeploy_ext.operators.spec import MICROSOFT, OWN, TensorType
from deeploy_ext.training.builder import GraphBuilder
from deeploy_ext.training.functions import IR_VERSION, add_functions
from deeploy_ext.training.inference import inference
from deeploy_ext.training.losses import with_loss
from deeploy_ext.training.task import Arrays, ForwardNetwork, Parameter, State, TrainingTask

RESET = "reset"
LEARNING_RATE = "learning_rate"


def use_training_forms(graph: ir.Graph) -> None:
    """Operators that name a training form become that operator, with the same operands and attributes."""
    for node in graph:
        operator = operator_of(node)
        form = operator.training_form(checked_attributes(node, operator))
        if form is not None:
            node.domain, node.op_type = form


def lift_states(graph: ir.Graph) -> tuple[tuple[State, ...], Arrays]:
    """Constants that an operator updates in a named output become inputs of the graph, the outputs outputs of it."""
    states: list[State] = []
    initial: Arrays = {}
    for node in graph:
        operator = operator_of(node)
        for source, result in operator.state:
            position = operator.outputs.index(result)
            before = node.inputs[operator.inputs.index(source)]
            if before is None or not before.is_initializer() or position >= len(node.outputs):
                continue
            after = node.outputs[position]
            if not after.name:
                continue
            if len(before.uses()) != 1:
                raise BadInputError(f"{label(node)}: the state '{before.name}' has other readers; give every node its own.")
            initial[before.name or ""] = _lift(graph, before)
            if not after.is_graph_output():
                graph.outputs.append(after)
            states.append(State(before.name or "", after.name))
    return tuple(states), initial


def _lift(graph: ir.Graph, value: ir.Value) -> np.ndarray:
    """An initializer becomes an input of the graph; returns what it held."""
    assert value.name and value.const_value is not None
    del graph.initializers[value.name]
    array = value.const_value.numpy()
    value.const_value = None
    graph.inputs.append(value)
    return array


def needing_gradient(graph: ir.Graph, trained: list[ir.Value]) -> set[ir.Value]:
    """All values that depend on a trained one."""
    needed = set(trained)
    for node in graph:
        if any(value in needed for value in node.inputs):
            needed.update(node.outputs)
    return needed


def backward(graph: ir.Graph, build: GraphBuilder, loss: ir.Value) -> dict[ir.Value, ir.Value]:
    """Append the backward pass; returns the gradients of graph inputs, by value. Each is named ``<value>_grad``."""
    build.prefix = f"{loss.name}_grad"
    one = build.constant("one", np.ones(_typed(loss).shape, np.float32))
    parts: dict[ir.Value, list[ir.Value]] = {loss: [one]}
    for node in reversed(tuple(graph)):
        grads = [_total(build, value, parts.pop(value)) if value in parts else None for value in node.outputs]
        if all(grad is None for grad in grads) or not any(build.wanted(node)):
            continue
        build.prefix = f"{node.name}_grad"
        made = operator_of(node).gradient(invocation_of(node), node, grads, build)
        for value, grad in zip(node.inputs, made, strict=False):
            if value is not None and grad is not None and value in build.needed:
                parts.setdefault(value, []).append(grad)
    return {value: _total(build, value, found) for value, found in parts.items()}


def _total(build: GraphBuilder, value: ir.Value, parts: list[ir.Value]) -> ir.Value:
    """The sum of all gradients of a value."""
    build.prefix = f"{value.name}_grad"
    total = parts[0]
    for part in parts[1:]:
        total = build.node("Add", [total, part])
    producer = total.producer()
    if producer is not None and not total.is_graph_output() and (total.name or "").startswith(f"{producer.name}."):
        total.name = build.unique(f"{value.name}_grad")
    return total


def differentiate(network: ForwardNetwork) -> TrainingTask:
    """The training task of a forward network.

    Raises:
        BadInputError: nothing to train, a parameter without influence on the loss, or an operator without gradient.
    """
    forward = with_loss(network)
    step = ir.from_proto(ir.to_proto(forward))
    graph = step.graph
    data = tuple(value.name or "" for value in graph.inputs)
    use_training_forms(graph)
    settle_outputs(graph)
    infer_shapes(graph)
    trained = [graph.initializers[name] for name in network.trainable if name in graph.initializers]
    if not trained:
        raise BadInputError(f"{network.name}: nothing to train; name at least one weight in 'trainable'.")
    initial = {value.name or "": _lift(graph, value) for value in trained}
    states, state_values = lift_states(graph)
    loss = graph.outputs[0]
    build = GraphBuilder(graph, needing_gradient(graph, trained))
    if loss not in build.needed:
        raise BadInputError(f"{network.name}: the loss does not depend on any trained weight; check 'trainable'.")
    grads = backward(graph, build, loss)
    reset = build.input(RESET, TensorType(np.dtype(np.bool_), (1,)))
    parameters = tuple(accumulate(network.name, build, trained, grads, reset))
    rate = build.unique(LEARNING_RATE)
    keep = {loss.name, *(p.buffer_out for p in parameters), *(s.after for s in states)}
    for value in [value for value in graph.outputs if value.name not in keep]:
        graph.outputs.remove(value)
    drop_dead(graph)
    settle_outputs(graph)
    infer_shapes(graph)
    add_functions(step)
    return TrainingTask(
        name=network.name,
        step=step,
        update=sgd_update(parameters, trained, rate),
        forward=forward,
        infer=inference(network, [*(p.weight for p in parameters), *(s.before for s in states)]),
        loss=loss.name or "",
        reset=reset.name or "",
        learning_rate=rate,
        data=data,
        parameters=parameters,
        states=states,
        initial=initial | state_values,
        batches=network.batches,
        spec=network.spec,
        original=network.original,
    )


def accumulate(
    name: str, build: GraphBuilder, trained: list[ir.Value], grads: dict[ir.Value, ir.Value], reset: ir.Value
) -> list[Parameter]:
    """One accumulator per trained weight; its buffer is an input and an output of the graph."""
    silent = [value.name or "" for value in trained if value not in grads]
    if silent:
        raise BadInputError(f"{name}: no gradient reaches {', '.join(silent)}; take it out of 'trainable'.")
    buffers = [build.input(f"{value.name}_grad.accumulation.buffer", _typed(value)) for value in trained]
    made: list[Parameter] = []
    for value, buffer in zip(trained, buffers, strict=True):
        build.prefix = f"{value.name}_grad"
        _, out = build.node("InPlaceAccumulatorV2", [buffer, grads[value], reset], domain=MICROSOFT, outputs=2)
        out.name = build.unique(f"{buffer.name}_out")
        build.graph.outputs.append(out)
        made.append(Parameter(value.name or "", buffer.name or "", out.name, build.unique(f"{value.name}_updated")))
    return made


def _typed(value: ir.Value) -> TensorType:
    found = type_of(value)
    assert found is not None
    return found


def sgd_update(parameters: tuple[Parameter, ...], weights: list[ir.Value], learning_rate: str) -> ir.Model:
    """The update graph: one SGD node per parameter; inputs weights, buffers, learning rate, outputs updated weights.

    A name that is in both graphs means the same tensor, so those of new values must not be in the step graph.
    """
    graph = ir.Graph([], [], nodes=[], opset_imports={"": 1}, name="update")
    build = GraphBuilder(graph)
    before = [build.input(parameter.weight, _typed(weight)) for parameter, weight in zip(parameters, weights, strict=True)]
    buffers = [build.input(parameter.buffer, _typed(weight)) for parameter, weight in zip(parameters, weights, strict=True)]
    rate = build.input(learning_rate, TensorType(np.dtype(np.float32), ()))
    for parameter, weight, buffer in zip(parameters, before, buffers, strict=True):
        build.prefix = parameter.weight
        value = build.node("SGD", [weight, buffer, rate], domain=OWN)
        value.name = build.unique(parameter.updated)
        graph.outputs.append(value)
    model = ir.Model(graph, ir_version=IR_VERSION)
    add_functions(model)
    return model
