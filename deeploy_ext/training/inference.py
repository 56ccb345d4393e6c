"""The inference graph of a network that trains: the forward graph with weights and running statistics as inputs."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from deeploy_ext.graph.invocation import checked_attributes, operator_of
from deeploy_ext.graph.normalise import drop_dead, settle_outputs
from deeploy_ext.graph.shapes import infer_shapes
from deeploy_ext.training.functions import IR_VERSION, add_functions
from deeploy_ext.training.task import ForwardNetwork

PREFIX = "infer/"
"""Of all values that the inference graph makes, so that they are not taken for those of the training graph. Where some name
of the network starts like this, underscores go before it."""


def inference(network: ForwardNetwork, given: Sequence[str]) -> ir.Model:
    """The forward graph up to the prediction, without the loss.

    Args:
        given: initializers that become inputs, because training changes them.
    """
    model = ir.from_proto(ir.to_proto(network.model))
    model.ir_version = IR_VERSION
    graph = model.graph
    prefix = PREFIX
    while any(name.startswith(prefix) for name in _names(graph)):
        prefix = f"_{prefix}"
    for name in given:
        value = graph.initializers.pop(name)
        value.const_value = None
        graph.inputs.append(value)
    for node in graph:
        operator = operator_of(node)
        for name, inferring in operator.inference_attributes.items():
            if checked_attributes(node, operator)[name] != inferring:
                node.attributes.add(ir.convenience.convert_attribute(name, inferring))
        for value in node.outputs:
            if value.name:
                value.name = f"{prefix}{value.name}"
    for output in list(graph.outputs[1:]):
        graph.outputs.remove(output)
    drop_dead(graph)
    settle_outputs(graph)
    infer_shapes(graph)
    add_functions(model)
    return model


def _names(graph: ir.Graph) -> list[str]:
    values = [*graph.inputs, *graph.initializers.values(), *(value for node in graph for value in node.outputs)]
    return [value.name or "" for value in values]
