"""Whatever a user's file can have wrong is answered in one or two lines that name it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from training_directory import write_arrays, write_directory

from deeploy_ext.errors import BadInputError
from deeploy_ext.graph.load import LoadOptions, load
from deeploy_ext.training.task import TrainingTask

Edit = Callable[[Path], None]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A correct training directory."""
    return write_directory(tmp_path)


def _data(**changes: np.ndarray | None) -> Edit:
    return lambda folder: write_arrays(folder, changes)


def _graph(change: Callable[[onnx.GraphProto], object]) -> Edit:
    def edit(folder: Path) -> None:
        model = onnx.load(folder / "network.onnx")
        change(model.graph)
        onnx.save(model, folder / "network.onnx")

    return edit


def _bytes(file: str, content: Callable[[bytes], bytes]) -> Edit:
    def edit(folder: Path) -> None:
        (folder / file).write_bytes(content((folder / file).read_bytes()))

    return edit


def _attribute(node: int, name: str, value: object) -> Edit:
    return _graph(lambda graph: graph.node[node].attribute.append(helper.make_attribute(name, value)))


def _dynamic(graph: onnx.GraphProto) -> None:
    graph.input[0].type.tensor_type.shape.dim[0].dim_param = "batch"


def _half(graph: onnx.GraphProto) -> None:
    graph.input[0].type.tensor_type.elem_type = TensorProto.FLOAT16


def test_correct_directory(folder: Path) -> None:
    task = load(str(folder))
    assert isinstance(task, TrainingTask)
    assert (task.name, task.data, task.spec.steps, task.spec.learning_rate) == ("net", ("x", "labels"), 4, 0.1)
    assert [n.name for n in task.step.graph] and len({n.name for n in task.step.graph}) == len(task.step.graph)
    np.testing.assert_array_equal(task.batch(1)["x"], task.batch(0)["x"])
    np.testing.assert_array_equal(task.batch(1)["labels"], [1, 2])
    assert task.expected is None


NAN = np.full((2, 3), np.nan, np.float32)
REFUSED: dict[str, tuple[Edit, str]] = {
    "model missing": (lambda folder: (folder / "network.onnx").unlink(), "network.onnx"),
    "data missing": (lambda folder: (folder / "inputs.npz").unlink(), "inputs.npz"),
    "not ONNX": (_bytes("network.onnx", lambda _: b"this is no model"), "not a"),
    "empty ONNX": (_bytes("network.onnx", lambda _: b""), "not an ONNX model"),
    "truncated ONNX": (_bytes("network.onnx", lambda content: content[: len(content) // 2]), "network.onnx"),
    "not npz": (_bytes("inputs.npz", lambda _: b"no zip"), "inputs.npz"),
    "empty npz": (_bytes("inputs.npz", lambda _: b""), "inputs.npz"),
    "truncated npz": (_bytes("inputs.npz", lambda content: content[: len(content) // 2]), "inputs.npz"),
    "corrupt npz": (_bytes("inputs.npz", lambda content: content[:200] + bytes(8) + content[208:]), "inputs.npz"),
    "pickle": (_data(arr_0000=np.array([{}], object)), "pickle"),
    "array missing": (_data(arr_0002=None), "'arr_0002' .input 'w'. is missing"),
    "array too many": (_data(arr_0004=np.zeros(1)), "'arr_0004' belongs to no input"),
    "foreign array": (_data(weights=np.zeros(1)), "'weights' belongs to no input"),
    "wrong shape": (_data(arr_0002=np.zeros((3, 4), np.float32)), "shape"),
    "wrong type": (_data(arr_0002=np.zeros((4, 3))), "float64"),
    "wrong type later": (_data(mb1_arr_0001=np.array([1, 2], np.int32)), "mini-batch 1.*int32"),
    "NaN in data": (_data(arr_0000=NAN), "NaN"),
    "NaN in later data": (_data(mb1_arr_0000=NAN), "mini-batch 1.*NaN"),
    "infinite weight": (_data(arr_0002=np.full((4, 3), np.inf, np.float32)), "NaN or infinity"),
    "label too large": (_data(mb1_arr_0001=np.array([1, 4], np.int64)), "label 4 .* classes 0 to 3"),
    "label negative": (_data(arr_0001=np.array([-1, 3], np.int64)), "label -1"),
    "odd accumulation": (_data(meta_n_accum=np.array([3])), "4 mini-batches cannot be accumulated by 3"),
    "no mini-batches": (_data(meta_n_batches=np.array([0])), "meta_n_batches"),
    "dynamic shape": (_graph(_dynamic), "dynamic shape .batch, 3"),
    "half precision": (_graph(_half), "'x' is float16"),
    "unknown operator": (_graph(lambda g: setattr(g.node[3], "op_type", "Einsum")), r"ai.onnx::Einsum \(layer\)"),
    "unknown attribute": (_attribute(3, "speed", 3), "attribute 'speed' is not supported"),
    "attribute of wrong type": (_attribute(3, "alpha", 2), "'alpha' is int, not float"),
    "ignored class": (_attribute(4, "ignore_index", 1), "'ignore_index' is not supported"),
    "no reduction": (_attribute(4, "reduction", "none"), "reduction='none'"),
    "loop": (_attribute(3, "body", helper.make_graph([], "body", [], [])), "control flow"),
    "dangling input": (_graph(lambda g: g.node[3].input.__setitem__(1, "nowhere")), "nowhere"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(folder: Path, case: str) -> None:
    edit, expected = REFUSED[case]
    edit(folder)
    with pytest.raises(BadInputError) as caught:
        load(str(folder))
    message = str(caught.value)
    assert re.search(expected, message), message
    assert len(message.splitlines()) <= 2, message


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (LoadOptions(steps=0), "steps is 0"),
        (LoadOptions(accumulation=-1), "accumulation is -1"),
        (LoadOptions(learning_rate=float("nan")), "learning rate is nan"),
        (LoadOptions(learning_rate=float("inf")), "learning rate is inf"),
        (LoadOptions(learning_rate=-0.1), "learning rate is -0.1"),
        (LoadOptions(tolerance=0.0), "tolerance is 0.0"),
        (LoadOptions(seed=-1), "seed is -1"),
        (LoadOptions(optimizer=Path("nowhere")), "nowhere"),
    ],
    ids=str,
)
def test_bad_options(folder: Path, options: LoadOptions, expected: str) -> None:
    for reference in (str(folder), "SimpleMLP"):
        with pytest.raises(BadInputError, match="--optimizer" if reference == "SimpleMLP" and options.optimizer else expected):
            load(reference, options)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda node: setattr(node, "op_type", "Adam"), "Adam"),
        (lambda node: node.attribute.append(helper.make_attribute("momentum", 0.9)), "'momentum'"),
        (lambda node: node.input.__setitem__(0, "v"), "'v'"),
        (lambda node: node.input.__setitem__(1, "v_buffer"), "'v_buffer'"),
    ],
)
def test_bad_optimizers(folder: Path, change: Callable[[onnx.NodeProto], object], expected: str) -> None:
    file = folder.parent / "net_optimizer" / "network.onnx"
    model = onnx.load(file)
    change(model.graph.node[0])
    onnx.save(model, file)
    with pytest.raises(BadInputError, match=expected):
        load(str(folder))


def test_references(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=r"(?s)Did you mean ResNet8\?.*SimpleMLP, TinyAutoencoder"):
        load("resnet")
    with pytest.raises(BadInputError, match=r"(?s)no such file or folder.*--list"):
        load(str(tmp_path / "nowhere"))
    with pytest.raises(BadInputError, match=r"no network.onnx and no inputs.npz"):
        load(str(tmp_path))
    (tmp_path / "model.onnx").write_bytes(b"")
    with pytest.raises(BadInputError, match="give --loss cross_entropy or --loss mse"):
        load(str(tmp_path / "model.onnx"))


BUILD = """
import numpy as np
from deeploy_ext.training.network import NetworkBuilder
def build(seed):
    net = NetworkBuilder(seed)
    return net.model("own", net.dense("layer", net.input("x", [1, 3]), (3, 4)), [1, 4])
"""
SETTINGS = 'description = "own"\nloss = "cross_entropy"\n'


def test_own_test_network(tmp_path: Path) -> None:
    (tmp_path / "build.py").write_text(BUILD)
    (tmp_path / "test.toml").write_text(SETTINGS + "steps = 3\n")
    network = load(str(tmp_path), LoadOptions(accumulation=2))
    assert not isinstance(network, TrainingTask)
    assert network.trainable == ("layer_weight", "layer_bias")
    assert len(network.batches) == 6
    again = load(str(tmp_path), LoadOptions(accumulation=2, seed=1))
    assert not isinstance(again, TrainingTask)
    assert not np.array_equal(network.batches[0]["x"], again.batches[0]["x"])


@pytest.mark.parametrize(
    ("build", "settings", "expected"),
    [
        ("def build(seed): return 1", SETTINGS, "returned int"),
        ("build = ", SETTINGS, "SyntaxError"),
        ("", SETTINGS, "function build"),
        ("def build(seed): return 1 / 0", SETTINGS, "ZeroDivisionError"),
        (BUILD + "def data(seed, count): return []", SETTINGS, "no data"),
        (BUILD + "def data(seed, count): return [{'x': np.zeros((1, 3), np.float32)}]", SETTINGS, "labels"),
        (BUILD, "loss = 3", "'loss' is int"),
        (BUILD, "= 3", "not readable as TOML"),
        (BUILD, 'loss = "mse"', "'description' is missing"),
        (BUILD, SETTINGS + "speed = 3", "'speed' is unknown"),
        (BUILD, SETTINGS + "tolerance = 1e-3", "needs a reason"),
        (BUILD, SETTINGS + "steps = true", "'steps' is bool"),
        (BUILD, SETTINGS + 'trainable = ["other"]', "'other' is no weight"),
        (BUILD, SETTINGS.replace("cross_entropy", "hinge"), "loss 'hinge' is unknown"),
    ],
)
def test_bad_test_networks(tmp_path: Path, build: str, settings: str, expected: str) -> None:
    (tmp_path / "build.py").write_text(build)
    (tmp_path / "test.toml").write_text(settings)
    with pytest.raises(BadInputError, match=expected):
        load(str(tmp_path))
