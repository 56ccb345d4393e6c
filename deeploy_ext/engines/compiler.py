"""Finding and calling the C compiler of this machine."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from deeploy_ext.errors import ToolError
from deeploy_ext.toolchain import CANDIDATES, FLAGS

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


def compile_and_link(
    compiler: str,
    sources: Sequence[Path],
    include_dirs: Sequence[Path],
    directory: Path,
    *,
    flags: Sequence[str] = (),
    jobs: int = 2,
) -> Path:
    """Builds ``sources`` into an executable in ``directory`` and returns its path; ``jobs`` files at a time.

    Warnings are errors. All that the compiler says goes to ``build.log``.

    Raises:
        ToolError: a file does not compile or link; names the first in order.
    """
    directory.mkdir(parents=True, exist_ok=True)
    includes = [f"-I{path}" for path in include_dirs]
    objects = [directory / f"{index:02}_{source.stem}.o" for index, source in enumerate(sources)]
    commands = [
        [compiler, *FLAGS, *flags, *includes, "-c", str(source), "-o", str(target)]
        for source, target in zip(sources, objects, strict=True)
    ]
    with ThreadPoolExecutor(jobs) as pool:
        outcomes = list(pool.map(_call, commands))
    executable = directory / "program"
    if all(status == 0 for status, _ in outcomes):
        commands.append([compiler, *FLAGS, *flags, *map(str, objects), "-lm", "-o", str(executable)])
        outcomes.append(_call(commands[-1]))
    log = directory / "build.log"
    text = "".join(f"$ {' '.join(command)}\n{said}" for command, (_, said) in zip(commands, outcomes, strict=True))
    log.write_text(text, encoding="utf-8")
    for index, (status, said) in enumerate(outcomes):
        if status:
            what = sources[index].name if index < len(sources) else "the program"
            raise ToolError(f"{what} does not {'compile' if index < len(sources) else 'link'}: {_reason(said)}\nlog: {log}")
    return executable


def _call(command: Sequence[str]) -> tuple[int, str]:
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=SECONDS_PER_FILE, check=False)
    except subprocess.TimeoutExpired:
        return 1, f"error: the compiler took more than {SECONDS_PER_FILE:.0f} s\n"
    except OSError as error:
        return 1, f"error: {command[0]}: {error.strerror}\n"
    return done.returncode, done.stdout.decode(errors="replace")


def _reason(said: str) -> str:
    """The first line that calls itself an error, else the last one."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    errors = [line for line in lines if "error:" in line or "undefined reference" in line or "cannot find" in line]
    return errors[0] if errors else lines[-1] if lines else "the compiler says nothing"
