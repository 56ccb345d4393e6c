"""The host engine end to end, on a tiny network written by hand against the interface of emitted code."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hal_programs import Hal
from tiny_net import LABELS, SCALE, STATE, TENSORS, W, X, plant, write_program

from deeploy_ext import engines
from deeploy_ext.codegen.program import EmittedProgram
from deeploy_ext.engines import EngineOptions
from deeploy_ext.engines.base import Sanitizer
from deeploy_ext.engines.compiler import find_compiler
from deeploy_ext.engines.host import HostEngine
from deeploy_ext.engines.output import read_counters
from deeploy_ext.errors import BadInputError, ToolError


@pytest.fixture
def program(tmp_path: Path) -> EmittedProgram:
    return write_program(tmp_path / "c")


@pytest.mark.parametrize("sanitize", [None, "address", "undefined", "thread"])
def test_trajectory_is_that_of_numpy(program: EmittedProgram, tmp_path: Path, hal: Hal, sanitize: Sanitizer | None) -> None:
    if sanitize:
        hal.need(sanitize)
    engine = HostEngine()
    built = engine.build(program, tmp_path / "build", sanitize)
    results = [engine.run(built, dma=dma, seed=7) for dma in ("eager", "lazy", "random")]
    for result in results:
        assert len(result.rounds) == 2
        for trajectory in result.rounds:
            w, state, gradient, batch = W.copy(), STATE, np.zeros(8, np.float32), 0
            assert (len(trajectory.losses), len(trajectory.parameters)) == (6, 2)
            for step in range(2):
                for accumulated in range(3):
                    factor = SCALE * np.float32(LABELS[batch % 2])
                    loss = factor * np.float32(sum(w * X[batch % 2]))
                    state = state / np.float32(2) + loss
                    gradient = (gradient if accumulated else 0) + factor * X[batch % 2]
                    np.testing.assert_allclose(trajectory.losses[batch], loss, rtol=1e-6)
                    np.testing.assert_array_equal(trajectory.gradients[batch]["w"], gradient.reshape(4, 2))
                    np.testing.assert_allclose(trajectory.states[batch]["s"], state, rtol=1e-6)
                    assert trajectory.states[batch]["s"].shape == ()
                    batch += 1
                w = w - np.float32(0.5) * gradient
                np.testing.assert_array_equal(trajectory.parameters[step]["w"], w.reshape(4, 2))
        counters = result.counters
        assert {name: counters[name] for name in ("rounds", "mini_batches", "updates", "tiles", "kernels", "forks")} == {
            "rounds": 2, "mini_batches": 6, "updates": 2, "tiles": 6, "kernels": 6, "forks": 8
        }  # fmt: skip
        assert counters["l3_to_l2_bytes"] == 8 * 32
        assert counters["l2_to_l3_bytes"] == 2 * 32
        assert counters["l1_peak_bytes"] == 256
        assert result.cycles is None
    assert results[0].counters == results[1].counters == results[2].counters


def test_rounds_are_as_many_as_asked(program: EmittedProgram, tmp_path: Path) -> None:
    engine = HostEngine()
    built = engine.build(program, tmp_path / "build")
    assert len(engine.run(built, rounds=5).rounds) == 5


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("return l1 && l2 ? 0 : -1;", "return -1;", "failed with status 71: driver: net_init: the network does not fit"),
        ("l1 = pi_cl_l1_malloc(&cluster, 256)", "l1 = pi_cl_l1_malloc(&cluster, 4100)", "driver: net_init"),
        ("/*PLANT*/", "if (pi_core_id() == 4) return;", "failed with status 70: hal: worker .: dead-lock"),
        ("/*PLANT*/", "__builtin_trap();", "was ended by SIG(ILL|TRAP)"),
        (
            "move(40, 64, 32, PI_CL_DMA_DIR_LOC2EXT);",
            "move(40, 64, 320, PI_CL_DMA_DIR_LOC2EXT);",
            "pi_cl_dma_cmd: out of range",
        ),
    ],
)
def test_program_that_fails_is_a_tool_error_with_its_reason(
    program: EmittedProgram, tmp_path: Path, old: str, new: str, message: str
) -> None:
    plant(program, old, new)
    engine = HostEngine()
    built = engine.build(program, tmp_path / "build")
    with pytest.raises(ToolError, match=message) as caught:
        engine.run(built)
    assert str(caught.value).endswith(f"log: {tmp_path / 'build' / 'run.log'}")
    assert str(caught.value).count("\n") == 1


def test_program_that_hangs_is_stopped(program: EmittedProgram, tmp_path: Path) -> None:
    plant(program, "/*PLANT*/", "for (volatile int i = 1; i;) { }")
    engine = HostEngine(time_limit=0.5)
    with pytest.raises(ToolError, match=r"did not end within 0\.5 s"):
        engine.run(engine.build(program, tmp_path / "build"))


@pytest.mark.parametrize(
    ("sanitize", "plant_", "message"),
    [
        ("address", "if (pi_core_id() == 2) l2[100] = 1;", "AddressSanitizer: use-after-poison"),
        ("address", "if (pi_core_id() == 2) l1[112] = 1;", "AddressSanitizer: use-after-poison"),
        ("undefined", "static int big = 2147483647; big += (int)pi_core_id() + 1;", "signed integer overflow"),
        ("thread", "if (pi_core_id() == 2) ((float *)(void *)l1)[25] = 1;", "ThreadSanitizer: data race"),
    ],
)
def test_sanitizers_report_through_the_engine(
    program: EmittedProgram, tmp_path: Path, hal: Hal, sanitize: Sanitizer, plant_: str, message: str
) -> None:
    hal.need(sanitize)
    plant(program, "/*PLANT*/", plant_)
    engine = HostEngine()
    with pytest.raises(ToolError, match=message):
        engine.run(engine.build(program, tmp_path / "build", sanitize))


@pytest.mark.parametrize(
    ("old", "new"), [("rate = learning", "unknown(); rate = learning"), ("bool is_first", "int unused; bool is_first")]
)
def test_warnings_and_errors_of_the_compiler_are_tool_errors(
    program: EmittedProgram, tmp_path: Path, old: str, new: str
) -> None:
    plant(program, old, new)
    with pytest.raises(ToolError, match=r"net\.c does not compile: .*error: .*(unknown|unused).*, in \w+\nlog"):
        HostEngine().build(program, tmp_path / "build")
    assert "error" in (tmp_path / "build" / "build.log").read_text()


def test_missing_function_is_a_link_error(program: EmittedProgram, tmp_path: Path) -> None:
    plant(program, "void net_close(void)", "void net_close2(void);\nvoid net_close2(void)")
    with pytest.raises(ToolError, match=r"the program does not link: .*net_close"):
        HostEngine().build(program, tmp_path / "build")


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("weights.bin", lambda content: content[:-1], "weights.bin: shorter than the 40 bytes expected"),
        ("weights.bin", lambda content: content + b"\0", "weights.bin: longer than the 40 bytes expected"),
        ("data.bin", lambda content: b"", "data.bin: shorter than the 72 bytes expected"),
        ("data.bin", None, "data.bin: No such file"),
    ],
)
def test_bad_input_files_are_named(program: EmittedProgram, tmp_path: Path, name: str, change, message: str) -> None:
    file = program.directory / name
    engine = HostEngine()
    built = engine.build(program, tmp_path / "build")
    if change:
        file.write_bytes(change(file.read_bytes()))
    else:
        file.unlink()
    with pytest.raises(ToolError, match=f"status 71: driver: .*{message}"):
        engine.run(built)


def test_output_of_another_size_is_refused(program: EmittedProgram, tmp_path: Path) -> None:
    engine = HostEngine()
    built = engine.build(program, tmp_path / "build")
    for other in (replace(program, steps=1), replace(program, accumulation=4), replace(program, tensors=TENSORS[:5])):
        with pytest.raises(ToolError, match=r"has \d+ bytes where \d+ were expected"):
            engine.run(replace(built, program=other))
    with pytest.raises(ToolError, match="exactly one loss"):
        engine.run(replace(built, program=replace(program, tensors=TENSORS[3:])))


def test_program_that_writes_nothing_is_refused(program: EmittedProgram, tmp_path: Path) -> None:
    """An old output is never taken for the new one."""
    engine = HostEngine()
    built = engine.build(program, tmp_path / "build")
    engine.run(built)
    shutil.copy(shutil.which("true") or "/bin/true", built.executable)
    with pytest.raises(ToolError, match="without its counters"):
        engine.run(built)
    assert not (tmp_path / "build" / "out.bin").exists()


def test_counters_skip_other_lines() -> None:
    assert read_counters("tiles 3\nhello world\nloss 1.5\nx -1\nbarriers 12\n") == {"tiles": 3, "barriers": 12}


def test_select() -> None:
    assert engines.select(EngineOptions("host")).name == "host"
    assert engines.select(EngineOptions("host")).note == ""
    automatic = engines.select(EngineOptions("auto"))
    assert automatic.name == "host"
    assert "auto: host (GVSOC_HOME: no GVSoC in" in automatic.note
    assert "auto: host, since --dma and --sanitize" in engines.select(EngineOptions("auto", host_only=True)).note
    with pytest.raises(ToolError, match="GVSOC_HOME: no GVSoC in"):
        engines.select(EngineOptions("gvsoc"))
    with pytest.raises(ToolError, match="--gvsoc: no GVSoC in '/no'"):
        engines.select(EngineOptions("auto", gvsoc="/no"))
    with pytest.raises(ToolError, match="engine board runs nothing"):
        engines.select(EngineOptions("board"))
    with pytest.raises(BadInputError, match="unknown engine fpga"):
        engines.select(EngineOptions("fpga"))
    with pytest.raises(BadInputError, match="unknown GVSoC target"):
        engines.select(EngineOptions("gvsoc", gvsoc_target="gap8"))
    with pytest.raises(BadInputError, match="unknown instruction set"):
        engines.select(EngineOptions("gvsoc", isa="rvv"))


def test_without_a_compiler_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ToolError, match="C compiler no-such-cc not found"):
        find_compiler("no-such-cc")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ToolError, match="install gcc or clang"):
        engines.select(EngineOptions("host"))


def test_compiler_outside_of_the_usual_names(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """``$CC`` is not consulted: no hidden environment variable decides what is built."""
    monkeypatch.setenv("CC", "/no/such/compiler")
    compiler = find_compiler()
    link = tmp_path / "mycc"
    link.symlink_to(compiler)
    assert find_compiler(str(link)) == str(link)
