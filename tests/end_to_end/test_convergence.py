"""Training trains: over a hundred steps the loss of a separable problem falls, as in the golden run."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from support import assert_right, golden_of, task_of, trained


def test_the_loss_falls_over_a_hundred_steps(tmp_path: Path) -> None:
    task = task_of("TinySeparable", steps=100)
    result = trained(task, tmp_path, promote=True, double_buffer=True)
    losses = np.array(result.rounds[0].losses)
    assert len(losses) >= 100
    assert losses[-10:].mean() < 0.3 * losses[:10].mean()
    assert_right(task, golden_of("TinySeparable", steps=100), result)
