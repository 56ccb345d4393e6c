"""The main job: ResNet8 trains on the host engine, every number proven, whatever the flags, memories and DMA timing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deeploy_ext.harness.compare import identical
from deeploy_ext.planning.plan import AFTER
from deeploy_ext.training.task import TrainingTask
from support import assert_right, golden_of, planned, task_of, trained

FLAGS = [{}, {"promote": True}, {"double_buffer": True}, {"promote": True, "double_buffer": True}]


def executions(task: TrainingTask) -> dict[str, int]:
    """How often the test driver runs each entry in one round."""
    return {"step": task.spec.mini_batches, "update": task.spec.steps, "infer": len(task.batches)}


def _combinations() -> Iterator[Any]:
    """Those in the middle are slow: what is in them is in the others, too."""
    for flags in FLAGS:
        for l1 in (None, 24_000):
            name = f"{'+'.join(flags) or 'plain'}-{l1}"
            yield pytest.param(flags, l1, id=name, marks=pytest.mark.slow if len(flags) == 1 else ())


@pytest.mark.parametrize(("flags", "l1"), list(_combinations()))
def test_resnet8_trains(flags: dict[str, Any], l1: int | None, tmp_path: Path) -> None:
    task = task_of("ResNet8")
    result = trained(task, tmp_path, l1=l1, **flags)
    assert_right(task, golden_of("ResNet8"), result)
    plan = planned(task, l1=l1, **flags).plan
    tiles = sum(runs * sum(g.tiles for g in plan.entry(entry)) for entry, runs in executions(task).items())
    assert result.counters["tiles"] == tiles
    if l1:
        assert sum(g.tiles > 1 for g in plan.groups) > 50, "a small L1 must tile, not fall back to something else"
    overlapping = any((g.double_buffer and g.tiles > 1) or any(b.arrival != AFTER for b in g.blocks) for g in plan.groups)
    assert overlapping == flags.get("double_buffer", False)
    if overlapping:
        assert result.counters["overlapped_kernels"] > 0, "nothing was in flight while a kernel ran"
    else:
        assert result.counters["overlapped_kernels"] == 0


def test_gather_and_scatter_both_run_and_dispatch_is_only_a_matter_of_when(tmp_path: Path) -> None:
    task = task_of("ResNet8")
    options: dict[str, Any] = {"l1": 40_000, "promote": True, "kernels": "portable"}
    at_run_time = trained(task, tmp_path / "runtime", dispatch="runtime", **options)
    folded = trained(task, tmp_path / "static", dispatch="static", **options)
    for result in (at_run_time, folded):
        assert result.counters["gather"] > 0
        assert result.counters["scatter"] > 0
        assert_right(task, golden_of("ResNet8"), result)
    assert identical(at_run_time.rounds[0], folded.rounds[0]) is None
    assert at_run_time.counters["gather"] == folded.counters["gather"]
    text = (tmp_path / "static" / "c" / "net.c").read_text()
    assert "UNTILED" not in text, "the plan proves every tile here: no test is left"
    assert "UNTILED" in (tmp_path / "runtime" / "c" / "net.c").read_text()


def test_the_plan_predicts_the_bytes_that_move(tmp_path: Path) -> None:
    task = task_of("ResNet8")
    options: dict[str, Any] = {"l1": 24_000, "l2": 700_000, "promote": True, "double_buffer": True}
    counters = trained(task, tmp_path, **options).counters
    plan = planned(task, **options).plan
    runs = executions(task)
    moved = {hop: sum(runs[e] * getattr(t, hop) for e, t in plan.traffic.items()) for hop in ("l3_l2", "l2_l1")}
    assert counters["l3_to_l2_bytes"] + counters["l2_to_l3_bytes"] == moved["l3_l2"] > 0
    assert counters["l2_to_l1_bytes"] + counters["l1_to_l2_bytes"] == moved["l2_l1"] > 0
