"""Emits a program: ``net.c``, ``net.h``, ``net_test.h``, the runtime it stands on, and weights and data as binary files."""

from __future__ import annotations

import hashlib
import json
import math
import re
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from deeploy_ext.codegen import override
from deeploy_ext.codegen.body import Bodies, lookup
from deeploy_ext.codegen.override import Override
from deeploy_ext.codegen.program import EmittedProgram, Role, TensorEntry
from deeploy_ext.codegen.tables import Tables, check_limits
from deeploy_ext.codegen.text import c_comment, c_float, c_string
from deeploy_ext.graph.program import Call, Program
from deeploy_ext.planning.plan import CONTINUED, BodyPlan, Group, Placement, Plan, Use
from deeploy_ext.planning.target import Target, load_target
from deeploy_ext.training.task import TrainingTask

RUNTIME_SOURCES = ("net_memory.c", "net_nest.c", "net_state.c", "net_transfer.c", "net_walker.c")
RUNTIME_HEADERS = (
    "net_claim.h", "net_index.h", "net_math.h", "net_nest.h", "net_runtime.h", "net_state.h", "net_trace.h", "net_transfer.h",
)  # fmt: skip


@dataclass(frozen=True)
class TensorRow:
    """A row of ``net_tensors`` with the value behind it."""

    entry: TensorEntry
    value: str
    home: Placement

    @property
    def bytes(self) -> int:
        return math.prod(self.entry.shape) * self.entry.dtype.itemsize


@dataclass(frozen=True)
class GroupText:
    """A group in C: a comment, and the names of its tables."""

    comment: str
    shape: str
    work: str
    tile: str


def runtime_files(target: Target, headers: Iterable[str]) -> tuple[str, ...]:
    """Files that emitted C is built with, relative to the target's folder: the runtime, these headers of kernels, and all
    headers of kernels that they include."""
    folder = target.part("kernels")
    found: set[str] = set()
    waiting = sorted(headers)
    while waiting:
        name = waiting.pop()
        if name not in found and (folder / name).is_file():
            found.add(name)
            waiting += re.findall(r'#include "(\w+\.h)"', (folder / name).read_text(encoding="ascii"))
    return (
        *(f"runtime/{name}" for name in (*RUNTIME_SOURCES, *RUNTIME_HEADERS)),
        *(f"kernels/{name}" for name in sorted(found)),
    )


def emit(
    task: TrainingTask, program: Program, plan: Plan, directory: Path, overrides: Sequence[Override] = ()
) -> EmittedProgram:
    """Write everything an engine needs into ``directory``, which is made if need be; ``overrides`` replace kernels."""
    target = load_target(plan.target)
    directory.mkdir(parents=True, exist_ok=True)
    homes = {value: placement for placement in plan.placements for value in placement.values}
    rows = _rows(task, program, homes)
    bodies, tables = Bodies(override.names(overrides)), Tables()
    calls = {(call.entry, call.name): call for call in program.calls}
    entries = {
        entry: [_group([calls[entry, n] for n in g.nodes], g, bodies, tables, homes) for g in plan.entry(entry)]
        for entry in program.entries
    }
    sizes = {level: _bytes(plan, target, level) for level in ("L1", "L2", "L3")}
    context = {
        "task": task, "plan": plan, "fused": program.fused, "rows": rows, "entries": entries, "bodies": bodies.functions(),
        "regions": tables.region_text(), "tables": tables.definitions,
        "kernels": bodies.kernels() + override.prototypes(overrides),
        "fingerprint": _fingerprint(rows), "sizes": sizes, "homes": homes,
        "data_count": sum(row.entry.role == Role.DATA for row in rows),
        "input_count": _input_count(task, rows),
        "c_string": c_string, "c_comment": c_comment, "c_float": c_float, "batches": len(task.batches),
        "capacity": {level: use.capacity for level, use in plan.memory.items()},
    }  # fmt: skip
    for name in ("net.c", "net.h", "net_test.h"):
        text = str(lookup().get_template(f"{name}.mako").render(**context))
        (directory / name).write_text(text.rstrip("\n") + "\n", encoding="ascii")
    own = [f"override_{number}.c" for number in range(len(overrides))]
    for number, one in enumerate(overrides):
        (directory / own[number]).write_text(override.source(number, one, bodies.kernels()), encoding="ascii")
    runtime = runtime_files(target, bodies.headers())
    for name in runtime:
        shutil.copyfile(target.part(name.split("/")[0]) / Path(name).name, directory / Path(name).name)
    _write_binaries(task, program, rows, directory)
    return EmittedProgram(
        directory,
        tuple(row.entry for row in rows),
        ("net.c", *own, *RUNTIME_SOURCES),
        (".",),
        task.spec.steps,
        task.spec.accumulation,
        len(task.batches),
        int(plan.options["cores"]),
        plan.target,
        {level: use.capacity for level, use in plan.memory.items()},
        {entry: plan.cycles(entry) for entry in entries},
        tuple(entry for entry, groups in entries.items() for _ in groups),
        tuple(Path(name).name for name in runtime),
    )


def _rows(task: TrainingTask, program: Program, homes: dict[str, Placement]) -> list[TensorRow]:
    rows: list[TensorRow] = []

    def add(role: Role, value: str, name: str) -> None:
        kind = program.values[value]
        rows.append(TensorRow(TensorEntry(name, role, kind.dtype, kind.shape), value, homes[value]))

    for value in task.data:
        if value in homes:
            add(Role.DATA, value, value)
    add(Role.LOSS, task.loss, task.loss)
    for parameter in task.parameters:
        add(Role.PARAMETER, parameter.weight, parameter.weight)
    for parameter in task.parameters if not program.fused else ():
        add(Role.GRADIENT, parameter.buffer, parameter.weight)
    for state in task.states:
        add(Role.STATE, state.before, state.before)
    for value in program.constants:
        add(Role.CONSTANT, value, value)
    if task.prediction:
        add(Role.PREDICTION, task.prediction, task.prediction)
    return rows


def _fingerprint(rows: list[TensorRow]) -> int:
    """64 bits that differ when parameters or states do, in name, type, shape or order; where a plan puts them is no part."""
    kept = [row.entry for row in rows if row.entry.role in (Role.PARAMETER, Role.STATE)]
    text = json.dumps([[entry.role.name, entry.name, entry.dtype.name, entry.shape] for entry in kept])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8])


def _input_count(task: TrainingTask, rows: list[TensorRow]) -> int:
    """How many of the leading data rows inference reads; 0 without inference."""
    if task.infer is None:
        return 0
    read = {value.name for value in task.infer.graph.inputs}
    return max((i + 1 for i, row in enumerate(rows) if row.entry.role == Role.DATA and row.value in read), default=0)


def _group(calls: Sequence[Call], group: Group, bodies: Bodies, tables: Tables, homes: dict[str, Placement]) -> GroupText:
    check_limits(group)
    names = " + ".join(f"'{c_comment(node)}'" for node in group.nodes)
    tables.begin(f"{group.entry}: {names}")
    rows: list[str] = []
    for place, body in enumerate(group.computed):
        call = calls[body.node]
        phase = next(p for p in call.invocation.operator.phases(call.invocation) if p.name == body.phase)
        rows.append(f"{{{bodies.name_of(call, group, phase, body)}, {_sharing(body, group.chain(place))}}}")
    split = ", ".join(f"{group.loops[i].name} {group.loops[i].extent}/{group.loops[i].tile}" for i in group.order)
    how = f"{group.tiles} tiles ({split})" if group.order else "1 tile"
    phases = ", ".join(phase for phase in group.phases if phase != "main")
    kinds = [f"{call.invocation.operator.op_type}" for call in calls]
    kinds[group.main] += f"{phases and ' '}{phases}"
    title = f"{' + '.join(kinds)}: node{'s' if len(calls) > 1 else ''} {names}"
    return GroupText(
        f"{title}, {how}{', double-buffered' if group.double_buffer else ''}",
        tables.shape(group),
        tables.work(group, rows, _restart(calls, group), homes),
        tables.tile(group),
    )


def _restart(calls: Sequence[Call], group: Group) -> int | None:
    """The block of the truth value that says whether the sum that the group continues starts anew; None: there is none."""
    for body in group.bodies:
        continues = calls[body.node].invocation.operator.continues
        if body.variant == CONTINUED and continues:
            use = Use(body.node, continues[2])
            return next(i for i, block in enumerate(group.blocks) if use in block.uses)
    return None


def _sharing(body: BodyPlan, chained: int) -> str:
    """How the workers share out a body: a loop, or a name of the runtime; and the operands of an element-wise one."""
    if body.flat:
        return f"NET_FLAT, {chained}, {{{', '.join(map(str, body.flat))}}}"
    sharing = "NET_TEAM" if body.team else "NET_ALONE" if body.core_loop is None else body.core_loop
    return f"{sharing}, 0, {{0}}"


def _bytes(plan: Plan, target: Target, level: str) -> int:
    """Size of the block that the program allocates in a level."""
    use = plan.memory[level]
    reserved = use.reserved - target.runtime_bytes if level == "L1" else use.reserved
    return max(use.used - reserved, target.levels[level].alignment)


def _write_binaries(task: TrainingTask, program: Program, rows: list[TensorRow], directory: Path) -> None:
    def raw(entry: TensorEntry, array: np.ndarray) -> bytes:
        return np.ascontiguousarray(array.reshape(entry.shape), entry.dtype.newbyteorder("<")).tobytes()

    values = {**program.constants, **task.initial}
    kept = [row for row in rows if row.entry.role in (Role.PARAMETER, Role.STATE, Role.CONSTANT)]
    (directory / "weights.bin").write_bytes(b"".join(raw(row.entry, values[row.value]) for row in kept))
    data = [row for row in rows if row.entry.role == Role.DATA]
    (directory / "data.bin").write_bytes(b"".join(raw(row.entry, b[row.value]) for b in task.batches for row in data))
