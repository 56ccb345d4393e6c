"""A plan of given steps with given flags: levels first (promotion), then tiles of every step, then addresses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from deeploy_ext.errors import InfeasibleError
from deeploy_ext.planning.arrival import Span
from deeploy_ext.planning.candidates import units_of
from deeploy_ext.planning.code_size import code_bytes
from deeploy_ext.planning.cost import Transfers
from deeploy_ext.planning.decision import Run, Setting, decide
from deeploy_ext.planning.figures import memory_use, total_traffic, with_figures
from deeploy_ext.planning.groups import group_of
from deeploy_ext.planning.l1 import arrange
from deeploy_ext.planning.options import PlanOptions
from deeploy_ext.planning.placement import place, placed, promote
from deeploy_ext.planning.plan import CONTIGUOUS, Group, Placement, Plan
from deeploy_ext.planning.residency import Resident, choose_residents, live_at
from deeploy_ext.planning.search import Room
from deeploy_ext.planning.steps import Step, step_name
from deeploy_ext.planning.storage import storages_of
from deeploy_ext.planning.target import Target
from deeploy_ext.planning.ways import Best, Ways, homes_of


@dataclass(frozen=True)
class _Decided:
    """Levels and places of the storages; of every step how it runs and where in L2 it stages."""

    levels: dict[str, str]
    placements: tuple[Placement, ...]
    runs: Sequence[Run]
    stages: Sequence[int]


class _Homes(Mapping[str, str]):
    """Level of every value, from the storage that it has and the level of that; L1 where it has none."""

    def __init__(self, owner: Mapping[str, str], levels: Mapping[str, str]) -> None:
        self._owner, self._levels = owner, levels

    def __getitem__(self, value: str) -> str:
        return self._levels.get(self._owner[value], "L1")

    def __iter__(self) -> Iterator[str]:
        return iter(self._owner)

    def __len__(self) -> int:
        return len(self._owner)


class Draft:
    """Plans of one sequence of steps.

    Attributes:
        levels: of every storage, as the greedy planner has them.
        stage_room: bytes of L2 that it keeps for staging.
    """

    def __init__(self, ways: Ways, target: Target, options: PlanOptions, steps: tuple[Step, ...]) -> None:
        self.ways, self.target, self.options, self.steps = ways, target, options, steps
        self.program, self.machine = ways.flow.program, ways.machine
        self.owner, self.storages = storages_of(ways.flow, steps)
        self.capacity = {name: level.capacity for name, level in target.levels.items()}
        self.capacity["L1"] = options.l1 or self.capacity["L1"]
        self.capacity["L2"] = options.l2 or self.capacity["L2"]
        self.reserved = target.reserved(self.machine.cores, code_bytes(self.program, target, options.kernels))
        self.blocks_base = target.runtime_bytes + sum(self._aligned_l1(a) for a in self.program.arguments)
        self.l1_arena = self.capacity["L1"] - self.reserved["L1"] + target.runtime_bytes - self.blocks_base
        self.room = {name: self.capacity[name] - self.reserved[name] for name in self.capacity}

    @cached_property
    def levels(self) -> dict[str, str]:
        if not self.options.promote:
            return dict.fromkeys((s.name for s in self.storages), self.options.default_level)
        kept = promote(self.storages, self.room["L2"], self._smallest_stage(), self.target)
        return {s.name: "L2" if s.name in kept else "L3" for s in self.storages}

    @cached_property
    def _placements(self) -> tuple[Placement, ...]:
        return place(self.storages, self.levels, self.target, self.room)

    @cached_property
    def stage_room(self) -> int:
        return self.room["L2"] - self._end_of_l2(self._placements)

    def _aligned_l1(self, value: str) -> int:
        return self.target.levels["L1"].align(self.program.values[value].bytes)

    def greedy(self) -> list[Plan]:
        """Plans with the levels of the greedy planner, without and with tensors in L1.

        Raises:
            InfeasibleError: some memory is too small.
        """
        return self._finished(self._decided())

    def fits(self) -> bool:
        """Whether there is a plan; found as :meth:`greedy` does, but not finished."""
        try:
            self._decided()
        except InfeasibleError:
            return False
        return True

    def _decided(self) -> _Decided:
        if self.room["L2"] <= 0:
            self._no_room_for_code()
        return self._greedily(self.levels, self._placements)

    def joint(self, least: int | None = None) -> list[Plan]:
        """Plans with levels and tiles chosen together; none where there is nothing to choose, or nothing fits.

        ``least``: weighted cycles of the best plan so far; what is far from that is not finished.
        """
        if not self.options.promote or self.options.forced:
            return []
        if set(self.levels.values()) == {"L2"}:
            return []
        units = units_of(self.ways, self.steps, self.owner)
        setting = Setting(
            units, self.storages, self.ways, self.l1_arena, self.room, self.options.double_buffer,
            self.options.default_level, self.levels, self.stage_room, least,
        )  # fmt: skip
        found = decide(setting)
        if not found:
            return []
        decision, runs = found
        placements = placed(self.storages, decision.levels, decision.addresses)
        return self._finished(_Decided(dict(decision.levels), placements, runs, decision.stages))

    def _finished(self, decided: _Decided) -> list[Plan]:
        """The plan that decisions make; and the one with some storages moved into L1, if that is to be gained from."""
        plain = self._assembled(decided, {})
        residents = self._residents(decided.levels, plain) if self.options.promote else {}
        if not residents:
            return [plain]
        levels = decided.levels | dict.fromkeys(residents, "L1")
        try:
            elsewhere = place([s for s in self.storages if s.name not in residents], levels, self.target, self.room)
            moved = self._greedily(levels, elsewhere, residents)
        except InfeasibleError:  # what is left in L2 packs worse
            return [plain]
        return [plain, self._assembled(moved, residents)]

    def _greedily(
        self, levels: dict[str, str], placements: tuple[Placement, ...], residents: Mapping[str, Resident] | None = None
    ) -> _Decided:
        """The best tiles with the levels and places given; ``placements`` are of what is not in L1."""
        base = self._end_of_l2(placements)
        home = self.home(levels)
        runs: list[Run] = []
        for position, step in enumerate(self.steps):
            start = max((end for _, end in live_at(residents or {}, position)), default=self.blocks_base)
            best = self._best(step, home, self.room["L2"] - base, self.l1_arena - (start - self.blocks_base))
            if best is None:
                self._infeasible(step, home, self.room["L2"] - base)
                raise AssertionError("unreachable")
            way, choices = best
            runs.append((self.ways.nests(step)[way], choices))
        return _Decided(levels, placements, runs, [base] * len(runs))

    def _assembled(self, decided: _Decided, residents: Mapping[str, Resident]) -> Plan:
        """The plan that all decisions make, with slots that let data of the next nest arrive early."""
        groups: list[Group] = []
        taken: list[list[Span]] = []
        moved: list[tuple[str, Transfers]] = []
        home = self.home(decided.levels)
        for position, (step, (nests, choices)) in enumerate(zip(self.steps, decided.runs, strict=True)):
            live = live_at(residents, position)
            base = max((end for _, end in live), default=self.blocks_base)
            for nest, choice in zip(nests, choices, strict=True):
                search = self.ways.search(nest, homes_of(nest, home))
                groups.append(group_of(step, search, choice, self.options, base, decided.stages[position]))
                taken.append(live)
                moved.append((step[0].entry, choice.transfers))
        places = self._arguments() + self._with_residents(decided.placements, residents)
        if self.options.double_buffer:
            homes = {value: placement for placement in places for value in placement.values}
            groups = [*arrange(groups, homes, (self.blocks_base, self.blocks_base + self.l1_arena), taken, self.target)]
        memory = memory_use(places, groups, self.capacity, self.reserved, self.target)
        entries = self.program.entries
        traffic = total_traffic(entries, moved)
        plan = Plan(self.target.name, self._options(), entries, tuple(groups), places, (), memory, traffic)
        return with_figures(plan, self.program, self.target, {}) if self.options.double_buffer else plan

    def _with_residents(self, placements: Sequence[Placement], residents: Mapping[str, Resident]) -> tuple[Placement, ...]:
        """Placements of all storages, in their order."""
        found = {p.storage: p for p in placements}
        for s in self.storages:
            if s.name in residents:
                at = residents[s.name].begin
                found[s.name] = Placement(s.name, "L1", at, s.bytes, CONTIGUOUS, s.first, s.last, s.persistent, s.values)
        return tuple(found[s.name] for s in self.storages)

    def _residents(self, levels: dict[str, str], plain: Plan) -> dict[str, Resident]:
        """Storages that had better live in L1, beside the plan without any."""
        stage_room = self.room["L2"] - self._end_of_l2(plain.placements)

        def cost(position: int, residents: Mapping[str, Resident]) -> float | None:
            base = max((end for _, end in live_at(residents, position)), default=self.blocks_base)
            home = self.home(levels | dict.fromkeys(residents, "L1"))
            found = self._best(self.steps[position], home, stage_room, self.l1_arena - (base - self.blocks_base))
            return sum(c.cycles.total for c in found[1]) if found else None

        entry_of = [step[0].entry for step in self.steps]
        arena = self.blocks_base, self.blocks_base + self.l1_arena
        return choose_residents(self.storages, entry_of, arena, self.target.levels["L1"].alignment, cost)

    def _options(self) -> dict[str, Any]:
        o = self.options
        return {
            "promote": o.promote, "double_buffer": o.double_buffer, "l1": self.capacity["L1"], "l2": self.capacity["L2"],
            "default_level": o.default_level, "cores": self.machine.cores, "dispatch": o.dispatch,
            "kernels": o.kernels, "planner": o.planner, "groups": o.groups,
        }  # fmt: skip

    def home(self, levels: Mapping[str, str]) -> Mapping[str, str]:
        """Level of every value; run-time arguments live in L1, and so does, in its tile, what has no storage."""
        return _Homes(self.owner, levels)

    def _end_of_l2(self, placements: Sequence[Placement]) -> int:
        level = self.target.levels["L2"]
        return max((p.address + level.align(p.bytes) for p in placements if p.level == "L2"), default=0)

    def feasible(self) -> bool:
        """Whether all storages, packed greedily, and the smallest tile of every step fit; quicker than to plan."""
        if self.room["L2"] <= 0:
            return False
        try:
            placed_greedily = place(self.storages, self.levels, self.target, self.room, exact=False)
        except InfeasibleError:
            return False
        room, home = self.room["L2"] - self._end_of_l2(placed_greedily), self.home(self.levels)
        return all(
            any(l1 <= self.l1_arena and stage <= room for l1, stage in self.ways.smallest(step, home))
            for step in self._distinct(home)
        )

    def _distinct(self, home: Mapping[str, str]) -> list[Step]:
        """One step of each kind and homes."""
        return list({(self.ways.kind(step), self.ways.homes(step, home)): step for step in self.steps}.values())

    def _smallest_stage(self) -> int:
        """L2 bytes that staging needs when everything is in L3, with the smallest tiles."""
        home = self.home(dict.fromkeys((s.name for s in self.storages), "L3"))
        needed = max(min(stage for _, stage in self.ways.smallest(step, home)) for step in self._distinct(home))
        return max(needed, min(32768, self.room["L2"] // 8))

    def _best(self, step: Step, home: Mapping[str, str], stage_room: int, l1: int) -> Best | None:
        room = Room(l1, stage_room, self.options.double_buffer, self.options.buffer_all)
        return self.ways.best(step, home, self.owner, room)

    def estimate(self, step: Step, home: Mapping[str, str]) -> int | None:
        """Predicted cycles of a step with values in these levels; None when it cannot be run."""
        found = self._best(step, home, self.stage_room, self.l1_arena)
        return sum(c.cycles.total for c in found[1]) if found else None

    def _infeasible(self, step: Step, home: Mapping[str, str], stage_room: int) -> None:
        """Explain which memory is too small for this step."""
        self._refuse_giant_block(step, home)
        l1, stage = min(self.ways.smallest(step, home))
        node, name = step_name(step), _with_types(step)
        fixed = self.capacity["L1"] - self.l1_arena
        if l1 > self.l1_arena:
            raise InfeasibleError(
                f"{name} needs {l1} bytes of L1 for its smallest tile, {max(self.l1_arena, 0)} are available "
                f"({fixed} of {self.capacity['L1']} are stacks and runtime)",
                node=node,
                level="L1",
                needed=l1,
                available=max(self.l1_arena, 0),
            )
        raise InfeasibleError(
            f"{name} needs {stage} bytes of L2 to stage its smallest tile, {stage_room} are available",
            node=node,
            level="L2",
            needed=stage,
            available=stage_room,
        )

    def _refuse_giant_block(self, step: Step, home: Mapping[str, str]) -> None:
        """No size of L1 helps an operand whose smallest tile is more than one DMA command moves."""
        limit = int(self.target.costs["dma.max_bytes"])
        smallest = [
            [self.ways.search(nest, homes_of(nest, home)).smallest() for nest in nests] for nests in self.ways.nests(step)
        ]
        largest = min(max(c.largest_block for c in choices if c) for choices in smallest)
        if largest > limit:
            raise InfeasibleError(
                f"{_with_types(step)} has an operand whose smallest tile is {largest} bytes, one "
                f"DMA command moves {limit}; no --l1 helps: make that axis of the network smaller.",
                node=step_name(step),
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

    def _arguments(self) -> tuple[Placement, ...]:
        """Run-time arguments live in L1, right behind the runtime's state."""
        found: list[Placement] = []
        address, last = self.target.runtime_bytes, len(self.steps) - 1
        for name in self.program.arguments:
            size = self.program.values[name].bytes
            found.append(Placement(name, "L1", address, size, CONTIGUOUS, 0, last, True, (name,)))
            address += self._aligned_l1(name)
        return tuple(found)


def _with_types(step: Step) -> str:
    """The nodes of a step with their operators, for messages."""
    return " + ".join(f"{call.name} ({call.invocation.operator.op_type})" for call in step)
