"""A user's own model: an ordinary inference ONNX file becomes a network that is ready for autodiff."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir

from deeploy_ext.errors import BadInputError
from deeploy_ext.graph import rewrites
from deeploy_ext.graph.data import batches_from, random_batches
from deeploy_ext.graph.external import read_proto
from deeploy_ext.graph.files import parse_model
from deeploy_ext.graph.normalise import fix_names, lift_constants, normalise, refuse_subgraphs, sort_nodes, use_known_names
from deeploy_ext.graph.opset import to_opset
from deeploy_ext.graph.options import LoadOptions, override
from deeploy_ext.graph.shapes import check_operators
from deeploy_ext.graph.trainable import select_trainable
from deeploy_ext.operators.spec import ONNX
from deeploy_ext.training.functions import IR_VERSION
from deeploy_ext.training.losses import find_loss, with_loss
from deeploy_ext.training.task import ForwardNetwork, TrainingSpec


def load_own_model(path: Path, options: LoadOptions) -> ForwardNetwork:
    """The network of an ONNX file from any exporter, with data for all its mini-batches.

    Raises:
        BadInputError: no ``--loss``, or the file, the chosen weights or the data cannot be used as they are.
    """
    if options.loss is None:
        raise BadInputError(f"{path}: how to train it is not known; give --loss cross_entropy or --loss mse.")
    find_loss(options.loss)
    spec = override(TrainingSpec(), options)
    proto = read_proto(path)
    refuse_subgraphs(parse_model(proto, str(path)).graph)
    notes = untie_weights(proto)
    original = onnx.ModelProto()
    original.CopyFrom(proto)
    _separate_weights(proto)
    notes += _settle_inputs(proto, path)
    model = parse_model(to_opset(proto, str(path)), str(path))
    model.ir_version = IR_VERSION
    graph = model.graph
    _check_outputs(graph, path)
    named = _float_weights(graph, path)
    notes += _rewrite(graph, named, options)
    normalise(graph)
    trainable = select_trainable(graph, named, "all" if options.trainable is None else options.trainable, "--trainable")
    bare = ForwardNetwork(path.stem, model, options.loss, trainable, (), spec)
    whole = with_loss(bare).graph
    if options.data is not None:
        batches = batches_from(options.data, whole, options.loss)
    else:
        batches = random_batches(whole, options.loss, spec)
        notes.append("generated data")
    return ForwardNetwork(path.stem, model, options.loss, trainable, tuple(batches), spec, tuple(notes), original)


def _rewrite(graph: ir.Graph, named: list[str], options: LoadOptions) -> list[str]:
    """All rewrites of an inference export, in order; returns what the user should know."""
    assert options.loss is not None
    for one in (fix_names, use_known_names, lift_constants, sort_nodes):
        one(graph)
    notes = rewrites.drop_dropouts(graph)
    rewrites.fold_constants(graph, named)
    notes += rewrites.drop_last_softmax(graph, options.loss)
    check_operators(graph)
    rewrites.means_to_pools(graph)
    rewrites.transposes_to_reshapes(graph)
    rewrites.gathers_to_slices(graph)
    rewrites.stacks_to_gemms(graph)
    rewrites.products_to_gemms(graph)
    return notes + rewrites.set_batch_norms(graph, options.batchnorm)


def untie_weights(proto: onnx.ModelProto) -> list[str]:
    """Identity of a weight becomes a weight of its own: PyTorch writes parameters that happen to be equal only once."""
    weights = {tensor.name: tensor for tensor in proto.graph.initializer}
    copies = [
        node for node in proto.graph.node if node.op_type == "Identity" and node.domain == ONNX and node.input[0] in weights
    ]
    for node in copies:
        made = proto.graph.initializer.add()
        made.CopyFrom(weights[node.input[0]])
        made.name = node.output[0]
        proto.graph.node.remove(node)
    return [f"{len(copies)} weights that the file shares made independent"] if copies else []


def _separate_weights(proto: onnx.ModelProto) -> None:
    """Initializers that old files list among the inputs are weights."""
    weights = {tensor.name for tensor in proto.graph.initializer}
    for value in [value for value in proto.graph.input if value.name in weights]:
        proto.graph.input.remove(value)
    proto.ir_version = IR_VERSION  # files of the first three versions must list them


def _settle_inputs(proto: onnx.ModelProto, path: Path) -> list[str]:
    """One data input with static shape: a symbolic mini-batch size becomes 1; stale shapes inside the graph are dropped."""
    names = [value.name for value in proto.graph.input]
    if len(names) != 1:
        listed = ", ".join(f"'{name}'" for name in names) or "none"
        raise BadInputError(f"{path}: one data input is needed, the model has {listed}; export a model of one input.")
    kind = proto.graph.input[0].type.tensor_type
    if not kind.HasField("shape") or not kind.shape.dim:
        raise BadInputError(f"{path}: input '{names[0]}' has no shape; export the model with static shapes.")
    notes: list[str] = []
    for axis, dimension in enumerate(kind.shape.dim):
        if dimension.HasField("dim_value") and dimension.dim_value > 0:
            continue
        if axis > 0 and dimension.HasField("dim_value"):
            raise BadInputError(
                f"{path}: input '{names[0]}' has the size {dimension.dim_value} on axis {axis}; "
                "export the model with a fixed size above 0."
            )
        symbol = dimension.dim_param or (str(dimension.dim_value) if dimension.HasField("dim_value") else "?")
        if axis > 0:
            raise BadInputError(
                f"{path}: input '{names[0]}' has the dynamic dimension '{symbol}' on axis {axis}; "
                "export the model with a fixed size there."
            )
        dimension.dim_value = 1
        notes.append(f"mini-batch size '{symbol}' set to 1")
    del proto.graph.value_info[:]
    for value in proto.graph.output:
        value.type.tensor_type.ClearField("shape")
    return notes


def _check_outputs(graph: ir.Graph, path: Path) -> None:
    """One prediction; running statistics of batch normalisation may follow it."""
    extra = [value.name for value in graph.outputs[1:] if not _is_statistic(value)]
    if extra or not graph.outputs:
        listed = ", ".join(f"'{name}'" for name in extra)
        what = f"more outputs than the prediction ({listed})" if extra else "no output"
        raise BadInputError(f"{path}: the model has {what}; export it with the prediction as its one output.")
    prediction = graph.outputs[0]
    if prediction.producer() is None:
        raise BadInputError(f"{path}: the output '{prediction.name}' is not computed from the input; check the export.")


def _is_statistic(value: ir.Value) -> bool:
    producer = value.producer()
    return producer is not None and producer.op_type == "BatchNormalization" and value is not producer.outputs[0]


def _float_weights(graph: ir.Graph, path: Path) -> list[str]:
    """Names of the floating-point initializers, all finite."""
    found: list[str] = []
    for name, value in graph.initializers.items():
        assert value.const_value is not None
        if not value.const_value.dtype.is_floating_point():
            continue
        try:
            array = value.const_value.numpy()
        except (ValueError, TypeError) as error:
            raise BadInputError(f"{path}: weight '{name}' has broken data ({error}); export the model again.") from error
        if not np.isfinite(array.astype(np.float64)).all():
            raise BadInputError(f"{path}: weight '{name}' holds NaN or infinity; export a model with finite weights.")
        found.append(name)
    return found
