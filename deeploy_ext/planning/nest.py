"""Tile nests: from an operator's phases and a choice of tile sizes to regions, L1 blocks and transfer volumes.

This is the one place where tile, block and DMA sizes come from; costs, the Plan and the static check all use it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product

import numpy as np

from deeploy_ext.graph.program import Call
from deeploy_ext.operators.relations import Affine
from deeploy_ext.operators.spec import Access, Loop, Phase, TeamKernel
from deeploy_ext.planning.plan import AxisPlan, Group, LoopPlan, Use

NOWHERE = ""
"""Instead of a level: the home of what lives in its tile only."""


@dataclass(frozen=True)
class Operand:
    """An operand of a nest: every access to it, under one view, and whether its tiles are loaded and stored.

    ``uses`` lists the nodes and operands that it is; several when nodes of the nest share it. One that is neither loaded nor
    stored has no place but its tile. ``overwritten``: a node computes in place of what was loaded, so that its tile must be a
    copy.
    """

    name: str
    value: str
    item: int
    view: tuple[int, ...]
    accesses: tuple[Access, ...]
    loaded: bool
    stored: bool
    uses: tuple[Use, ...]
    overwritten: bool = False


@dataclass(frozen=True)
class Flat:
    """An element-wise node in the nest of another: its phase as its operator has it, and as it is in the nest.

    It walks all elements of its operands' boxes.
    """

    call: Call
    plain: Phase
    phase: Phase


@dataclass(frozen=True)
class Nest:
    """One or more phases of a node, the *main* one, that share a tile nest, with element-wise nodes before and behind it.

    Attributes:
        call, phases: the main node and its phases.
        loops: union of the phases' loops, in order of appearance.
        splittable: for each loop, whether tiles may split it: never a *whole* loop; with several phases only a loop that
            is parallel in all of them; a parallel loop only if it appears in every written index.
        operands: in the operator's order.
        kernel: the faster body of the one phase; None: the portable bodies.
        before, after: element-wise nodes; see :mod:`~deeploy_ext.planning.joint`.
        continued: of those behind, the one (a place among all nodes) that needs no body, because the main one goes on from its
            sum.
    """

    call: Call
    phases: tuple[Phase, ...]
    loops: tuple[Loop, ...]
    splittable: tuple[bool, ...]
    operands: tuple[Operand, ...]
    kernel: TeamKernel | None = None
    before: tuple[Flat, ...] = ()
    after: tuple[Flat, ...] = ()
    continued: int | None = None

    @property
    def steps(self) -> int:
        """Bodies that run on a tile, a barrier behind each."""
        flats = len(self.before) + len(self.after) - (self.continued is not None)
        return flats + len(self.kernel.steps if self.kernel else self.phases)


def iterations(phase: Phase) -> int:
    """Innermost iterations of a phase over its whole domain.

    Of an inverted relation (index divided by a stride) only one loop value in ``divisor`` touches an element.
    """
    strides = [index.divisor for access in phase.reads for index in access.index if index is not None]
    return math.prod(loop.extent for loop in phase.loops) // math.prod(strides)


def macs(call: Call) -> int:
    """Multiply-accumulates of a node: iterations of the phases that do one each (steps into padding count too)."""
    phases = call.invocation.operator.phases(call.invocation)
    return sum(iterations(phase) for phase in phases if phase.work.startswith("mac"))


def kernels_of(call: Call, which: str) -> tuple[TeamKernel, ...]:
    """The team kernels of a node, as far as one of :data:`~deeploy_ext.choices.KERNELS` allows them."""
    found = call.invocation.operator.kernels(call.invocation) if which != "portable" else ()
    if which == "fast":
        return found
    return tuple(kernel for kernel in found if (kernel.multiplied is None) == (which == "direct")) or found


def nests_of(call: Call, kernels: str = "fast") -> tuple[tuple[Nest, ...], ...]:
    """The ways to run a node: with each of its team kernels (see :func:`kernels_of`) or the portable bodies, all phases in one
    nest or (several phases) one nest after the other.
    """
    phases = call.invocation.operator.phases(call.invocation)
    joint = (make_nest(call, phases),)
    if len(phases) > 1:
        return joint, tuple(make_nest(call, (phase,)) for phase in phases)
    return tuple((make_nest(call, phases, kernel),) for kernel in kernels_of(call, kernels)) or (joint,)


def loops_to_split(nests: Sequence[Nest]) -> tuple[Loop, ...]:
    """The loops of more than one iteration that some way to run a node (:func:`nests_of`) can split, in order."""
    loops = {loop.name: loop for nest in nests for loop in nest.loops}
    fixed = {loop.name for nest in nests for loop, free in zip(nest.loops, nest.splittable, strict=True) if not free}
    return tuple(loop for loop in loops.values() if loop.name not in fixed and loop.extent > 1)


def nest_of_group(call: Call, group: Group) -> Nest:
    """The nest that a group of the plan runs: its phases, with the team kernel whose steps it names."""
    phases = {phase.name: phase for phase in call.invocation.operator.phases(call.invocation)}
    return make_nest(call, tuple(phases[name] for name in group.phases), kernel_of_group(call, group))


def kernel_of_group(call: Call, group: Group) -> TeamKernel | None:
    """The team kernel of a group's main node; None: it has none of those that are named."""
    steps = tuple(body.variant for body in group.bodies if body.team)
    kernels = {kernel.steps: kernel for kernel in call.invocation.operator.kernels(call.invocation)} if steps else {}
    return kernels.get(steps)


def make_nest(call: Call, phases: tuple[Phase, ...], kernel: TeamKernel | None = None) -> Nest:
    """The nest of some phases of a node; see :func:`nests_of`."""
    loops = tuple({loop.name: loop for phase in phases for loop in phase.loops}.values())
    splittable = tuple(_splittable(loop.name, phases) for loop in loops)
    return Nest(call, phases, loops, splittable, _operands(call, phases), kernel)


def _splittable(name: str, phases: Sequence[Phase]) -> bool:
    for phase in phases:
        kinds = [loop.kind for loop in phase.loops if loop.name == name]
        indexed = all(name in loops_of(access) for access in phase.writes)
        if kinds == ["parallel"] and indexed:
            continue
        if kinds == ["reduction"] and len(phases) == 1:
            continue
        return False
    return True


def loops_of(access: Access) -> set[str]:
    """Names of the loops an access depends on."""
    return {name for index in access.index if index is not None for name in index.loops}


def _operands(call: Call, phases: Sequence[Phase]) -> tuple[Operand, ...]:
    accesses: dict[str, list[Access]] = {}
    written: set[str] = set()
    loaded: set[str] = set()
    for phase in phases:
        for access in phase.reads:
            accesses.setdefault(access.operand, []).append(access)
            if access.operand not in written:
                loaded.add(access.operand)
        for access in phase.writes:
            accesses.setdefault(access.operand, []).append(access)
            written.add(access.operand)
    operator = call.invocation.operator
    found: list[Operand] = []
    for name in (*operator.inputs, *operator.outputs):
        if name in accesses:
            kind = call.invocation[name]
            view = accesses[name][0].view or kind.shape or (1,)
            loaded_stored = name in loaded, name in written
            uses = (Use(0, name),)
            item = kind.dtype.itemsize
            found.append(Operand(name, call.operands[name], item, view, tuple(accesses[name]), *loaded_stored, uses))
    return tuple(found)


@dataclass(frozen=True)
class Tiling:
    """A nest with tile sizes: ``tiles[i]`` iterations of loop i per tile."""

    nest: Nest
    tiles: tuple[int, ...]

    @property
    def split(self) -> tuple[int, ...]:
        """Indices of the loops that take more than one tile."""
        return tuple(i for i, loop in enumerate(self.nest.loops) if self.tiles[i] < loop.extent)

    def loop_plans(self) -> tuple[LoopPlan, ...]:
        return tuple(
            LoopPlan(loop.name, loop.extent, tile, loop.kind == "reduction")
            for loop, tile in zip(self.nest.loops, self.tiles, strict=True)
        )

    @property
    def sizes(self) -> dict[str, int]:
        """Iterations of each loop in the largest tile, by name."""
        return {loop.name: tile for loop, tile in zip(self.nest.loops, self.tiles, strict=True)}

    @property
    def scratch(self) -> int:
        """Bytes of scratch that the largest tile needs."""
        kernel = self.nest.kernel
        return kernel.scratch(self.sizes) if kernel else 0

    def axes(self, operand: Operand) -> tuple[AxisPlan, ...]:
        """Regions of every axis of an operand, for every combination of tiles that changes them."""
        return tuple(self.axis(operand, place) for place in range(len(operand.view)))

    def axis(self, operand: Operand, place: int) -> AxisPlan:
        """Regions of one axis; they depend on the tiles of those loops alone that are in its indices."""
        indices = tuple(access.index[place] for access in operand.accesses)
        names = {name for index in indices if index is not None for name in index.loops}
        own = tuple((i, loop) for i, loop in enumerate(self.loop_plans()) if loop.name in names)
        return _axis_plan(indices, operand.view[place], own)

    def exact(self) -> bool:
        """Whether every written region holds exactly the elements its tile computes."""
        loops = self.loop_plans()
        full = {loop.name: (0, loop.extent) for loop in loops}
        for phase in self.nest.phases:
            for access in phase.writes:
                use = Use(len(self.nest.before), access.operand)
                view = next(o.view for o in self.nest.operands if use in o.uses)
                for index, extent in zip(access.index, view, strict=True):
                    if index is None or len(index.terms) < 2:
                        continue
                    ranges = full | {loops[i].name: loops[i].range(0) for i in self.split}
                    if not index.size_if_exact(ranges, extent):
                        return False
        return True


@cache
def _axis_plan(indices: tuple[Affine | None, ...], extent: int, loops: tuple[tuple[int, LoopPlan], ...]) -> AxisPlan:
    """Regions of an axis, from the index of every access and the loops that these name, each with its place in the nest.

    Kept: many nodes, tilings and kernels ask for the same.
    """
    split = [(i, loop) for i, loop in loops if loop.count > 1]
    begins = {loop.name: np.zeros((), np.int64) for _, loop in loops}
    ends = {loop.name: np.full((), loop.extent) for _, loop in loops}
    for axis, (_, loop) in enumerate(split):
        tile = np.arange(loop.count).reshape([-1 if axis == other else 1 for other in range(len(split))])
        begins[loop.name] = tile * loop.tile
        ends[loop.name] = np.minimum((tile + 1) * loop.tile, loop.extent)
    regions = [_regions(index, begins, ends, extent) for index in indices]
    shape = [loop.count for _, loop in split]
    begin, end = (np.broadcast_to(edge, shape).ravel() for edge in _union(regions))
    return AxisPlan(extent, tuple(i for i, _ in split), tuple(zip(begin.tolist(), (end - begin).tolist(), strict=True)))


Edges = tuple[np.ndarray, np.ndarray]
"""Begins and ends of a region, for many tiles at once."""


def _regions(index: Affine | None, begins: Mapping[str, np.ndarray], ends: Mapping[str, np.ndarray], extent: int) -> Edges:
    """Regions of one access in every tile; see :meth:`Affine.interval`, which is the same for one tile."""
    if index is None:
        return np.zeros((), np.int64), np.full((), extent)
    low = high = np.full((), index.offset)
    for name, coefficient in index.terms:
        first, last = coefficient * begins[name], coefficient * (ends[name] - 1)
        low, high = low + np.minimum(first, last), high + np.maximum(first, last)
    low, high = np.maximum(-(-low // index.divisor), 0), np.minimum(high // index.divisor, extent - 1)
    begin = np.minimum(low, extent)
    return begin, np.where(low <= high, high + 1, begin)


def _union(regions: Sequence[Edges]) -> Edges:
    """The smallest regions that hold all non-empty ones of several accesses."""
    begin, end = regions[0]
    for other_begin, other_end in regions[1:]:
        empty, other_empty = begin >= end, other_begin >= other_end
        begin, end = (
            np.where(other_empty, begin, np.where(empty, other_begin, np.minimum(begin, other_begin))),
            np.where(other_empty, end, np.where(empty, other_end, np.maximum(end, other_end))),
        )
    return begin, end


@dataclass(frozen=True)
class Volume:
    """What moving an operand's tiles costs: boxes moved, bytes, 2-D commands, and contiguous runs in its home."""

    boxes: int
    bytes: int
    commands: int
    lines: int


def volume(axes: Sequence[AxisPlan], item: int, loops: Sequence[LoopPlan], order: Sequence[int]) -> Volume:
    """Transfers of one operand over the whole nest: a box is moved each time it differs from the tile before."""
    repeats = math.prod(loops[i].count for i in repeating_loops(axes, order))
    moved = sorted({i for axis in axes for i in axis.loops})
    boxes = elements = commands = lines = 0
    if all(len(axis.loops) <= 1 for axis in axes) and len(moved) == sum(len(axis.loops) for axis in axes):
        boxes = math.prod(loops[i].count for i in moved)
        elements = math.prod(sum(size for _, size in axis.regions) for axis in axes)
        largest, extents = [axis.largest for axis in axes], [axis.extent for axis in axes]
        commands, lines = boxes * commands_per_box(largest, extents), boxes * lines_per_box(largest, extents)
    else:
        for tile in product(*(range(loops[i].count) for i in moved)):
            at = dict(zip(moved, tile, strict=True))
            sizes = [axis.regions[row_of(axis, loops, at)][1] for axis in axes]
            boxes += 1
            elements += math.prod(sizes)
            if math.prod(sizes):
                extents = [axis.extent for axis in axes]
                commands, lines = commands + commands_per_box(sizes, extents), lines + lines_per_box(sizes, extents)
    return Volume(boxes * repeats, elements * item * repeats, commands * repeats, lines * repeats)


def repeating_loops(axes: Sequence[AxisPlan], order: Sequence[int]) -> tuple[int, ...]:
    """Loops that do not change an operand's box but whose every tile moves it anew: inside them it has changed meanwhile."""
    depends = {i for axis in axes for i in axis.loops}
    inner = max((place for place, i in enumerate(order) if i in depends), default=-1)
    return tuple(i for i in order[: inner + 1] if i not in depends)


def row_of(axis: AxisPlan, loops: Sequence[LoopPlan], at: Mapping[int, int]) -> int:
    """Row of an axis' region table for the tile indices ``at``."""
    row = 0
    for i in axis.loops:
        row = row * loops[i].count + at[i]
    return row


def commands_per_box(sizes: Sequence[int], extents: Sequence[int]) -> int:
    """2-D transfers that move a box of ``sizes`` out of a tensor of ``extents``, as the runtime's ``net_move_box`` does it."""
    return math.prod(sizes[: max(_innermost(sizes, extents) - 1, 0)])


def lines_per_box(sizes: Sequence[int], extents: Sequence[int]) -> int:
    """Contiguous runs of a box of ``sizes`` in a tensor of ``extents``: what external RAM needs an address each for."""
    return math.prod(sizes[: _innermost(sizes, extents)])


def _innermost(sizes: Sequence[int], extents: Sequence[int]) -> int:
    """The axis along which runs go on: all behind it are whole."""
    axis = len(sizes) - 1
    while axis > 0 and sizes[axis] == extents[axis]:
        axis -= 1
    return max(axis, 0)
