"""Own models that cannot be trained as they are: every refusal says what to do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from own_models import cnn, info, model, network, same_as, tensor, write

from deeploy_ext.errors import BadInputError
from deeploy_ext.graph.load import LoadOptions, load


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
