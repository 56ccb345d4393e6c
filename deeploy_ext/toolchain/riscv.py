"""Finding and calling a C compiler for the cores of the cluster: RV32IMC with floats in the integer registers (Zfinx)."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from deeploy_ext.errors import ToolError

_MARCH = "rv32imc_zicsr_zifencei_zfinx"

_COMMON = (
    "-std=c11",
    "-O2",
    "-ffreestanding",
    "-fno-math-errno",  # so that a square root is one instruction
    "-ffp-contract=fast",
    "-ffunction-sections",
    "-fdata-sections",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-Werror=implicit-function-declaration",
)
_LINK = ("-nostdlib", "-static", "-Wl,--gc-sections")


@dataclass(frozen=True)
class RiscvCompiler:
    """A compiler, and the flags that it needs.

    Attributes:
        command: program and fixed arguments.
        family: "clang", "zig" (clang from the ``ziglang`` package) or "vendor" (the GCC of the GAP and PULP SDKs).
        compile_flags, link_flags: to be put after the command.
    """

    command: tuple[str, ...]
    family: str
    compile_flags: tuple[str, ...]
    link_flags: tuple[str, ...]

    @property
    def name(self) -> str:
        """What names it on the command line."""
        return "ziglang" if self.family == "zig" else self.command[0]

    @property
    def version(self) -> str:
        """The compiler's first line about itself."""
        try:
            done = subprocess.run([*self.command, "--version"], capture_output=True, text=True, timeout=60, check=False)
        except (OSError, subprocess.TimeoutExpired):
            return f"{self.command[0]} (does not answer)"
        return next(iter((done.stdout or done.stderr).strip().splitlines()), self.command[0])


CANDIDATES = ("riscv32-unknown-elf-gcc", "clang-19", "clang", "ziglang")
"""Where no compiler is named: the vendor's, then those that know Zfinx. "ziglang" is the Python package of that name."""


def find_riscv_compiler(explicit: str | None = None) -> RiscvCompiler:
    """The compiler named by ``explicit``, else by ``RISCV_CC``, else the first of :data:`CANDIDATES` that works.

    Raises:
        ToolError: the named one is not there or does not work; there is none.
    """
    named = explicit or os.environ.get("RISCV_CC")
    if named:
        compiler = _compiler(named)
        option = "--cc" if explicit else "RISCV_CC"
        if compiler is None:
            raise ToolError(f"{option}: RISC-V compiler {named} not found\ngive the name of a program in PATH, or a path")
        if trouble := _trouble(compiler):
            raise ToolError(
                f"{option}: {named} does not compile for {_MARCH}: {trouble}\nuse clang 17 or newer with lld, or ziglang"
            )
        return compiler
    for name in CANDIDATES:
        compiler = _compiler(name)
        if compiler and not _trouble(compiler):
            return compiler
    raise ToolError(
        f"no RISC-V compiler found (looked for {', '.join(CANDIDATES)})\n"
        "install one, e.g. 'pip install ziglang', or 'apt install clang-19 lld-19' (Debian)"
    )


def _compiler(name: str) -> RiscvCompiler | None:
    if name == "ziglang":
        if importlib.util.find_spec("ziglang") is None:
            return None
        target = ("-target", "riscv32-freestanding-none", "-mcpu=generic_rv32+m+c+zicsr+zifencei+zfinx", "-mabi=ilp32")
        flags = (*target, "-mno-relax", "-fno-sanitize=all", "-fomit-frame-pointer", "-G0")
        return RiscvCompiler((sys.executable, "-m", "ziglang", "cc"), "zig", (*flags, *_COMMON), (*flags, *_LINK))
    path = shutil.which(name)
    if path is None:
        return None
    if "gcc" in Path(path).name:
        flags = ("-march=rv32imcxgap9", "-mPE=8", "-mFC=1", "-D__riscv__")
        return RiscvCompiler((path,), "vendor", (*flags, *_COMMON), (*flags, *_LINK))
    flags = ("--target=riscv32-unknown-elf", f"-march={_MARCH}", "-mabi=ilp32", "-mno-relax", "-G0")
    return RiscvCompiler((path,), "clang", (*flags, *_COMMON), (*flags, "-fuse-ld=lld", *_LINK))


def _trouble(compiler: RiscvCompiler) -> str:
    """What keeps a program of one line from being compiled and linked; "" for nothing."""
    source = "void _start(void) { for (;;) ; }"
    command = [*compiler.command, *compiler.compile_flags, *compiler.link_flags, "-x", "c", "-", "-o", os.devnull]
    try:
        done = subprocess.run(command, input=source, capture_output=True, text=True, timeout=120, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    lines = [line for line in done.stderr.splitlines() if "error" in line] or done.stderr.splitlines() or ["it says nothing"]
    return lines[0].strip()[:200] if done.returncode else ""
