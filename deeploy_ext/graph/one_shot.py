"""One graph with everything: forward, loss, backward and an SGD node per weight, weights as initializers.

Its inputs are data, its outputs the loss and the updated weights. It is taken apart into the step, which accumulates
gradients, and the update.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir

from deeploy_ext.errors import BadInputError
from deeploy_ext.graph.artifacts import fix_batch
from deeploy_ext.graph.data import batches_in, generated_batches
from deeploy_ext.graph.files import parse_model
from deeploy_ext.graph.foreign import common_rate
from deeploy_ext.graph.gradient_idioms import IDIOMS
from deeploy_ext.graph.invocation import constant_of, label
from deeploy_ext.graph.normalise import normalise
from deeploy_ext.graph.options import LoadOptions, override
from deeploy_ext.operators.spec import TensorType
from deeploy_ext.training.autodiff import LEARNING_RATE, RESET, accumulate, sgd_update
from deeploy_ext.training.builder import GraphBuilder
from deeploy_ext.training.functions import IR_VERSION, add_functions
from deeploy_ext.training.task import TrainingSpec, TrainingTask

_SGD = "SGD"


def is_one_shot(proto: onnx.ModelProto) -> bool:
    """Whether a model updates its own weights."""
    return any(node.op_type == _SGD for node in proto.graph.node)


def load_one_shot(proto: onnx.ModelProto, path: Path, options: LoadOptions) -> TrainingTask:
    """The training task of such a graph; each run of the graph is one mini-batch and one update.

    Raises:
        BadInputError: a weight without value, no loss, an update that is not plain SGD, or a graph that is not supported.
    """
    model = parse_model(proto, str(path))
    graph = model.graph
    fix_batch(graph, str(path))
    gradients, rate = _cut_updates(graph, path)
    if not graph.outputs:
        raise BadInputError(f"{path}: no output but the updated weights; make the loss an output, too.")
    initial = {value.name or "": _lift(graph, value) for value in gradients}
    graph.outputs[1:] = list(gradients.values())
    normalise(graph, before=IDIOMS)
    weights = list(gradients)
    made = dict(zip(weights, list(graph.outputs)[1:], strict=True))
    del graph.outputs[1:]
    build = GraphBuilder(graph)
    data = [value for value in graph.inputs if value not in made]
    reset = build.input(RESET, TensorType(np.dtype(np.bool_), (1,)))
    parameters = tuple(accumulate(path.stem, build, weights, made, reset))
    learning_rate = build.unique(LEARNING_RATE)
    spec = override(TrainingSpec(accumulation=1, learning_rate=rate), options)
    model.ir_version = IR_VERSION
    add_functions(model)
    given = batches_in(options.data, graph, data, {}) if options.data is not None else generated_batches(graph, data, spec)
    return TrainingTask(
        name=path.stem,
        step=model,
        update=sgd_update(parameters, weights, learning_rate),
        forward=None,
        infer=None,
        loss=graph.outputs[0].name or "",
        reset=reset.name or "",
        learning_rate=learning_rate,
        data=tuple(value.name or "" for value in data),
        parameters=parameters,
        states=(),
        initial=initial,
        batches=tuple(given),
        spec=spec,
    )


def _cut_updates(graph: ir.Graph, path: Path) -> tuple[dict[ir.Value, ir.Value], float]:
    """Takes the SGD nodes out; gradients by weight, in the order of the nodes, and the learning rate."""
    found: dict[ir.Value, ir.Value] = {}
    rates: list[float] = []
    for node in [node for node in graph if node.op_type == _SGD]:
        extra = sorted(set(node.attributes) - {"lr", "description"})
        rate = node.attributes["lr"].as_float() if "lr" in node.attributes else _constant(node, 2)
        weight, gradient = (*node.inputs, None, None)[:2]
        if extra or rate is None or weight is None or gradient is None:
            what = f"attribute '{extra[0]}'" if extra else "this node"
            raise BadInputError(f"{path}, {label(node)}: {what} is not supported; use plain SGD(weight, gradient) with 'lr'.")
        if weight.const_value is None or weight.name not in graph.initializers:
            raise BadInputError(f"{path}, {label(node)}: weight '{weight.name}' has no value; make it an initializer.")
        if weight in found:
            raise BadInputError(f"{path}, {label(node)}: weight '{weight.name}' is updated twice; update it once.")
        found[weight] = _without_buffer(gradient)
        rates.append(float(rate))
        for output in [output for output in graph.outputs if output is node.outputs[0]]:
            graph.outputs.remove(output)
        if node.outputs[0].uses():
            raise BadInputError(f"{path}, {label(node)}: the updated weight is read in the same graph; make it an output only.")
        graph.remove(node, safe=True)
    return found, common_rate(rates)


def _constant(node: ir.Node, place: int) -> float | None:
    array = constant_of(node.inputs[place]) if len(node.inputs) > place else None
    return float(array.reshape(-1)[0]) if array is not None and array.size == 1 else None


def _without_buffer(gradient: ir.Value) -> ir.Value:
    """The gradient of this mini-batch, where an accumulator stands between it and the update: the step has its own."""
    node = gradient.producer()
    if node is None or node.op_type != "InPlaceAccumulatorV2" or node.inputs[1] is None:
        return gradient
    return node.inputs[1]


def _lift(graph: ir.Graph, weight: ir.Value) -> np.ndarray:
    """An initializer becomes an input; returns its value."""
    assert weight.const_value is not None and weight.name is not None
    array = weight.const_value.numpy()
    weight.shape, weight.dtype = ir.Shape(array.shape), weight.const_value.dtype
    del graph.initializers[weight.name]
    weight.const_value = None
    if weight not in graph.inputs:
        graph.inputs.append(weight)
    return array
