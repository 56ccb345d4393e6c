"""What a plan moves: bytes and commands of every operand over both hops, how often a tensor is fetched anew, and why.

The *reload factor* of a tensor on a hop is bytes fetched / bytes of the tensor. Each nest that reads a tensor fetches it, so
a tensor with several readers has a factor of at least their number without being reloaded: what a nest itself adds is
its own factor, which is the product of its *reasons*. Everything follows from the Plan's boxes, loop order and staging.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from deeploy_ext.planning.arrival import box_bytes, first_box
from deeploy_ext.planning.nest import Volume, commands_per_box, repeating_loops, volume
from deeploy_ext.planning.plan import KEPT, BlockPlan, Group, Plan


@dataclass(frozen=True)
class Moved:
    """Bytes, and the commands that move them: 2-D ones of the DMA, a contiguous run each of the external RAM."""

    bytes: int = 0
    commands: int = 0

    def __add__(self, other: Moved) -> Moved:
        return Moved(self.bytes + other.bytes, self.commands + other.commands)

    def __mul__(self, times: int) -> Moved:
        return Moved(self.bytes * times, self.commands * times)


@dataclass(frozen=True)
class Hops:
    """What is moved between L3 and L2, and between L2 and L1."""

    l3_l2: Moved = Moved()
    l2_l1: Moved = Moved()

    def __add__(self, other: Hops) -> Hops:
        return Hops(self.l3_l2 + other.l3_l2, self.l2_l1 + other.l2_l1)

    def __mul__(self, times: int) -> Hops:
        return Hops(self.l3_l2 * times, self.l2_l1 * times)


def hops_of(home: str, stage: str, moved: Volume, whole: int) -> Hops:
    """One operand in one direction: ``moved`` tiles between home (or stage) and L1, ``whole`` bytes if staged as a whole."""
    if home == "L1":
        return Hops()
    near = Moved(moved.bytes, moved.boxes if stage == "tile" else moved.commands)
    if stage == "none":
        return Hops(l2_l1=near)
    return Hops(Moved(whole, 1) if stage == "whole" else Moved(moved.bytes, moved.lines), near)


def box_moved(block: BlockPlan, box: Sequence[tuple[int, int]]) -> Moved:
    """One box of an operand between L2 and L1."""
    size = box_bytes(block, box)
    return Moved(size, commands_per_box([n for _, n in box], [axis.extent for axis in block.axes]) if size else 0)


@dataclass(frozen=True)
class Reason:
    """Why the boxes of an operand are more, or less, than its tensor.

    Attributes:
        kind: ``loop``: every tile of a loop that does not move the box fetches it again, because tiles of another loop inside
            have replaced it; ``overlap``: boxes of different tiles share elements (halo); ``gaps``: no box holds some elements.
        where: the loop; of the others the loops that move the box along ``axis``, none if it stands still.
        axis: of the operand; None where several are cut by one loop.
        times: factor on the bytes, exact.
    """

    kind: str
    where: str
    axis: int | None
    times: Fraction

    def __str__(self) -> str:
        along, times = "" if self.axis is None else f" on axis {self.axis}", f"x{float(self.times):.2f}"
        if self.kind == "loop":
            return f"loop order: again for each of {self.times} tiles of {self.where}"
        if self.kind == "overlap":
            return f"tiles of {self.where} overlap{along} (halo): {times}"
        return f"tiles{self.where and f' of {self.where}'} leave elements out{along}: {times}"


@dataclass(frozen=True)
class BlockTraffic:
    """One operand of one nest.

    Attributes:
        nest: index in ``Plan.groups``.
        group, block: the nest and the operand in it.
        home: level of its tensor.
        bytes: size of the whole tensor.
        once: what one direction moves.
        reasons: whose product is the factor of the hops that move boxes.
    """

    nest: int
    group: Group
    block: BlockPlan
    home: str
    bytes: int
    once: Hops
    reasons: tuple[Reason, ...]

    @property
    def kept(self) -> Moved:
        """The first box, where it is not fetched because the nest before has left it in L1."""
        return box_moved(self.block, first_box(self.block)) if self.block.arrival == KEPT else Moved()

    @property
    def fetched(self) -> Hops:
        return self.once * self.block.loaded + Hops(l2_l1=self.kept * -1)

    @property
    def stored(self) -> Hops:
        return self.once * self.block.stored

    @property
    def saved(self) -> int:
        """L3 bytes that this nest would move at least, in both directions, if the tensor were in L3."""
        return (self.block.loaded + self.block.stored) * min(self.bytes, self.once.l2_l1.bytes)

    @property
    def factor(self) -> Fraction:
        """Bytes of all boxes that pass through L1 / bytes of the tensor."""
        return Fraction(self.once.l2_l1.bytes, self.bytes)

    @property
    def reloads(self) -> str:
        """The hops on which this nest fetches more than the tensor; empty: none."""
        far, near = (moved.bytes > self.bytes for moved in (self.fetched.l3_l2, self.fetched.l2_l1))
        return " and ".join(name for name, more in (("L3-L2", far), ("L2-L1", near)) if more)


@dataclass(frozen=True)
class TensorTraffic:
    """A tensor and the nests of one entry that use it, in execution order."""

    entry: str
    value: str
    home: str
    bytes: int
    uses: tuple[BlockTraffic, ...]

    @property
    def fetched(self) -> Hops:
        return sum((use.fetched for use in self.uses), Hops())

    @property
    def stored(self) -> Hops:
        return sum((use.stored for use in self.uses), Hops())

    @property
    def readers(self) -> int:
        """Nests that fetch it."""
        return sum(use.block.loaded for use in self.uses)

    @property
    def factors(self) -> tuple[Fraction, Fraction]:
        """Reload factors, L3-L2 and L2-L1: bytes fetched by all nests / bytes of the tensor."""
        fetched = self.fetched
        return Fraction(fetched.l3_l2.bytes, self.bytes), Fraction(fetched.l2_l1.bytes, self.bytes)


def title_of(group: Group) -> str:
    """What a nest is called wherever people read of it."""
    return f"{group.node} ({'+'.join(group.phases)})"


def uses_of(plan: Plan) -> tuple[BlockTraffic, ...]:
    """Every operand of every nest that is moved or lives in L1, in execution order."""
    homes = {value: placement.level for placement in plan.placements for value in placement.values}
    return tuple(
        _use(i, group, block, homes.get(block.value, "L1"))  # what has no placement never leaves its nest
        for i, group in enumerate(plan.groups)
        for block in group.blocks
    )


def _use(nest: int, group: Group, block: BlockPlan, home: str) -> BlockTraffic:
    whole = math.prod(axis.extent for axis in block.axes) * block.item
    moved = volume(block.axes, block.item, group.loops, group.order)
    return BlockTraffic(
        nest, group, block, home, whole, hops_of(home, block.stage, moved, whole), tuple(_reasons(group, block))
    )


def _reasons(group: Group, block: BlockPlan) -> Iterable[Reason]:
    repeated = repeating_loops(block.axes, group.order)
    yield from (Reason("loop", group.loops[i].name, None, Fraction(group.loops[i].count)) for i in repeated)
    loops = [i for axis in block.axes for i in axis.loops]
    if len(loops) == len(set(loops)):
        for place, axis in enumerate(block.axes):
            rows = math.prod(group.loops[i].count for i in axis.loops)
            assert rows == len(axis.regions)
            yield from _spread(group, axis.loops, place, Fraction(sum(size for _, size in axis.regions), axis.extent))
        return
    once = volume(block.axes, 1, group.loops, [i for i in group.order if i in loops])
    yield from _spread(group, block.loops, None, Fraction(once.bytes, math.prod(axis.extent for axis in block.axes)))


def _spread(group: Group, loops: tuple[int, ...], axis: int | None, times: Fraction) -> Iterable[Reason]:
    if times != 1:
        where = " and ".join(group.loops[i].name for i in loops)
        yield Reason("overlap" if times > 1 else "gaps", where, axis, times)


def tensor_traffic(plan: Plan) -> tuple[TensorTraffic, ...]:
    """Every tensor that nests move, by entry, in order of first use."""
    found: dict[tuple[str, str], list[BlockTraffic]] = {}
    for use in uses_of(plan):
        found.setdefault((use.group.entry, use.block.value), []).append(use)
    return tuple(
        TensorTraffic(entry, value, uses[0].home, uses[0].bytes, tuple(uses)) for (entry, value), uses in found.items()
    )


def moved_by(uses: Iterable[BlockTraffic]) -> Hops:
    """What some uses move, both directions; those of a whole entry are the bytes of ``Plan.traffic``."""
    return sum((use.fetched + use.stored for use in uses), Hops())
