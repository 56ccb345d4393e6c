"""The greedy planner: levels first (promotion), then tiles of every node, then addresses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from deeploy_ext.errors import BadInputError, InfeasibleError
from deeploy_ext.graph.program import Call, Program
from deeploy_ext.operators.spec import Phase
from deeploy_ext.planning.arrival import Span
from deeploy_ext.planning.candidates import kind_of, units_of
from deeploy_ext.planning.code_size import code_bytes
from deeploy_ext.planning.cost import Machine, Transfers, core_loop
from deeploy_ext.planning.decision import Setting, decide
from deeploy_ext.planning.figures import memory_use, total_traffic, with_figures
from deeploy_ext.planning.l1 import arrange
from deeploy_ext.planning.nest import Nest, Operand, make_nest, nests_of
from deeploy_ext.planning.options import PlanOptions
from deeploy_ext.planning.placement import place, placed, promote
from deeploy_ext.planning.plan import CONTIGUOUS, AxisPlan, BlockPlan, BodyPlan, Group, Placement, Plan
from deeploy_ext.planning.remedy import explained, remedies
from deeploy_ext.planning.residency import Resident, choose_residents, live_at
from deeploy_ext.planning.search import Choice, NestSearch, Room
from deeploy_ext.planning.storage import storages_of
from deeploy_ext.planning.target import Target

_Decided = tuple[Mapping[str, str], Sequence[Placement], Sequence[tuple[Choice, ...]], Sequence[int]]
"""Levels and places of the storages; of every node its nests and where in L2 it stages."""


class _Planner:
    """State of one planning run."""

    def __init__(self, program: Program, target: Target, options: PlanOptions) -> None:
        self.program, self.target, self.options = program, target, options
        self.cores = options.cores or target.cores
        self.machine = Machine(target, self.cores)
        self.owner, self.storages = storages_of(program)
        self.bytes = {s.name: s.bytes for s in self.storages}
        self.capacity = {name: level.capacity for name, level in target.levels.items()}
        self.capacity["L1"] = options.l1 or self.capacity["L1"]
        self.capacity["L2"] = options.l2 or self.capacity["L2"]
        self.reserved = target.reserved(self.cores, code_bytes(program, target, options.kernels))
        self.blocks_base = target.runtime_bytes + sum(self._aligned_l1(self._size(a)) for a in program.arguments)
        self.l1_arena = self.capacity["L1"] - self.reserved["L1"] + target.runtime_bytes - self.blocks_base
        self.room = {name: self.capacity[name] - self.reserved[name] for name in self.capacity}
        self.memo: dict[Any, tuple[Choice, ...] | None] = {}

    def _size(self, value: str) -> int:
        return self.program.values[value].bytes

    def _aligned_l1(self, size: int) -> int:
        return self.target.levels["L1"].align(size)

    def plan(self) -> Plan:
        if self.room["L2"] <= 0:
            self._no_room_for_code()
        levels, placements, choices, stages = self._decided()
        plain = self._assembled(levels, tuple(placements), choices, stages, {})
        residents = self._residents(dict(levels), plain) if self.options.promote else {}
        if not residents:
            return plain
        try:
            resident = self._plan_with({**levels, **dict.fromkeys(residents, "L1")}, residents)
        except InfeasibleError:  # what is left in L2 packs worse
            return plain
        return min(plain, resident, key=lambda made: sum(made.cycles(entry) for entry in made.entries))

    def _plan_with(self, levels: dict[str, str], residents: Mapping[str, Resident]) -> Plan:
        """The plan with these levels, and these storages in L1."""
        found = place([s for s in self.storages if s.name not in residents], levels, self.target, self.room)
        base = self._end_of_l2(found)
        choices: list[tuple[Choice, ...]] = []
        for position, call in enumerate(self.program.calls):
            start = max((end for _, end in live_at(residents, position)), default=self.blocks_base)
            l1 = self.l1_arena - (start - self.blocks_base)
            choices.append(self._choose(call, levels, self.room["L2"] - base, l1))
        return self._assembled(levels, self._with_residents(found, residents), choices, [base] * len(choices), residents)

    def _assembled(
        self,
        levels: Mapping[str, str],
        placements: tuple[Placement, ...],
        choices: Sequence[tuple[Choice, ...]],
        stages: Sequence[int],
        residents: Mapping[str, Resident],
    ) -> Plan:
        """The plan that all decisions make, with slots that let data of the next nest arrive early."""
        groups: list[Group] = []
        taken: list[list[Span]] = []
        moved: list[tuple[str, Transfers]] = []
        for position, call in enumerate(self.program.calls):
            live = live_at(residents, position)
            base = max((end for _, end in live), default=self.blocks_base)
            for choice in choices[position]:
                groups.append(self._group(call, choice, levels, base, stages[position]))
                taken.append(live)
                moved.append((call.entry, choice.transfers))
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
            call = self.program.calls[position]
            found = self._find(call, levels | dict.fromkeys(residents, "L1"), stage_room, l1)
            return sum(c.cycles.total for c in found) if found else None

        entry_of = [call.entry for call in self.program.calls]
        arena = self.blocks_base, self.blocks_base + self.l1_arena
        return choose_residents(self.storages, entry_of, arena, self.target.levels["L1"].alignment, cost)

    def _options(self) -> dict[str, Any]:
        o = self.options
        return {
            "promote": o.promote, "double_buffer": o.double_buffer, "l1": self.capacity["L1"], "l2": self.capacity["L2"],
            "default_level": o.default_level, "cores": self.cores, "dispatch": o.dispatch,
            "kernels": o.kernels, "planner": o.planner,
        }  # fmt: skip

    def _decided(self) -> _Decided:
        """Everything but the groups themselves, by the planner that the options name."""
        levels = self._levels()
        if self.options.promote and self.options.planner == "joint":
            found = decide(self._setting(levels))
            if found:
                decision, choices = found
                return decision.levels, placed(self.storages, decision.levels, decision.addresses), choices, decision.stages
        placements = place(self.storages, levels, self.target, self.room)
        base = self._end_of_l2(placements)
        choices = [self._choose(call, levels, self.room["L2"] - base, self.l1_arena) for call in self.program.calls]
        return levels, placements, choices, [base] * len(choices)

    def _setting(self, greedy: dict[str, str]) -> Setting:
        units = units_of(self.program, self.owner, self.options.kernels)
        stage = self.room["L2"] - self._end_of_l2(place(self.storages, greedy, self.target, self.room))
        return Setting(
            units, self.storages, self.machine, self.l1_arena, self.room, self.options.double_buffer,
            self.options.default_level, greedy, stage,
        )  # fmt: skip

    def _end_of_l2(self, placements: Sequence[Placement]) -> int:
        level = self.target.levels["L2"]
        return max((p.address + level.align(p.bytes) for p in placements if p.level == "L2"), default=0)

    def feasible(self) -> bool:
        """Whether all storages and the smallest tile of every node fit; quicker than to plan."""
        if self.room["L2"] <= 0:
            return False
        levels = self._levels()
        try:
            room = self.room["L2"] - self._end_of_l2(place(self.storages, levels, self.target, self.room))
        except InfeasibleError:
            return False
        for call in self._distinct(levels):
            needs = [self._smallest(nests, levels) for nests in self._nests(call)]
            if not any(l1 <= self.l1_arena and stage <= room for l1, stage in needs):
                return False
        return True

    def _distinct(self, levels: dict[str, str]) -> list[Call]:
        """One call of each kind and homes."""
        return list({self._memo_key(call, levels): call for call in self.program.calls}.values())

    def _levels(self) -> dict[str, str]:
        if not self.options.promote:
            return dict.fromkeys((s.name for s in self.storages), self.options.default_level)
        kept = promote(self.storages, self.room["L2"], self._smallest_stage(), self.target)
        return {s.name: "L2" if s.name in kept else "L3" for s in self.storages}

    def _smallest_stage(self) -> int:
        """L2 bytes that staging needs when everything is in L3, with the smallest tiles."""
        levels = dict.fromkeys(self.bytes, "L3")
        needed = max(min(self._smallest(n, levels)[1] for n in self._nests(call)) for call in self._distinct(levels))
        return max(needed, min(32768, self.room["L2"] // 8))

    def _smallest(self, nests: Sequence[Nest], levels: dict[str, str]) -> tuple[int, int]:
        """L1 and L2 staging bytes of the smallest tiles of some nests that run one after the other."""
        choices = [self._search(nest, levels).smallest() for nest in nests]
        return max(c.l1_bytes for c in choices if c), max(c.stage_bytes for c in choices if c)

    def _search(self, nest: Nest, levels: Mapping[str, str], like: NestSearch | None = None) -> NestSearch:
        owners = {o.name: self.owner[o.value] for o in nest.operands}
        homes = {name: levels.get(owner, "L1") for name, owner in owners.items()}
        return NestSearch(nest, homes, {o.name: self._size(o.value) for o in nest.operands}, self.machine, like)

    def _find(self, call: Call, levels: dict[str, str], stage_room: int, l1: int) -> tuple[Choice, ...] | None:
        """The cheapest way to run a node in so many bytes of L1; None when there is none."""
        key = self._memo_key(call, levels), stage_room, l1
        if key not in self.memo:
            found: list[tuple[Choice, ...]] = []
            for nests in self._nests(call):
                choices = [self._best(nest, levels, stage_room, l1) for nest in nests]
                if all(choices):
                    found.append(tuple(c for c in choices if c))
            self.memo[key] = min(found, key=lambda cs: sum(c.cycles.total for c in cs)) if found else None
        return self.memo[key]

    def _choose(self, call: Call, levels: dict[str, str], stage_room: int, l1: int) -> tuple[Choice, ...]:
        best = self._find(call, levels, stage_room, l1)
        if best is None:
            self._infeasible(call, levels, stage_room)
            raise AssertionError("unreachable")
        return best

    def _best(self, nest: Nest, levels: dict[str, str], stage_room: int, l1: int) -> Choice | None:
        """The cheapest choice found; without promotion, none is lost to double buffering that is found without."""
        allowed = sorted({self.options.double_buffer, self.options.double_buffer and self.options.promote})
        first = self._search(nest, levels)
        found = [self._search(nest, levels, first).best(Room(l1, stage_room, double)) for double in allowed]
        return min((c for c in found if c), key=lambda c: c.cycles.total, default=None)

    def _nests(self, call: Call) -> tuple[tuple[Nest, ...], ...]:
        return nests_of(call, self.options.kernels)

    def _memo_key(self, call: Call, levels: dict[str, str]) -> Any:
        """Nodes of the same operator, attributes, shapes and levels get the same tiles."""
        return kind_of(call), tuple(levels.get(self.owner[v], "L1") for v in (*call.reads, *call.writes))

    def _infeasible(self, call: Call, levels: dict[str, str], stage_room: int) -> None:
        """Explain which memory is too small for this node."""
        self._refuse_giant_block(call, levels)
        l1, stage = min(self._smallest(nests, levels) for nests in self._nests(call))
        name = f"{call.name} ({call.invocation.operator.op_type})"
        fixed = self.capacity["L1"] - self.l1_arena
        if l1 > self.l1_arena:
            raise InfeasibleError(
                f"{name} needs {l1} bytes of L1 for its smallest tile, {max(self.l1_arena, 0)} are available "
                f"({fixed} of {self.capacity['L1']} are stacks and runtime)",
                node=call.name,
                level="L1",
                needed=l1,
                available=max(self.l1_arena, 0),
            )
        raise InfeasibleError(
            f"{name} needs {stage} bytes of L2 to stage its smallest tile, {stage_room} are available",
            node=call.name,
            level="L2",
            needed=stage,
            available=stage_room,
        )

    def _refuse_giant_block(self, call: Call, levels: dict[str, str]) -> None:
        """No size of L1 helps an operand whose smallest tile is more than one DMA command moves."""
        limit = int(self.target.costs["dma.max_bytes"])
        smallest = [[self._search(nest, levels).smallest() for nest in nests] for nests in self._nests(call)]
        largest = min(max(c.largest_block for c in choices if c) for choices in smallest)
        if largest > limit:
            raise InfeasibleError(
                f"{call.name} ({call.invocation.operator.op_type}) has an operand whose smallest tile is {largest} bytes, one "
                f"DMA command moves {limit}; no --l1 helps: make that axis of the network smaller.",
                node=call.name,
                level="L1",
                needed=largest,
                available=limit,
                can_change=False,
            )

    def _no_room_for_code(self) -> None:
        """L2 does not even hold the code."""
        raise InfeasibleError(
            f"L2 of {self.capacity['L2']} bytes does not even hold the code and constant tables of this network "
            f"({self.reserved['L2']} bytes)",
            node="",
            level="L2",
            needed=self.reserved["L2"] + 1,
            available=self.capacity["L2"],
        )

    def _group(self, call: Call, choice: Choice, levels: Mapping[str, str], l1: int, stage: int) -> Group:
        nest = choice.tiling.nest
        search = self._search(replace(nest, operands=_operands_of(call, nest)), levels)
        blocks: list[BlockPlan] = []
        own = {o.name: o for o in _operands_of(call, nest)}
        for operand in nest.operands:
            axes, how = choice.axes[operand.name], choice.stages[operand.name]
            sizes = search.block(operand, axes, how, choice.double_buffer)
            slots = tuple(l1 + i * sizes.bytes for i in range(sizes.slots))
            staged = tuple(stage + i * sizes.stage_bytes for i in range(sizes.stage_slots))
            l1 += sizes.bytes * sizes.slots
            stage += sizes.stage_bytes * sizes.stage_slots
            blocks.append(
                BlockPlan(
                    operand.name, own[operand.name].value, operand.loaded, operand.stored, operand.item, tuple(axes),
                    sizes.bytes, slots, how, sizes.stage_bytes, staged,
                )
            )  # fmt: skip
        if nest.kernel:
            bodies = tuple(BodyPlan(nest.phases[0].name, None, step, team=True) for step in nest.kernel.steps)
        else:
            bodies = tuple(self._body(call, phase, choice) for phase in nest.phases)
        return Group(
            call.entry, call.name, bodies, choice.tiling.loop_plans(), choice.order, tuple(blocks), choice.double_buffer,
            choice.cycles, l1 if nest.kernel else 0, choice.tiling.scratch,
        )  # fmt: skip

    def _body(self, call: Call, phase: Phase, choice: Choice) -> BodyPlan:
        loop, _ = core_loop(phase, choice.tiling.nest, choice.tiling.tiles, self.cores)
        variants = call.invocation.operator.variants
        if not variants:
            return BodyPlan(phase.name, loop)
        if self.options.dispatch == "runtime":
            return BodyPlan(phase.name, loop, "runtime")
        for variant in [v for v in variants if v.name == self.options.dispatch] or variants:
            whole = [_whole(choice.axes[operand][axis]) for operand, axis in variant.whole]
            if all(w == "always" for w in whole):
                return BodyPlan(phase.name, loop, variant.name)
            if not any(w == "never" for w in whole):
                break
        return BodyPlan(phase.name, loop, "runtime")

    def _arguments(self) -> tuple[Placement, ...]:
        """Run-time arguments live in L1, right behind the runtime's state."""
        found: list[Placement] = []
        address, last = self.target.runtime_bytes, len(self.program.calls) - 1
        for name in self.program.arguments:
            found.append(Placement(name, "L1", address, self._size(name), CONTIGUOUS, 0, last, True, (name,)))
            address += self._aligned_l1(self._size(name))
        return tuple(found)


def _operands_of(call: Call, nest: Nest) -> tuple[Operand, ...]:
    """Operands of the same phases, but of this call: choices are shared between nodes of the same shape."""
    return make_nest(call, nest.phases).operands


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
    try:
        return _Planner(program, target, options).plan()
    except InfeasibleError as error:
        if not error.can_change:
            raise
        raise explained(error, _remedies(program, target, options)) from error


def is_feasible(program: Program, target: Target, options: PlanOptions) -> bool:
    """Whether there is a plan, by its smallest tiles."""
    return _Planner(program, target, options).feasible()


def _remedies(program: Program, target: Target, options: PlanOptions) -> list[str]:
    def fits(changed: PlanOptions) -> bool:
        try:
            _Planner(program, target, replace(changed, planner="greedy")).plan()
        except InfeasibleError:
            return False
        return True

    return remedies(options, target, lambda changed: is_feasible(program, target, changed), fits)
