"""The gvsoc engine: emitted C as a bare-metal program of a simulated cluster, whose cycles are measured.

The same C as everywhere is compiled for the cores' instruction set and linked with the project's own start-up code, linker
script and PMSIS subset (``targets/gap9/hal/gvsoc``). The program reads its data and writes its results through the
simulator's semihosting, in the build folder.
"""

from __future__ import annotations

import re
import signal
import struct
import subprocess
import time
from pathlib import Path

from deeploy_ext.codegen.program import EmittedProgram
from deeploy_ext.engines.base import EVENTS, Built, DmaMode, EngineResult, GroupCycles, MeasuredCycles, Sanitizer
from deeploy_ext.engines.compiler import compile_all, link
from deeploy_ext.engines.elf import Elf
from deeploy_ext.engines.output import read_counters, read_trajectories
from deeploy_ext.errors import BadInputError, ToolError
from deeploy_ext.planning.target import load_target
from deeploy_ext.toolchain.gvsoc import TARGETS, Installation, describe_board, find_installation
from deeploy_ext.toolchain.riscv import RiscvCompiler, find_riscv_compiler

ROUNDS = 1
"""Simulation is slow; that tables survive a run is shown on the host, and by every mini-batch after the first."""

START_SECONDS = 60.0
SECONDS_PER_MCYCLE = 5.0
"""Wall-clock time that a run may take: to start, and for each predicted million cycles (measured: 0.3 to 1 s)."""

SLACK = 20
MOST_CYCLES = 2**32 - 2**24
"""A task that takes this many times the predicted cycles and 50 million more is hung; counters have 32 bits."""

_ENTRIES = ("step", "update", "infer")
_CYCLES = struct.Struct(f"<{2 * len(_ENTRIES)}Q")
_GROUP = struct.Struct(f"<{4 + len(EVENTS)}Q")

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_TELLING = ("hal:", "driver:", "Invalid access", "Invalid fetch", "Invalid instruction", "Caught error")
"""Marks of the lines that say what is wrong."""

_PC = re.compile(r"\b(?:pc:?|ra) (0x[0-9a-f]{8})")


class GvsocEngine:
    """Builds with a RISC-V compiler and runs the result on GVSoC.

    Args:
        installation: prefix of GVSoC; None: where it usually is.
        target: "gap9like" (128 KiB of L1, bank conflicts) or "pulp-open" (the stock model).
        isa: "xpulp" lets kernels use hardware loops and post-increment accesses, "rv32" does not.
        compiler: name or path of the C compiler; None: the first that works.
        time_limit: seconds of wall-clock time for one run; None: by what the cost model predicts.
        events: count what :data:`EVENTS` names, too, which costs every tile some cycles.
        jobs: files compiled at the same time.
        note: what the user should know about the choice of this engine.

    Raises:
        BadInputError: no such target or instruction set.
        ToolError: GVSoC or a compiler is missing.
    """

    def __init__(
        self,
        installation: str | None = None,
        *,
        target: str = "gap9like",
        isa: str = "xpulp",
        compiler: str | None = None,
        time_limit: float | None = None,
        events: bool = False,
        jobs: int = 2,
        note: str = "",
    ) -> None:
        if target not in TARGETS:
            raise BadInputError(f"unknown GVSoC target '{target}'; use {' or '.join(TARGETS)}.")
        if isa not in ("xpulp", "rv32"):
            raise BadInputError(f"unknown instruction set '{isa}'; use xpulp or rv32.")
        self.installation: Installation = find_installation(installation)
        self.compiler: RiscvCompiler = find_riscv_compiler(compiler)
        self._target, self._isa, self._time_limit, self._jobs = target, isa, time_limit, jobs
        self._events, self._note = events, note

    @property
    def name(self) -> str:
        return "gvsoc"

    @property
    def model(self) -> str:
        """What the cycles come from, in words."""
        return f"GVSoC {self._target}"

    @property
    def note(self) -> str:
        parts = [self._note, f"GVSoC in {self.installation.folder} by {self.installation.found}", self.compiler.version]
        return "; ".join(part for part in parts if part)

    def build(self, program: EmittedProgram, directory: Path, sanitize: Sanitizer | None = None) -> Built:
        """Compiles and links the program, the runtime, the HAL and the test driver into ``directory``; see :class:`Engine`."""
        start = time.monotonic()
        if sanitize:
            raise BadInputError(f"--sanitize {sanitize}: sanitizers are of the host engine; add --engine host.")
        self._check_memory(program)
        target = load_target(program.target)
        hal, driver = target.part("hal") / "gvsoc", target.part("driver")
        sources = [program.directory / name for name in program.sources]
        sources += [*sorted(hal.glob("*.c")), hal / "start.S", driver / "driver.c", driver / "driver_gvsoc.c"]
        include_dirs = [program.directory, *(program.directory / name for name in program.include_dirs)]
        include_dirs += [hal.parent, hal, hal / "include", driver]
        flags = [*self.compiler.compile_flags, "-DNET_TRACE=2"]
        if self.compiler.family == "vendor":
            flags.append("-DHAL_NATIVE_XPULP=1")  # which makes hardware loops by itself, from the plain C
        elif self._isa == "xpulp":
            flags.append("-DNET_XPULP=1")
        objects = compile_all(self.compiler.command, sources, include_dirs, directory, flags=flags, jobs=self._jobs)
        script = directory / "link.ld"
        script.write_text(self._layout(program) + (hal / "link.ld").read_text(encoding="ascii"), encoding="ascii")
        executable = directory / "program.elf"
        link(self.compiler.command, objects, executable, flags=[*self.compiler.link_flags, "-T", str(script)])
        return Built(program, directory, executable, time.monotonic() - start)

    def _check_memory(self, program: EmittedProgram) -> None:
        there = TARGETS[self._target]
        if program.capacities.get("L1", 0) > there:
            raise BadInputError(
                f"the plan counts with {program.capacities['L1']} bytes of L1, GVSoC's {self._target} has {there}; "
                f"add --l1 {there // 1024}k."
            )

    def _layout(self, program: EmittedProgram) -> str:
        """The symbols that the linker script asks for."""
        target = load_target(program.target)
        symbols = {
            "hal_l1_bytes": TARGETS[self._target],
            "hal_worker_stack_bytes": target.worker_stack,
            "hal_controller_stack_bytes": target.controller_stack,
            "hal_cores": program.cores,
        }
        return "".join(f"{name} = {value};\n" for name, value in symbols.items())

    def run(self, built: Built, *, dma: DmaMode = "eager", seed: int = 0, rounds: int | None = None) -> EngineResult:
        """Simulates the program in its build folder, where ``out.bin``, ``cycles.bin`` and ``run.log`` stay; see
        :class:`Engine`."""
        del seed
        start = time.monotonic()
        if dma != "eager":
            raise BadInputError(f"--dma {dma}: when transfers move data can be chosen on the host engine; add --engine host.")
        rounds = ROUNDS if rounds is None else rounds
        self._lay_out_files(built, rounds)
        configuration = describe_board(self.installation, self._target, built.executable.resolve(), built.directory.resolve())
        counters = read_counters(self._simulate(configuration, built, self._limit(built.program, rounds)))
        if "rounds" not in counters:
            raise ToolError(f"the emitted program ended without its counters\nlog: {built.directory / 'run.log'}")
        trajectories = read_trajectories(built.directory / "out.bin", built.program, rounds)
        cycles = read_cycles(built.directory / "cycles.bin", built.program)
        seconds = time.monotonic() - start
        return EngineResult(trajectories, counters, built.seconds, seconds, cycles, self.model)

    def _limit(self, program: EmittedProgram, rounds: int) -> float:
        """Seconds for a run: what the cost model predicts, with room for what it does not know."""
        if self._time_limit is not None:
            return self._time_limit
        predicted = program.predicted
        steps = program.steps * (program.accumulation * predicted.get("step", 0) + predicted.get("update", 0))
        return START_SECONDS + SECONDS_PER_MCYCLE * rounds * (steps + program.batches * predicted.get("infer", 0)) / 1e6

    def _lay_out_files(self, built: Built, rounds: int) -> None:
        """What the program reads lies in the folder where it runs; what an earlier run wrote is removed."""
        for name in ("out.bin", "cycles.bin"):
            (built.directory / name).unlink(missing_ok=True)
        for name in ("weights.bin", "data.bin"):
            link_ = built.directory / name
            link_.unlink(missing_ok=True)
            link_.symlink_to((built.program.directory / name).resolve())
        longest = max(built.program.predicted.values(), default=0)
        limit = min(SLACK * longest + 50_000_000, MOST_CYCLES)
        (built.directory / "run.bin").write_bytes(struct.pack("<III", rounds, limit, self._events))

    def _simulate(self, configuration: Path, built: Built, limit: float) -> str:
        """What the program printed; everything that it or the simulator says also goes to ``run.log``."""
        log = built.directory / "run.log"
        command = [str(self.installation.launcher), f"--config={configuration}"]
        with log.open("wb") as output:
            try:
                done = subprocess.run(
                    command,
                    cwd=built.directory,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    timeout=limit,
                    env=self.installation.environment(),
                    check=False,
                )
            except subprocess.TimeoutExpired as error:
                raise ToolError(f"the simulation did not end within {limit:.0f} s and was stopped\nlog: {log}") from error
            except OSError as error:
                raise ToolError(f"the simulator does not start: {error.strerror}: {command[0]}") from error
            finally:
                (built.directory / "hyperflash.bin").unlink(missing_ok=True)  # 64 MiB that nobody reads
        said = _COLOUR.sub("", log.read_text(encoding="utf-8", errors="replace"))
        if done.returncode:
            raise ToolError(f"the simulated program {_fate(done.returncode)}: {_summary(said, built.executable)}\nlog: {log}")
        return said


def read_cycles(path: Path, program: EmittedProgram) -> MeasuredCycles:
    """Reads ``cycles.bin``, which the test driver writes at the end of the last round.

    Raises:
        ToolError: the file is missing, has another size than the program's tables ask for, or an entry never ran.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ToolError(f"the emitted program left no cycles: {path}: {error.strerror}") from error
    expected = _CYCLES.size + len(program.groups) * _GROUP.size
    if len(content) != expected:
        raise ToolError(f"the emitted program wrote {len(content)} bytes of cycles where {expected} were expected: {path}")
    numbers = _CYCLES.unpack_from(content)
    totals, runs = numbers[: len(_ENTRIES)], numbers[len(_ENTRIES) :]
    entries = {name: round(total / run) for name, total, run in zip(_ENTRIES, totals, runs, strict=True) if run}
    groups: list[GroupCycles] = []
    for total, kernel, wait, run, *events in _GROUP.iter_unpack(content[_CYCLES.size :]):
        if run == 0:
            raise ToolError(f"tile nest {len(groups)} of the emitted program never ran")
        average = (round(total / run), round(kernel / run), round(wait / run))
        groups.append(GroupCycles(*average, tuple(round(count / run) for count in events)))
    return MeasuredCycles(entries, tuple(groups))


def _fate(status: int) -> str:
    if status >= 0:
        return f"failed with status {status}"
    try:
        return f"was ended by {signal.Signals(-status).name}"
    except ValueError:
        return f"was ended by signal {-status}"


def _summary(said: str, executable: Path) -> str:
    """The lines that tell most, at most three, in one; addresses of code with the function they are in."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    telling = [line[min(line.find(mark) for mark in _TELLING if mark in line) :] for line in lines if _tells(line)]
    text = " | ".join(telling[:3] or lines[-3:]) or "it says nothing"
    if "Invalid fetch" in text:
        text += "; a core has jumped to nowhere, as when a stack has overflown"
    elf = Elf(executable)
    return _PC.sub(lambda match: f"{match[0]} ({elf.function_at(int(match[1], 16)) or 'no function'})", text)


def _tells(line: str) -> bool:
    return any(mark in line for mark in _TELLING)
