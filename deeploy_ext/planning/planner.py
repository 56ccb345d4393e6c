"""The planner: of all the plans that it drafts, the one that is predicted to be fastest.

Flags allow, they do not force: with ``--promote`` or ``--db`` the plan without is drafted too, and kept where it is faster.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import product

from deeploy_ext.errors import BadInputError, InfeasibleError
from deeploy_ext.graph.program import Program
from deeploy_ext.planning.cost import Machine
from deeploy_ext.planning.draft import Draft
from deeploy_ext.planning.fusion import joined_steps
from deeploy_ext.planning.model import weighted_cycles
from deeploy_ext.planning.options import PlanOptions
from deeploy_ext.planning.plan import Plan
from deeploy_ext.planning.remedy import explained, remedies
from deeploy_ext.planning.schedule import scheduled_steps
from deeploy_ext.planning.steps import Flow, single_steps
from deeploy_ext.planning.target import Target
from deeploy_ext.planning.ways import Ways

FAR = 1.25
"""How much slower a plan with fewer flags may be than another before steps are joined for it as well."""


def make_plan(program: Program, target: Target, options: PlanOptions) -> Plan:
    """Plan a program for a target.

    Raises:
        InfeasibleError: some memory is too small; the message names node, level, bytes and the smallest change that helps.
        BadInputError: an option does not suit the target.
    """
    if options.cores is not None and not 1 <= options.cores <= target.cores:
        raise BadInputError(f"--cores {options.cores}: {target.name} has 1 to {target.cores} cores.")
    planner = _Planner(program, target, options)
    try:
        return planner.plan()
    except InfeasibleError as error:
        if not error.can_change:
            raise
        changes = remedies(options, target, lambda o: planner.alone(o).feasible(), lambda o: planner.alone(o).fits())
        raise explained(error, changes) from error


def is_feasible(program: Program, target: Target, options: PlanOptions) -> bool:
    """Whether there is a plan, by its smallest tiles."""
    return _Planner(program, target, options).alone(options).feasible()


class _Planner:
    """What the drafts of one plan have in common."""

    def __init__(self, program: Program, target: Target, options: PlanOptions) -> None:
        self.flow, self.target, self.options = Flow(program), target, options
        self.ways = Ways(self.flow, Machine(target, options.cores or target.cores), options)

    def alone(self, options: PlanOptions) -> Draft:
        """A draft whose steps are one node each."""
        return Draft(self.ways, self.target, options, single_steps(self.flow.program))

    def plan(self) -> Plan:
        """The fastest plan.

        Raises:
            InfeasibleError: some memory is too small for the plan that the options ask for, and for those without them.
        """
        found: list[Plan] = []
        failed: InfeasibleError | None = None
        for options in self._allowed():
            try:
                found += self._plans(options, _least(found) if found else None)
            except InfeasibleError as error:
                failed = failed or error
        if not found:
            assert failed
            raise failed
        best = min(found, key=weighted_cycles)
        asked = {"promote": self.options.promote, "double_buffer": self.options.double_buffer}
        return replace(best, options=best.options | asked)

    def _allowed(self) -> list[PlanOptions]:
        """What the options ask for, and all that is less."""
        if self.options.forced:
            return [self.options]
        flags = [sorted({False, given}, reverse=True) for given in (self.options.promote, self.options.double_buffer)]
        return [replace(self.options, promote=promote, double_buffer=double) for promote, double in product(*flags)]

    def _plans(self, options: PlanOptions, least: int | None) -> list[Plan]:
        """The plans with some flags: of steps of one node, and of those that are predicted to gain from running together.

        ``least``: weighted cycles of the best plan so far; nothing is made of steps of one node that are far from that.
        """
        alone = self.alone(options)
        drafts = [(alone, alone.greedy())]
        if least is not None and _least(drafts[0][1]) > FAR * least:
            return drafts[0][1]
        single = options.groups == "single" or options.variants or options.largest  # the latter are of single nodes
        on_chip = {name: "L2" if options.promote else level for name, level in alone.levels.items()}
        for levels in () if single else (alone.levels, on_chip):  # as they are; as they might be, with what joint nests save
            draft = self._joined(alone, levels)
            if draft.steps not in [other.steps for other, _ in drafts]:
                try:
                    drafts.append((draft, draft.greedy()))
                except InfeasibleError:  # other levels left too little room for some nest
                    continue
        joint: list[Plan] = []
        for draft, made in reversed(drafts):  # what is joined most first: often enough, no other starts from as little
            if options.planner == "joint" and (not joint or _least(made) < _least(joint)):
                joint += draft.joint(_least(joint) if joint else None)
        if joint and not single:
            chosen = {p.storage: p.level for p in min(joint, key=weighted_cycles).placements}
            again = {name: "L3" if chosen.get(name) == "L3" else "L2" for name in alone.levels}
            joint += self._joined(alone, again).joint(_least(joint))
        return [*joint, *(plan for _, made in drafts for plan in made)]

    def _joined(self, alone: Draft, levels: Mapping[str, str]) -> Draft:
        """A draft whose steps are joined as it is best with these levels."""
        home = alone.home(levels)
        steps = joined_steps(self.flow, lambda step: alone.estimate(step, home))
        return Draft(self.ways, self.target, alone.options, scheduled_steps(self.flow, steps))


def _least(plans: Iterable[Plan]) -> int:
    return min(map(weighted_cycles, plans))
