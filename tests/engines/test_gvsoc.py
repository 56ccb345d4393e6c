"""The gvsoc engine: the emitted C on simulated cores gives the golden numbers, and whatever goes wrong ends in a message."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deeploy_ext.codegen.program import EmittedProgram
from deeploy_ext.engines.base import EngineResult
from deeploy_ext.engines.elf import Elf
from deeploy_ext.engines.gvsoc import GvsocEngine
from deeploy_ext.errors import BadInputError, ToolError
from deeploy_ext.harness.compare import identical
from support import FIXED_L1, GAP9, Made, assert_right, emitted, golden_of, planned, task_of

pytestmark = [pytest.mark.gvsoc, pytest.mark.usefixtures("gvsoc")]

BOTH = {"promote": True, "double_buffer": True}


def simulated(net: str, folder: Path, engine: GvsocEngine | None = None, **options: Any) -> tuple[Made, EngineResult]:
    """A network trained on the simulator; every number is compared with the golden run."""
    task = task_of(net)
    made = planned(task, **options)
    engine = engine or GvsocEngine()
    result = engine.run(engine.build(emitted(task, made, folder), folder / "build"))
    assert_right(task, golden_of(net), result)
    return made, result


@pytest.mark.parametrize("net", ["TinyCNN", "TinySeparable"])
@pytest.mark.parametrize(
    "options",
    [BOTH, {"promote": True}, {"double_buffer": True, "l1": FIXED_L1 + 1_760}, {"l1": FIXED_L1 + 1_760}, {**BOTH, "cores": 3}],
    ids=["both", "promote", "db, little L1", "little L1", "3 cores"],
)
def test_networks_train_right(net: str, options: dict[str, Any], tmp_path: Path) -> None:
    made, result = simulated(net, tmp_path, **options)
    traffic = made.plan.traffic
    runs = {"step": result.counters["mini_batches"], "update": result.counters["updates"], "infer": len(task_of(net).batches)}
    assert result.counters["l2_to_l1_bytes"] + result.counters["l1_to_l2_bytes"] == sum(
        runs[entry] * moved.l2_l1 for entry, moved in traffic.items()
    )
    assert result.counters["l3_to_l2_bytes"] + result.counters["l2_to_l3_bytes"] == sum(
        runs[entry] * moved.l3_l2 for entry, moved in traffic.items()
    )


@pytest.mark.parametrize("net", ["SimpleMLP", "TinyAutoencoder"])
def test_networks_without_convolutions_train_right(net: str, tmp_path: Path) -> None:
    simulated(net, tmp_path, **BOTH)


@pytest.mark.parametrize("name", ["SimpleMLP", "Autoencoder"])
def test_fixtures_train_right(name: str, fixtures: Path, tmp_path: Path) -> None:
    (folder,) = (fixtures / "training" / name).glob("*_train")
    simulated(str(folder), tmp_path, **BOTH)


@pytest.mark.slow
@pytest.mark.parametrize("options", [BOTH, {}], ids=["both", "plain"])
def test_resnet8_trains_right(options: dict[str, Any], tmp_path: Path) -> None:
    simulated("ResNet8", tmp_path, **options)


def test_cycles_are_measured_and_the_same_every_time(tmp_path: Path) -> None:
    """Nests add up to their entry but for fork, join and counting; kernels and waiting are parts of a nest."""
    _, first = simulated("TinyCNN", tmp_path / "a", **BOTH)
    made, second = simulated("TinyCNN", tmp_path / "b", **BOTH)
    assert first.cycles and first.cycles == second.cycles and first.model == "GVSoC gap9like"
    assert identical(first.rounds[0], second.rounds[0]) is None
    assert len(first.cycles.groups) == len(made.plan.groups)
    for entry, cycles in first.cycles.entries.items():
        groups = [c for c, g in zip(first.cycles.groups, made.plan.groups, strict=True) if g.entry == entry]
        nests = sum(group.total for group in groups)
        assert nests < cycles < nests + 1000 + 400 * len(groups)
    assert all(group.kernel + group.wait < group.total for group in first.cycles.groups)


def test_rounds_in_one_process_are_the_same(tmp_path: Path) -> None:
    engine, task = GvsocEngine(), task_of("TinyCNN")
    result = engine.run(engine.build(emitted(task, planned(task, **BOTH), tmp_path), tmp_path / "build"), rounds=2)
    assert identical(*result.rounds) is None
    assert_right(task, golden_of("TinyCNN"), result)


def test_other_board_instruction_set_and_compiler(tmp_path: Path) -> None:
    """More is predicted for the stock board than it has; the same plan takes longer where banks conflict."""
    pytest.importorskip("ziglang")
    task = task_of("TinyCNN")
    program = emitted(task, planned(task, **BOTH), tmp_path / "large")
    with pytest.raises(BadInputError, match="counts with 131072 bytes of L1, GVSoC's pulp-open has 65536; add --l1 64k"):
        GvsocEngine(target="pulp-open").build(program, tmp_path / "build")
    _, stock = simulated("TinyCNN", tmp_path / "stock", GvsocEngine(target="pulp-open"), l1=65536, **BOTH)
    _, ours = simulated("TinyCNN", tmp_path / "ours", l1=65536, **BOTH)
    assert stock.cycles and ours.cycles and stock.model == "GVSoC pulp-open"
    assert stock.cycles.entries["step"] < ours.cycles.entries["step"]
    _, plain = simulated("TinyCNN", tmp_path / "rv32", GvsocEngine(isa="rv32", compiler="ziglang"), **BOTH)
    assert plain.cycles


def test_memory_is_what_the_plan_says(tmp_path: Path) -> None:
    """The linker's map, what the run has allocated, and the plan agree; no stack is used up."""
    task = task_of("TinyCNN")
    made, engine = planned(task, **BOTH), GvsocEngine()
    built = engine.build(emitted(task, made, tmp_path), tmp_path / "build")
    counters = engine.run(built).counters
    sections = {section.name: section for section in Elf(built.executable).sections()}
    stacks = sum(sections[name].size for name in (".l1_stacks", ".l1_data"))
    level = made.plan.memory
    assert stacks == GAP9.controller_stack + 8 * GAP9.worker_stack == counters["l1_static_bytes"]
    assert stacks + counters["l1_peak_bytes"] == level["L1"].used
    in_l2 = [section for section in sections.values() if section.address >= 0x1C010000]
    code = max(section.address + section.size for section in in_l2) - min(section.address for section in in_l2)
    assert 0 <= counters["l2_static_bytes"] - code < 8 and counters["l2_static_bytes"] <= level["L2"].reserved
    assert counters["l2_peak_bytes"] == level["L2"].used - level["L2"].reserved
    assert counters["l3_peak_bytes"] - level["L3"].used < 16
    assert 0 < counters["stack_worker_bytes"] < GAP9.worker_stack
    assert 0 < counters["stack_controller_bytes"] < GAP9.controller_stack // 2


def test_code_of_resnet8_fits_its_reserve(tmp_path: Path) -> None:
    task = task_of("ResNet8")
    made, engine = planned(task, **BOTH), GvsocEngine()
    built = engine.build(emitted(task, made, tmp_path), tmp_path / "build")
    in_l2 = [section for section in Elf(built.executable).sections() if section.address >= 0x1C010000]
    code = max(section.address + section.size for section in in_l2) - min(section.address for section in in_l2)
    assert code <= made.plan.memory["L2"].reserved


# ---- faults ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> EmittedProgram:
    task = task_of("TinyCNN")
    return emitted(task, planned(task, **BOTH), tmp_path_factory.mktemp("program"))


def body(code: str) -> Callable[[str], str]:
    """Code at the start of the kernel of Relu."""
    return lambda text: re.sub(r"(static void Relu_main_1\([^{]*\{\n)", rf"\1    {code}\n", text, count=1)


FAULTS: dict[str, tuple[str, Callable[[str], str], str]] = {
    "illegal instruction": (
        "net.c",
        body('if (pi_core_id() == 3) __asm__ volatile(".word 0xffffffff");'),
        r"hal: worker 3: trap: .*cause 0x.*pc 0x[0-9a-f]{8} \(Relu_main_1\).*mhartid 0x00000003",
    ),
    "ecall on all cores": ("net.c", body('__asm__ volatile("ecall");'), r"hal: worker \d: trap: .*\(Relu_main_1\)"),
    "endless loop": (
        "net.c",
        body("if (pi_core_id() == 2) for (volatile int i = 0; ; ) ++i;"),
        r"hal: FC: the cluster did not end its task within \d+ cycles",
    ),
    "missing barrier partner": (
        "net_walker.c",
        lambda text: text.replace("while (w->tile) {", "while (w->tile && core != 5) {"),
        "hal: FC: the cluster did not end its task within",
    ),
    "outside of the memory map": (
        "net.c",
        body("if (pi_core_id() == 1) *(volatile int *)0xE0000000 = 1;"),
        r"Invalid access \(pc: 0x[0-9a-f]{8} \(Relu_main_1\)",
    ),
    "stack overflow": (
        "net.c",
        body("volatile char big[600]; for (int i = 0; i < 600; ++i) big[i] = 1;"),
        r"stack of worker \d overflown|stack has overflown",
    ),
    "more memory than there is": (
        "net.h",
        lambda text: re.sub(r"#define NET_L2_BYTES \d+", "#define NET_L2_BYTES 1572000", text),
        "driver: net_init: the network does not fit the memories",
    ),
    "DMA of nothing": (
        "net_transfer.c",
        lambda text: text.replace("pi_cl_dma_cmd(far, near, length,", "pi_cl_dma_cmd(far, near, 0 * length,"),
        "hal: worker 0: pi_cl_dma_cmd: 0 bytes; 1 to 131071 are possible",
    ),
}


@pytest.mark.parametrize("name", list(FAULTS))
def test_faults_end_in_a_message(name: str, program: EmittedProgram, tmp_path: Path) -> None:
    file, fault, said = FAULTS[name]
    copy = Path(shutil.copytree(program.directory, tmp_path / "c"))
    text = (copy / file).read_text()
    changed = fault(text)
    assert changed != text, "the text to change is no longer there"
    (copy / file).write_text(changed)
    engine = GvsocEngine()
    start = time.monotonic()
    with pytest.raises(ToolError, match=said) as caught:
        engine.run(engine.build(replace(program, directory=copy), tmp_path / "build"))
    assert caught.value.exit_status == 4 and time.monotonic() - start < 120


def test_a_simulator_that_hangs_is_stopped(program: EmittedProgram, tmp_path: Path) -> None:
    """The hole behind L1 keeps the simulator busy for ever inside one event: only wall-clock time ends that."""
    copy = Path(shutil.copytree(program.directory, tmp_path / "c"))
    text = (copy / "net.c").read_text()
    (copy / "net.c").write_text(body("if (pi_core_id() == 1) *(volatile int *)0x10020000 = 1;")(text))
    engine = GvsocEngine(time_limit=8)
    with pytest.raises(ToolError, match="did not end within 8 s and was stopped"):
        engine.run(engine.build(replace(program, directory=copy), tmp_path / "build"))


def test_data_that_is_not_there_is_named(program: EmittedProgram, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(program.directory, tmp_path / "c"))
    for name, said in (("data.bin", "driver: data.bin: 4 bytes where"), ("weights.bin", "driver: weights.bin: 4 bytes where")):
        np.zeros(1, np.float32).tofile(copy / name)
        engine = GvsocEngine()
        with pytest.raises(ToolError, match=said):
            engine.run(engine.build(replace(program, directory=copy), tmp_path / "build"))
