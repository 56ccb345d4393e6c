"""The losses a network can be trained with: the operator, and the target that it compares the prediction with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from deeploy_ext.errors import BadInputError
from deeploy_ext.graph.invocation import type_of
from deeploy_ext.graph.normalise import normalise
from deeploy_ext.operators.spec import ONNX, OWN, TensorType
from deeploy_ext.training.builder import GraphBuilder
from deeploy_ext.training.functions import IR_VERSION, add_functions
from deeploy_ext.training.task import ForwardNetwork


@dataclass(frozen=True)
class Loss:
    """One kind of loss: ``op_type(prediction, target)``; ``target_type`` gives the target's type from the prediction's."""

    domain: str
    op_type: str
    target: str
    target_type: Callable[[TensorType], TensorType]


LOSSES = {
    "cross_entropy": Loss(
        ONNX, "SoftmaxCrossEntropyLoss", "labels", lambda scores: TensorType(np.dtype(np.int64), scores.shape[:1])
    ),
    "mse": Loss(OWN, "MSELoss", "target", lambda prediction: prediction),
}

LOSS_OUTPUT = "loss"


def find_loss(kind: str) -> Loss:
    """The loss of that name. Raises BadInputError for an unknown one."""
    if kind not in LOSSES:
        raise BadInputError(f"loss '{kind}' is unknown; use {' or '.join(sorted(LOSSES))}.")
    return LOSSES[kind]


def with_loss(network: ForwardNetwork) -> ir.Model:
    """A normalised copy of the forward graph that ends in the loss: one more input (the target), first output ``loss``."""
    loss = find_loss(network.loss)
    model = ir.from_proto(ir.to_proto(network.model))
    model.ir_version = IR_VERSION
    normalise(model.graph)
    prediction = model.graph.outputs[0]
    found = type_of(prediction)
    assert found is not None
    build = GraphBuilder(model.graph)
    build.prefix = "loss"
    target = build.input(loss.target, loss.target_type(found))
    value = build.node(loss.op_type, [prediction, target], domain=loss.domain)
    value.name = build.unique(LOSS_OUTPUT)
    model.graph.outputs.remove(prediction)
    model.graph.outputs.insert(0, value)
    add_functions(model)
    return model
