"""The fused update trains as the accumulating program does: the same weights, bit for bit where both plans cut the sums of
gradients alike, and none of its gradients."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deeploy_ext.codegen.board import write_board_project
from deeploy_ext.codegen.product import write_product
from deeploy_ext.engines.host import HostEngine
from deeploy_ext.planning.plan import Plan
from deeploy_ext.training.task import TrainingTask, Trajectory
from support import assert_right, emitted, golden_of, planned, task_of, trained

BOTH: dict[str, Any] = {"promote": True, "double_buffer": True}


def assert_same_weights(one: Trajectory, other: Trajectory) -> None:
    assert one.losses == other.losses
    for mine, theirs in zip([*one.parameters, *one.states], [*other.parameters, *other.states], strict=True):
        assert mine.keys() == theirs.keys()
        for name in mine:
            np.testing.assert_array_equal(mine[name].view(np.uint32), theirs[name].view(np.uint32), name)


def check(task: TrainingTask, golden: Trajectory, folder: Path, **options: Any) -> None:
    apart = trained(task, folder / "apart", **options)
    fused = trained(task, folder / "fused", fuse=True, **options)
    assert_right(task, golden, apart)
    assert_right(task, golden, fused, fused=True)
    assert not any(fused.rounds[0].gradients)
    if "l1" in options and not _sums_alike(task, **options):  # what else is in a nest leaves other tiles where L1 is small
        return
    assert_same_weights(apart.rounds[0], fused.rounds[0])


def _sums_alike(task: TrainingTask, **options: Any) -> bool:
    """Whether both plans split the sums of all nodes that they share alike."""
    apart, fused = (_sums(planned(task, fuse=fuse, **options).plan) for fuse in (False, True))
    return all(fused[node] == split for node, split in apart.items() if node in fused)


def _sums(plan: Plan) -> dict[str, list[tuple[str, int, int]]]:
    """The reduction loops that a mini-batch's nodes split, outermost first, with extent and tile."""
    split = {group: [group.loops[i] for i in group.order if group.loops[i].reduction] for group in plan.entry("step")}
    return {
        node: [(loop.name, loop.extent, loop.tile) for loop in loops] for group, loops in split.items() for node in group.nodes
    }


@pytest.mark.parametrize(
    ("net", "options"),
    [("TinyCNN", BOTH), ("SimpleMLP", {}), pytest.param("ResNet8", BOTH, marks=pytest.mark.slow)],
)
def test_the_weights_are_those_of_separate_updates_bit_for_bit(net: str, options: dict[str, Any], tmp_path: Path) -> None:
    check(task_of(net, accumulation=1), golden_of(net, accumulation=1), tmp_path, **options)


@pytest.mark.slow
@pytest.mark.parametrize("net", ["TinyCNN", "TinySeparable", "TinyAutoencoder", "ResNet8"])
@pytest.mark.parametrize("options", [{}, {"l1": 24_000}, {"promote": True, "l2": 700_000}], ids=repr)
def test_with_other_memories_too(net: str, options: dict[str, Any], tmp_path: Path) -> None:
    check(task_of(net, accumulation=1), golden_of(net, accumulation=1), tmp_path, **options)


def test_a_product_and_a_board_project_train_with_one_call_per_step(tmp_path: Path) -> None:
    task = task_of("TinySeparable", steps=3)
    made = planned(task, fuse=True, promote=True)
    program = emitted(task, made, tmp_path)
    engine = HostEngine()
    losses = engine.run(engine.build(program, tmp_path / "build"), rounds=1).rounds[0].losses
    write_product(program, task, made.plan, losses, tmp_path / "product")
    readme = (tmp_path / "product/README.md").read_text()
    command = next(line for line in readme.splitlines() if line.startswith("    cc "))
    done = subprocess.run(
        ["sh", "-c", f"{command} -Wall -Wextra -Werror && ./train"],
        cwd=tmp_path / "product", capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert [line.split()[-1] for line in done.stdout.splitlines() if " loss " in line] == [f"{loss:.9g}" for loss in losses]
    write_board_project(program, task, made.plan, losses, tmp_path / "board")
    for text in (readme, *((tmp_path / folder / "main.c").read_text() for folder in ("product", "board"))):
        assert "net_train" in text and "net_step" not in text and "net_update" not in text
