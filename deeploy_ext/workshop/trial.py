"""A trial: a program with kernels of the user's own, or with other variants, against the untouched one.

Every tensor that a mini-batch computes is kept in both and compared bit by bit; cycles are those of the programs as they are,
which keep nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import onnx_ir as ir

from deeploy_ext import engines
from deeploy_ext.codegen.override import assignments
from deeploy_ext.graph.program import Program
from deeploy_ext.harness.files import Outputs
from deeploy_ext.harness.golden import run_golden
from deeploy_ext.harness.report import CycleReport, Report
from deeploy_ext.harness.terminal import Terminal
from deeploy_ext.pipeline import Compiled, compiled, execute, plan_for, predicted_cycles
from deeploy_ext.run_options import RunOptions, engine_options
from deeploy_ext.training.task import State, Trajectory


@dataclass(frozen=True)
class Difference:
    """Where two programs first differ: node and tensor, mini-batch, index of the element, the two values."""

    node: str
    tensor: str
    mini_batch: int
    index: tuple[int, ...]
    before: float
    after: float


def compare_with_untouched(options: RunOptions, changed: Report) -> Iterator[str]:
    """Lines that say where the changed program, which has been run, differs from the untouched one, and in which cycles.

    Raises:
        BadInputError, InfeasibleError, ToolError: as the stages do.
    """
    plain = replace(options, override=(), variant=())
    quiet, engine = Terminal(verbosity=-1), engines.select(engine_options(options))
    made = compiled(plain, Outputs(), quiet)
    before = execute(made, engine, Outputs(), quiet)[0].cycles if engine.model else predicted_cycles(made.plan, made.target)
    yield "Against the untouched program:"
    total, differing, first = compare_tensors(options)
    if first is None:
        yield f"  {total} tensors of every mini-batch are byte-identical"
    else:
        where = f"node '{first.node}', '{first.tensor}'{list(first.index)} in mini-batch {first.mini_batch}"
        yield f"  {differing} of {total} tensors differ, first {where}: {first.before:.9g} before, {first.after:.9g} now"
    if changed.cycles.kind == "predicted" and options.override:
        yield "  cycles: the cost model knows nothing of your kernel; --engine gvsoc measures it"
        return
    named = assignments("--override", options.override, made.program)
    named += assignments("--variant", options.variant, made.program)
    yield from _cycle_lines(before, changed.cycles, {node for nodes, _ in named for node in nodes})


def compare_tensors(options: RunOptions) -> tuple[int, int, Difference | None]:
    """Tensors compared, those that differ somewhere, and the first difference in execution order.

    Raises:
        BadInputError, InfeasibleError, ToolError: as the stages do.
    """
    quiet = Terminal(verbosity=-1)
    plain = replace(options, override=(), variant=())
    base = compiled(plain, Outputs(), quiet)
    engine = engines.select(engine_options(options))
    kept: list[Trajectory] = []
    made: Compiled | None = None
    for one in (plain, options):
        made = _keeping_everything(base, one)
        _, result = execute(made, engine, Outputs(), quiet, dma=options.dma, sanitize=options.sanitize)
        kept.append(result.rounds[0])
    assert made is not None
    return _differences(made, *kept)


def _keeping_everything(base: Compiled, options: RunOptions) -> Compiled:
    """The program planned anew with every value that a node of a mini-batch writes as a state."""
    step = base.task.step.clone()
    values = {value.name: value for node in step.graph for value in node.outputs if value.name}
    outputs = {value.name for value in step.graph.outputs}
    alone = [value for name, value in values.items() if name in _storages(base.program) and name not in outputs]
    states = [State(f"{value.name}/kept", value.name or "") for value in alone]
    step.graph.outputs.extend(alone)
    zeros = {state.before: np.zeros(_shape(value), np.float32) for state, value in zip(states, alone, strict=True)}
    task = replace(base.task, step=step, states=(*base.task.states, *states), initial=base.task.initial | zeros)
    program, plan = plan_for(task, options)
    return Compiled(options, base.target, task, run_golden(task), program, plan)


def _shape(value: ir.Value) -> tuple[int, ...]:
    assert value.shape is not None
    return value.shape.numpy()


def _storages(program: Program) -> set[str]:
    """Float values that nodes of a mini-batch write into storage of their own."""
    written = {value for call in program.calls if call.entry == "step" for value in call.writes}
    return {v for v in written if v not in program.same and program.values[v].dtype == np.float32 and v != program.loss}


def _differences(made: Compiled, before: Trajectory, after: Trajectory) -> tuple[int, int, Difference | None]:
    """Compares two runs tensor by tensor, in the order in which nodes write them."""
    task, total, differing = made.task, 0, set[str]()
    first: Difference | None = None
    names = {state.after: ("states", state.before) for state in task.states}
    if made.program.fused:  # there a step is one mini-batch
        names |= {p.updated: ("parameters", p.weight) for p in task.parameters}
    else:
        names |= {p.buffer_out: ("gradients", p.weight) for p in task.parameters}
    written = [(call.name, value) for call in made.program.calls if call.entry == "step" for value in call.writes]
    known = [(node, value) for node, value in written if value in names]
    total = len(dict.fromkeys(value for _, value in known))
    for batch in range(task.spec.mini_batches):
        for node, value in known:
            kind, name = names[value]
            old, new = (np.asarray(getattr(run, kind)[batch][name]) for run in (before, after))
            unequal = np.ascontiguousarray(old).view(np.uint32) != np.ascontiguousarray(new).view(np.uint32)
            if not unequal.any():
                continue
            differing.add(value)
            if first is None:
                place = np.unravel_index(int(np.argmax(unequal)), unequal.shape)
                index = tuple(int(i) for i in place)
                first = Difference(node, value, batch, index, float(old[index]), float(new[index]))
    return total, len(differing), first


def _cycle_lines(before: CycleReport, after: CycleReport, nodes: set[str]) -> Iterator[str]:
    """Cycles of the entries and of the nodes that were changed."""
    entries = (("mini-batch", "minibatch"), ("update", "update"), ("inference", "inference"))
    pairs = [(name, getattr(before, field), getattr(after, field)) for name, field in entries]
    said = ", ".join(f"{old:,} -> {new:,} per {name}" for name, old, new in pairs if old is not None and new is not None)
    yield f"  cycles ({after.kind}, {after.model}): {said}"
    old = {row[:3]: row[3] for row in before.per_node}
    for entry, node, phase, cycles in after.per_node:
        if node in nodes and (entry, node, phase) in old:
            yield f"  {entry}: {node} ({phase}): {old[entry, node, phase]:,} -> {cycles:,}"
