"""Faults planted in the emitted program of a small network are caught; the program as emitted is clean.

Each is of a kind that a PC normally hides: a race that is seldom lost, an overrun into memory that exists, a transfer that
eager copies complete in time.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hal_programs import Hal

from deeploy_ext.codegen.program import EmittedProgram
from deeploy_ext.engines.base import DmaMode, EngineResult, Sanitizer
from deeploy_ext.engines.host import HostEngine
from deeploy_ext.errors import ToolError
from deeploy_ext.harness.compare import compare, identical
from support import FIXED_L1, emitted, golden_of, planned, task_of

NET = "TinyCNN"
DMA_MODES: tuple[DmaMode, ...] = ("eager", "lazy", "random")

BEFORE_TILE = """\
            turn(w);
        pi_cl_team_barrier();
"""
AFTER_TILE = """\
            p += 1 + w->nest->work.phases[p].chained; /* behind the barrier worker 0 may turn to another nest */
            pi_cl_team_barrier();
"""
BARRIER = re.compile(r" *pi_cl_team_barrier\(\);\n")
RELU = re.compile(r"(static void Relu_main_1\([^{]*\{\n)")
OVERRUN = """\
    if (range->leader) {
        const net_operand_t *const box = &tile->operand[1];
        ((float *)box->data)[box->size[0] * box->stride[0]] += 0.0f;
    }
"""
WAIT = "    net_wait_dma(&w->moving, w->needed);\n    for (int32_t p"
LAST_WAITS = "    net_wait_dma(&w->moving, w->moving.dma_issued);\n    net_wait_ram"


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, EmittedProgram]:
    """With several tiles for some nodes: without and with double buffering."""
    task, made = task_of(NET), {}
    for name in ("single", "double"):
        plan = planned(task, promote=True, double_buffer=name == "double", l1=FIXED_L1 + 1_760, groups="single")
        assert any(group.tiles > 1 for group in plan.plan.groups)
        made[name] = emitted(task, plan, tmp_path_factory.mktemp(name))
    return made


def plant(program: EmittedProgram, folder: Path, name: str, fault: Callable[[str], str]) -> EmittedProgram:
    """A copy of the program with one of its files changed."""
    copy = Path(shutil.copytree(program.directory, folder / "faulty"))
    text = (copy / name).read_text()
    changed = fault(text)
    assert changed != text, "the text to change is no longer there"
    (copy / name).write_text(changed)
    return replace(program, directory=copy)


def runs(program: EmittedProgram, folder: Path, sanitize: Sanitizer | None = None) -> Callable[[DmaMode], EngineResult]:
    """Builds the program; the result runs it."""
    engine = HostEngine(time_limit=60)
    built = engine.build(program, folder / f"build-{sanitize}", sanitize)
    return lambda dma: engine.run(built, dma=dma, seed=3)


def assert_right(result: EngineResult) -> None:
    assert identical(result.rounds[0], result.rounds[1]) is None
    assert compare(task_of(NET), golden_of(NET), result.rounds[0]).passed


@pytest.mark.parametrize("sanitize", ["address", "undefined", "thread"])
@pytest.mark.parametrize("buffers", ["single", "double"])
def test_the_program_as_emitted_is_clean(
    programs: dict[str, EmittedProgram], buffers: str, tmp_path: Path, hal: Hal, sanitize: Sanitizer
) -> None:
    hal.need(sanitize)
    run = runs(programs[buffers], tmp_path, sanitize)
    for dma in DMA_MODES:
        assert_right(run(dma))


@pytest.mark.parametrize(
    ("place", "said"),
    [
        # worker 0 overwrites the tile that others still compute
        (AFTER_TILE, "ThreadSanitizer: data race"),
        # others compute before there is a tile: a race, or already a pointer to nowhere
        (BEFORE_TILE, "ThreadSanitizer: (data race|SEGV)"),
    ],
    ids=["after a tile", "before a tile"],
)
def test_a_missing_barrier_is_a_race(
    programs: dict[str, EmittedProgram], tmp_path: Path, hal: Hal, place: str, said: str
) -> None:
    hal.need("thread")
    faulty = plant(programs["double"], tmp_path, "net_walker.c", lambda text: text.replace(place, BARRIER.sub("", place)))
    with pytest.raises(ToolError, match=said):
        runs(faulty, tmp_path, "thread")("eager")


def test_one_element_beyond_the_tile_is_an_overrun(programs: dict[str, EmittedProgram], tmp_path: Path, hal: Hal) -> None:
    """The element exists: it belongs to another operand, or to nobody yet."""
    hal.need("address")
    faulty = plant(
        programs["double"],
        tmp_path,
        "net.c",
        lambda text: RELU.sub(lambda match: match[1] + OVERRUN, text, count=1),
    )
    runs(faulty, tmp_path)("eager")  # without the sanitizer it goes through: whether the numbers suffer is luck
    with pytest.raises(ToolError, match="AddressSanitizer: use-after-poison"):
        runs(faulty, tmp_path, "address")("eager")


@pytest.mark.parametrize("buffers", ["single", "double"])
def test_a_missing_wait_stops_the_program(programs: dict[str, EmittedProgram], buffers: str, tmp_path: Path) -> None:
    """Whenever data moves: a kernel may not begin while one of its blocks is on its way."""
    faulty = plant(programs[buffers], tmp_path, "net_walker.c", lambda text: text.replace(WAIT, "    for (int32_t p"))
    run = runs(faulty, tmp_path)
    for dma in DMA_MODES:
        with pytest.raises(ToolError, match="still being loaded"):
            run(dma)


def test_a_missing_wait_for_the_last_transfers_stops_the_program(programs: dict[str, EmittedProgram], tmp_path: Path) -> None:
    """Their descriptors are used again while data still moves, or the team ends."""
    faulty = plant(programs["double"], tmp_path, "net_walker.c", lambda text: text.replace(LAST_WAITS, "    net_wait_ram"))
    with pytest.raises(ToolError, match=r"hal: worker 0: .* in flight"):
        runs(faulty, tmp_path)("eager")
