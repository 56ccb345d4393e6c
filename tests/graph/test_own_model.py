"""Own models: inference exports of every age become networks that mean the same, and every refusal says what to do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from own_models import cnn, info, model, samples, tensor, weights, write, write_samples

from deeploy_ext.errors import BadInputError
from deeploy_ext.graph.load import LoadOptions, load
from deeploy_ext.graph.lower import lower
from deeploy_ext.training.autodiff import differentiate
from deeploy_ext.training.task import ForwardNetwork
from support import planned

ALL = ("conv/W:0", "bn.scale", "bn.bias", "fc.weight", "fc.bias")
OPSETS = (7, 9, 11, 13, 17, 18, 20, 21, 22, onnx.defs.onnx_opset_version())
PASSED_ON = "Softmax at the end left to the loss"


def network(file: str, loss: str = "cross_entropy", **options: Any) -> ForwardNetwork:
    found = load(file, LoadOptions(loss=loss, **options))
    assert isinstance(found, ForwardNetwork)
    return found


def operators(found: ForwardNetwork) -> list[str]:
    return [node.op_type for node in found.model.graph]


def outputs(found: ForwardNetwork, x: np.ndarray) -> np.ndarray:
    session = onnxruntime.InferenceSession(ir.to_proto(found.model).SerializeToString(), providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, {session.get_inputs()[0].name: x})[0])


def same_as(proto: onnx.ModelProto, found: ForwardNetwork, *, shape: tuple[int, ...] = (1, 2, 6, 5)) -> None:
    """The network computes what the file computes under onnx's own reference implementation."""
    x = np.random.RandomState(5).standard_normal(shape).astype(np.float32)
    (wanted,) = list(ReferenceEvaluator(proto).run(None, {proto.graph.input[0].name: x}))
    np.testing.assert_allclose(outputs(found, x), wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("opset", OPSETS)
def test_every_opset_means_the_same(tmp_path: Path, opset: int) -> None:
    found = network(write(cnn(opset, batch="N"), tmp_path))
    assert operators(found) == ["Conv", "BatchNormalization", "Relu", "GlobalAveragePool", "Reshape", "Gemm"]
    assert found.trainable == ALL
    assert found.notes[:3] == ("mini-batch size 'N' set to 1", "1 Dropout left out", PASSED_ON)
    assert found.notes[3:] == ("1 BatchNormalization frozen", "generated data")
    reference = cnn(21, softmax=False)
    same_as(reference, found)
    assert {name: found.model.graph.initializers[name].const_value is not None for name in ALL} == dict.fromkeys(ALL, True)


@pytest.mark.parametrize("opset", [6, 99])
def test_refused_opsets(tmp_path: Path, opset: int) -> None:
    proto = cnn(21)
    proto.opset_import[0].version = opset
    with pytest.raises(BadInputError, match=f"opset {opset} is not supported .* export with opset 21"):
        network(write(proto, tmp_path))


def test_an_operator_that_changed_after_our_opset_is_refused(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Cast", ["x"], ["a"], "cast", to=TensorProto.FLOAT),
        helper.make_node("MatMul", ["a", "w"], ["y"]),
    ]
    proto = model(nodes, [info("x", [1, 3])], [info("y", [1, 2])], [tensor("w", 3, 2)], onnx.defs.onnx_opset_version())
    with pytest.raises(BadInputError, match=r"cast \(Cast\) of opset \d+ is not what it was in opset 21"):
        network(write(proto, tmp_path))


def test_batch_norm_trains_on_demand(tmp_path: Path) -> None:
    file = write(cnn(), tmp_path)
    frozen, trained = differentiate(network(file)), differentiate(network(file, batchnorm="train"))
    assert [state.before for state in frozen.states] == []
    assert [state.before for state in trained.states] == ["bn.mean", "bn.var"]
    np.testing.assert_array_equal(trained.initial["bn.mean"], weights()["bn.mean"])


def test_batch_norm_of_a_training_export_freezes_on_demand(tmp_path: Path) -> None:
    proto = cnn(training=True)
    proto.graph.output.extend([info("mean_next", [4]), info("var_next", [4])])
    file = write(proto, tmp_path)
    assert "1 BatchNormalization trained" in network(file).notes
    assert len(differentiate(network(file)).states) == 2
    found = network(file, batchnorm="frozen")
    assert "1 BatchNormalization frozen" in found.notes and not differentiate(found).states
    same_as(cnn(softmax=False), found)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("all", ALL),
        ("last:1", ("fc.weight", "fc.bias")),
        ("last:2", ALL[1:]),
        ("last:3", ALL),
        ("fc.bias", ("fc.bias",)),
        ("fc.*", ("fc.weight", "fc.bias")),
        ("fc.bias, bn.scale", ("bn.scale", "fc.bias")),
        ("*", ALL),
        ("conv/W:0", ("conv/W:0",)),
    ],
)
def test_trainable(tmp_path: Path, given: str, expected: tuple[str, ...]) -> None:
    assert network(write(cnn(), tmp_path), trainable=given).trainable == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("fc.weights", "'fc.weights' is no weight of the model; nearest: fc.weight"),
        ("zzz*", "'zzz.' is no weight of the model; use all, last:N or some of: conv/W:0, bn.scale"),
        ("bn.mean", "'bn.mean' is no weight"),
        ("last:0", "last:0 does not fit; 3 nodes have weights, use 1 to 3"),
        ("last:4", "last:4 does not fit"),
        (" , ", "no weight is chosen"),
    ],
)
def test_refused_trainable(tmp_path: Path, given: str, expected: str) -> None:
    with pytest.raises(BadInputError, match=f"--trainable: {expected}"):
        network(write(cnn(), tmp_path), trainable=given)


def test_a_lone_number_trains_only_by_name(tmp_path: Path) -> None:
    nodes = [helper.make_node("Gemm", ["x", "w"], ["p"]), helper.make_node("Mul", ["p", "factor"], ["y"])]
    factor = numpy_helper.from_array(np.array(0.5, np.float32), "factor")
    file = write(model(nodes, [info("x", [1, 3])], [info("y", [1, 2])], [tensor("w", 3, 2), factor]), tmp_path)
    assert network(file).trainable == ("w",)
    assert network(file, trainable="factor").trainable == ("factor",)


def test_test_networks_take_trainable() -> None:
    found = load("TinyCNN", LoadOptions(trainable="last:1"))
    assert isinstance(found, ForwardNetwork) and len(found.trainable) == 2
    with pytest.raises(BadInputError, match="--trainable: 'nothing' is no weight"):
        load("TinyCNN", LoadOptions(trainable="nothing"))


def test_frozen_layers_cost_nothing(tmp_path: Path) -> None:
    """No gradient of a frozen weight, no dX below the last trained one, and less memory."""
    file = write(cnn(), tmp_path)
    whole, head = (differentiate(network(file, trainable=which)) for which in ("all", "last:1"))
    assert {"ConvGrad", "ReluGrad", "GlobalAveragePoolGrad"} <= {node.op_type for node in whole.step.graph}
    forward = [*operators(network(file)), "SoftmaxCrossEntropyLoss"]
    made = [node.op_type for node in head.step.graph]
    assert made[: len(forward)] == forward
    assert sorted(made[len(forward) :]) == [
        *("Gemm", "InPlaceAccumulatorV2", "InPlaceAccumulatorV2", "Reshape", "SoftmaxCrossEntropyLossGrad")
    ]
    whole_l2, head_l2 = (planned(task, promote=True).plan.memory["L2"].used for task in (whole, head))
    assert head_l2 < whole_l2


def test_data(tmp_path: Path) -> None:
    arrays = samples(8)
    arrays["labels"] = arrays["labels"].astype(np.uint8)
    data = write_samples(arrays, tmp_path / "d.npz")
    found = network(write(cnn(batch=2), tmp_path), data=data)
    assert len(found.batches) == 4
    np.testing.assert_array_equal(found.batches[3]["x"], arrays["x"][6:])
    np.testing.assert_array_equal(found.batches[3]["labels"], arrays["labels"][6:])
    assert found.batches[0]["labels"].dtype == np.int64
    assert "generated data" not in found.notes


def _changed(**changes: np.ndarray | None) -> dict[str, np.ndarray]:
    return {name: array for name, array in (samples(4) | changes).items() if array is not None}


DATA: dict[str, tuple[dict[str, np.ndarray], str]] = {
    "no labels": (_changed(labels=None), "'labels' is missing; write arrays 'x', 'labels'"),
    "no input": (_changed(x=None), "'x' is missing"),
    "unknown array": (_changed(z=np.zeros(4)), "'z' is no input of the network"),
    "wrong shape": (_changed(x=np.zeros((4, 2, 5, 6), np.float32)), r"shape \(4, 2, 5, 6\).*\(samples, 2, 6, 5\)"),
    "wrong rank": (_changed(labels=np.zeros((4, 1), np.int64)), r"'labels' has shape \(4, 1\)"),
    "wrong type": (_changed(x=np.zeros((4, 2, 6, 5))), "'x' is float64"),
    "float labels": (_changed(labels=np.zeros(4, np.float32)), "'labels' is float32"),
    "NaN": (_changed(x=np.full((4, 2, 6, 5), np.nan, np.float32)), "NaN"),
    "label too large": (_changed(labels=np.array([0, 1, 2, 3])), "label 3 of 'labels' is out of range"),
    "label negative": (_changed(labels=np.array([0, 1, -2, 1])), "label -2"),
    "half a mini-batch": (samples(3), "3 samples; give a multiple of the mini-batch size 2"),
    "no samples": (samples(0), "0 samples"),
    "labels too few": (_changed(labels=np.array([0, 1])), "different numbers of samples"),
}


@pytest.mark.parametrize("case", DATA)
def test_refused_data(tmp_path: Path, case: str) -> None:
    arrays, expected = DATA[case]
    data = write_samples(arrays, tmp_path / "d.npz")
    with pytest.raises(BadInputError, match=expected):
        network(write(cnn(batch=2), tmp_path), data=data)


def test_the_targets_name_may_be_taken(tmp_path: Path) -> None:
    nodes = [helper.make_node("Gemm", ["labels", "target"], ["loss"])]
    file = write(model(nodes, [info("labels", [1, 3])], [info("loss", [1, 2])], [tensor("target", 3, 2)]), tmp_path)
    for loss, target in (("cross_entropy", "labels_1"), ("mse", "target_1")):
        task = differentiate(network(file, loss))
        assert set(task.batch(0)) == {"labels", target}


def _two_inputs(proto: onnx.ModelProto) -> None:
    proto.graph.input.append(info("mask", [1, 2]))


def _two_outputs(proto: onnx.ModelProto) -> None:
    proto.graph.output.append(info("scores", [1, 3]))


def _dynamic(proto: onnx.ModelProto) -> None:
    proto.graph.input[0].type.tensor_type.shape.dim[2].dim_param = "height"


def _not_finite(proto: onnx.ModelProto) -> None:
    proto.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.full((4, 2, 3, 3), np.nan, np.float32), "conv/W:0"))


def _no_input(proto: onnx.ModelProto) -> None:
    del proto.graph.input[:]


def _classes_elsewhere(proto: onnx.ModelProto) -> None:
    proto.graph.node[-1].attribute.append(helper.make_attribute("axis", 0))


def _noisy(proto: onnx.ModelProto) -> None:
    proto.graph.node[4].input.extend(["", "training"])
    proto.graph.initializer.append(numpy_helper.from_array(np.array(True), "training"))


def _foreign(proto: onnx.ModelProto) -> None:
    proto.graph.node[2].domain, proto.graph.node[2].op_type = "custom", "Swoosh"
    proto.graph.node[0].op_type = "Einsum"
    proto.opset_import.append(helper.make_opsetid("custom", 1))


def _loop(proto: onnx.ModelProto) -> None:
    proto.graph.node[2].attribute.append(helper.make_attribute("body", helper.make_graph([], "body", [], [])))


MODELS: dict[str, tuple[Callable[[onnx.ModelProto], object], str]] = {
    "two inputs": (_two_inputs, "one data input is needed, the model has 'x', 'mask'; export"),
    "no input": (_no_input, "one data input is needed, the model has none"),
    "two outputs": (_two_outputs, "more outputs than the prediction .'scores'.; export"),
    "dynamic height": (_dynamic, "dynamic dimension 'height' on axis 2; export"),
    "NaN in a weight": (_not_finite, "'conv/W:0' holds NaN or infinity; export"),
    "Softmax over samples": (_classes_elsewhere, r"softmax \(Softmax\): classes on axis 0 of 2"),
    "Dropout that trains": (_noisy, r"drop \(Dropout\): training with dropout"),
    "unknown operators": (_foreign, "unsupported operators: ai.onnx::Einsum .conv.; custom::Swoosh .relu."),
    "control flow": (_loop, "relu .Relu.: control flow"),
}


@pytest.mark.parametrize("opset", [17, 21])
@pytest.mark.parametrize("case", MODELS)
def test_refused_models(tmp_path: Path, case: str, opset: int) -> None:
    edit, expected = MODELS[case]
    proto = cnn(opset)
    edit(proto)
    file = write(proto, tmp_path)
    with pytest.raises(BadInputError, match=expected) as caught:
        network(file)
    assert len(str(caught.value).splitlines()) <= 2


def test_refused_options(tmp_path: Path) -> None:
    file = write(cnn(), tmp_path)
    with pytest.raises(BadInputError, match="give --loss cross_entropy or --loss mse"):
        load(file)
    with pytest.raises(BadInputError, match="loss 'hinge' is unknown"):
        network(file, "hinge")
    with pytest.raises(BadInputError, match="--optimizer does not apply to model file"):
        network(file, optimizer=tmp_path)
    with pytest.raises(BadInputError, match="steps is 0"):
        network(file, steps=0)
    nodes = [helper.make_node("Gemm", ["x", "w"], ["y"])]
    plain = write(model(nodes, [info("x", [1, 3])], [info("y", [1, 2])], [tensor("w", 3, 2)]), tmp_path, "plain.onnx")
    with pytest.raises(BadInputError, match="the model has no BatchNormalization"):
        network(plain, batchnorm="train")


@pytest.mark.parametrize(
    ("option", "value"), [("loss", "mse"), ("data", Path("d.npz")), ("batchnorm", "train"), ("trainable", "all")]
)
def test_options_of_own_models_only(tmp_path: Path, option: str, value: Any) -> None:
    (tmp_path / "network.onnx").touch()
    (tmp_path / "inputs.npz").touch()
    references = [str(tmp_path)] if option == "trainable" else [str(tmp_path), "TinyCNN"]
    for reference in references:
        with pytest.raises(BadInputError, match=f"--{option} does not apply to"):
            load(reference, LoadOptions(**{option: value}))


def _external(folder: Path, location: str, **entries: str) -> str:
    proto = cnn()
    moved = proto.graph.initializer[0]
    (folder / "weights.bin").write_bytes(moved.raw_data)
    moved.ClearField("raw_data")
    moved.data_location = TensorProto.EXTERNAL
    for key, value in ({"location": location} | entries).items():
        moved.external_data.add(key=key, value=value)
    (folder / "own.onnx").write_bytes(proto.SerializeToString())
    return str(folder / "own.onnx")


def test_external_data(tmp_path: Path) -> None:
    same_as(cnn(softmax=False), network(_external(tmp_path, "weights.bin", offset="0", length="288")))
    same_as(cnn(softmax=False), network(_external(tmp_path, "./weights.bin")))


@pytest.mark.parametrize(
    ("location", "entries", "expected"),
    [
        ("../weights.bin", {}, "outside the model's folder, at '../weights.bin'; move"),
        ("/etc/hostname", {}, "outside the model's folder"),
        ("link", {}, "outside the model's folder"),
        ("gone.bin", {}, "missing: there is no 'gone.bin'"),
        ("", {}, "have no file name"),
        ("weights.bin", {"length": "289"}, "do not fit into 'weights.bin' .288 bytes."),
        ("weights.bin", {"offset": "-4"}, "do not fit"),
        ("weights.bin", {"offset": "x"}, "broken offset"),
        ("weights.bin", {"length": "280"}, "'conv/W:0'"),
    ],
)
def test_refused_external_data(tmp_path: Path, location: str, entries: dict[str, str], expected: str) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "weights.bin").write_bytes(bytes(288))
    (folder / "link").symlink_to(tmp_path / "weights.bin")
    with pytest.raises(BadInputError, match=expected):
        network(_external(folder, location, **entries))


def test_shape_arithmetic_of_exporters_folds(tmp_path: Path) -> None:
    """``x.view(x.size(0), -1)`` with a symbolic mini-batch, and a bias made by Expand and CastLike."""
    ints = {"zero": np.array(0), "first": np.array([0]), "rest": np.array([-1]), "two": np.array([2])}
    tensors = [tensor("w", 12, 2), *(numpy_helper.from_array(array, name) for name, array in ints.items())]
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "zero"], ["n"], axis=0),
        helper.make_node("Unsqueeze", ["n", "first"], ["n1"]),
        helper.make_node("Concat", ["n1", "rest"], ["shape"], axis=0),
        helper.make_node("Reshape", ["x", "shape"], ["flat"]),
        helper.make_node("Constant", [], ["nil"], value=numpy_helper.from_array(np.array(0.25))),
        helper.make_node("CastLike", ["nil", "flat"], ["nil32"]),
        helper.make_node("Expand", ["nil32", "two"], ["bias"]),
        helper.make_node("Gemm", ["flat", "w", "bias"], ["y"]),
    ]
    proto = model(nodes, [info("x", ["n", 3, 4])], [info("y", ["n", 2])], tensors)
    found = network(write(proto, tmp_path))
    assert operators(found) == ["Reshape", "Gemm"] and found.trainable == ("w",)
    same_as(proto, found, shape=(1, 3, 4))


def test_views_and_transposed_weights(tmp_path: Path) -> None:
    """Transposes that move nothing are Reshapes; a transposed weight is part of its Gemm."""
    axes = [numpy_helper.from_array(np.array([1]), "one"), numpy_helper.from_array(np.array([1]), "axis")]
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], perm=[0, 3, 1, 2]),
        helper.make_node("Squeeze", ["t", "one"], ["s"]),
        helper.make_node("Unsqueeze", ["s", "axis"], ["u"]),
        helper.make_node("Flatten", ["u"], ["f"]),
        helper.make_node("Transpose", ["w"], ["wt"], perm=[1, 0]),
        helper.make_node("MatMul", ["f", "wt"], ["p"]),
        helper.make_node("Add", ["b", "p"], ["y"]),
    ]
    proto = model(nodes, [info("x", [1, 4, 3, 1])], [info("y", [1, 2])], [tensor("w", 2, 12), tensor("b", 2), *axes])
    found = network(write(proto, tmp_path), "mse")
    assert operators(found) == ["Reshape", "Squeeze", "Unsqueeze", "Flatten", "Gemm"]
    assert found.trainable == ("w", "b")
    same_as(proto, found, shape=(1, 4, 3, 1))


def test_functions_are_inlined_and_shared_weights_untied(tmp_path: Path) -> None:
    body = [helper.make_node("Gemm", ["a", "b", "c"], ["o"]), helper.make_node("Relu", ["o"], ["r"])]
    layer = helper.make_function("local", "Layer", ["a", "b", "c"], ["r"], body, [helper.make_opsetid("", 21)])
    nodes = [
        helper.make_node("Identity", ["b1"], ["b2"]),
        helper.make_node("Layer", ["x", "w1", "b1"], ["h"], domain="local"),
        helper.make_node("Layer", ["h", "w2", "b2"], ["y"], domain="local"),
    ]
    proto = model(nodes, [info("x", [1, 3])], [info("y", [1, 3])], [tensor("w1", 3, 3), tensor("b1", 3), tensor("w2", 3, 3)])
    proto.functions.append(layer)
    proto.opset_import.append(helper.make_opsetid("local", 1))
    found = network(write(proto, tmp_path), "mse")
    assert found.notes[0] == "1 weights that the file shares made independent"
    assert found.trainable == ("w1", "b1", "w2", "b2")
    same_as(proto, found, shape=(1, 3))


def test_stacks_and_rows(tmp_path: Path) -> None:
    """A product of a stack with a weight is one Gemm with the bias behind it; one known row is a Slice, not a Gather."""
    numbers = [numpy_helper.from_array(np.array(-1), "row")]
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"]),
        helper.make_node("Add", ["b", "p"], ["s"]),
        helper.make_node("Relu", ["s"], ["r"]),
        helper.make_node("Gather", ["r", "row"], ["g"], axis=1),
        helper.make_node("MatMul", ["g", "v"], ["y"]),
    ]
    tensors = [tensor("w", 4, 6), tensor("b", 6), tensor("v", 6, 2), *numbers]
    proto = model(nodes, [info("x", [1, 3, 4])], [info("y", [1, 2])], tensors)
    found = network(write(proto, tmp_path), "mse")
    assert operators(found) == ["Reshape", "Gemm", "Reshape", "Relu", "Slice", "Reshape", "Gemm"]
    assert found.trainable == ("w", "b", "v")
    same_as(proto, found, shape=(1, 3, 4))


def test_transposed_factors_are_read_by_columns(tmp_path: Path) -> None:
    """Lowering exchanges no axes for a product of stacks, and none twice; what goes back to the factor is turned, once."""
    nodes = [
        helper.make_node("Gemm", ["x", "w"], ["h"], transB=1),
        helper.make_node("Reshape", ["h", "shape"], ["a"]),
        helper.make_node("Transpose", ["a"], ["t"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["a", "t"], ["p"]),
        helper.make_node("Flatten", ["p"], ["y"]),
    ]
    shape = numpy_helper.from_array(np.array([2, 3, 2]), "shape")
    proto = model(nodes, [info("x", [2, 4])], [info("y", [2, 9])], [tensor("w", 6, 4), shape])
    program = lower(differentiate(network(write(proto, tmp_path), "mse")))
    products = [c.invocation for c in program.calls if c.invocation.operator.op_type in ("MatMul", "FusedMatMul")]
    step = [(p.operator.op_type, p.attributes.get("transA", 0), p.attributes.get("transB", 0)) for p in products[:3]]
    assert sorted(step) == [("FusedMatMul", 0, 0), ("FusedMatMul", 0, 1), ("FusedMatMul", 1, 0)]
    turned = [c.entry for c in program.calls if c.invocation.operator.op_type == "Transpose"]
    assert turned == ["step"]
