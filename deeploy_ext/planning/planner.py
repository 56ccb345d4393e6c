"""The greedy planner: levels first (promotion), then tiles of every node, then addresses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from deeploy_ext.errors import BadInputError, InfeasibleError
from deeploy_ext.graph.program import Program
from deeploy_ext.operators.spec import Phase
from deeploy_ext.planning.allocation import pack, peak
from deeploy_ext.planning.arrival import Span
from deeploy_ext.planning.code_size import code_bytes
from deeploy_ext.planning.cost import Machine, Transfers, core_loop
from deeploy_ext.planning.figures import memory_use, total_traffic, with_figures
from deeploy_ext.planning.fusion import joined_steps
from deeploy_ext.planning.joint import flat_blocks, flat_phase, joins
from deeploy_ext.planning.l1 import arrange
from deeploy_ext.planning.nest import NOWHERE, Nest, nests_of
from deeploy_ext.planning.placement import place, promote, requests_of
from deeploy_ext.planning.plan import (
    CONTIGUOUS,
    CONTINUED,
    MAX_OPERANDS,
    MAX_PHASES,
    AxisPlan,
    BlockPlan,
    BodyPlan,
    Group,
    Placement,
    Plan,
)
from deeploy_ext.planning.residency import Resident, choose_residents, live_at, suits_residents
from deeploy_ext.planning.search import Choice, NestSearch, Room
from deeploy_ext.planning.steps import Flow, Step, single_steps, step_name
from deeploy_ext.planning.storage import storages_of
from deeploy_ext.planning.target import Target


@dataclass(frozen=True)
class PlanOptions:
    """The flags that shape a plan; sizes in bytes, None for the target's own.

    ``dispatch`` is "runtime", "static", or the name of the one variant that is taken wherever its tiles allow.
    ``variants`` picks bodies by node: "portable" instead of a team kernel, or one of the operator's variants. ``largest``
    limits tiles, where checks need small ones: by node, then by loop, the most iterations of a tile; ``buffer_all`` has double
    buffering wherever a nest has several tiles, whether it pays or not.
    ``groups`` is "joint", or "single" for nests of one node each.
    """

    promote: bool = False
    double_buffer: bool = False
    l1: int | None = None
    l2: int | None = None
    default_level: str = "L3"
    cores: int | None = None
    dispatch: str = "runtime"
    kernels: str = "fast"
    groups: str = "joint"
    variants: Mapping[str, str] = field(default_factory=dict[str, str])
    buffer_all: bool = False
    largest: Mapping[str, Mapping[str, int]] = field(default_factory=dict[str, Mapping[str, int]])


class _Planner:
    """State of one planning run."""

    def __init__(self, flow: Flow, target: Target, options: PlanOptions, steps: tuple[Step, ...]) -> None:
        self.program, self.target, self.options = flow.program, target, options
        program, self.flow, self.steps = flow.program, flow, steps
        self.cores = options.cores or target.cores
        self.machine = Machine(target, self.cores)
        self.owner, self.storages = storages_of(flow, steps)
        self.bytes = {s.name: s.bytes for s in self.storages}
        self.capacity = {name: level.capacity for name, level in target.levels.items()}
        self.capacity["L1"] = options.l1 or self.capacity["L1"]
        self.capacity["L2"] = options.l2 or self.capacity["L2"]
        self.reserved = target.reserved(self.cores, code_bytes(program, target, options.kernels))
        self.blocks_base = target.runtime_bytes + sum(self._aligned_l1(self._size(a)) for a in program.arguments)
        self.l1_arena = self.capacity["L1"] - self.reserved["L1"] + target.runtime_bytes - self.blocks_base
        self.room = {name: self.capacity[name] - self.reserved[name] for name in self.capacity}
        self.memo: dict[Any, tuple[int, tuple[Choice, ...]] | None] = {}
        self.levels: dict[str, str] = {}
        self.stage_room = 0

    def _size(self, value: str) -> int:
        return self.program.values[value].bytes

    def _aligned_l1(self, size: int) -> int:
        return self.target.levels["L1"].align(size)

    def plan(self) -> Plan:
        if self.room["L2"] <= 0:
            self._no_room_for_code()
        self.levels = levels = self._levels()
        plain = self._plan_with(levels, {})
        residents = self._residents(levels, plain) if self.options.promote else {}
        if not residents:
            return plain
        try:
            resident = self._plan_with(levels | dict.fromkeys(residents, "L1"), residents)
        except InfeasibleError:  # what is left in L2 packs worse
            return plain
        return min(plain, resident, key=lambda made: sum(made.cycles(entry) for entry in made.entries))

    def _plan_with(self, levels: dict[str, str], residents: Mapping[str, Resident]) -> Plan:
        """The plan with these levels, and these storages in L1."""
        placed = place([s for s in self.storages if s.name not in residents], levels, self.target, self.room)
        placements = self._with_residents(placed, residents)
        ends = [p.address + self.target.levels["L2"].align(p.bytes) for p in placements if p.level == "L2"]
        stage_base = max(ends, default=0)
        self.stage_room = stage_room = self.room["L2"] - stage_base
        groups: list[Group] = []
        taken: list[list[Span]] = []
        moved: list[tuple[str, Transfers]] = []
        for position, step in enumerate(self.steps):
            live = live_at(residents, position)
            base = max((end for _, end in live), default=self.blocks_base)
            nests, choices = self._choose(step, levels, stage_room, self.l1_arena - (base - self.blocks_base))
            for nest, choice in zip(nests, choices, strict=True):
                groups.append(self._group(step, nest, choice, levels, base, stage_base))
                taken.append(live)
                moved.append((step[0].entry, choice.transfers))
        places = self._arguments() + placements
        if self.options.double_buffer:
            homes = {value: placement for placement in places for value in placement.values}
            groups = [*arrange(groups, homes, (self.blocks_base, self.blocks_base + self.l1_arena), taken, self.target)]
        memory = memory_use(places, groups, self.capacity, self.reserved, self.target)
        entries = self.program.entries
        traffic = total_traffic(entries, moved)
        plan = Plan(self.target.name, self._options(), entries, tuple(groups), places, (), memory, traffic)
        return with_figures(plan, self.program, self.target, {}) if self.options.double_buffer else plan

    def _with_residents(self, placed: Sequence[Placement], residents: Mapping[str, Resident]) -> tuple[Placement, ...]:
        """Placements of all storages, in their order."""
        found = {p.storage: p for p in placed}
        for s in self.storages:
            if s.name in residents:
                at = residents[s.name].begin
                found[s.name] = Placement(s.name, "L1", at, s.bytes, CONTIGUOUS, s.first, s.last, s.persistent, s.values)
        return tuple(found[s.name] for s in self.storages)

    def _residents(self, levels: dict[str, str], plain: Plan) -> dict[str, Resident]:
        """Storages that had better live in L1, beside the plan without any."""
        ends = [p.address + self.target.levels["L2"].align(p.bytes) for p in plain.placements if p.level == "L2"]
        stage_room = self.room["L2"] - max(ends, default=0)

        def cost(position: int, residents: Mapping[str, Resident]) -> float | None:
            base = max((end for _, end in live_at(residents, position)), default=self.blocks_base)
            l1 = self.l1_arena - (base - self.blocks_base)
            found = self._best(self.steps[position], levels | dict.fromkeys(residents, "L1"), stage_room, l1)
            return sum(c.cycles.total for c in found[1]) if found else None

        entry_of = [step[0].entry for step in self.steps]
        arena = self.blocks_base, self.blocks_base + self.l1_arena
        return choose_residents(self.storages, entry_of, arena, self.target.levels["L1"].alignment, cost)

    def _options(self) -> dict[str, Any]:
        o = self.options
        return {
            "promote": o.promote, "double_buffer": o.double_buffer, "l1": self.capacity["L1"], "l2": self.capacity["L2"],
            "default_level": o.default_level, "cores": self.cores, "dispatch": o.dispatch,
            "kernels": o.kernels, "groups": o.groups,
        }  # fmt: skip

    def _levels(self) -> dict[str, str]:
        if not self.options.promote:
            return dict.fromkeys((s.name for s in self.storages), self.options.default_level)
        kept = promote(self.storages, self.room["L2"], self._smallest_stage(), self.target)
        return {s.name: "L2" if s.name in kept else "L3" for s in self.storages}

    def _smallest_stage(self) -> int:
        """L2 bytes that staging needs when everything is in L3, with the smallest tiles."""
        levels = dict.fromkeys(self.bytes, "L3")
        distinct = {self._memo_key(step, levels): step for step in self.steps}.values()
        needed = max(min(self._smallest(n, levels)[1] for n in self._nests(step)) for step in distinct)
        return max(needed, min(32768, self.room["L2"] // 8))

    def _smallest(self, nests: Sequence[Nest], levels: dict[str, str]) -> tuple[int, int]:
        """L1 and L2 staging bytes of the smallest tiles of some nests that run one after the other."""
        choices = [self._search(nest, levels).smallest() for nest in nests]
        return max(c.l1_bytes for c in choices if c), max(c.stage_bytes for c in choices if c)

    def _search(self, nest: Nest, levels: dict[str, str]) -> NestSearch:
        homes = {o.name: self._home(o.value, levels) if o.loaded or o.stored else NOWHERE for o in nest.operands}
        whole = {o.name: self._size(o.value) for o in nest.operands}
        return NestSearch(nest, homes, whole, self.machine, self.options.largest.get(nest.call.name, {}))

    def _home(self, value: str, levels: Mapping[str, str]) -> str:
        """Level of a value; run-time arguments live in L1."""
        return levels.get(self.owner[value], "L1")

    def _resident(self, nest: Nest, levels: Mapping[str, str]) -> dict[str, str]:
        """The operands of a nest that live in L1, with their storages."""
        return {
            o.name: self.owner[o.value] for o in nest.operands if (o.loaded or o.stored) and self._home(o.value, levels) == "L1"
        }

    def _choose(
        self, step: Step, levels: dict[str, str], stage_room: int, l1: int
    ) -> tuple[tuple[Nest, ...], tuple[Choice, ...]]:
        found = self._best(step, levels, stage_room, l1)
        if found is None:
            self._infeasible(step, levels, stage_room)
            raise AssertionError("unreachable")
        way, choices = found
        return self._nests(step)[way], choices

    def _best(self, step: Step, levels: dict[str, str], stage_room: int, l1: int) -> tuple[int, tuple[Choice, ...]] | None:
        """The cheapest of the ways to run a step in so many bytes of L1, and its choices; None when none fits."""
        key = self._memo_key(step, levels)
        staged = any("L3" in homes for *_, homes, _ in key)
        room = Room(l1, stage_room if staged else 0, self.options.double_buffer, self.options.buffer_all)
        key = (*key, room)
        if key not in self.memo:
            found: list[tuple[int, tuple[Choice, ...]]] = []
            for way, nests in enumerate(self._nests(step)):
                if not all(suits_residents(nest, self._resident(nest, levels)) for nest in nests):
                    continue
                choices = [self._search(nest, levels).best(room) for nest in nests]
                if all(choices):
                    found.append((way, tuple(c for c in choices if c)))
            self.memo[key] = min(found, key=lambda one: sum(c.cycles.total for c in one[1])) if found else None
        return self.memo[key]

    def estimate(self, step: Step, levels: dict[str, str]) -> int | None:
        """Predicted cycles of a step with storages in these levels; None when it cannot be run."""
        found = self._best(step, levels, self.stage_room, self.l1_arena)
        return sum(c.cycles.total for c in found[1]) if found else None

    def _nests(self, step: Step) -> tuple[tuple[Nest, ...], ...]:
        if len(step) == 1:
            return nests_of(step[0], "portable" if step[0].name in self.options.variants else self.options.kernels)
        joint = joins(step, self.flow, self.options.kernels)
        return tuple((nest,) for nest in joint if len(nest.operands) <= MAX_OPERANDS and nest.steps <= MAX_PHASES)

    def _memo_key(self, step: Step, levels: Mapping[str, str]) -> tuple[Any, ...]:
        """Nodes of the same operators, attributes, shapes, levels and connections get the same tiles."""
        numbers: dict[str, int] = {}
        internal = self.flow.internal(step)
        key: list[Any] = []
        for call in step:
            invocation = call.invocation
            values = (*call.reads, *call.writes)
            tensors = [self.flow.tensor(value) for value in values]
            ties = tuple(numbers.setdefault(tensor, len(numbers)) for tensor in tensors)
            homes = tuple(
                NOWHERE if tensor in internal else self._home(value, levels)
                for value, tensor in zip(values, tensors, strict=True)
            )
            residents = tuple(
                numbers.setdefault(f"in L1: {self.owner[value]}", len(numbers)) if home == "L1" else -1
                for value, home in zip(values, homes, strict=True)
            )
            attributes = repr(sorted(invocation.attributes.items()))
            constants = repr(sorted((k, v.tolist()) for k, v in invocation.constants.items()))
            types = repr((invocation.inputs, invocation.outputs))
            forced = repr(sorted(self.options.largest.get(call.name, {}).items())), self.options.variants.get(call.name)
            key.append((invocation.operator.key, attributes, constants, types, forced, residents, homes, ties))
        return tuple(key)

    def _infeasible(self, step: Step, levels: dict[str, str], stage_room: int) -> None:
        """Explain which memory is too small for this node, and the smallest value that works for all nodes."""
        self._refuse_giant_block(step, levels)
        l1, stage = min(self._smallest(nests, levels) for nests in self._nests(step))
        every = [min(self._smallest(nests, levels) for nests in self._nests(s)) for s in self.steps]
        node, name = step_name(step), _with_types(step)
        fixed = self.capacity["L1"] - self.l1_arena
        if l1 > self.l1_arena:
            smallest = max(need for need, _ in every) + fixed
            raise InfeasibleError(
                f"{name} needs {l1} bytes of L1 for its smallest tile, {max(self.l1_arena, 0)} are available "
                f"({fixed} of {self.capacity['L1']} are stacks and runtime); use --l1 {smallest} or more.",
                node=node,
                level="L1",
                needed=l1,
                available=max(self.l1_arena, 0),
            )
        smallest = max(need for _, need in every) - stage_room + self.capacity["L2"]
        raise InfeasibleError(
            f"{name} needs {stage} bytes of L2 to stage its smallest tile, {stage_room} are available; "
            f"use --l2 {smallest} or more.",
            node=node,
            level="L2",
            needed=stage,
            available=stage_room,
        )

    def _refuse_giant_block(self, step: Step, levels: dict[str, str]) -> None:
        """No size of L1 helps an operand whose smallest tile is more than one DMA command moves."""
        limit = int(self.target.costs["dma.max_bytes"])
        smallest = [[self._search(nest, levels).smallest() for nest in nests] for nests in self._nests(step)]
        largest = min(max(c.largest_block for c in choices if c) for choices in smallest)
        if largest > limit:
            raise InfeasibleError(
                f"{_with_types(step)} has an operand whose smallest tile is {largest} bytes, one "
                f"DMA command moves {limit}; no --l1 helps: make that axis of the network smaller.",
                node=step_name(step),
                level="L1",
                needed=largest,
                available=limit,
            )

    def _no_room_for_code(self) -> None:
        """L2 does not even hold the code: say what does, staging of the smallest tiles included."""
        levels = dict.fromkeys(self.bytes, self.options.default_level if not self.options.promote else "L3")
        needed = max(min(self._smallest(n, levels)[1] for n in self._nests(step)) for step in self.steps)
        wanted = requests_of([s for s in self.storages if levels[s.name] == "L2"], self.target.levels["L2"].alignment)
        smallest = self.reserved["L2"] + max(needed, peak(wanted, pack(wanted)))
        raise InfeasibleError(
            f"L2 of {self.capacity['L2']} bytes does not even hold the code and constant tables of this network "
            f"({self.reserved['L2']} bytes); use --l2 {smallest} or more.",
            node="",
            level="L2",
            needed=smallest,
            available=self.capacity["L2"],
        )

    def _group(self, step: Step, nest: Nest, choice: Choice, levels: dict[str, str], l1: int, stage: int) -> Group:
        """A group with the tiles of ``choice``, which may be that of other nodes of the same shape."""
        search = self._search(nest, levels)
        blocks: list[BlockPlan] = []
        for operand in nest.operands:
            axes, how = choice.axes[operand.name], choice.stages[operand.name]
            sizes = search.block(operand, axes, how, choice.double_buffer)
            slots = tuple(l1 + i * sizes.bytes for i in range(sizes.slots))
            staged = tuple(stage + i * sizes.stage_bytes for i in range(sizes.stage_slots))
            l1 += sizes.bytes * sizes.slots
            stage += sizes.stage_bytes * sizes.stage_slots
            blocks.append(
                BlockPlan(
                    operand.uses, operand.value, operand.loaded, operand.stored, operand.item, tuple(axes),
                    sizes.bytes, slots, how, sizes.stage_bytes, staged,
                )
            )  # fmt: skip
        main = len(nest.before)
        bodies: list[BodyPlan] = []
        for node, call in enumerate(step):
            phase = flat_phase(call)
            if phase:
                variant = CONTINUED if node == nest.continued else ""
                bodies.append(BodyPlan(phase.name, None, variant, node=node, flat=flat_blocks(nest, node, call)))
            elif nest.kernel:
                bodies += [BodyPlan(nest.phases[0].name, None, name, team=True, node=main) for name in nest.kernel.steps]
            else:
                bodies += [replace(self._body(nest, phase, choice), node=main) for phase in nest.phases]
        return Group(
            step[0].entry, tuple(call.name for call in step), main, tuple(bodies), choice.tiling.loop_plans(),
            choice.order, tuple(blocks), choice.double_buffer, choice.cycles, l1 if nest.kernel else 0, choice.tiling.scratch,
        )  # fmt: skip

    def _body(self, nest: Nest, phase: Phase, choice: Choice) -> BodyPlan:
        loop, _ = core_loop(phase, nest, choice.tiling.tiles, self.cores)
        variants = nest.call.invocation.operator.variants
        axes = {use.operand: choice.axes[o.name] for o in nest.operands for use in o.uses if use.node == len(nest.before)}
        if not variants:
            return BodyPlan(phase.name, loop)
        wanted = self.options.variants.get(nest.call.name, "portable")
        dispatch = self.options.dispatch if wanted == "portable" else wanted
        if dispatch == "runtime":
            return BodyPlan(phase.name, loop, "runtime")
        for variant in [v for v in variants if v.name == dispatch] or variants:
            whole = [_whole(axes[operand][axis]) for operand, axis in variant.whole]
            if all(w == "always" for w in whole):
                return BodyPlan(phase.name, loop, variant.name)
            if not any(w == "never" for w in whole):
                break
        if wanted != "portable":
            message = f"--variant {nest.call.name}={wanted}: the tiles of this node do not all allow it; give it more --l1."
            raise BadInputError(message)
        return BodyPlan(phase.name, loop, "runtime")

    def _arguments(self) -> tuple[Placement, ...]:
        """Run-time arguments live in L1, right behind the runtime's state."""
        found: list[Placement] = []
        address, last = self.target.runtime_bytes, len(self.steps) - 1
        for name in self.program.arguments:
            found.append(Placement(name, "L1", address, self._size(name), CONTIGUOUS, 0, last, True, (name,)))
            address += self._aligned_l1(self._size(name))
        return tuple(found)


def _with_types(step: Step) -> str:
    """The nodes of a step with their operators, for messages."""
    return " + ".join(f"{call.name} ({call.invocation.operator.op_type})" for call in step)


def _whole(axis: AxisPlan) -> str:
    """Whether an axis is whole in the tiles: always, never or sometimes."""
    whole = [size == axis.extent for _, size in axis.regions]
    return "always" if all(whole) else "sometimes" if any(whole) else "never"


def make_plan(program: Program, target: Target, options: PlanOptions) -> Plan:
    """Plan a program for a target.

    Raises:
        InfeasibleError: some memory is too small; the message names node, level, bytes and the smallest change that helps.
        BadInputError: an option does not suit the target.
    """
    if options.cores is not None and not 1 <= options.cores <= target.cores:
        raise BadInputError(f"--cores {options.cores}: {target.name} has 1 to {target.cores} cores.")
    flow = Flow(program)
    alone = _Planner(flow, target, options, single_steps(program))
    if options.groups == "single" or options.variants or options.largest:  # the latter are of single nodes
        return alone.plan()
    return _joint_plan(alone)


def _joint_plan(alone: _Planner) -> Plan:
    """A plan whose nests compute several nodes each, where that is predicted to be faster than nests of one node."""
    plans = [alone.plan()]
    chosen = [alone.steps]
    on_chip = {name: "L2" if alone.options.promote else level for name, level in alone.levels.items()}
    for levels in (alone.levels, on_chip):  # as they are; and as they might be, with what joint nests do not keep
        steps = joined_steps(alone.flow, lambda step, levels=levels: alone.estimate(step, levels))
        if steps in chosen:
            continue
        chosen.append(steps)
        planner = _Planner(alone.flow, alone.target, alone.options, steps)
        planner.memo = alone.memo
        try:
            plans.append(planner.plan())
        except InfeasibleError:  # other levels left too little room for some nest
            continue
    return min(plans, key=lambda one: sum(map(one.cycles, one.entries)))
