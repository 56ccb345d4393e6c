"""What the gvsoc engine is made of, without a simulator: finding tools, compiling the HAL, reading what comes back."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import numpy as np
import pytest

from deeploy_ext.codegen.program import EmittedProgram
from deeploy_ext.engines.base import GroupCycles
from deeploy_ext.engines.compiler import compile_all
from deeploy_ext.engines.elf import Elf
from deeploy_ext.engines.gvsoc import GvsocEngine, read_cycles
from deeploy_ext.errors import BadInputError, ToolError
from deeploy_ext.resources import resource
from deeploy_ext.toolchain import gvsoc as install
from deeploy_ext.toolchain.gvsoc import describe_board, find_installation
from deeploy_ext.toolchain.riscv import find_riscv_compiler
from support import GAP9, emitted, planned, task_of


def script(file: Path, text: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)
    return file


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Prefix of something that looks like GVSoC."""
    prefix = tmp_path / "prefix"
    for name in ("gvsoc", "gvsoc_launcher"):
        script(prefix / "bin" / name, "exit 0")
    monkeypatch.delenv("GVSOC_HOME")
    monkeypatch.setattr(install, "PREFIXES", (str(tmp_path / "nothing"),))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    return prefix


def test_installations_are_found_where_they_are_named(fake: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(ToolError, match=r"GVSoC not found \(looked at --gvsoc, GVSOC_HOME, PATH and .*nothing\)"):
        find_installation()
    monkeypatch.setattr(install, "PREFIXES", (str(fake),))
    assert find_installation().found == str(fake)
    monkeypatch.setenv("PATH", f"{fake}/bin:/usr/bin:/bin")
    assert find_installation().found == f"{fake}/bin/gvsoc in PATH"
    monkeypatch.setenv("GVSOC_HOME", str(fake))
    assert find_installation().found == f"GVSOC_HOME {fake}"
    assert find_installation(str(fake)).found == f"--gvsoc {fake}"
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "install").symlink_to(fake)
    assert find_installation(str(tree)).folder == tree / "install"
    with pytest.raises(ToolError, match="--gvsoc: no GVSoC in '/nowhere'"):
        find_installation("/nowhere")
    monkeypatch.setenv("GVSOC_HOME", "/nowhere")
    with pytest.raises(ToolError, match="GVSOC_HOME: no GVSoC in '/nowhere'"):
        find_installation()


def test_trouble_of_its_generator_is_told(fake: Path, tmp_path: Path) -> None:
    board = find_installation(str(fake))
    with pytest.raises(BadInputError, match="unknown GVSoC target 'gap8'; use gap9like or pulp-open"):
        describe_board(board, "gap8", tmp_path / "x.elf", tmp_path)
    with pytest.raises(ToolError, match="does not describe its target gap9like: it says nothing"):
        describe_board(board, "gap9like", tmp_path / "x.elf", tmp_path)
    script(board.command, "echo 'ValueError: no such board'; exit 1")
    with pytest.raises(ToolError, match="does not describe its target pulp-open: ValueError: no such board"):
        describe_board(board, "pulp-open", tmp_path / "x.elf", tmp_path)
    script(board.command, "echo \"ModuleNotFoundError: No module named 'hjson'\"; exit 1")
    with pytest.raises(ToolError, match="its Python package 'hjson' is missing in every python3 of PATH"):
        describe_board(board, "pulp-open", tmp_path / "x.elf", tmp_path)


def test_another_python_of_path_may_have_what_the_first_lacks(
    fake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script(tmp_path / "venv" / "python3", "echo \"ModuleNotFoundError: No module named 'hjson'\"; exit 1")
    script(tmp_path / "system" / "python3", "echo > gvsoc_config.json")
    monkeypatch.setenv("PATH", f"{tmp_path}/venv:{tmp_path}/system:/usr/bin:/bin")
    board = find_installation(str(fake))
    script(board.command, "exec python3")
    assert describe_board(board, "gap9like", tmp_path / "x.elf", tmp_path).is_file()


def test_compilers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="--cc: RISC-V compiler no-such-cc not found"):
        find_riscv_compiler("no-such-cc")
    broken = script(tmp_path / "bin" / "clang", "echo 'clang: error: no such target' >&2; exit 1")
    with pytest.raises(ToolError, match=r"--cc: .*clang does not compile for rv32imc_.*: clang: error: no such target"):
        find_riscv_compiler(str(broken))
    monkeypatch.setenv("RISCV_CC", str(broken))
    with pytest.raises(ToolError, match=r"RISCV_CC: .*clang does not compile"):
        find_riscv_compiler()
    script(tmp_path / "bin" / "riscv32-unknown-elf-gcc", "exit 0")
    monkeypatch.setenv("RISCV_CC", "riscv32-unknown-elf-gcc")
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    assert find_riscv_compiler().family == "vendor"
    monkeypatch.delenv("RISCV_CC")
    assert find_riscv_compiler().family == "vendor"
    monkeypatch.setattr("deeploy_ext.toolchain.riscv.CANDIDATES", ("clang",))
    with pytest.raises(ToolError, match=r"no RISC-V compiler found .*\n.*pip install ziglang"):
        find_riscv_compiler()


@pytest.mark.parametrize("cc", ["clang-19", "ziglang"])
@pytest.mark.parametrize("flags", [(), ("-DNET_XPULP=1",)], ids=["rv32", "xpulp"])
def test_the_hal_compiles(cc: str, flags: tuple[str, ...], tmp_path: Path) -> None:
    """Without a simulator too: C, start-up code and drivers, with warnings as errors."""
    try:
        compiler = find_riscv_compiler(cc)
    except ToolError as error:
        pytest.skip(str(error).splitlines()[0])
    program = emitted(task_of("TinyCNN"), planned(task_of("TinyCNN")), tmp_path)
    target = resource("targets", "gap9")
    hal, driver = target / "hal" / "gvsoc", target / "driver"
    sources = [program.directory / name for name in program.sources]
    sources += [*sorted(hal.glob("*.[cS]")), driver / "driver.c", driver / "driver_gvsoc.c"]
    folders = [program.directory, target / "hal", hal, hal / "include", driver]
    flags = (*compiler.compile_flags, "-DNET_TRACE=2", *flags)
    assert all(path.is_file() for path in compile_all(compiler.command, sources, folders, tmp_path / "o", flags=flags))


def test_memories_are_stated_alike() -> None:
    """Target file, simulated board and linker script stand apart, since others read them: they must agree."""
    board = (GAP9.folder / "gvsoc" / "gap9like.py").read_text()
    (simulated,) = re.findall(r"^L1_BYTES = (0x[0-9a-f]+)", board, re.MULTILINE)
    script = (GAP9.folder / "hal" / "gvsoc" / "link.ld").read_text()
    linked = {
        name: int(size) * 1024 for name, size in re.findall(r"^    (L[12]) : ORIGIN = .* LENGTH = (\d+)K", script, re.MULTILINE)
    }
    heap = (GAP9.folder / "hal" / "gvsoc" / "memory_gvsoc.c").read_text()
    (megabytes,) = re.findall(r"#define L3_BYTES \((\d+)u << 20\)", heap)
    capacity = {name: level.capacity for name, level in GAP9.levels.items()}
    assert int(simulated, 16) == install.TARGETS["gap9like"] == capacity["L1"]
    assert linked == {name: capacity[name] for name in ("L1", "L2")}
    assert int(megabytes) << 20 == capacity["L3"]


def program_with(groups: int) -> EmittedProgram:
    return EmittedProgram(Path(), (), (), (), 1, 1, 1, 8, groups=("step",) * groups)


def test_cycles_are_averages(tmp_path: Path) -> None:
    file = tmp_path / "cycles.bin"
    with pytest.raises(ToolError, match="left no cycles"):
        read_cycles(file, program_with(1))
    file.write_bytes(struct.pack("<6Q", 2**40, 30, 0, 4, 3, 0) + struct.pack("<9Q", 100, 50, 20, 4, 40, 8, 12, 0, 4))
    cycles = read_cycles(file, program_with(1))
    assert cycles.entries == {"step": 2**38, "update": 10}
    assert cycles.groups == (GroupCycles(25, 12, 5, (10, 2, 3, 0, 1)),)
    with pytest.raises(ToolError, match="120 bytes of cycles where 192 were expected"):
        read_cycles(file, program_with(2))
    file.write_bytes(np.zeros(15, np.uint64).tobytes())
    with pytest.raises(ToolError, match="tile nest 0 of the emitted program never ran"):
        read_cycles(file, program_with(1))


def test_other_files_are_no_elf(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"\x7fELF\x02\x01")
    with pytest.raises(ValueError, match="not a 32-bit little-endian ELF"):
        Elf(tmp_path / "x")


@pytest.mark.gvsoc
def test_options_of_the_host_are_refused(gvsoc: str, tmp_path: Path) -> None:
    engine = GvsocEngine()
    program = emitted(task_of("TinyCNN"), planned(task_of("TinyCNN")), tmp_path)
    with pytest.raises(BadInputError, match="--sanitize address: sanitizers are of the host engine"):
        engine.build(program, tmp_path / "build", "address")
    with pytest.raises(BadInputError, match="--dma lazy: when transfers move data"):
        engine.run(engine.build(program, tmp_path / "build"), dma="lazy")
