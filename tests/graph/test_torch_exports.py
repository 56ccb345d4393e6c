"""Models from PyTorch's two exporters train, with the parameters' names of the module."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support import assert_right, golden_of, task_of, trained

torch = pytest.importorskip("torch")
nn: Any = torch.nn


def _modules() -> dict[str, Any]:
    torch.manual_seed(0)
    cnn = nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.2),
        nn.Conv2d(4, 6, 3, stride=2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 3), nn.Softmax(1),
    )  # fmt: skip
    mlp = nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 3))
    return {"cnn": cnn.eval(), "mlp": mlp.eval()}


def _export(module: Any, exporter: str, file: Path) -> None:
    image = torch.zeros(2, 1, 8, 8)
    if exporter == "dynamo":
        pytest.importorskip("onnxscript")
        torch.onnx.export(module, (image,), file, dynamo=True, optimize=False, verbose=False)
    else:
        keep = {"training": torch.onnx.TrainingMode.PRESERVE, "do_constant_folding": False}
        torch.onnx.export(module, (image,), str(file), dynamo=False, **keep)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("batchnorm", ["frozen", "train"])
@pytest.mark.parametrize("exporter", ["dynamo", "torchscript"])
@pytest.mark.parametrize("kind", ["cnn", "mlp"])
def test_exports_train(tmp_path: Path, kind: str, exporter: str, batchnorm: str) -> None:
    module, file = _modules()[kind], tmp_path / "net.onnx"
    _export(module, exporter, file)
    options: dict[str, Any] = {"loss": "cross_entropy"} | ({"batchnorm": batchnorm} if kind == "cnn" else {})
    task, golden = task_of(str(file), **options), golden_of(str(file), **options)
    parameters = dict(module.named_parameters())
    assert {parameter.weight for parameter in task.parameters} == set(parameters)
    for name, parameter in parameters.items():
        np.testing.assert_array_equal(task.initial[name], parameter.detach().numpy())
    if batchnorm == "train" and kind == "cnn":
        assert {state.before for state in task.states} == {"1.running_mean", "1.running_var"}
    assert_right(task, golden, trained(task, tmp_path, promote=True))
