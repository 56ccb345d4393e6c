"""Own models: inference exports of every age become networks that mean the same, with the weights chosen that train."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from own_models import cnn, info, model, network, operators, same_as, tensor, weights, write

from deeploy_ext.errors import BadInputError
from deeploy_ext.graph.load import LoadOptions, load
from deeploy_ext.training.autodiff import differentiate
from deeploy_ext.training.task import ForwardNetwork
from support import planned

ALL = ("conv/W:0", "bn.scale", "bn.bias", "fc.weight", "fc.bias")
OPSETS = (7, 9, 11, 13, 17, 18, 20, 21, 22, onnx.defs.onnx_opset_version())
PASSED_ON = "Softmax at the end left to the loss"


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
