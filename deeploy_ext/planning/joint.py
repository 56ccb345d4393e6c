"""Nests of several nodes: one node, the *main* one, with element-wise ones before and behind it.

An element-wise node touches all its operands at one index, so it can be seen over any index space of as many elements: it takes
the view and index relations that the tensor between it and its neighbour has there. Regions, transfers and costs then follow
as for any nest; the tensor between them needs no memory but its tile.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from deeploy_ext.graph.program import Call
from deeploy_ext.operators.relations import Affine
from deeploy_ext.operators.spec import Access, Loop, Phase, TeamKernel
from deeploy_ext.planning.nest import Flat, Nest, Operand, kernels_of, loops_of, make_nest
from deeploy_ext.planning.plan import MAX_FLAT, Use
from deeploy_ext.planning.steps import Flow, Step


@dataclass(frozen=True)
class _Relation:
    """How a nest touches a tensor: the view, and the index of every element."""

    view: tuple[int, ...]
    index: tuple[Affine | None, ...]

    @property
    def loops(self) -> set[str]:
        return {name for index in self.index if index is not None for name in index.loops}

    def is_partition(self, loops: Sequence[Loop]) -> bool:
        """Whether every element lies in exactly one tile of the loops that the relation names."""
        extents = {loop.name: loop.extent for loop in loops}
        names = [name for index in self.index if index is not None for name in index.loops]
        if None in self.index or len(names) != len(set(names)):
            return False
        axes = zip(self.view, (index or Affine() for index in self.index), strict=True)
        return all(
            (index.offset, index.divisor) == (0, 1)
            and ([c for _, c in index.terms] == [1] and extents[index.loops[0]] == extent if index.terms else extent == 1)
            for extent, index in axes
        )


def flat_phase(call: Call) -> Phase | None:
    """The one phase of an element-wise node: all operands but scalars at the same flat index. None: it is none."""
    phases = call.invocation.operator.phases(call.invocation)
    if len(phases) != 1 or len(phases[0].loops) != 1 or phases[0].loops[0].kind != "parallel":
        return None
    if len(operands_of(phases[0])) > MAX_FLAT:
        return None
    loop = phases[0].loops[0]
    along = (Affine(((loop.name, 1),)),)
    for access in phases[0].reads:
        if not (_view(call, access) == (loop.extent,) and access.index == along) and not _is_scalar(call, access):
            return None
    written = all(_view(call, access) == (loop.extent,) and access.index == along for access in phases[0].writes)
    return phases[0] if written else None


def operands_of(phase: Phase) -> tuple[str, ...]:
    """The operands that a phase touches, what it writes first."""
    return tuple(dict.fromkeys(access.operand for access in (*phase.writes, *phase.reads)))


def _view(call: Call, access: Access) -> tuple[int, ...]:
    return access.view or call.invocation[access.operand].shape or (1,)


def _is_scalar(call: Call, access: Access) -> bool:
    return math.prod(_view(call, access)) == 1 and not loops_of(access)


def joins(step: Step, flow: Flow, kernels: str = "fast") -> tuple[Nest, ...]:
    """The nests that compute all nodes of a step, one for each kernel of the main one that ``kernels`` allows; (): none does.

    The nodes are in an order in which they may run.
    """
    main = _main(step)
    choices = kernels_of(step[main], kernels) if main is not None else ()
    return tuple(nest for kernel in choices or (None,) if (nest := join(step, flow, kernel)))


def join(step: Step, flow: Flow, kernel: TeamKernel | None = None) -> Nest | None:
    """As :func:`joins`, with one kernel of the main node, or with its portable bodies."""
    main = _main(step)
    return None if main is None else _Joint(step, main, flow, kernel).nest()


def _main(step: Step) -> int | None:
    """The one node that is not element-wise, or the first if all are; None if there are several."""
    mains = [place for place, call in enumerate(step) if flat_phase(call) is None] or [0]
    return mains[0] if len(mains) == 1 else None


class _Joint:
    """A nest in the making."""

    def __init__(self, step: Step, main: int, flow: Flow, kernel: TeamKernel | None) -> None:
        self.step, self.main, self.flow = step, main, flow
        call = step[main]
        self.core = make_nest(call, call.invocation.operator.phases(call.invocation), kernel)
        self.internal = flow.internal(step)
        self.phases: list[tuple[Phase, ...]] = [()] * len(step)
        self.phases[main] = self.core.phases
        self.relations: dict[str, _Relation] = {}
        self.whole: set[str] = set()  # loops that must not be split

    def nest(self) -> Nest | None:
        self._main_relations()
        for place in (*range(self.main - 1, -1, -1), *range(self.main + 1, len(self.step))):
            if not self._attach(place):
                return None
        operands = self._operands()
        if operands is None:
            return None
        names = [loop.name for loop in self.core.loops]
        splittable = tuple(ok and n not in self.whole for ok, n in zip(self.core.splittable, names, strict=True))
        operands = self._merged(operands, {n for n, free in zip(names, splittable, strict=True) if free})
        operands, continued = self._continued(operands)
        if self._hazard(operands):
            return None
        flats = [self._flat(place) for place in range(len(self.step)) if place != self.main]
        before, after = tuple(flats[: self.main]), tuple(flats[self.main :])
        return replace(
            self.core, splittable=splittable, operands=tuple(operands), before=before, after=after, continued=continued
        )

    def _main_relations(self) -> None:
        """Relations of the main node's tensors, as far as each has one only."""
        found: dict[str, set[_Relation]] = {}
        for access in _accesses(self.core.phases):
            relation = _Relation(_view(self.core.call, access), access.index)
            found.setdefault(self._tensor(self.main, access.operand), set()).add(relation)
        self.relations = {tensor: one.pop() for tensor, one in found.items() if len(one) == 1}
        self.written = {
            self.relations[tensor]
            for phase in self.core.phases
            for access in phase.writes
            if (tensor := self._tensor(self.main, access.operand)) in self.relations
        }

    def _tensor(self, place: int, operand: str) -> str:
        return self.flow.tensor(self.step[place].operands[operand])

    def _attach(self, place: int) -> bool:
        """Give an element-wise node the relation of a tensor that it shares with the nest so far."""
        call, phase = self.step[place], flat_phase(self.step[place])
        assert phase is not None
        accesses = [access for access in _accesses((phase,)) if not _is_scalar(call, access)]
        tensors = [self._tensor(place, access.operand) for access in accesses]
        relations = {self.relations[tensor] for tensor in tensors if tensor in self.relations}
        if len(relations) != 1:
            return False
        (relation,) = relations
        if math.prod(relation.view) != phase.loops[0].extent:
            return False
        if place < self.main or relation not in self.written:  # it runs on every tile, or follows an operand that is read
            if not relation.is_partition(self.core.loops):
                return False
            self.whole |= {loop.name for loop in self.core.loops} - relation.loops
        self.relations |= dict.fromkeys(tensors, relation)
        moved = {id(access): Access(access.operand, relation.index, relation.view) for access in accesses}
        reads, writes = (tuple(moved.get(id(a), a) for a in side) for side in (phase.reads, phase.writes))
        loops = tuple(replace(loop, kind="parallel") for loop in self.core.loops if loop.name in relation.loops)
        self.phases[place] = (Phase(phase.name, loops, reads, writes, phase.work),)
        return True

    def _operands(self) -> list[Operand] | None:
        """One operand per tensor and relation; None when a tensor is written under one relation and used under another."""
        found: list[Operand] = []
        makes = {self.flow.tensor(value) for call in self.step for value in call.writes}
        for place, call in enumerate(self.step):
            reads, writes = _by_operand(p.reads for p in self.phases[place]), _by_operand(p.writes for p in self.phases[place])
            for name in (*call.invocation.operator.inputs, *call.invocation.operator.outputs):
                accesses = (*reads.get(name, ()), *writes.get(name, ()))
                if not accesses:
                    continue
                tensor, view = self._tensor(place, name), _view(call, accesses[0])
                same = [o for o in found if self.flow.tensor(o.value) == tensor]
                fit = [o for o in same if o.view == view and {a.index for a in o.accesses} == {a.index for a in accesses}]
                if fit:
                    at = found.index(fit[0])
                    stored = fit[0].stored or (name in writes and tensor not in self.internal)
                    found[at] = replace(fit[0], stored=stored, uses=(*fit[0].uses, Use(place, name)))
                elif same and tensor in makes:
                    return None
                else:
                    item = call.invocation[name].dtype.itemsize
                    loaded = name in reads and name not in writes
                    stored = name in writes and tensor not in self.internal
                    use = (Use(place, name),)
                    found.append(Operand(f"{place}.{name}", call.operands[name], item, view, accesses, loaded, stored, use))
        return sorted(found, key=self._main_first)

    def _main_first(self, operand: Operand) -> tuple[int, ...]:
        """Sorts the main node's operands to where they are in a nest of its own: it then has the same bodies."""
        names = (*self.core.call.invocation.operator.inputs, *self.core.call.invocation.operator.outputs)
        own = [names.index(use.operand) for use in operand.uses if use.node == self.main]
        return (0, min(own)) if own else (1, 0)

    def _merged(self, operands: list[Operand], splittable: set[str]) -> list[Operand]:
        """Operands that are computed in place of others share their tile, where nobody needs the other any more."""
        for place, call in enumerate(self.step):
            operator = call.invocation.operator
            pairs = [*(() if place == self.main and self._has_phases() else operator.state), *operator.in_place]
            touched = {use.operand for operand in operands for use in operand.uses if use.node == place}
            pairs = [pair for pair in pairs if set(pair) <= touched]  # a constant that is part of the code is no operand
            pairs.sort(key=lambda pair: (pair not in operator.state, _of(operands, place, pair[0]).loaded))
            for before, after in pairs:
                a, b = _of(operands, place, before), _of(operands, place, after)
                updated = (before, after) in operator.state
                if (
                    a is b
                    or a.stored
                    or b.loaded
                    or (a.loaded and b.stored and not updated)
                    or a.item != b.item
                    or a.view != b.view
                ):
                    continue
                index = {access.index for access in (*a.accesses, *b.accesses)}
                if len(index) > 1 or (place <= self.main and not splittable <= loops_of(a.accesses[0])):
                    continue
                if place == self.main and (self.core.kernel or self._read_behind(before, after)):
                    continue
                if any(use.node > place for use in a.uses) or any(use.node < place for use in b.uses):
                    continue
                value = b.value if b.stored and not updated else a.value
                changed = a.overwritten or (a.loaded and not b.stored)
                both = replace(a, value=value, stored=b.stored, overwritten=changed, uses=(*a.uses, *b.uses))
                kept, gone = sorted((a, b), key=lambda o: (self._main_first(o)[0], operands.index(o)))
                operands[operands.index(kept)] = both
                operands.remove(gone)
        return operands

    def _continued(self, operands: list[Operand]) -> tuple[list[Operand], int | None]:
        """A sum that the main node computes only to be added to another goes on from that one, in its tile."""
        if len(self.core.phases) != 1 or len(self.core.phases[0].writes) != 1:
            return operands, None
        (write,) = self.core.phases[0].writes
        for place in range(self.main + 1, len(self.step)):
            continues = self.step[place].invocation.operator.continues
            if write.start != "sum" or continues is None:
                continue
            total, value, _ = continues
            a, b = _of(operands, place, value), _of(operands, place, total)
            if a.loaded or a.stored or a.uses != (Use(self.main, write.operand), Use(place, value)):
                continue
            if min(use.node for use in b.uses) < place or (a.view, a.item) != (b.view, b.item):
                continue
            both = replace(b, uses=(*a.uses, *b.uses))
            return [both if operand is a else operand for operand in operands if operand is not b], place
        return operands, None

    def _has_phases(self) -> bool:
        return flat_phase(self.step[self.main]) is None

    def _read_behind(self, before: str, after: str) -> bool:
        """Whether a phase of the main node reads an operand when an earlier one has written another."""
        made = False
        for phase in self.core.phases:
            if made and before in {access.operand for access in phase.reads}:
                return True
            made = made or after in {access.operand for access in phase.writes}
        return False

    def _hazard(self, operands: Sequence[Operand]) -> bool:
        """Whether a tile that is stored may overwrite what a later tile loads."""
        for a in operands:
            for b in operands:
                alone = {use.node for use in (*a.uses, *b.uses)} == {self.main}
                if a is not b and a.stored and not alone and self.flow.root(a.value) == self.flow.root(b.value):
                    return True
        return False

    def _flat(self, place: int) -> Flat:
        (phase,) = self.phases[place]
        plain = flat_phase(self.step[place])
        assert plain is not None
        return Flat(self.step[place], plain, phase)


def _accesses(phases: Iterable[Phase]) -> list[Access]:
    return [access for phase in phases for access in (*phase.reads, *phase.writes)]


def _by_operand(sides: Iterable[tuple[Access, ...]]) -> dict[str, tuple[Access, ...]]:
    found: dict[str, tuple[Access, ...]] = {}
    for access in (access for side in sides for access in side):
        found[access.operand] = (*found.get(access.operand, ()), access)
    return found


def flat_blocks(nest: Nest, node: int, call: Call) -> tuple[int, ...]:
    """The nest's operands that those of one of its nodes are, if that is an element-wise one; else ()."""
    phase = flat_phase(call)
    if phase is None:
        return ()
    wanted = [Use(node, name) for name in operands_of(phase)]
    return tuple(next(i for i, o in enumerate(nest.operands) if use in o.uses) for use in wanted)


def _of(operands: Sequence[Operand], place: int, name: str) -> Operand:
    return next(operand for operand in operands if Use(place, name) in operand.uses)
