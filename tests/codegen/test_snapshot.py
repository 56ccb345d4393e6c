"""The emitted C of a small network, byte for byte, from a committed plan (``--update-golden`` writes both anew)."""

from __future__ import annotations

from pathlib import Path

import pytest

from deeploy_ext.codegen.emit import emit
from deeploy_ext.graph.lower import lower
from deeploy_ext.planning.check import check_plan
from deeploy_ext.planning.plan import Plan
from support import FIXED_L1, planned, task_of

SNAPSHOTS = Path(__file__).parent / "snapshots"
FILES = ("net.c", "net.h", "net_test.h")


def test_emitted_c_is_the_committed_one(tmp_path: Path, update_golden: bool) -> None:
    task = task_of("TinyCNN")
    if update_golden:
        SNAPSHOTS.mkdir(exist_ok=True)
        made = planned(task, promote=True, double_buffer=True, l1=FIXED_L1 + 1_760)
        (SNAPSHOTS / "plan.json").write_text(made.plan.to_json())
    program = lower(task)
    plan = Plan.from_json((SNAPSHOTS / "plan.json").read_text())
    check_plan(program, plan)
    emit(task, program, plan, tmp_path)
    for name in FILES:
        text = (tmp_path / name).read_text()
        if update_golden:
            (SNAPSHOTS / name).write_text(text)
        assert text == (SNAPSHOTS / name).read_text(), f"{name} changed; look at it, then run pytest --update-golden"


@pytest.mark.parametrize("net", ["TinyCNN", "ResNet8"])
def test_regeneration_is_byte_identical(net: str, tmp_path: Path) -> None:
    for name in ("a", "b"):
        made = planned(task_of(net), promote=True, double_buffer=True)
        emit(task_of(net), made.program, made.plan, tmp_path / name)
    files = sorted(p.name for p in (tmp_path / "a").iterdir())
    assert {"net.c", "net.h", "weights.bin", "data.bin"} <= set(files)
    assert [(tmp_path / "a" / f).read_bytes() for f in files] == [(tmp_path / "b" / f).read_bytes() for f in files]


def test_resnet8_stays_small(tmp_path: Path) -> None:
    made = planned(task_of("ResNet8"), promote=True, double_buffer=True, l1=24_000)
    emit(task_of("ResNet8"), made.program, made.plan, tmp_path)
    assert sum(p.stat().st_size for p in tmp_path.glob("net.[ch]")) <= 300_000
    assert sum(p.stat().st_size for p in tmp_path.glob("*.[ch]")) <= 500_000  # with runtime and kernels


def test_no_word_of_a_hostile_name_reaches_the_c_text(tmp_path: Path) -> None:
    from dataclasses import replace

    evil = 'evil */ int main(void) { "'
    task = replace(task_of("TinyCNN"), name=evil)
    made = planned(task)
    emit(task, made.program, made.plan, tmp_path)
    assert "*/ int" not in (tmp_path / "net.c").read_text()
