"""Training graphs of onnxruntime's artifacts, and graphs that update their own weights: the same as our own autodiff's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from artifacts import checkpoint, inference_model, one_shot, samples, weights, write_artifacts

from deeploy_ext.errors import BadInputError
from deeploy_ext.graph.checkpoint import read_checkpoint
from deeploy_ext.graph.load import LoadOptions, load
from deeploy_ext.harness.golden import run_golden
from deeploy_ext.training.autodiff import differentiate
from deeploy_ext.training.task import ForwardNetwork, TrainingTask, Trajectory
from support import assert_right, trained


def _task(path: Path, **options: object) -> TrainingTask:
    task = load(str(path), LoadOptions(**options))  # type: ignore[arg-type]
    assert isinstance(task, TrainingTask)
    return task


@pytest.fixture
def data(tmp_path: Path) -> Path:
    np.savez(tmp_path / "data.npz", **samples(8))  # type: ignore[arg-type]
    return tmp_path / "data.npz"


def _own(folder: Path, data: Path, rate: float, accumulation: int) -> Trajectory:
    """The golden run of the same network by our own autodiff."""
    onnx.save(inference_model(), folder / "plain.onnx")
    options = LoadOptions(loss="cross_entropy", data=data, steps=2, accumulation=accumulation, learning_rate=rate)
    network = load(str(folder / "plain.onnx"), options)
    assert isinstance(network, ForwardNetwork)
    return run_golden(differentiate(network))


def _assert_same(found: Trajectory, own: Trajectory) -> None:
    np.testing.assert_allclose(found.losses, own.losses, rtol=1e-6)
    for mine, theirs in zip([*found.gradients, *found.parameters], [*own.gradients, *own.parameters], strict=True):
        assert set(mine) == set(theirs) == set(weights())
        for name, array in mine.items():
            np.testing.assert_allclose(array, theirs[name], rtol=1e-5, atol=1e-6, err_msg=name)


def test_artifacts_train_as_our_own_gradients_say(tmp_path: Path, data: Path) -> None:
    task = _task(write_artifacts(tmp_path / "artifacts"), data=data, steps=2, accumulation=2, learning_rate=0.1)
    assert task.data == ("x", "labels")
    golden = run_golden(task)
    _assert_same(golden, _own(tmp_path, data, 0.1, 2))
    assert_right(task, golden, trained(task, tmp_path / "run", promote=True, double_buffer=True))


def test_artifacts_with_a_symbolic_batch_and_generated_data(tmp_path: Path) -> None:
    task = _task(write_artifacts(tmp_path / "artifacts", batch="batch_size"))
    assert task.spec.learning_rate == 1e-3
    assert [batch["x"].shape for batch in task.batches] == [(1, 2, 6, 6)] * task.spec.mini_batches
    golden = run_golden(task)
    assert_right(task, golden, trained(task, tmp_path / "run"))


def test_weights_of_a_checkpoint_that_do_not_train_are_constants(tmp_path: Path) -> None:
    folder = write_artifacts(tmp_path / "artifacts")
    model = onnx.load(folder / "training_model.onnx")
    gone = {"conv.bias_grad.accumulation.buffer", "conv.bias_grad.accumulation.out"}
    for values in (model.graph.input, model.graph.output):
        for value in [value for value in values if value.name in gone]:
            values.remove(value)
    for node in [node for node in model.graph.node if gone & set(node.output)]:
        model.graph.node.remove(node)
    onnx.save(model, folder / "training_model.onnx")
    task = _task(folder)
    assert {parameter.weight for parameter in task.parameters} == set(weights()) - {"conv.bias"}
    run_golden(task)


def test_another_optimizer_is_refused(tmp_path: Path) -> None:
    folder = write_artifacts(tmp_path / "artifacts", optimizer="AdamWOptimizer")
    with pytest.raises(BadInputError, match=r"optimizer_model.onnx.*AdamWOptimizer.*not supported; .*plain SGD"):
        load(str(folder))


def test_bad_checkpoints(tmp_path: Path) -> None:
    folder = write_artifacts(tmp_path / "artifacts")
    content = checkpoint(weights())
    cases = {
        b"": "not a checkpoint",
        b"\0" * 40: "not a checkpoint",
        content[: len(content) // 2]: "damaged checkpoint",
        content[:8] + b"\xff" * 40: "damaged checkpoint",
        checkpoint({name: array for name, array in weights().items() if name != "fc.bias"}): "'fc.bias' is missing",
        checkpoint({**weights(), "fc.bias": np.zeros(4, np.float32)}): r"fc.bias.*has shape \(4,\)",
        checkpoint({**weights(), "fc.bias": np.full(3, np.nan, np.float32)}): "fc.bias.*holds NaN",
    }
    for bad, message in cases.items():
        (folder / "checkpoint").write_bytes(bad)
        with pytest.raises(BadInputError, match=message):
            load(str(folder))
    (folder / "checkpoint").unlink()
    with pytest.raises(BadInputError, match="checkpoint: cannot be read"):
        load(str(folder))


def test_a_checkpoint_gives_its_arrays_back(tmp_path: Path) -> None:
    (tmp_path / "checkpoint").write_bytes(checkpoint(weights()))
    found = read_checkpoint(tmp_path / "checkpoint")
    assert list(found) == list(weights())
    for name, array in weights().items():
        np.testing.assert_array_equal(found[name], array)


@pytest.mark.parametrize("accumulators", [False, True])
def test_a_graph_that_updates_its_own_weights(tmp_path: Path, data: Path, accumulators: bool) -> None:
    onnx.save(one_shot(accumulators=accumulators), tmp_path / "one.onnx")
    task = _task(tmp_path / "one.onnx", data=data, steps=2)
    assert (task.spec.accumulation, task.spec.learning_rate, task.data) == (1, 0.05, ("x", "labels"))
    golden = run_golden(task)
    _assert_same(golden, _own(tmp_path, data, 0.05, 1))
    assert_right(task, golden, trained(task, tmp_path / "run", promote=True))


def _changed(change: str) -> onnx.ModelProto:
    model = one_shot()
    graph = model.graph
    updates = [node for node in graph.node if node.op_type == "SGD"]
    if change == "no loss":
        graph.output.remove(graph.output[0])
    elif change == "no value":
        tensor = graph.initializer[0]
        graph.input.append(onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims)))
        graph.initializer.remove(tensor)
    elif change == "momentum":
        updates[0].attribute.append(onnx.helper.make_attribute("momentum", 0.9))
    elif change == "rates":
        updates[0].attribute[0].f = 0.5
    elif change == "no rate":
        updates[0].ClearField("attribute")
    elif change == "twice":
        updates[1].input[0] = updates[0].input[0]
    else:
        graph.node.append(onnx.helper.make_node("Relu", [updates[0].output[0]], ["again"]))
        graph.output.append(onnx.helper.make_tensor_value_info("again", 1, None))
    return model


@pytest.mark.parametrize(
    ("change", "message"),
    {
        "no loss": "make the loss an output",
        "no value": "'conv.weight' has no value; make it an initializer",
        "momentum": "attribute 'momentum' is not supported",
        "rates": "different learning rates",
        "no rate": "this node is not supported; use plain SGD",
        "twice": "updated twice",
        "read again": "is read in the same graph",
    }.items(),
)
def test_bad_one_shot_graphs(tmp_path: Path, change: str, message: str) -> None:
    onnx.save(_changed(change), tmp_path / "one.onnx")
    with pytest.raises(BadInputError, match=message):
        load(str(tmp_path / "one.onnx"))
