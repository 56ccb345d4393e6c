"""The host engine: emitted C as a program of this machine, its cores as threads, its memories as checked blocks.

It measures no cycles; figures that go with its runs are the cost model's.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

from deeploy_ext.codegen.program import EmittedProgram
from deeploy_ext.engines.base import Built, DmaMode, EngineResult, Sanitizer
from deeploy_ext.engines.compiler import compile_all, find_compiler, link
from deeploy_ext.engines.output import read_counters, read_trajectories
from deeploy_ext.errors import ToolError
from deeploy_ext.planning.target import load_target
from deeploy_ext.toolchain import FLAGS

TIME_LIMIT = 600.0
"""Seconds of wall-clock time after which a program is taken for hung."""

ROUNDS = 2
"""The second shows whether the first has damaged what it should not."""

# Instrumented code makes compilers warn of what is not there; the plain build has the warnings as errors.
_SANITIZER_FLAGS = ("-g", "-fno-omit-frame-pointer", "-fno-sanitize-recover=all", "-Wno-error")

_SANITIZER_SETTINGS = {
    # The first finding ends the program. Leaks are of no interest, and looking for them fails in some containers.
    "ASAN_OPTIONS": "detect_leaks=0",
    "TSAN_OPTIONS": "halt_on_error=1",
    "UBSAN_OPTIONS": "print_stacktrace=0",
}

_TELLING = ("hal:", "driver:", "runtime error:", "ERROR: AddressSanitizer", "WARNING: ThreadSanitizer", "SUMMARY:", " panic: ")
"""Marks of the lines of stderr that say what is wrong, rather than where."""


class HostEngine:
    """Builds with the C compiler of this machine and runs the result as a process.

    Args:
        compiler: name or path of the C compiler; None: the first of cc, gcc, clang in PATH.
        time_limit: seconds of wall-clock time for one run.
        jobs: files compiled at the same time.
        note: what the user should know about the choice of this engine.

    Raises:
        ToolError: there is no C compiler.
    """

    def __init__(self, compiler: str | None = None, *, time_limit: float = TIME_LIMIT, jobs: int = 2, note: str = "") -> None:
        self._compiler = find_compiler(compiler)
        self._time_limit, self._jobs, self._note = time_limit, jobs, note

    @property
    def name(self) -> str:
        return "host"

    @property
    def model(self) -> str:
        return ""

    @property
    def note(self) -> str:
        return self._note

    def build(self, program: EmittedProgram, directory: Path, sanitize: Sanitizer | None = None) -> Built:
        """Compiles the program's C, the host HAL and the test driver into ``directory``; see :class:`Engine`."""
        start = time.monotonic()
        target = load_target(program.target)
        hal = target.part("hal") / "host"
        sources = [*(program.directory / name for name in program.sources), *sorted(hal.glob("*.c"))]
        driver = target.part("driver")
        sources += [driver / "driver.c", driver / "driver_host.c"]
        include_dirs = [program.directory, *(program.directory / name for name in program.include_dirs)]
        include_dirs += [hal, hal.parent, target.part("runtime"), driver]
        flags = [*FLAGS, "-DNET_TRACE=1"]
        if sanitize:
            flags += [f"-fsanitize={sanitize}", *_SANITIZER_FLAGS]
        objects = compile_all([self._compiler], sources, include_dirs, directory, flags=flags, jobs=self._jobs)
        executable = directory / "program"
        link([self._compiler], objects, executable, flags=[*flags, "-lm"])
        return Built(program, directory, executable, time.monotonic() - start)

    def run(self, built: Built, *, dma: DmaMode = "eager", seed: int = 0, rounds: int | None = None) -> EngineResult:
        """Runs the program in its build folder, where ``out.bin`` and ``run.log`` stay; see :class:`Engine`."""
        start = time.monotonic()
        rounds = ROUNDS if rounds is None else rounds
        output = built.directory / "out.bin"
        output.unlink(missing_ok=True)
        arguments = {"--data": built.program.directory, "--out": output, "--rounds": rounds, "--dma": dma, "--seed": seed}
        command = [str(built.executable.resolve())]
        for option, value in arguments.items():
            command += [option, str(value.resolve() if isinstance(value, Path) else value)]
        counters = read_counters(self._call(command, built.directory))
        if "rounds" not in counters:
            raise ToolError("the emitted program ended without its counters")
        trajectories = read_trajectories(output, built.program, rounds)
        return EngineResult(trajectories, counters, built.seconds, time.monotonic() - start)

    def _call(self, command: list[str], directory: Path) -> str:
        """What the program printed; its stderr goes to ``run.log``."""
        log = directory / "run.log"
        with log.open("wb") as errors:
            try:
                done = subprocess.run(
                    command,
                    cwd=directory,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    timeout=self._time_limit,
                    env={**os.environ, **_SANITIZER_SETTINGS},
                    check=False,
                )
            except subprocess.TimeoutExpired as error:
                raise ToolError(
                    f"the emitted program did not end within {self._time_limit:g} s and was stopped\nlog: {log}"
                ) from error
            except OSError as error:
                raise ToolError(f"the emitted program does not start: {error.strerror}: {command[0]}") from error
        if done.returncode:
            said = _summary(log.read_text(encoding="utf-8", errors="replace"))
            raise ToolError(f"the emitted program {_fate(done.returncode)}: {said}\nlog: {log}")
        return done.stdout.decode(errors="replace")


def _fate(status: int) -> str:
    if status > 0:
        return f"failed with status {status}"
    try:
        return f"was ended by {signal.Signals(-status).name}"
    except ValueError:
        return f"was ended by signal {-status}"


def _summary(errors: str) -> str:
    """The lines of stderr that tell most, at most three, in one."""
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    telling = [line for line in lines if any(mark in line for mark in _TELLING)]
    return " | ".join(telling[:3] or lines[-3:]) or "it says nothing"
