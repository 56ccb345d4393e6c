"""Data of own models: what a file has to hold, and what is refused of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import helper
from own_models import cnn, info, model, network, samples, tensor, write, write_samples

from deeploy_ext.errors import BadInputError
from deeploy_ext.training.autodiff import differentiate


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
