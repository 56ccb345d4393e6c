"""Training directories made by another exporter: forward, loss and backward in one graph, data and expectations beside it.

    <x>_train/      network.onnx  inputs.npz  outputs.npz (optional)
    <x>_optimizer/  network.onnx  (found by this naming convention, or given explicitly)

``inputs.npz`` holds ``arr_0000 ...``, the graph inputs in graph order without the accumulation buffers; ``mb<i>_arr_0000 ...``
are the data of later mini-batches (absent: those of the first). ``outputs.npz`` holds ``loss`` per mini-batch and the
parameters after the last step. Gradients are summed over ``meta_n_accum`` mini-batches.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir

from deeploy_ext.errors import BadInputError
from deeploy_ext.graph.files import check_array, check_batches, read_arrays, read_model
from deeploy_ext.graph.invocation import label, type_of
from deeploy_ext.graph.normalise import normalise
from deeploy_ext.graph.options import MAX_MINI_BATCHES, LoadOptions, override
from deeploy_ext.operators.spec import MICROSOFT
from deeploy_ext.training.autodiff import LEARNING_RATE, sgd_update
from deeploy_ext.training.builder import GraphBuilder
from deeploy_ext.training.functions import IR_VERSION, add_functions
from deeploy_ext.training.task import Arrays, Expectation, Parameter, TrainingSpec, TrainingTask

_TRAIN, _OPTIMIZER = "_train", "_optimizer"
_ARRAY = re.compile(r"(?:mb(\d+)_)?arr_(\d+)$")


@dataclass(frozen=True)
class Update:
    """One SGD update: names of the weight, of its gradient's buffer, and of the result."""

    weight: str
    buffer: str
    updated: str
    learning_rate: float


def is_training_directory(path: Path) -> bool:
    """Whether a folder has the files of a training directory."""
    return (path / "network.onnx").is_file() and (path / "inputs.npz").is_file()


def load_training_directory(path: Path, options: LoadOptions) -> TrainingTask:
    """The training task of a directory.

    Raises:
        BadInputError: a file is missing or broken, the graph is not supported, or data do not fit it.
    """
    updates = _read_optimizer(_optimizer_of(path, options.optimizer))
    model = read_model(path / "network.onnx")
    graph = model.graph
    if not graph.outputs:
        raise BadInputError(f"{path / 'network.onnx'}: the graph has no output; make the loss output 0.")
    loss, order = graph.outputs[0], [value.name or "" for value in graph.inputs]
    normalise(graph, before=(expose_buffers,))
    parameters, reset = trained_parameters(path, graph, updates)
    build = GraphBuilder(graph)
    rate = build.unique(LEARNING_RATE)
    parameters = tuple(replace(parameter, updated=build.unique(parameter.updated)) for parameter in parameters)
    buffers = {parameter.buffer for parameter in parameters}
    given = _arrays(path, graph, [name for name in order if name not in buffers])
    trained = {parameter.weight for parameter in parameters}
    first = min(order.index(name) for name in trained)
    data = tuple(name for name in order[:first] if name not in buffers | {reset})
    frozen = [name for name in order[first:] if name not in buffers | trained | {reset}]
    spec, batches = _batches(path, graph, order, buffers, data, given)
    spec = TrainingSpec(spec.steps, spec.accumulation, common_rate(update.learning_rate for update in updates))
    chosen = override(spec, options)
    own = (chosen.steps, chosen.accumulation, chosen.learning_rate) == (spec.steps, spec.accumulation, spec.learning_rate)
    inputs = {value.name or "": value for value in graph.inputs}
    freeze(graph, [inputs[name] for name in frozen], given)
    model.ir_version = IR_VERSION
    add_functions(model)
    return TrainingTask(
        name=path.name.removesuffix(_TRAIN),
        step=model,
        update=sgd_update(parameters, [inputs[parameter.weight] for parameter in parameters], rate),
        forward=None,
        infer=None,
        loss=loss.name or "",
        reset=reset,
        learning_rate=rate,
        data=data,
        parameters=parameters,
        states=(),
        initial={parameter.weight: given[parameter.weight] for parameter in parameters},
        batches=batches,
        spec=chosen,
        expected=_expectation(path, parameters, inputs, spec) if own else None,
    )


def _optimizer_of(path: Path, explicit: Path | None) -> Path:
    """The optimizer's file: the one given, or that of the sibling folder by the makers' naming convention."""
    if explicit is not None:
        return explicit / "network.onnx" if explicit.is_dir() else explicit
    resolved = path.resolve()
    sibling = resolved.with_name(resolved.name.removesuffix(_TRAIN) + _OPTIMIZER)
    if not resolved.name.endswith(_TRAIN) or not (sibling / "network.onnx").is_file():
        raise BadInputError(f"{path}: no optimizer found at {sibling}; name its folder with --optimizer DIR.")
    return sibling / "network.onnx"


def _read_optimizer(file: Path) -> list[Update]:
    """The SGD nodes of an optimizer graph, checked."""
    found: list[Update] = []
    for node in read_model(file).graph:
        extra = sorted(set(node.attributes) - {"lr", "description"})
        rate = node.attributes.get("lr")
        rated = rate is not None and rate.type == ir.AttributeType.FLOAT
        if node.op_type != "SGD" or extra or len(node.inputs) != 2 or not rated:
            what = f"attribute '{extra[0]}'" if extra else "this node"
            raise BadInputError(f"{file}, {label(node)}: {what} is not supported; use plain SGD(weight, gradient) with 'lr'.")
        weight, buffer = (value.name or "" if value else "" for value in node.inputs)
        found.append(Update(weight, buffer, node.outputs[0].name or "", float(node.attributes["lr"].as_float())))
    return found


def common_rate(given: Iterable[float]) -> float:
    """The one learning rate of all updates. Raises BadInputError if there are several."""
    rates = sorted(set(given))
    if len(rates) != 1:
        raise BadInputError(f"the optimizer has different learning rates {rates}; use one for all parameters.")
    return float(f"{rates[0]:.7g}")


def expose_buffers(graph: ir.Graph) -> list[str]:
    """Accumulators' buffers become named outputs of the graph (they are updated in place); their flags no longer are."""
    changed: list[str] = []
    for node in graph:
        if (node.domain, node.op_type) != (MICROSOFT, "InPlaceAccumulatorV2") or not node.inputs or node.inputs[0] is None:
            continue
        if len(node.outputs) < 2:
            node.resize_outputs(2)
        flag, buffer = node.outputs
        if flag in graph.outputs:
            graph.outputs.remove(flag)
        if not buffer.name:
            buffer.name = f"{node.inputs[0].name}_out"
        if not buffer.is_graph_output():
            graph.outputs.append(buffer)
        changed.append(f"{label(node)}: buffer made an output, flag dropped")
    return changed


def trained_parameters(path: Path, graph: ir.Graph, updates: Sequence[Update]) -> tuple[tuple[Parameter, ...], str]:
    """The trained parameters in the order of the graph's inputs, and the name of the reset input."""
    nodes = {n.inputs[0].name: n for n in graph if n.op_type == "InPlaceAccumulatorV2" and n.inputs[0] is not None}
    inputs = {value.name for value in graph.inputs}
    found: dict[str, Parameter] = {}
    for update in updates:
        if update.weight not in inputs or update.buffer not in nodes:
            missing = update.buffer if update.weight in inputs else update.weight
            raise BadInputError(
                f"{path}: the optimizer names '{missing}', which the training graph does not have; check --optimizer."
            )
        out = nodes[update.buffer].outputs[1].name or ""
        found[update.weight] = Parameter(update.weight, update.buffer, out, update.updated)
    unused = sorted(set(nodes) - {update.buffer for update in updates}, key=str)
    if unused or not found:
        raise BadInputError(f"{path}: the optimizer leaves out '{unused[0] if unused else 'everything'}'; check --optimizer.")
    resets = sorted({node.inputs[2].name or "" for node in nodes.values() if node.inputs[2] is not None})
    if len(resets) != 1:
        raise BadInputError(f"{path}: {len(resets)} reset inputs; use one for all accumulators.")
    return tuple(found[v.name] for v in graph.inputs if v.name in found), resets[0]


def _arrays(path: Path, graph: ir.Graph, order: Sequence[str]) -> Arrays:
    """Values of the first mini-batch and of all parameters, by input name."""
    file = path / "inputs.npz"
    stored = read_arrays(file)
    inputs = {value.name: value for value in graph.inputs}
    found: Arrays = {}
    for position, name in enumerate(order):
        key = f"arr_{position:04d}"
        if key not in stored:
            raise BadInputError(f"{file}: '{key}' (input '{name}') is missing; write all graph inputs but the buffers.")
        wanted = type_of(inputs[name])
        assert wanted is not None
        check_array(str(file), f"{key} ({name})", stored[key], wanted)
        found[name] = stored[key]
    for key in sorted(stored):
        match = _ARRAY.match(key)
        if not key.startswith("meta_") and (match is None or int(match[2]) >= len(order)):
            raise BadInputError(f"{file}: '{key}' belongs to no input of the graph; take it out.")
    return found


def _batches(
    path: Path, graph: ir.Graph, order: Sequence[str], buffers: set[str], data: Sequence[str], given: Arrays
) -> tuple[TrainingSpec, tuple[Arrays, ...]]:
    """The mini-batches, and the file's own number of steps and accumulation."""
    file = path / "inputs.npz"
    stored = read_arrays(file)
    positions = {name: i for i, name in enumerate(name for name in order if name not in buffers)}
    later = [int(match[1]) for key in stored if (match := _ARRAY.match(key)) and match[1]]
    size = _meta(file, stored, "meta_data_size", max(later, default=0) + 1)
    if later and max(later) >= size:
        raise BadInputError(f"{file}: data of mini-batch {max(later)} where 'meta_data_size' is {size}; correct one of them.")
    count = _meta(file, stored, "meta_n_batches", size)
    accumulation = _meta(file, stored, "meta_n_accum", 1)
    if max(size, count) > MAX_MINI_BATCHES:
        raise BadInputError(f"{file}: {max(size, count)} mini-batches are too many; write at most {MAX_MINI_BATCHES}.")
    if count % accumulation:
        raise BadInputError(f"{file}: {count} mini-batches cannot be accumulated by {accumulation}; use a multiple.")
    batches = tuple(
        {name: stored.get(f"mb{index}_arr_{positions[name]:04d}", given[name]) for name in data} for index in range(size)
    )
    check_batches(str(file), graph, [value for value in graph.inputs if value.name in data], batches)
    return TrainingSpec(count // accumulation, accumulation), batches


def _meta(file: Path, stored: Arrays, name: str, default: int) -> int:
    array = stored.get(name, np.array([default]))
    if array.size != 1 or array.dtype.kind not in "iu" or int(array.reshape(-1)[0]) < 1:
        raise BadInputError(f"{file}: '{name}' is not a positive number; write it as an array of one int64.")
    return int(array.reshape(-1)[0])


def freeze(graph: ir.Graph, values: Sequence[ir.Value], given: Mapping[str, np.ndarray[Any, Any]]) -> None:
    """Inputs that nobody trains become initializers."""
    for value in values:
        graph.inputs.remove(value)
        value.const_value = ir.tensor(given[value.name or ""], name=value.name)
        graph.register_initializer(value)


def _expectation(
    path: Path, parameters: Sequence[Parameter], inputs: Mapping[str, ir.Value], spec: TrainingSpec
) -> Expectation | None:
    """What the maker says comes out, if the directory has it; extra arrays (statistics of the maker's own run) are left."""
    file = path / "outputs.npz"
    if not file.is_file():
        return None
    stored = read_arrays(file)
    for name in ("loss", *(parameter.weight for parameter in parameters)):
        if name not in stored:
            raise BadInputError(f"{file}: '{name}' is missing; write the losses and every trained parameter.")
    if stored["loss"].shape != (spec.mini_batches,):
        raise BadInputError(f"{file}: 'loss' has shape {stored['loss'].shape}; give one value for each of {spec.mini_batches}.")
    for parameter in parameters:
        wanted = type_of(inputs[parameter.weight])
        assert wanted is not None
        check_array(str(file), parameter.weight, stored[parameter.weight], wanted)
    return Expectation(stored["loss"], {parameter.weight: stored[parameter.weight] for parameter in parameters})
