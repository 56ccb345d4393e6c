"""``--engine board``: the emitted program as a project for the vendor's SDK, which trains on a GAP9 board.

The board's ``main.c`` reads weights and data from flash, runs the same emitted C through the real PMSIS, and compares
every loss with the golden run's. We have neither the SDK nor a board: nothing is built or run here.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from deeploy_ext.codegen.body import lookup
from deeploy_ext.codegen.folder import copy, counted, first_line, tensor_row
from deeploy_ext.codegen.program import EmittedProgram, Role
from deeploy_ext.codegen.text import c_comment, c_float, md_code
from deeploy_ext.planning.plan import Plan
from deeploy_ext.planning.target import load_target
from deeploy_ext.training.task import TrainingTask

CHUNK_BYTES = 4096
"""L2 through which the board's program loads tensors from flash."""

_RENDERED = ("CMakeLists.txt", "README.md", "main.c", "net_sdk.h", "sdk.config")

_FLASH = {
    "flash/weights.bin": "initial parameters, states and constants",
    "flash/data.bin": "mini-batches",
    "flash/golden.bin": "losses of the golden run",
}

_FIRST = {
    "README.md": "this page",
    "CMakeLists.txt": "builds with the SDK, and puts `flash/` into the flash",
    "sdk.config": "settings of the SDK: drivers, stacks, where text goes",
    "main.c": "trains, compares, counts cycles",
    "net_sdk.h": "the headers of the SDK, included before all others",
    "net.h": "interface of the network",
    "net.c": "the network: tables, and one function per kind of tile",
    **_FLASH,
}
"""Files whose purpose they cannot say themselves, with what the README says of them."""


def write_board_project(
    program: EmittedProgram, task: TrainingTask, plan: Plan, golden_losses: Sequence[float], directory: Path
) -> None:
    """Write the project into ``directory``; ``golden_losses`` are one per mini-batch that is trained.

    Raises:
        ValueError: there are fewer or more golden losses than mini-batches.
    """
    if len(golden_losses) != task.spec.mini_batches:
        raise ValueError(f"{len(golden_losses)} golden losses for {task.spec.mini_batches} mini-batches")
    runtime = [f"runtime/{name}" for name in program.runtime]
    for name in ("net.c", "net.h", *runtime):
        copy(program.directory / Path(name).name, directory / name)
    for name in ("weights.bin", "data.bin"):
        copy(program.directory / name, directory / "flash" / name)
    (directory / "flash" / "golden.bin").write_bytes(np.array(golden_losses, "<f4").tobytes())
    target = load_target(plan.target)
    context = {
        "task": task, "plan": plan, "target": target, "points": target.operating_points, "gpio": target.power_gpio,
        "pad": f"PI_PAD_{target.power_gpio:03}", "pin": f"PI_GPIO_A{target.power_gpio:02}",
        "batches": program.batches, "chunk": CHUNK_BYTES, "flash": list(_FLASH),
        "inference": "infer" in plan.entries, "fused": "update" not in plan.entries,
        "sources": ["main.c", "net.c", *(name for name in runtime if name.endswith(".c"))],
        "data": [tensor_row(entry) for entry in program.tensors if entry.role == Role.DATA],
        "memory": ", ".join(f"{use.used:,} bytes of {level}" for level, use in sorted(plan.memory.items())),
        "files": [*_FIRST.items(), *((name, first_line(directory / name)) for name in sorted(runtime))],
        "c_comment": c_comment, "c_float": c_float, "md_code": md_code, "steps": counted,
    }  # fmt: skip
    for name in _RENDERED:
        text = str(lookup().get_template(f"board/{name}.mako").render(**context))
        (directory / name).write_text(text.rstrip("\n") + "\n", encoding="ascii")
