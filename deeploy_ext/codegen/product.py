"""``--out DIR``: the emitted program as a folder that needs nothing else: runtime, host HAL, example program, build file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from deeploy_ext.codegen.body import lookup
from deeploy_ext.codegen.folder import copy, counted, first_line, tensor_row
from deeploy_ext.codegen.program import EmittedProgram, Role
from deeploy_ext.codegen.text import c_comment, c_float, md_code
from deeploy_ext.planning.plan import Plan
from deeploy_ext.planning.target import load_target
from deeploy_ext.training.task import TrainingTask

_FIRST = {
    "README.md": "this page",
    "CMakeLists.txt": "builds the library `net` and the program `train`",
    "main.c": "example program: train, save, load; change it as you like",
    "net.h": "interface of the network",
    "net.c": "the network: tables, and one function per kind of tile",
    "weights.bin": "initial parameters, states and constants",
    "data.bin": "mini-batches of the golden run",
    "deeployRunner.json": "list of these files; `--out` replaces the folder only while nothing else is in it",
}
"""Files at the top of the folder and what its README says of them; the others say it themselves, in their first line."""

_INCLUDE_DIRS = (".", "runtime", "hal", "hal/host")


def write_product(program: EmittedProgram, task: TrainingTask, plan: Plan, losses: Sequence[float], directory: Path) -> None:
    """Write the folder; ``losses`` are those that the engine has proven, for its README."""
    for name in ("net.c", "net.h", "weights.bin", "data.bin"):
        copy(program.directory / name, directory / name)
    others = [f"runtime/{name}" for name in program.runtime]
    for name in others:
        copy(program.directory / Path(name).name, directory / name)
    folder = load_target(plan.target).part("hal")
    hal = ["hal/pmsis.h", *sorted(f"hal/host/{path.name}" for path in (folder / "host").glob("*.[ch]"))]
    for name in hal:
        copy(folder.parent / name, directory / name)
    others += hal
    sources = ["net.c", *(name for name in others if name.endswith(".c"))]
    entries = {group.entry for group in plan.groups}
    context = {
        "task": task, "entries": entries, "calls": _calls(entries), "losses": losses,
        "sources": sources, "include_dirs": _INCLUDE_DIRS, "command": _command(sources),
        "files": [*_FIRST.items(), *((name, first_line(directory / name)) for name in sorted(others))],
        "data": [tensor_row(entry) for entry in program.tensors if entry.role == Role.DATA], "weights": _weights(program),
        "memory": ", ".join(f"{use.used:,} bytes of {level}" for level, use in sorted(plan.memory.items())),
        "c_comment": c_comment, "c_float": c_float, "md_code": md_code, "steps": counted,
    }  # fmt: skip
    for name in ("CMakeLists.txt", "README.md", "main.c"):
        text = str(lookup().get_template(f"product/{name}.mako").render(**context))
        (directory / name).write_text(text.rstrip("\n") + "\n", encoding="ascii")


def _command(sources: Sequence[str]) -> str:
    folders = dict.fromkeys(str(Path(name).parent) for name in sources)
    patterns = ["main.c", *("net.c" if folder == "." else f"{folder}/*.c" for folder in folders)]
    includes = " ".join(f"-I{folder}" for folder in _INCLUDE_DIRS)
    return f"cc -std=c11 -O2 -ffp-contract=off -pthread -DNET_TRACE=1 {includes} {' '.join(patterns)} -lm -o train"


def _calls(entries: set[str]) -> str:
    training = ["step", "update", "train"] if "update" in entries else ["train"]
    names = ["init", "write", *training, *(["infer"] if "infer" in entries else []), "read", "save", "load", "close"]
    return ", ".join(f"`net_{name}`" for name in names)


def _weights(program: EmittedProgram) -> list[tuple[str, str, str, str, int]]:
    rows: list[tuple[str, str, str, str, int]] = []
    offset = 0
    for entry in program.tensors:
        if entry.role in (Role.PARAMETER, Role.STATE, Role.CONSTANT):
            name, dtype, shape, size = tensor_row(entry)
            rows.append((name, entry.role.name.lower(), dtype, shape, offset))
            offset += size
    return rows
