"""Static proof of a plan before anything is emitted: regions, blocks, addresses and capacities agree with each other.

The planner and a plan file are checked alike: nothing here trusts who made the plan.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import combinations, product

from deeploy_ext.choices import KERNELS
from deeploy_ext.errors import BadInputError
from deeploy_ext.graph.program import Program
from deeploy_ext.operators.spec import Phase, Variant
from deeploy_ext.planning.arrival import earliest, may_drain, permitted
from deeploy_ext.planning.code_size import code_bytes
from deeploy_ext.planning.cost import may_share
from deeploy_ext.planning.figures import nest_of
from deeploy_ext.planning.joint import flat_blocks
from deeploy_ext.planning.nest import NOWHERE, Nest, Tiling, row_of
from deeploy_ext.planning.plan import CONTIGUOUS, CONTINUED, BlockPlan, BodyPlan, Group, Placement, Plan
from deeploy_ext.planning.residency import suits_residents
from deeploy_ext.planning.schedule import in_order
from deeploy_ext.planning.steps import Flow, Step
from deeploy_ext.planning.target import Target, load_target

Span = tuple[int, int, str]
"""Begin, end (exclusive) and a name for messages."""


class PlanError(BadInputError):
    """The plan contradicts the program or itself; a planner bug, or a plan file that does not belong to the network."""


def check_plan(program: Program, plan: Plan) -> None:
    """Prove that a plan is consistent.

    Raises:
        PlanError: names the group or storage, and what does not hold.
    """
    target = load_target(plan.target)
    _check_memory(plan, target, program)
    program = in_plan_order(program, plan)
    homes = {value: placement for placement in plan.placements for value in placement.values}
    values = [value for placement in plan.placements for value in placement.values]
    if len(values) != len(set(values)):
        raise _fail("placements", "a value has two places; this version keeps every value in one")
    flow = Flow(program)
    steps = _check_schedule(flow, plan)
    _check_placements(flow, steps, plan, homes, target)
    positions = {key: position for position, key in enumerate(plan.schedule)}
    room = _tensor_room(plan, target)
    before: Group | None = None
    for group in plan.groups:
        position = positions[group.entry, group.nodes]
        _check_group(steps[position], position, group, plan, homes, target, room, flow)
        _check_arrivals(group, before if before and before.entry == group.entry else None, homes)
        before = group


def in_plan_order(program: Program, plan: Plan) -> Program:
    """The program with its nodes in the order of the plan's groups, which is proven to be a valid one.

    Raises:
        PlanError: a node is missing, or runs before one that it has to wait for.
    """
    if plan.entries != program.entries:
        raise _fail("entries", f"{list(plan.entries)} are not the program's {list(program.entries)}")
    try:
        return in_order(program, list(dict.fromkeys((g.entry, name) for g in plan.groups for name in g.nodes)))
    except ValueError as error:
        raise _fail("order", str(error)) from error


def _check_memory(plan: Plan, target: Target, program: Program) -> None:
    """The levels are the target's, what is reserved there is what the program needs, and no more is used than there is."""
    cores = plan.options.get("cores")
    if type(cores) is not int or not 1 <= cores <= target.cores:
        raise _fail("option 'cores'", f"{cores!r} is not a number from 1 to {target.cores}")
    kernels = plan.options.get("kernels")
    if kernels not in KERNELS:
        raise _fail("option 'kernels'", f"{kernels!r} is none of {', '.join(KERNELS)}")
    reserved = target.reserved(cores, code_bytes(program, target, kernels))
    if set(plan.memory) != set(reserved):
        raise _fail("memory", f"{', '.join(plan.memory) or 'no level'} is not {', '.join(reserved)} of target {target.name}")
    for level, use in plan.memory.items():
        if use.reserved != reserved[level]:
            raise _fail(level, f"{use.reserved} bytes are reserved where {reserved[level]} are needed")
        if not use.used <= use.capacity:
            raise _fail(level, f"{use.used} of {use.capacity} bytes are used")
    if set(plan.traffic) != set(plan.entries):
        raise _fail("traffic", f"{', '.join(plan.traffic) or 'nothing'} is not {', '.join(plan.entries)}")


def _tensor_room(plan: Plan, target: Target) -> dict[str, int]:
    """Bytes of the block that the emitted program allocates in each level; in L1 the runtime's state is in it."""
    own = {"L1": target.runtime_bytes}
    return {level: use.used - use.reserved + own.get(level, 0) for level, use in plan.memory.items()}


def _fail(where: str, what: str) -> PlanError:
    return PlanError(f"plan: {where}: {what}; plan again with --dump, or report this if no --plan was given.")


def _check_schedule(flow: Flow, plan: Plan) -> tuple[Step, ...]:
    """Every phase of every node runs once, behind all that it needs; nothing is asked for that the emitted code cannot do."""
    program = flow.program
    if plan.entries != program.entries:
        raise _fail("entries", f"{list(plan.entries)} are not the program's {list(program.entries)}")
    if plan.prepare:
        raise _fail(f"prepared image '{plan.prepare[0].image}'", "no kernel of this version takes one")
    calls = {(call.entry, call.name): call for call in program.calls}
    wanted = [(*key, phase.name) for key, call in calls.items() for phase in call.invocation.operator.phases(call.invocation)]
    planned = [(g.entry, g.nodes[node], phase) for g in plan.groups for node, phase in _phases(g)]
    if sorted(wanted) != sorted(planned):
        missing = [w for w in wanted if w not in planned] or [p for p in planned if planned.count(p) > wanted.count(p)]
        raise _fail(f"node '{missing[0][1]}'", f"phase '{missing[0][2]}' is not planned exactly once")
    ran = dict.fromkeys((entry, name) for entry, name, _ in planned)
    if [p for key in ran for p in planned if p[:2] == key] != planned:
        raise _fail("order", "other nodes run between the phases of one")
    for key in ran:
        if [p[2] for p in planned if p[:2] == key] != [w[2] for w in wanted if w[:2] == key]:
            raise _fail(f"node '{key[1]}'", "its phases are not in the operator's order")
    order = {flow.index(calls[key]): position for position, key in enumerate(ran)}
    for i, needed in enumerate(flow.dependencies()):
        late = [b for b in needed if order[b] > order[i]]
        if late:
            raise _fail(f"node '{program.calls[i].name}'", f"runs before '{program.calls[late[0]].name}', which it needs")
    if [entry for entry, _ in ran] != sorted((entry for entry, _ in ran), key=program.entries.index):
        raise _fail("entries", "their nodes are mixed")
    return tuple(tuple(calls[entry, name] for name in nodes) for entry, nodes in plan.schedule)


def _phases(group: Group) -> list[tuple[int, str]]:
    """Nodes and phases that a group computes, in order; steps of a kernel are one phase."""
    if not group.bodies or not all(0 <= body.node < len(group.nodes) for body in group.bodies):
        raise _fail(f"node '{group.node}'", "a body is of a node that is not there")
    return list(dict.fromkeys((body.node, body.phase) for body in group.bodies))


def _check_placements(flow: Flow, steps: Sequence[Step], plan: Plan, homes: dict[str, Placement], target: Target) -> None:
    program, room_of = flow.program, _tensor_room(plan, target)
    touched: dict[str, list[int]] = {}
    for position, step in enumerate(steps):
        internal = flow.internal(step)
        for value in (value for call in step for value in (*call.reads, *call.writes)):
            if flow.tensor(value) in internal:
                continue  # written and read inside its group only
            if value not in homes:
                raise _fail(f"value '{value}'", "has no place")
            touched.setdefault(homes[value].storage, []).append(position)
    for placement in plan.placements:
        where = f"storage '{placement.storage}'"
        if placement.layout != CONTIGUOUS:
            raise _fail(where, f"layout '{placement.layout}' is not known to this version")
        level = target.levels.get(placement.level)
        if level is None:
            raise _fail(where, f"target {target.name} has no level {placement.level}")
        if placement.address % level.alignment or placement.address < 0:
            raise _fail(where, f"address {placement.address} in {placement.level} is not aligned")
        sizes = [program.values[v].bytes for v in placement.values if v in program.values]
        if len(sizes) != len(placement.values) or max(sizes, default=0) > placement.bytes:
            raise _fail(where, f"{placement.bytes} bytes do not hold its values")
        room = room_of[placement.level]
        if placement.address + placement.bytes > room:
            raise _fail(where, f"ends at {placement.address + placement.bytes}, {placement.level} has {room} bytes")
        used = touched.get(placement.storage, [])
        if used and not (placement.first <= min(used) and max(used) <= placement.last):
            raise _fail(where, f"used at positions {min(used)}-{max(used)}, placed for {placement.first}-{placement.last}")
    for persistent in program.persistent:
        placement = homes.get(persistent)
        if placement and (placement.first, placement.last) != (0, len(steps) - 1):
            raise _fail(f"storage '{placement.storage}'", "must keep its place during the whole program")
    for level in sorted({p.level for p in plan.placements}):
        _check_apart(level, sorted((p for p in plan.placements if p.level == level), key=lambda p: p.address))


def _check_apart(level: str, placements: Sequence[Placement]) -> None:
    """No two of a level, sorted by address, share bytes while both are live."""
    below: list[Placement] = []
    for b in placements:
        below = [a for a in below if a.address + a.bytes > b.address]
        for a in below:
            if a.first <= b.last and b.first <= a.last and b.bytes:
                raise _fail(f"storages '{a.storage}' and '{b.storage}'", f"overlap in {level} while both are live")
        below.append(b)


def _check_group(
    step: Step,
    position: int,
    group: Group,
    plan: Plan,
    homes: dict[str, Placement],
    target: Target,
    room: dict[str, int],
    flow: Flow,
) -> None:
    where = f"node '{group.node}'"
    if not 0 <= group.main < len(step) or not group.phases:
        raise _fail(where, f"its main node ({group.main}) is not there")
    nest = nest_of(group, step, flow)
    if nest is None or len(nest.before) != group.main:
        raise _fail(where, "these nodes do not make one nest")
    _check_loops(where, nest, group)
    tiling = Tiling(nest, tuple(loop.tile for loop in group.loops))
    _check_bodies(where, step, nest, group, tiling, target)
    if not tiling.exact():
        raise _fail(where, "a tile writes elements that it does not compute")
    if [b.uses for b in group.blocks] != [o.uses for o in nest.operands]:
        raise _fail(where, "its blocks are not its operands")
    kept = {o.name: homes[b.value] for b, o in zip(group.blocks, nest.operands, strict=True) if b.loaded or b.stored}
    if not suits_residents(nest, {name: home.storage for name, home in kept.items() if home.level == "L1"}):
        raise _fail(where, "a tensor that lives in L1 would be computed over while it is needed")
    for block, operand in zip(group.blocks, nest.operands, strict=True):
        if block.axes != tiling.axes(operand) or block.value != operand.value or block.item != operand.item:
            raise _fail(where, f"regions of '{block.operand}' do not follow from the tile sizes")
        if (block.loaded, block.stored) != (operand.loaded, operand.stored):
            raise _fail(where, f"'{block.operand}' is not moved as the operator needs it")
        if block.stored:
            _check_written_once(where, block, group)
        home = homes[block.value].level if block.loaded or block.stored else NOWHERE
        _check_block(where, block, group, home, target)
    lives = {
        level: [
            (p.address, p.address + p.bytes, p.storage)
            for p in plan.placements
            if p.level == level and p.first <= position <= p.last
        ]
        for level in ("L1", "L2")
    }
    slots = [(s, s + b.bytes, b.operand) for b in group.blocks for s in b.slots]
    fixed = [(0, target.runtime_bytes, "the runtime"), (group.scratch, group.scratch + group.scratch_bytes, "its scratch")]
    _check_spans(where, "L1", [*fixed, *lives["L1"], *slots], room["L1"])
    stages = [(s, s + b.stage_bytes, b.operand) for b in group.blocks for s in b.stage_slots]
    _check_spans(where, "L2", [*stages], room["L2"], lives["L2"])


def _check_arrivals(group: Group, before: Group | None, homes: dict[str, Placement]) -> None:
    """What comes before the last tile of the nest before is done, or leaves after it, disturbs neither nest."""
    where = f"node '{group.node}'"
    for block in group.blocks:
        right = permitted(earliest(block, group, before, homes))
        if block.arrival not in right:
            raise _fail(where, f"'{block.operand}' arrives '{block.arrival}', which is none of {', '.join(right)}")
    if group.drains and not may_drain(group, before, homes):
        raise _fail(where, "results of the nest before would leave while its first tile writes to their slots")


def _check_loops(where: str, nest: Nest, group: Group) -> None:
    names = [(loop.name, loop.extent, loop.kind == "reduction") for loop in nest.loops]
    if names != [(loop.name, loop.extent, loop.reduction) for loop in group.loops]:
        raise _fail(where, "its loops are not those of the operator")
    if any(loop.tile < 1 for loop in group.loops):
        raise _fail(where, "a tile has no iterations")
    split = {i for i, loop in enumerate(group.loops) if loop.count > 1}
    if split != set(group.order) or len(split) != len(group.order):
        raise _fail(where, "its loop order does not name each split loop once")
    if any(not nest.splittable[i] for i in split):
        raise _fail(where, "it splits a loop that must stay whole")
    kinds = [group.loops[i].reduction for i in group.order]
    if kinds != sorted(kinds):
        raise _fail(where, "a reduction loop is outside a parallel one: its sums would be cut")


def _check_bodies(where: str, step: Step, nest: Nest, group: Group, tiling: Tiling, target: Target) -> None:
    """Element-wise nodes before the main one, its phases or steps, element-wise nodes behind."""
    nodes = [body.node for body in group.bodies]
    if nodes != sorted(nodes) or set(nodes) != set(range(len(group.nodes))):
        raise _fail(where, "its bodies are not those of its nodes, in order")
    for body in group.bodies:
        flat = flat_blocks(nest, body.node, step[body.node])
        variant = CONTINUED if body.node == nest.continued else ""
        if body.flat != flat or (flat and body != BodyPlan(body.phase, None, variant, node=body.node, flat=flat)):
            raise _fail(where, f"the body of '{group.nodes[body.node]}' does not walk its operands' elements")
    main = [body for body in group.bodies if body.node == group.main and not body.flat]
    if group.team:
        _check_team(where, nest, group, main, tiling, target)
        return
    for phase, body in zip(nest.phases, main, strict=False):  # of an element-wise one there is none
        _check_body(where, phase, body, group, nest.call.invocation.operator.variants)


def _check_body(where: str, phase: Phase, body: BodyPlan, group: Group, variants: Sequence[Variant]) -> None:
    """The cores split a loop that they may split, and the variant accepts every tile."""
    shared = body.core_loop
    if shared is not None and not (0 <= shared < len(group.loops) and may_share(phase, group.loops[shared].name)):
        raise _fail(where, f"phase '{phase.name}' gives the cores a loop ({shared}) that they must not split")
    known = {variant.name: variant.whole for variant in variants}
    if body.variant in (("runtime",) if variants else ("",)):
        return
    axes = {use.operand: block.axes for block in group.blocks for use in block.uses if use.node == group.main}
    whole = [axes[operand][axis] for operand, axis in known.get(body.variant, ()) if operand in axes]
    if body.variant not in known or any(size != axis.extent for axis in whole for _, size in axis.regions):
        raise _fail(where, f"variant '{body.variant}' does not suit its tiles")


def _check_team(where: str, nest: Nest, group: Group, bodies: Sequence[BodyPlan], tiling: Tiling, target: Target) -> None:
    """The steps are those of the operator's team kernel, and its scratch is large enough."""
    steps = nest.kernel.steps if nest.kernel else ()
    if tuple(body.variant for body in bodies) != steps or any(body.core_loop is not None for body in bodies):
        raise _fail(where, "its bodies are not the steps of its kernel")
    if group.scratch_bytes < tiling.scratch or group.scratch % target.levels["L1"].alignment:
        raise _fail(where, f"its kernel needs {tiling.scratch} bytes of scratch, {group.scratch_bytes} are given")


def _check_written_once(where: str, block: BlockPlan, group: Group) -> None:
    """Every element of a written operand lies in exactly one of its boxes."""
    moved = block.loops
    boxes: list[list[tuple[int, int]]] = []
    for tile in product(*(range(group.loops[i].count) for i in moved)):
        at = dict(zip(moved, tile, strict=True))
        boxes.append([axis.regions[row_of(axis, group.loops, at)] for axis in block.axes])
    covered = sum(math.prod(size for _, size in box) for box in boxes)
    inside = all(s >= 0 and s + n <= axis.extent for box in boxes for (s, n), axis in zip(box, block.axes, strict=True))
    distinct = len({tuple(start for start, _ in box) for box in boxes}) == len(boxes)
    if covered != math.prod(axis.extent for axis in block.axes) or not inside or not distinct:
        raise _fail(where, f"its tiles do not write every element of '{block.operand}' exactly once")


def _check_block(where: str, block: BlockPlan, group: Group, home: str, target: Target) -> None:
    wanted = 0 if home == "L1" else 2 if group.double_buffer and block.loops and home != NOWHERE else 1
    if len(block.slots) != wanted:
        raise _fail(where, f"'{block.operand}' has {len(block.slots)} slots, {wanted} are needed")
    if home == "L1":
        if not block.gapless:
            raise _fail(where, f"'{block.operand}' lives in L1, but the boxes of its tiles have gaps there")
        return
    if block.box_bytes > block.bytes or block.bytes > target.costs["dma.max_bytes"]:
        raise _fail(where, f"a tile of '{block.operand}' has {block.box_bytes} bytes, its block {block.bytes}")
    if block.stage not in (("tile", "whole") if home == "L3" else ("none",)):
        raise _fail(where, f"'{block.operand}' lives in {home} but is staged '{block.stage}'")
    if block.stage == "tile" and block.loaded and block.stored and group.double_buffer:
        raise _fail(where, f"the stage of '{block.operand}' would hold a tile on its way in and another on its way out")
    whole = math.prod(axis.extent for axis in block.axes) * block.item
    needed = {"none": 0, "tile": block.box_bytes, "whole": whole}[block.stage]
    slots = {"none": 0, "tile": wanted, "whole": 1}[block.stage]
    if block.stage_bytes < needed or len(block.stage_slots) != slots:
        raise _fail(where, f"the stage of '{block.operand}' is too small")
    for address in (*block.slots, *block.stage_slots):
        if address % target.levels["L1"].alignment:
            raise _fail(where, f"a slot of '{block.operand}' at {address} is not aligned")


def _check_spans(where: str, level: str, spans: Sequence[Span], room: int, others: Iterable[Span] = ()) -> None:
    for begin, end, name in spans:
        if begin < 0 or end > room:
            raise _fail(where, f"'{name}' ends at {end} of {room} bytes of {level}")
    pairs = [*combinations(spans, 2), *product(spans, others)]
    for (begin_a, end_a, a), (begin_b, end_b, b) in pairs:
        if begin_a < end_b and begin_b < end_a:
            raise _fail(where, f"'{a}' and '{b}' overlap in {level}")
