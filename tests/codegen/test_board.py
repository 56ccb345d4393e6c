"""``--engine board``: the project compiles against the vendor's prototypes, and runs on a PC against a stand-in SDK."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from board_sdk import pc_sources, write_cmake_sdk, write_pc_headers, write_vendor_headers

from deeploy_ext.cli import main
from deeploy_ext.codegen.board import write_board_project
from deeploy_ext.engines.compiler import find_compiler
from deeploy_ext.harness.golden import run_golden
from deeploy_ext.training.task import TrainingTask
from support import GAP9, emitted, planned, task_of

ROOT = Path(__file__).resolve().parents[2]
WARNINGS = ("-Wall", "-Wextra", "-Werror", "-Werror=implicit-function-declaration")
CLANG = ("clang-19", "--target=riscv32-unknown-elf", "-march=rv32imc_zicsr_zifencei_zfinx", "-mabi=ilp32", "-nostdlibinc")
DEFINED = ("-DNET_MHZ=370", "-DNET_MILLIVOLTS=800", "-DNET_CONTROLLER_STACK=4096", "-DNET_WORKER_STACK=512")


def project_of(task: TrainingTask, folder: Path) -> Path:
    made = planned(task, promote=True)
    program = emitted(task, made, folder)
    write_board_project(program, task, made.plan, run_golden(task).losses, folder / "board")
    return folder / "board"


def call(*command: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    settings = {**os.environ, **environment}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=settings)


def sources_of(project: Path) -> list[Path]:
    return [project / "main.c", project / "net.c", *sorted((project / "runtime").glob("*.c"))]


def options_of(project: Path) -> list[str]:
    """Those that the project's CMakeLists.txt adds."""
    return [f"-I{project}", f"-I{project / 'runtime'}", "-include", str(project / "net_sdk.h")]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return project_of(task_of("TinyCNN"), tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def resnet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With tensors larger than a chunk, and fewer distinct mini-batches than trained ones."""
    task = task_of("ResNet8")
    return project_of(replace(task, batches=task.batches[:3]), tmp_path_factory.mktemp("resnet"))


# ---- against the vendor's prototypes --------------------------------------------------------------------------------


def _compilers() -> dict[str, list[str] | str]:
    """Command lines, or why there is none."""
    found: dict[str, list[str] | str] = {}
    gcc = shutil.which("gcc")
    own = call(gcc, "-print-file-name=include").stdout.strip() if gcc else ""
    for name, flags in (("gcc", []), ("gcc -m32", ["-m32"])):
        works = gcc and call(gcc, *flags, "-x", "c", "-fsyntax-only", "/dev/null").returncode == 0
        found[name] = [gcc, *flags, "-nostdinc", "-isystem", own] if gcc and works else f"no {name} on this machine"
    found["clang riscv32"] = list(CLANG) if shutil.which(CLANG[0]) else f"no {CLANG[0]} on this machine"
    return found


@pytest.mark.parametrize("compiler", ["gcc", "gcc -m32", "clang riscv32"])
@pytest.mark.parametrize("pin", [(), ("-DNET_POWER_PIN=1",)], ids=["", "power pin"])
def test_compiles_against_the_prototypes_of_the_vendor(
    compiler: str, pin: Sequence[str], tiny: Path, resnet: Path, tmp_path: Path
) -> None:
    command = _compilers()[compiler]
    if isinstance(command, str):
        pytest.skip(command)
    write_vendor_headers(tmp_path / "sdk")
    flags = ["-std=c11", "-O2", "-ffreestanding", *WARNINGS, *DEFINED, *pin, "-c", "-o", str(tmp_path / "x.o")]
    for project in (tiny, resnet):
        for source in sources_of(project):
            done = call(*command, *flags, *options_of(project), f"-I{tmp_path / 'sdk'}", source)
            assert done.returncode == 0, done.stderr


def test_the_fabric_controller_computes_with_no_float(tiny: Path, tmp_path: Path) -> None:
    if not shutil.which(CLANG[0]):
        pytest.skip(f"no {CLANG[0]} on this machine")
    write_vendor_headers(tmp_path / "sdk")
    flags = ["-O2", "-std=c11", "-ffreestanding", "-fno-inline", *DEFINED, "-S", "-o", "-"]
    text = call(*CLANG, *flags, *options_of(tiny), f"-I{tmp_path / 'sdk'}", tiny / "main.c").stdout
    functions = dict(re.findall(r"^(\w+):\s.*?\n(.*?)^\.Lfunc_end", text, re.MULTILINE | re.DOTALL))
    floating = {name for name, body in functions.items() if re.search(r"^\s+f\w+\.s|\.s\.w|__\w+sf", body, re.MULTILINE)}
    assert floating == {"compare", "to_decimal"} and "main" in functions


# ---- on a PC --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ran:
    status: int
    out: str
    chip: list[str]


def run_project(project: Path, folder: Path, *flags: str) -> Ran:
    """Builds with the host HAL and runs with the project's flash."""
    if not (folder / "program").exists():
        write_pc_headers(folder / "sdk")
        hal = GAP9.folder / "hal"
        includes = [f"-I{path}" for path in (folder / "sdk", hal / "host", hal, project, project / "runtime")]
        common = [find_compiler(), "-std=c11", "-O2", "-ffp-contract=off", "-pthread", "-DNET_TRACE=1", *WARNINGS, *includes]
        objects: list[str] = []
        for number, source in enumerate([*sources_of(project), *pc_sources()]):
            own = ("-DPROJECT=1", *options_of(project), *DEFINED, *flags) if source.is_relative_to(project) else ()
            objects.append(str(folder / f"{number}.o"))
            done = call(*common, *own, "-c", "-o", objects[-1], source)
            assert done.returncode == 0, done.stderr
        done = call(*common[:1], "-pthread", *objects, "-lm", "-o", folder / "program")
        assert done.returncode == 0, done.stderr
    done = call(folder / "program", FLASH_DIR=str(project / "flash"))
    return Ran(done.returncode, done.stdout, done.stderr.splitlines())


LINE = re.compile(r"step (\d+) mini-batch (\d+) loss (\S+) \(bits 0x(\w{8})\) golden (\S+) \(bits 0x(\w{8})\) right", re.ASCII)


@pytest.mark.parametrize("net", ["tiny", "resnet"])
def test_it_trains_on_a_pc_and_every_loss_is_right(net: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    project = request.getfixturevalue(net)
    ran = run_project(project, tmp_path)
    assert ran.status == 0, ran
    lines = ran.out.splitlines()
    assert lines[0] == "training at 370 MHz, 800 mV"
    rows = [match.groups() for match in map(LINE.fullmatch, lines[1:5]) if match]
    assert [row[:2] for row in rows] == [("1", "1"), ("1", "2"), ("2", "1"), ("2", "2")]
    golden = np.fromfile(project / "flash/golden.bin", "<f4")
    for row, wanted in zip(rows, golden, strict=True):
        assert int(row[5], 16) == wanted.view(np.uint32)
        for text, bits in ((row[2], row[3]), (row[4], row[5])):
            value = float(np.uint32(int(bits, 16)).view(np.float32))
            assert abs(float(text) - value) <= 1e-6 + 1e-6 * abs(value)
    assert lines[5:] == [
        "cycles of step, 4 runs: 12000000000",
        "cycles of update, 2 runs: 6000000000",
        "cycles of infer, 1 runs: 3000000000",
        "Losses: 0 out of 4",
        "PASS",
    ]


def test_clocks_and_memories_in_the_right_order(tiny: Path, tmp_path: Path) -> None:
    ran = run_project(tiny, tmp_path, "-UNET_MHZ", "-DNET_MHZ=240", "-UNET_MILLIVOLTS", "-DNET_MILLIVOLTS=650")
    assert ran.status == 0 and "training at 240 MHz, 650 mV\n" in ran.out
    files = [f"open {name}.bin" for name in ("weights", "data", "golden")]
    slow = ["800 mV", "FC 240000000 Hz", "PERIPH 240000000 Hz", *files, "L2", "L3", "CL 240000000 Hz", "650 mV"]
    assert ran.chip[: len(slow) + 1] == [*slow, "count 10000"]
    assert not {"L2", "L3"} & set(ran.chip[len(slow) :]) and not any(line.startswith("pin") for line in ran.chip)


def test_the_power_pin_is_high_around_each_dispatch(tiny: Path, tmp_path: Path) -> None:
    ran = run_project(tiny, tmp_path, "-DNET_POWER_PIN=1")
    assert ran.status == 0
    seen = [line for line in ran.chip if line.startswith(("pad", "pin", "timer"))]
    window = ["timer 16", "pin 89 = 1", "pin 89 = 0", "timer 16"]
    assert seen == ["pad 89 function 1", "pin 89 output", "pin 89 = 0", *window * 7]


def test_wrong_losses_and_broken_flash_fail(tiny: Path, tmp_path: Path) -> None:
    project = Path(shutil.copytree(tiny, tmp_path / "project"))
    assert run_project(project, tmp_path).status == 0
    flash = project / "flash"
    golden = np.fromfile(flash / "golden.bin", "<f4")
    for wrong, shown in ((golden[1] * np.float32(1.0001), ""), (np.float32("nan"), "golden (bits 0x7fc00000) WRONG")):
        np.where(np.arange(4) == 1, wrong, golden).astype("<f4").tofile(flash / "golden.bin")
        ran = run_project(project, tmp_path)
        assert (ran.status, ran.out.count(" WRONG\n")) == (1, 1) and shown in ran.out
        assert ran.out.endswith("Losses: 1 out of 4\nFAIL\n")
    for name in ("golden.bin", "data.bin", "weights.bin"):
        content = (flash / name).read_bytes()
        (flash / name).write_bytes(content[:-1])
        ran = run_project(project, tmp_path)
        assert (ran.status, ran.out.splitlines()[-2:]) == (1, [f"too short: {name}", "FAIL"])
        (flash / name).unlink()
        ran = run_project(project, tmp_path)
        assert (ran.status, ran.out) == (1, f"not in the flash: {name}\nFAIL\n")
        (flash / name).write_bytes(content)


def test_a_network_without_inference_has_a_project_as_well(tmp_path: Path) -> None:
    project = project_of(replace(task_of("SimpleMLP"), infer=None), tmp_path)
    ran = run_project(project, tmp_path)
    assert ran.status == 0 and ran.out.endswith("PASS\n") and "infer" not in ran.out


@pytest.mark.skipif(not shutil.which("cmake"), reason="no cmake on this machine")
def test_cmake_builds_it_with_an_sdk(tiny: Path, tmp_path: Path) -> None:
    write_cmake_sdk(tmp_path / "sdk")
    home = {"GAP_SDK_HOME": str(tmp_path / "sdk")}
    build = tmp_path / "build"
    done = call("cmake", "-S", tiny, "-B", build, "-DNET_MHZ=240", "-DNET_POWER_PIN=ON", **home)
    assert done.returncode == 0, done.stderr
    done = call("cmake", "--build", build, **home)
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(path.name for path in (build / "readfs").iterdir()) == ["data.bin", "golden.bin", "weights.bin"]
    done = call(build / "net_board", FLASH_DIR=str(build / "readfs"))
    assert done.returncode == 0 and "training at 240 MHz, 650 mV" in done.stdout and "pin 89 = 1" in done.stderr
    for options, home_of, said in ((["-DNET_MHZ=100"], home["GAP_SDK_HOME"], "give 370 or 240"), ([], "", "GAP_SDK_HOME")):
        done = call("cmake", "-S", tiny, "-B", tmp_path / "bad", *options, GAP_SDK_HOME=home_of)
        assert done.returncode != 0 and said in " ".join(done.stderr.split())


# ---- the folder -----------------------------------------------------------------------------------------------------


def test_settings_are_those_of_the_target(tiny: Path) -> None:
    config = dict(re.findall(r"^CONFIG_(\w+)=(\w+)$", (tiny / "sdk.config").read_text(), re.MULTILINE))
    cmake = (tiny / "CMakeLists.txt").read_text()
    for setting, definition, stack in (("MASTER", "CONTROLLER", GAP9.controller_stack), ("SLAVE", "WORKER", GAP9.worker_stack)):
        assert config[f"CL_{setting}_CORE_STACK_SIZE"] == str(stack)
        assert f"\n  NET_{definition}_STACK={stack}\n" in cmake
    assert [(point.mhz, point.millivolts) for point in GAP9.operating_points] == [(370, 800), (240, 650)]
    for name in ("DRIVER_CLUSTER", "DRIVER_READFS", "DRIVER_TYPE_FLASH", "DRIVER_TYPE_RAM", "IO_TYPE_UART"):
        assert config[name] == "y"


def test_files_are_those_of_the_readme_and_name_no_place_of_this_machine(tiny: Path) -> None:
    files = {p.relative_to(tiny).as_posix() for p in tiny.rglob("*") if p.is_file()}
    readme = (tiny / "README.md").read_text()
    assert set(re.findall(r"^\| `([\w./]+)` \| [^|]+ \|$", readme, re.MULTILINE)) == files
    for name in files:
        content = (tiny / name).read_bytes()
        assert str(ROOT).encode() not in content and b"/tmp/" not in content and str(Path.home()).encode() + b"/" not in content


def test_regeneration_is_byte_identical(tiny: Path, tmp_path: Path) -> None:
    again = project_of(task_of("TinyCNN"), tmp_path)
    for path in tiny.rglob("*"):
        assert path.is_dir() or path.read_bytes() == (again / path.relative_to(tiny)).read_bytes()


def test_hostile_names_stay_inside_their_quotes(tmp_path: Path) -> None:
    evil = "a`|*/\nint x; \\ ${y} ## $(touch owned)"
    task = replace(task_of("TinyCNN"), name=evil)
    made = planned(task)
    program = emitted(task, made, tmp_path)
    renamed = replace(program, tensors=tuple(replace(entry, name=evil) for entry in program.tensors))
    write_board_project(renamed, task, made.plan, [1.0] * 4, tmp_path / "board")
    shown = "`a..*/.int x; \\ ${y} ## $(touch owned)`"
    readme = (tmp_path / "board/README.md").read_text()
    assert readme.startswith(f"# Training of {shown} on a GAP9 board\n") and readme.count(f"| {shown} |") == len(task.data)
    assert "*/ int" not in (text := (tmp_path / "board/main.c").read_text()) and "*/.int" not in text
    for name in ("CMakeLists.txt", "sdk.config", "net_sdk.h"):
        assert "touch" not in (tmp_path / "board" / name).read_text()


# ---- the command ----------------------------------------------------------------------------------------------------


def test_the_command_writes_the_project_and_says_what_it_did_not_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["-t", "TinyCNN", "--promote", "--engine", "board", "--dump", "d"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[:-1]] == ["load", "autodiff", "golden", "plan", "emit"]
    assert lines[-1].startswith("Nothing was run and no number was proven")
    assert (tmp_path / "d/board/main.c").is_file() and (tmp_path / "d/golden.npz").is_file()
    assert main(["-t", "TinyCNN", "--engine", "board", "--dump", "d"]) == 0  # replaces its own folder


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "give --dump DIR"),
        *((("--dump", "d", option, "x.npz"), option) for option in ("--out", "--json", "--save-weights")),
        (("--dump", "d", "--sanitize", "address"), "--sanitize"),
    ],
)
def test_usage(
    arguments: Sequence[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["-t", "TinyCNN", "--engine", "board", *arguments]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1) and said in err and not list(tmp_path.iterdir())
