"""``deeployRunner doctor``: what this machine has of what the host engine needs, what is missing, and how to get it.

Stands on the standard library alone: it must answer when nothing else can be imported.
"""

from __future__ import annotations

import importlib.metadata
import platform
import re
import shutil
import subprocess
import tempfile
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from deeploy_ext import __version__
from deeploy_ext.errors import EXIT_PASS, EXIT_TOOL, DeeployError, ToolError
from deeploy_ext.resources import resource
from deeploy_ext.toolchain import CANDIDATES, FLAGS, SANITIZERS
from deeploy_ext.toolchain.gvsoc import TARGETS, describe_board, find_installation
from deeploy_ext.toolchain.riscv import find_riscv_compiler

SECONDS = 60
"""After that a program that we ask is taken for hung."""

_THREADS = """\
#include <pthread.h>
#include <stdio.h>
static void *work(void *argument) { return argument; }
int main(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, work, NULL) || pthread_join(thread, NULL))
        return 1;
    printf("works");
    return 0;
}
"""


@dataclass(frozen=True)
class Check:
    """One line of the answer.

    Attributes:
        found: what is there, or what is wrong.
        good: whether it will do; None where the question does not arise.
        needed: whether the host engine cannot do without.
        remedy: how to get it.
    """

    name: str
    found: str
    good: bool | None
    needed: bool = True
    remedy: str = ""

    @property
    def mark(self) -> str:
        return "-" if self.good is None else "ok" if self.good else "MISSING" if self.needed else "absent"


def doctor() -> tuple[list[str], int]:
    """The lines to print, and the exit status: 4 if something is missing that the host engine needs."""
    checks = [*_python(), *_data(), *_compiler(), *_gvsoc()]
    width = max(len(check.name) for check in checks)
    lines = [f"deeploy_ext {__version__}: what the host engine needs, then what is of use"]
    for check in sorted(checks, key=lambda check: not check.needed):
        lines.append(f"  {check.mark:<7}  {check.name:<{width}}  {check.found}")
        if not check.good and check.remedy:
            lines.append(f"  {'':<7}  {'':<{width}}  get it: {check.remedy}")
    missing = [check.name for check in checks if check.needed and not check.good]
    if missing:
        return [*lines, f"Missing: {', '.join(missing)}."], EXIT_TOOL
    return [*lines, "Everything is there: deeployRunner -t ResNet8 --promote --db"], EXIT_PASS


def _python() -> Iterator[Check]:
    python, requirements = _required()
    version = platform.python_version()
    yield Check(
        "Python", f"{version} ({python})", in_range(version, python), remedy="apt install python3 python3-venv, or python.org"
    )
    for name, wanted in requirements:
        try:
            version = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found, good = f"not installed ({wanted})", False
        else:
            found, good = f"{version} ({wanted})", in_range(version, wanted)
        yield Check(name, found, good, remedy=f"pip install '{name}{wanted}'")
    trouble = _onnxruntime_trouble()
    remedy = "pip install --force-reinstall onnxruntime (on Debian it also needs libstdc++6)"
    yield Check("onnxruntime runs", trouble or "a graph with one node", not trouble, remedy=remedy)


def _required() -> tuple[str, list[tuple[str, str]]]:
    """The versions of Python and of every package that we need: from our sources, else from the installed package."""
    source = Path(__file__).resolve().parent.parent / "pyproject.toml"
    if source.is_file():
        project = tomllib.loads(source.read_text(encoding="utf-8"))["project"]
        python, listed = str(project["requires-python"]), [str(line) for line in project["dependencies"]]
    else:
        meta = importlib.metadata.metadata("deeploy_ext")
        python, listed = meta["Requires-Python"], [line for line in meta.get_all("Requires-Dist", []) if "extra" not in line]
    names = [re.match(r"[\w.-]+", line) for line in listed]
    return python, [(match[0], line[match.end() :].strip()) for match, line in zip(names, listed, strict=True) if match]


def in_range(version: str, wanted: str) -> bool:
    """Whether a version satisfies all of ``>=A,<B`` in any order; the only operators that we use."""
    for condition in wanted.replace(" ", "").split(","):
        operator, limit = condition.rstrip("0123456789."), condition.lstrip("<>=")
        have, bound = _numbers(version), _numbers(limit)
        if not {">=": have >= bound, "<": have < bound}[operator]:
            return False
    return True


def _numbers(version: str) -> tuple[int, ...]:
    """(1, 26, 4) of "1.26.4rc1"; without zeros at the end, so that 1.0 equals 1."""
    match = re.match(r"\d+(\.\d+)*", version)
    numbers = [int(part) for part in match[0].split(".")] if match else []
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def _onnxruntime_trouble() -> str:
    """What keeps onnxruntime from running a graph; "" for nothing."""
    try:
        import numpy as np
        import onnx
        import onnxruntime

        vectors = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2]) for name in ("x", "y")]
        graph = onnx.helper.make_graph([onnx.helper.make_node("Add", ["x", "x"], ["y"])], "g", vectors[:1], vectors[1:])
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        (result,) = session.run(None, {"x": np.array([1, 2], np.float32)})
        return "" if list(np.asarray(result)) == [2, 4] else f"computes 1 + 1 = {np.asarray(result)[0]}"
    except Exception as error:  # whatever a broken installation raises is the answer
        return " ".join(f"{type(error).__name__}: {error}".split())[:200]


def _data() -> Iterator[Check]:
    for folder, pattern in (("templates", "*.c.mako"), ("targets", "*/target.toml"), ("testnets", "*/test.toml")):
        count = len(list(resource(folder).glob(pattern)))
        yield Check(folder, f"{count} found", count > 0, remedy="install deeploy_ext again: its files are incomplete")


def _compiler() -> Iterator[Check]:
    compiler = next((path for name in CANDIDATES if (path := shutil.which(name))), None)
    remedy = "apt install gcc libc6-dev (Debian), or xcode-select --install (macOS)"
    if compiler is None:
        yield Check("C compiler", f"none of {', '.join(CANDIDATES)} in PATH", False, remedy=remedy)
    else:
        status, said = _ask(compiler, "--version")
        yield Check("C compiler", f"{compiler}: {said}", status == 0, remedy=remedy)
        trouble = _build_trouble(compiler)
        yield Check("C11 with threads", trouble or "compiles, links and runs", not trouble, remedy=remedy)
        for sanitizer in SANITIZERS:
            trouble = _build_trouble(compiler, f"-fsanitize={sanitizer}")
            remedy_ = "apt install gcc, or libclang-rt-dev for clang (Debian)"
            found = trouble or "compiles, links and runs"
            yield Check(f"--sanitize {sanitizer}", found, not trouble, needed=False, remedy=remedy_)
    if cmake := shutil.which("cmake"):
        status, said = _ask(cmake, "--version")
        yield Check("cmake", said, status == 0, needed=False, remedy="apt install cmake")
    else:
        yield Check("cmake", "not in PATH; folders of --out build without it", False, needed=False, remedy="apt install cmake")


def _gvsoc() -> Iterator[Check]:
    """What the gvsoc engine needs: a compiler for the cluster's cores, and a GVSoC that describes our board."""
    remedy = "pip install ziglang, or apt install clang-19 lld-19 (Debian)"
    try:
        compiler = find_riscv_compiler()
    except ToolError as error:
        yield Check("RISC-V compiler", str(error).splitlines()[0], False, needed=False, remedy=remedy)
    else:
        found = f"{compiler.name}: {compiler.version}"
        yield Check("RISC-V compiler", found, True, needed=False)
    try:
        installation = find_installation()
    except ToolError as error:
        first, *rest = str(error).splitlines()
        yield Check("GVSoC", first, False, needed=False, remedy=" ".join(rest))
        return
    yield Check("GVSoC", f"{installation.folder} ({installation.found})", True, needed=False)
    for target in TARGETS:
        with tempfile.TemporaryDirectory(prefix="deeployRunner-") as folder:
            try:
                describe_board(installation, target, Path(folder, "program.elf"), Path(folder))
                trouble = ""
            except DeeployError as error:
                trouble = str(error).splitlines()[0]
        yield Check(f"GVSoC target {target}", trouble or "can be described", not trouble, needed=False)


def _build_trouble(compiler: str, *flags: str) -> str:
    """What keeps a small program with a thread from being built and run; "" for nothing."""
    with tempfile.TemporaryDirectory(prefix="deeployRunner-") as folder:
        source, program = Path(folder, "try.c"), Path(folder, "try")
        source.write_text(_THREADS, encoding="ascii")
        status, said = _ask(compiler, *FLAGS, *flags, str(source), "-o", str(program))
        if status:
            return f"does not build: {said.replace(folder, '.')}"
        status, said = _ask(str(program))
        return "" if (status, said) == (0, "works") else f"does not run: status {status}"


def _ask(*command: str) -> tuple[int, str]:
    """Exit status of a program, and the line of its output that tells most: the first, or the first error."""
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return 1, f"no answer within {SECONDS} s"
    except OSError as error:
        return 1, str(error.strerror)
    lines = [line.strip() for line in done.stdout.decode(errors="replace").splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line or "cannot find" in line]
    return done.returncode, next(iter(errors if done.returncode and errors else lines), "it says nothing")[:200]
