"""Why a tensor lives where it lives, as a sentence: derived from the plan, whichever planner made it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from deeploy_ext.planning.figures import staged_bytes
from deeploy_ext.planning.plan import Placement, Plan
from deeploy_ext.planning.target import Target
from deeploy_ext.planning.traffic import BlockTraffic, uses_of

EXECUTION = {"step": "mini-batch", "update": "update", "infer": "inference"}
"""What one execution of an entry is to a user."""


class Whys:
    """Explains the placements of one plan."""

    def __init__(self, plan: Plan, target: Target) -> None:
        self.plan = plan
        self._align = target.levels["L2"].align
        self._uses: dict[str, list[BlockTraffic]] = {}
        for use in uses_of(plan):
            self._uses.setdefault(use.block.value, []).append(use)
        self._taken = self._taken_in_l2()

    def uses(self, placement: Placement) -> list[BlockTraffic]:
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

    def _saved(self, uses: Iterable[BlockTraffic]) -> str:
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
        taken = staged_bytes(self.plan.groups)
        for placement in self.plan.placements:
            if placement.level == "L2":
                for position in range(placement.first, placement.last + 1):
                    taken[position] = taken.get(position, 0) + self._align(placement.bytes)
        return taken
