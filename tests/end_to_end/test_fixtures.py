"""Networks made by others: first by their own settings against their own expectations, then two steps against golden."""

from __future__ import annotations

from pathlib import Path

import pytest

from deeploy_ext.harness.compare import compare_expected
from support import assert_right, golden_of, task_of, trained

FOLDERS = {
    "SimpleMLP": "SimpleMLP/simplemlp_train",
    "Autoencoder": "Autoencoder/autoencoder_train",
    "ResNet8": "ResNet8/resnet8_train",
}


@pytest.mark.parametrize("net", FOLDERS)
@pytest.mark.parametrize("steps", [None, 2], ids=["own settings", "two steps"])
def test_fixture_trains(net: str, steps: int | None, fixtures: Path, tmp_path: Path) -> None:
    reference = str(fixtures / "training" / FOLDERS[net])
    task = task_of(reference, steps=steps)
    result = trained(task, tmp_path, promote=True, double_buffer=True)
    assert_right(task, golden_of(reference, steps=steps), result)
    if steps is None:
        assert task.expected is not None
        verdict = compare_expected(task, result.rounds[0])
        assert verdict.passed, verdict


@pytest.mark.parametrize("flags", [{}, {"promote": True}, {"double_buffer": True}], ids=lambda f: "+".join(f) or "plain")
def test_fixture_resnet8_in_the_other_flag_combinations(flags: dict, fixtures: Path, tmp_path: Path) -> None:
    reference = str(fixtures / "training" / FOLDERS["ResNet8"])
    task = task_of(reference, steps=2)
    assert_right(task, golden_of(reference, steps=2), trained(task, tmp_path, l1=24_000, **flags))
