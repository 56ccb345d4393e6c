"""Artifacts of onnxruntime's on-device training: a training model, an optimizer model and a checkpoint in one folder.

``training_model.onnx`` holds forward, loss and backward: inputs are data, then all weights, then one accumulation buffer
``<weight>_grad.accumulation.buffer`` for each that trains, and the flag that resets them; output 0 is the loss. The weights'
values are in the checkpoint. ``optimizer_model.onnx`` holds one node over sequences of tensors. The evaluation model is not
needed. Data come from ``--data``, or are generated.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import onnx_ir as ir

from deeploy_ext.errors import BadInputError
from deeploy_ext.graph.checkpoint import read_checkpoint
from deeploy_ext.graph.data import batches_in, generated_batches
from deeploy_ext.graph.files import check_array, read_model
from deeploy_ext.graph.foreign import Update, expose_buffers, freeze, trained_parameters
from deeploy_ext.graph.gradient_idioms import IDIOMS
from deeploy_ext.graph.invocation import label, type_of
from deeploy_ext.graph.normalise import normalise
from deeploy_ext.graph.options import LoadOptions, override
from deeploy_ext.training.autodiff import LEARNING_RATE, sgd_update
from deeploy_ext.training.builder import GraphBuilder
from deeploy_ext.training.functions import IR_VERSION, add_functions
from deeploy_ext.training.task import Arrays, TrainingSpec, TrainingTask

TRAINING, OPTIMIZER, CHECKPOINT = "training_model.onnx", "optimizer_model.onnx", "checkpoint"
BUFFER = "_grad.accumulation.buffer"

_RATE = 1e-3
"""The optimizer gets its learning rate at run time; this is onnxruntime's own default."""


def is_artifact_folder(path: Path) -> bool:
    """Whether a folder holds such artifacts."""
    return (path / TRAINING).is_file()


def load_artifacts(path: Path, options: LoadOptions) -> TrainingTask:
    """The training task of a folder of artifacts.

    Raises:
        BadInputError: a file is missing or broken, another optimizer than plain SGD, a graph that is not supported, weights
            or data that do not fit it.
    """
    _check_optimizer(path / OPTIMIZER)
    model = read_model(path / TRAINING)
    graph = model.graph
    weights = read_checkpoint(path / CHECKPOINT)
    fix_batch(graph, str(path / TRAINING))
    loss = graph.outputs[0]
    normalise(graph, before=(*IDIOMS, expose_buffers))
    updates = [
        Update(name, f"{name}{BUFFER}", f"{name}_updated", _RATE)
        for name in (value.name or "" for value in graph.inputs)
        if any(value.name == f"{name}{BUFFER}" for value in graph.inputs)
    ]
    parameters, reset = trained_parameters(path, graph, updates)
    build = GraphBuilder(graph)
    rate = build.unique(LEARNING_RATE)
    parameters = tuple(replace(parameter, updated=build.unique(parameter.updated)) for parameter in parameters)
    inputs = {value.name or "": value for value in graph.inputs}
    trained = {parameter.weight for parameter in parameters}
    _check_weights(path / CHECKPOINT, inputs, trained, weights)
    freeze(graph, [value for name, value in inputs.items() if name in weights and name not in trained], weights)
    others = {*weights, reset, *(parameter.buffer for parameter in parameters)}
    data = [value for value in graph.inputs if value.name not in others]
    spec = override(TrainingSpec(learning_rate=_RATE), options)
    model.ir_version = IR_VERSION
    add_functions(model)
    given = batches_in(options.data, graph, data, {}) if options.data is not None else generated_batches(graph, data, spec)
    return TrainingTask(
        name=path.resolve().name,
        step=model,
        update=sgd_update(parameters, [inputs[parameter.weight] for parameter in parameters], rate),
        forward=None,
        infer=None,
        loss=loss.name or "",
        reset=reset,
        learning_rate=rate,
        data=tuple(value.name or "" for value in data),
        parameters=parameters,
        states=(),
        initial={parameter.weight: weights[parameter.weight] for parameter in parameters},
        batches=tuple(given),
        spec=spec,
    )


def _check_optimizer(file: Path) -> None:
    """One SGD node over sequences of tensors, or nothing that we can do."""
    nodes = [node for node in read_model(file).graph if not node.op_type.startswith("Sequence")]
    for node in nodes:
        if node.op_type != "SGDOptimizerV2":
            raise BadInputError(f"{file}, {label(node)}: not supported; make the artifacts with plain SGD (SGDOptimizerV2).")
    if len(nodes) != 1:
        raise BadInputError(f"{file}: {len(nodes)} optimizer nodes; make the artifacts with one for all weights.")


def fix_batch(graph: ir.Graph, origin: str) -> None:
    """A symbolic mini-batch size becomes 1, and shapes of values inside, which may name it, are dropped.

    Raises:
        BadInputError: an input has a symbolic size on another axis.
    """
    symbolic = False
    for value in graph.inputs:
        if value.shape is None or value.shape.is_static():
            continue
        symbolic = True
        sizes = list(value.shape)
        for axis, size in enumerate(sizes):
            if not isinstance(size, int) and axis:
                raise BadInputError(
                    f"{origin}: input '{value.name}' has the dynamic size '{size}' on axis {axis}; make it fixed."
                )
        value.shape = ir.Shape([1, *sizes[1:]])
    for node in graph if symbolic else ():
        for value in node.outputs:
            value.shape = value.shape and ir.Shape([size if isinstance(size, int) else 1 for size in value.shape])


def _check_weights(file: Path, inputs: dict[str, ir.Value], trained: set[str], weights: Arrays) -> None:
    missing = sorted(trained - set(weights))
    if missing:
        raise BadInputError(f"{file}: weight '{missing[0]}' is missing; make checkpoint and {TRAINING} together.")
    for name, array in weights.items():
        wanted = type_of(inputs[name]) if name in inputs else None
        if wanted is not None:
            check_array(str(file), name, array, wanted)
