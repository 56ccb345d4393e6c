"""Finding the C compiler of this machine, and calling any."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from deeploy_ext.errors import ToolError
from deeploy_ext.toolchain import CANDIDATES

SECONDS_PER_FILE = 300.0
"""After that a compiler is taken for hung."""


def find_compiler(explicit: str | None = None) -> str:
    """Path of the compiler: ``explicit`` if given, else the first of :data:`CANDIDATES` in PATH.

    Raises:
        ToolError: there is none.
    """
    for name in (explicit,) if explicit else CANDIDATES:
        if path := shutil.which(name):
            return path
    if explicit:
        raise ToolError(f"C compiler {explicit} not found\ngive the name of a program in PATH, or a path")
    raise ToolError(
        f"no C compiler found (looked for {', '.join(CANDIDATES)} in PATH)\n"
        "install gcc or clang, e.g. 'apt install gcc' (Debian) or 'xcode-select --install' (macOS)"
    )


def compile_all(
    command: Sequence[str],
    sources: Sequence[Path],
    include_dirs: Sequence[Path],
    directory: Path,
    *,
    flags: Sequence[str] = (),
    jobs: int = 2,
) -> list[Path]:
    """Compiles ``sources`` into ``directory``, ``jobs`` files at a time, and returns the objects in their order.

    All that the compiler says goes to ``build.log``, which starts anew.

    Raises:
        ToolError: a file does not compile; names the first in order.
    """
    directory.mkdir(parents=True, exist_ok=True)
    includes = [f"-I{path}" for path in include_dirs]
    objects = [directory / f"{index:02}_{source.stem}.o" for index, source in enumerate(sources)]
    commands = [
        [*command, *flags, *includes, "-c", str(source), "-o", str(target)]
        for source, target in zip(sources, objects, strict=True)
    ]
    with ThreadPoolExecutor(jobs) as pool:
        outcomes = list(pool.map(_call, commands))
    log = directory / "build.log"
    log.write_text("", encoding="utf-8")
    for line, (_, said) in zip(commands, outcomes, strict=True):
        _note(log, line, said)
    for source, (status, said) in zip(sources, outcomes, strict=True):
        if status:
            reason = _reason(said)
            raise ToolError(f"{source.name} does not compile: {reason}{_function_of(source, reason)}\nlog: {log}")
    return objects


def link(command: Sequence[str], objects: Sequence[Path], executable: Path, *, flags: Sequence[str] = ()) -> None:
    """Links ``objects``; what the linker says goes to the end of ``build.log`` beside the executable.

    Raises:
        ToolError: they do not link.
    """
    line = [*command, *map(str, objects), *flags, "-o", str(executable)]
    status, said = _call(line)
    log = executable.parent / "build.log"
    _note(log, line, said)
    if status:
        raise ToolError(f"the program does not link: {_reason(said)}\nlog: {log}")


def _note(log: Path, command: Sequence[str], said: str) -> None:
    with log.open("a", encoding="utf-8") as file:
        file.write(f"$ {' '.join(command)}\n{said}")


def _call(command: Sequence[str]) -> tuple[int, str]:
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=SECONDS_PER_FILE, check=False)
    except subprocess.TimeoutExpired:
        return 1, f"error: the compiler took more than {SECONDS_PER_FILE:.0f} s\n"
    except OSError as error:
        return 1, f"error: {command[0]}: {error.strerror}\n"
    return done.returncode, done.stdout.decode(errors="replace")


_PLACE = re.compile(r"(?P<file>[^:]+):(?P<line>\d+):\d+: ")
_HEAD = re.compile(r"^\w[\w *]*\b(\w+)\([^;]*$")


def _function_of(source: Path, reason: str) -> str:
    """The function of a source in which an error is, as far as its line tells: of emitted C it says which operator's it is."""
    place = _PLACE.match(reason)
    if place is None or Path(place["file"]).name != source.name:
        return ""
    lines = source.read_text(encoding="utf-8", errors="replace").splitlines()[: int(place["line"])]
    heads = [found[1] for line in lines if (found := _HEAD.match(line))]
    return f", in {heads[-1]}" if heads else ""


def _reason(said: str) -> str:
    """The first line that calls itself an error, else the last one."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    errors = [line for line in lines if "error:" in line or "undefined reference" in line or "cannot find" in line]
    return errors[0] if errors else lines[-1] if lines else "the compiler says nothing"
