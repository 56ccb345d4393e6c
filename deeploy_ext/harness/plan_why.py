"""Why a tensor lives where it lives, as a sentence: derived from the plan, whichever planner made it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from deeploy_ext.planning.plan import Group, Placement, Plan
from deeploy_ext.planning.target import Target
from deeploy_ext.planning.traffic import Use, uses_of

EXECUTION = {"step": "mini-batch", "update": "update", "infer": "inference"}
"""What one execution of an entry is to a user."""


def positions_of(groups: Sequence[Group]) -> tuple[int, ...]:
    """Schedule position of every nest: nests of one node, one after the other, share it."""
    at: dict[tuple[str, str], int] = {}
    return tuple(at.setdefault((group.entry, group.node), len(at)) for group in groups)


class Whys:
    """Explains the placements of one plan."""

    def __init__(self, plan: Plan, target: Target) -> None:
        self.plan = plan
        self._align = target.levels["L2"].align
        self._positions = positions_of(plan.groups)
        self._uses: dict[str, list[Use]] = {}
        for use in uses_of(plan):
            self._uses.setdefault(use.block.value, []).append(use)
        self._taken = self._taken_in_l2()

    def uses(self, placement: Placement) -> list[Use]:
        """What nests do with a placement's values, in execution order."""
        found = [use for value in placement.values for use in self._uses.get(value, ())]
        return sorted(found, key=lambda use: use.nest)

    def why(self, placement: Placement) -> str:
        """One sentence."""
        options, uses = self.plan.options, self.uses(placement)
        if placement.level == "L1":
            return "in L1: a run-time argument" if placement.persistent else "in L1: handed on without leaving it"
        if not options["promote"]:
            return f"in {placement.level}: the default level; --promote lets the planner choose"
        if placement.level == "L3":
            return f"in L3: {self._no_room(placement)}"
        saved = self._saved(uses)
        return f"in L2: promoted, saves at least {saved}" if saved else "in L2: promoted; no nest moves it"

    def _saved(self, uses: Iterable[Use]) -> str:
        found: dict[str, int] = {}
        for use in uses:
            found[use.group.entry] = found.get(use.group.entry, 0) + use.saved
        parts = [f"{size:,} bytes per {EXECUTION.get(entry, entry)}" for entry, size in found.items()]
        return f"{', '.join(parts)} between L3 and L2" if parts else ""

    def _no_room(self, placement: Placement) -> str:
        use, size = self.plan.memory["L2"], self._align(placement.bytes)
        at, taken = max(
            ((position, self._taken.get(position, 0)) for position in range(placement.first, placement.last + 1)),
            key=lambda pair: (pair[1], -pair[0]),
        )
        free = use.capacity - use.reserved - taken
        if size > free:
            return f"did not fit; at schedule position {at} tensors and staging leave {max(free, 0):,} bytes of L2"
        return f"the planner found no gap for it or no gain, though {free:,} bytes of L2 are free all the while"

    def _taken_in_l2(self) -> Mapping[int, int]:
        """Live bytes of L2 at every schedule position, staging buffers included."""
        staged: dict[int, int] = {}
        for group, position in zip(self.plan.groups, self._positions, strict=True):
            size = sum(block.stage_bytes * len(block.stage_slots) for block in group.blocks)
            staged[position] = max(staged.get(position, 0), size)
        for placement in self.plan.placements:
            if placement.level == "L2":
                for position in range(placement.first, placement.last + 1):
                    staged[position] = staged.get(position, 0) + self._align(placement.bytes)
        return staged
