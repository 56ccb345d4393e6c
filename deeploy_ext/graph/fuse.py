"""The fused update: where one mini-batch makes a step, each weight is updated as soon as its gradient is there.

The nodes of the update graph move into the step and read the gradients themselves; accumulators and their buffers go. A weight
is overwritten behind all nodes that read it, which the schedule sees to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from deeploy_ext.graph.program import Call, root
from deeploy_ext.training.task import TrainingTask


def fuse_updates(task: TrainingTask, calls: Sequence[Call], same: dict[str, str]) -> list[Call] | None:
    """All calls with those of the update moved behind the step's, views of buffers redirected in ``same``.

    Returns:
        None, with nothing changed, where the update needs the accumulated gradients as such: several mini-batches make a
        step, some node looks at more than one of them (clipping by norm), or at a buffer beside its accumulator.
    """
    gradients = _gradients(task, [call for call in calls if call.entry == "step"], same)
    if gradients is None or task.spec.accumulation != 1:
        return None
    if _mixes_gradients([call for call in calls if call.entry == "update"], {root(buffer, same) for buffer in gradients}, same):
        return None
    for value, source in same.items():
        same[value] = gradients.get(source, source)
    step = [call for call in calls if call.entry == "step" and not gradients.keys() & set(call.reads)]
    taken = {call.name for call in step}
    for call in calls:
        if call.entry == "update":
            name = _unique(call.name, taken)
            taken.add(name)
            operands = {operand: gradients.get(value, value) for operand, value in call.operands.items()}
            step.append(Call("step", replace(call.invocation, name=name), operands))
    return step + [call for call in calls if call.entry not in ("step", "update")]


def _gradients(task: TrainingTask, step: Sequence[Call], same: Mapping[str, str]) -> dict[str, str] | None:
    """The gradient that goes into each buffer; None if some buffer is used by more than one accumulator."""
    found: dict[str, str] = {}
    for parameter in task.parameters:
        users = [c for c in step if parameter.buffer in {root(value, same) for value in (*c.reads, *c.writes)}]
        operand = users[0].invocation.operator.accumulates if len(users) == 1 else None
        if operand is None:
            return None
        found[parameter.buffer] = users[0].operands[operand]
    return found


def _mixes_gradients(update: Sequence[Call], buffers: set[str], same: Mapping[str, str]) -> bool:
    """Whether some node's result depends on several gradients."""
    origins: dict[str, set[str]] = {}
    for call in update:
        reads = {root(value, same) for value in call.reads}
        found = (reads & buffers).union(*(origins.get(value, set()) for value in reads))
        if len(found) > 1:
            return True
        origins |= {root(value, same): found for value in call.writes}
    return False


def _unique(name: str, taken: set[str]) -> str:
    number = 1
    unique = name
    while unique in taken:
        number += 1
        unique = f"{name}_{number}"
    return unique
