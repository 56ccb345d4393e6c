"""The figures of a plan, derived from its decisions: memory use, traffic, predicted cycles.

The planner fills them in from here, and a plan file gets them anew: what a file says about itself is not believed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from deeploy_ext.graph.program import Call, Program
from deeploy_ext.planning.cost import Machine, Transfers, compute_cycles, operand_transfers, predict
from deeploy_ext.planning.joint import join
from deeploy_ext.planning.nest import NOWHERE, Nest, Tiling, make_nest, volume
from deeploy_ext.planning.plan import Cycles, Group, LevelUse, Placement, Plan, Traffic
from deeploy_ext.planning.steps import Flow
from deeploy_ext.planning.storage import lower_bound
from deeploy_ext.planning.target import Target


def memory_use(
    placements: Sequence[Placement],
    groups: Sequence[Group],
    capacity: Mapping[str, int],
    reserved: Mapping[str, int],
    target: Target,
) -> dict[str, LevelUse]:
    """Bytes used per level: the highest address in use, plus what is reserved; and the largest sum of live bytes."""
    found: dict[str, LevelUse] = {}
    for name, level in target.levels.items():
        here = [p for p in placements if p.level == name]
        ends = [p.address + level.align(p.bytes) for p in here]
        bound = lower_bound({p.storage: (level.align(p.bytes), p.first, p.last) for p in here})
        extra = reserved[name]
        if name == "L1":
            ends += [slot + b.bytes for g in groups for b in g.blocks for slot in b.slots]
            ends += [g.scratch + level.align(g.scratch_bytes) for g in groups]
            extra -= target.runtime_bytes  # the runtime's state is the start of the block
            bound = max(ends, default=0)
        elif name == "L2":
            ends += [slot + b.stage_bytes for g in groups for b in g.blocks for slot in b.stage_slots]
        found[name] = LevelUse(capacity[name], reserved[name], max(ends, default=0) + extra, bound + extra)
    return found


def total_traffic(entries: Sequence[str], moved: Sequence[tuple[str, Transfers]]) -> dict[str, Traffic]:
    """Bytes per execution of each entry, from the transfers of its groups."""
    found = dict.fromkeys(entries, Traffic(0, 0))
    for entry, one in moved:
        found[entry] = Traffic(found[entry].l3_l2 + one.ram_bytes, found[entry].l2_l1 + one.dma_bytes)
    return found


def nest_of(group: Group, calls: Sequence[Call], flow: Flow) -> Nest | None:
    """The nest that a group runs, from its nodes and phases; None: nodes like these do not make one."""
    if len(calls) > 1:
        return join(tuple(calls), flow, group.team)
    phases = {phase.name: phase for phase in calls[0].invocation.operator.phases(calls[0].invocation)}
    return make_nest(calls[0], tuple(phases[name] for name in group.phases), group.team)


def group_figures(
    group: Group, nest: Nest, homes: Mapping[str, Placement], flow: Flow, machine: Machine
) -> tuple[Transfers, Cycles]:
    """Transfers and predicted cycles of one group, from its tile sizes, order, buffering and staging."""
    tiling = Tiling(nest, tuple(loop.tile for loop in group.loops))
    transfers = Transfers()
    for operand, block in zip(nest.operands, group.blocks, strict=True):
        moved = volume(block.axes, block.item, group.loops, group.order)
        whole = flow.program.values[block.value].bytes
        home = homes[block.value].level if operand.loaded or operand.stored else NOWHERE
        transfers += operand_transfers(operand, home, block.stage, moved, whole, machine.target)
    staged_whole = any(block.stage == "whole" for block in group.blocks)
    compute = compute_cycles(tiling, machine)
    cycles = predict(compute, transfers, group.tiles, nest.steps, group.double_buffer, staged_whole, machine.target)
    return transfers, cycles


def with_figures(plan: Plan, program: Program, target: Target, capacity: Mapping[str, int | None]) -> Plan:
    """A checked plan with memory, traffic and cycles derived anew; ``capacity`` None keeps the plan's own."""
    cores = int(plan.options["cores"])
    homes = {value: placement for placement in plan.placements for value in placement.values}
    flow, calls = Flow(program), {(call.entry, call.name): call for call in program.calls}
    made: list[tuple[Transfers, Cycles]] = []
    for group in plan.groups:
        nest = nest_of(group, [calls[group.entry, node] for node in group.nodes], flow)
        assert nest is not None, "the plan was checked"
        made.append(group_figures(group, nest, homes, flow, Machine(target, cores)))
    groups = tuple(replace(g, cycles=cycles) for g, (_, cycles) in zip(plan.groups, made, strict=True))
    moved = [(g.entry, transfers) for g, (transfers, _) in zip(groups, made, strict=True)]
    capacities = {name: capacity.get(name) or use.capacity for name, use in plan.memory.items()}
    reserved = target.reserved(cores, len(program.calls))
    return replace(
        plan,
        options=plan.options | {"l1": capacities["L1"], "l2": capacities["L2"]},
        groups=groups,
        memory=memory_use(plan.placements, groups, capacities, reserved, target),
        traffic=total_traffic(plan.entries, moved),
    )
