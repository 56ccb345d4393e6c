"""The figures of a plan, derived from its decisions: memory use, traffic, predicted cycles.

The planner fills them in from here, and a plan file gets them anew: what a file says about itself is not believed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from deeploy_ext.graph.program import Call, Program
from deeploy_ext.planning.arrival import box_bytes, first_box
from deeploy_ext.planning.code_size import code_bytes
from deeploy_ext.planning.cost import Machine, Transfers, compute_cycles, operand_transfers, predict
from deeploy_ext.planning.joint import join
from deeploy_ext.planning.nest import NOWHERE, Nest, Tiling, kernel_of_group, nest_of_group, volume
from deeploy_ext.planning.overlap import box_cycles, overlapped
from deeploy_ext.planning.plan import KEPT, Cycles, Group, LevelUse, Placement, Plan, Traffic
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
    """Bytes used per level: the highest address in use, plus what is reserved; and the largest sum of live bytes.

    Staging buffers live while their nest runs. What a nest has in L1 is its own choice, so there the bound is what is used.
    """
    found: dict[str, LevelUse] = {}
    for name, level in target.levels.items():
        here = [p for p in placements if p.level == name]
        ends = [p.address + level.align(p.bytes) for p in here]
        live = {p.storage: (level.align(p.bytes), p.first, p.last) for p in here}
        extra = reserved[name]
        if name == "L1":
            ends += [slot + b.bytes for g in groups for b in g.blocks for slot in b.slots]
            ends += [g.scratch + level.align(g.scratch_bytes) for g in groups]
            extra -= target.runtime_bytes  # the runtime's state is the start of the block
            live = {"blocks": (max(ends, default=0), 0, 0)}
        elif name == "L2":
            ends += [slot + b.stage_bytes for g in groups for b in g.blocks for slot in b.stage_slots]
            live |= {f"stage {at}": (size, at, at) for at, size in staged_bytes(groups).items()}
        bound = lower_bound(live)
        found[name] = LevelUse(capacity[name], reserved[name], max(ends, default=0) + extra, bound + extra)
    return found


def positions_of(groups: Sequence[Group]) -> tuple[int, ...]:
    """Schedule position of every nest: nests of one node, one after the other, share it."""
    at: dict[tuple[str, str], int] = {}
    return tuple(at.setdefault((group.entry, group.node), len(at)) for group in groups)


def staged_bytes(groups: Sequence[Group]) -> dict[int, int]:
    """Bytes of L2 that staging buffers take at each schedule position."""
    found: dict[int, int] = {}
    for group, position in zip(groups, positions_of(groups), strict=True):
        size = sum(block.stage_bytes * len(block.stage_slots) for block in group.blocks)
        found[position] = max(found.get(position, 0), size)
    return found


def total_traffic(entries: Sequence[str], moved: Sequence[tuple[str, Transfers]]) -> dict[str, Traffic]:
    """Bytes per execution of each entry, from the transfers of its groups."""
    found = dict.fromkeys(entries, Traffic(0, 0))
    for entry, one in moved:
        found[entry] = Traffic(found[entry].l3_l2 + one.ram_bytes, found[entry].l2_l1 + one.dma_bytes)
    return found


def nest_of(group: Group, calls: Sequence[Call], flow: Flow) -> Nest | None:
    """The nest that a group runs, from its nodes and phases; None: nodes like these do not make one."""
    if len(calls) == 1:
        return nest_of_group(calls[0], group)
    if not 0 <= group.main < len(calls):
        return None
    return join(tuple(calls), flow, kernel_of_group(calls[group.main], group))


def group_figures(
    group: Group, nest: Nest, homes: Mapping[str, Placement], flow: Flow, machine: Machine
) -> tuple[Transfers, Cycles]:
    """Transfers and predicted cycles of one group by itself, from its tile sizes, order, buffering, staging and arrivals."""
    tiling = Tiling(nest, tuple(loop.tile for loop in group.loops))
    transfers = Transfers()
    for operand, block in zip(nest.operands, group.blocks, strict=True):
        moved = volume(block.axes, block.item, group.loops, group.order)
        whole = flow.program.values[block.value].bytes
        home = homes[block.value].level if operand.loaded or operand.stored else NOWHERE
        transfers += operand_transfers(operand, home, block.stage, moved, whole, machine.target)
        if block.arrival == KEPT:
            box = first_box(block)
            transfers += Transfers(dma_cycles=-box_cycles(block, box, machine.target), dma_bytes=-box_bytes(block, box))
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
    alone = tuple(replace(g, cycles=cycles) for g, (_, cycles) in zip(plan.groups, made, strict=True))
    groups = overlapped(alone, target)
    moved = [(g.entry, transfers) for g, (transfers, _) in zip(groups, made, strict=True)]
    capacities = {name: capacity.get(name) or use.capacity for name, use in plan.memory.items()}
    reserved = target.reserved(cores, code_bytes(program, target, plan.options["kernels"]))
    return replace(
        plan,
        options=plan.options | {"l1": capacities["L1"], "l2": capacities["L2"]},
        groups=groups,
        memory=memory_use(plan.placements, groups, capacities, reserved, target),
        traffic=total_traffic(plan.entries, moved),
    )
