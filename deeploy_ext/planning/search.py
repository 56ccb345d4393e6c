"""Greedy choice of tiles: start with the whole tensor in one tile, shrink what costs least until it fits, then improve."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations

from deeploy_ext.operators.spec import Loop
from deeploy_ext.planning.cost import Machine, Transfers, compute_cycles, operand_transfers, predict
from deeploy_ext.planning.nest import Nest, Operand, Tiling, Volume, volume
from deeploy_ext.planning.plan import AxisPlan, Cycles, LoopPlan, gapless


@dataclass(frozen=True)
class Room:
    """What a nest may use: bytes of L1 arena, bytes of L2 for staging, whether double buffering is allowed.

    ``eager``: it is taken wherever a nest has several tiles, whether it pays or not.
    """

    l1: int
    stage: int
    double_buffer: bool
    eager: bool = False

    def rank(self, choice: Choice) -> tuple[bool, int]:
        """The smaller the better."""
        return self.eager and not choice.double_buffer, choice.cycles.total

    def holds(self, other: Room) -> bool:
        """Whether all that fits another fits here."""
        return other.l1 <= self.l1 and other.stage <= self.stage

    def fits(self, choice: Choice) -> bool:
        """Whether there is room for its blocks and stages."""
        return choice.l1_bytes <= self.l1 and choice.stage_bytes <= self.stage


@dataclass(frozen=True)
class Choice:
    """A tiling with everything decided about it."""

    tiling: Tiling
    order: tuple[int, ...]
    axes: Mapping[str, tuple[AxisPlan, ...]]
    double_buffer: bool
    stages: Mapping[str, str]
    l1_bytes: int
    largest_block: int
    stage_bytes: int
    transfers: Transfers
    cycles: Cycles

    @property
    def keeps_stages(self) -> bool:
        """Whether no stage has to hold a tile on its way in and another on its way out."""
        both = {o.name for o in self.tiling.nest.operands if o.loaded and o.stored}
        return not (self.double_buffer and any(self.stages[name] == "tile" for name in both))


@dataclass(frozen=True)
class Block:
    """Sizes of one operand's buffers: bytes of an L1 slot, number of slots, bytes of a stage slot, number of those."""

    bytes: int
    slots: int
    stage_bytes: int
    stage_slots: int


@dataclass(frozen=True)
class Shape:
    """A tiling and what follows from it wherever the operands live; ``orders`` gives the volume of every operand for each order
    of its loops, one for all those that move the same."""

    tiling: Tiling
    loops: tuple[LoopPlan, ...]
    axes: Mapping[str, tuple[AxisPlan, ...]]
    compute: float
    orders: Mapping[tuple[int, ...], tuple[Volume, ...]]

    @property
    def count(self) -> int:
        """Tiles of the nest."""
        return math.prod(self.loops[i].count for i in self.tiling.split)


MOST_TILES = 1024
"""Tiles of one loop, at most: it bounds the emitted tables."""


def ladder(loop: Loop) -> list[int]:
    """Tile sizes worth trying for a loop, from whole to the smallest."""
    sizes: dict[int, None] = {}
    parts = 1
    while parts < 2 * min(loop.extent, MOST_TILES):
        size = max(1, -(-loop.extent // parts))
        if size > 8:  # kernels take 4 channels or pixels at once, and 2 rows of a result with strides
            unit = 8 if size > 64 else 4
            size = min(-(-size // unit) * unit, loop.extent)
        sizes[size] = None
        parts += max(1, parts // 4)
    smallest = -(-loop.extent // MOST_TILES)
    return sorted({smallest, *(size for size in sizes if size > smallest)}, reverse=True)


class NestSearch:
    """Search over the tilings of one nest.

    ``homes`` gives the level of every operand, ``whole`` the bytes of its tensor, ``largest`` the most iterations that a
    tile may have of some loops; a nest that cannot split such a loop has no tiling. ``like`` is a search of an equal nest with
    other homes: what does not depend on homes is taken from there.
    """

    def __init__(
        self,
        nest: Nest,
        homes: Mapping[str, str],
        whole: Mapping[str, int],
        machine: Machine,
        largest: Mapping[str, int] | None = None,
        like: NestSearch | None = None,
    ) -> None:
        self.nest, self.homes, self.whole, self.machine = nest, homes, whole, machine
        most = [(largest or {}).get(loop.name, loop.extent) for loop in nest.loops]
        self.possible = all(
            free or limit >= loop.extent for loop, free, limit in zip(nest.loops, nest.splittable, most, strict=True)
        )
        self.ladders = [
            [size for size in ladder(loop) if size <= limit] or [limit] if free else [loop.extent]
            for loop, free, limit in zip(nest.loops, nest.splittable, most, strict=True)
        ]
        self._depends = {o.name: _loops_of(o, nest) for o in nest.operands}
        self._axes: dict[tuple[str, int, tuple[int, ...]], AxisPlan] = like._axes if like else {}
        self._shapes: dict[tuple[int, ...], Shape | None] = like._shapes if like else {}
        near = frozenset(name for name, home in homes.items() if home == "L1")
        self._worths: dict[frozenset[str], dict[tuple[int, ...], tuple[float, float]]] = like._worths if like else {}
        self._worth = self._worths.setdefault(near, {})
        self._priced: dict[tuple[str, ...], dict[tuple[tuple[int, ...], bool, bool], Choice | None]] = (
            like._priced if like else {}
        )
        self._prices = self._priced.setdefault(tuple(homes[o.name] for o in nest.operands), {})
        self._moves: dict[tuple[str, str, Volume], Transfers] = {}
        self._found: dict[tuple[tuple[int, ...], bool], Choice | None] = {}

    def smallest(self) -> Choice | None:
        """The choice with the fewest bytes: one iteration of every loop that may be split."""
        return self._choice(self.smallest_tiles, False, self._tile_stages())

    @property
    def smallest_tiles(self) -> tuple[int, ...]:
        """One iteration of every loop that may be split, or as few as a table of tiles allows."""
        return tuple(sizes[-1] for sizes in self.ladders)

    @property
    def met(self) -> set[tuple[tuple[int, ...], bool]]:
        """Tiles and buffering of every tiling that fitted so far."""
        return {key for key, choice in self._found.items() if choice is not None}

    def best(self, room: Room) -> Choice | None:
        """The cheapest choice found that fits; None when not even the smallest tile does."""
        found = self._descend(room) if self.possible else None
        return self._improve(found, room) if found else None

    def _descend(self, room: Room) -> Choice | None:
        rungs = [0] * len(self.ladders)
        while True:
            here = self._fitting(rungs, room)
            if here is not None:
                return here
            step = self._cheapest_step(rungs)
            if step is None:
                return None
            rungs[step] += 1

    def _cheapest_step(self, rungs: list[int]) -> int | None:
        now, _ = self._rough(rungs)
        scored: list[tuple[float, int]] = []
        for i, sizes in enumerate(self.ladders):
            if rungs[i] + 1 < len(sizes):
                rungs[i] += 1
                size, penalty = self._rough(rungs)
                rungs[i] -= 1
                scored.append((penalty / max(now - size, 0.5), i))
        return min(scored)[1] if scored else None

    def _improve(self, best: Choice, room: Room) -> Choice:
        improved = True
        while improved:
            improved = False
            rungs = [sizes.index(tile) for sizes, tile in zip(self.ladders, best.tiling.tiles, strict=True)]
            for neighbour in self._neighbours(rungs):
                found = self._fitting(neighbour, room)
                if found is not None and room.rank(found) < room.rank(best):
                    best, improved = found, True
                    break
        return best

    def _neighbours(self, rungs: list[int]) -> Iterator[list[int]]:
        for i, sizes in enumerate(self.ladders):
            for move in (-1, 1, 2, 4, 8):
                if 0 <= rungs[i] + move < len(sizes):
                    yield [*rungs[:i], rungs[i] + move, *rungs[i + 1 :]]
        for i in range(len(rungs)):
            for j in range(len(rungs)):
                if i != j and rungs[i] > 0 and rungs[j] + 1 < len(self.ladders[j]):
                    swapped = list(rungs)
                    swapped[i] -= 1
                    swapped[j] += 1
                    yield swapped

    def _fitting(self, rungs: Sequence[int], room: Room) -> Choice | None:
        tiles = tuple(sizes[rung] for sizes, rung in zip(self.ladders, rungs, strict=True))
        found: list[Choice] = []
        for double in (False, True) if room.double_buffer else (False,):
            if (tiles, double) not in self._found:
                self._found[tiles, double] = self._cheapest_stage(tiles, double, room)
            choice = self._found[tiles, double]
            if choice is not None:
                found.append(choice)
        return min(found, key=room.rank) if found else None

    def _cheapest_stage(self, tiles: tuple[int, ...], double: bool, room: Room) -> Choice | None:
        options = [self._tile_stages()]
        if "tile" in options[0].values():
            options.append({name: "whole" if stage == "tile" else stage for name, stage in options[0].items()})
        made = [self._choice(tiles, double, stages) for stages in options]
        largest = self.machine.target.costs["dma.max_bytes"]
        found = [c for c in made if c is not None and c.largest_block <= largest and c.keeps_stages]
        fit = [c for c in found if room.fits(c)]
        return min(fit, key=lambda c: c.cycles.total) if fit else None

    def _tile_stages(self) -> dict[str, str]:
        return {o.name: "tile" if self.homes[o.name] == "L3" else "none" for o in self.nest.operands}

    def _choice(self, tiles: tuple[int, ...], double: bool, stages: Mapping[str, str]) -> Choice | None:
        """The choice with some tiles, whatever there is room for; None: they cannot be had with these homes."""
        key = tiles, double, "whole" in stages.values()
        if key not in self._prices:
            shape = self.shape(tiles)
            near = [name for name, home in self.homes.items() if home == "L1"]
            if shape is None or (double and not shape.tiling.split) or not all(gapless(shape.axes[name]) for name in near):
                self._prices[key] = None
            else:
                self._prices[key] = self.choice(shape, self._best_order(shape, stages), stages, double)
        return self._prices[key]

    def _best_order(self, shape: Shape, stages: Mapping[str, str]) -> tuple[int, ...]:
        if len(shape.orders) == 1:
            return next(iter(shape.orders))
        priced = ((order, self._transfers(volumes, stages)) for order, volumes in shape.orders.items())
        order, _ = min(priced, key=lambda pair: (pair[1].dma_cycles + pair[1].ram_cycles, pair[0]))
        return order

    def choice(self, shape: Shape, order: tuple[int, ...], stages: Mapping[str, str], double: bool) -> Choice:
        """What a tiling takes and costs in one order of its loops."""
        blocks = [self.block(o, shape.axes[o.name], stages[o.name], double) for o in self.nest.operands]
        transfers = self._transfers(shape.orders[order], stages)
        target = self.machine.target
        whole = "whole" in stages.values()
        cycles = predict(shape.compute, transfers, shape.count, self.nest.steps, double, whole, target)
        return Choice(
            shape.tiling,
            order,
            shape.axes,
            double,
            stages,
            sum(b.bytes * b.slots for b in blocks) + target.levels["L1"].align(shape.tiling.scratch),
            max((b.bytes for b in blocks), default=0),
            sum(b.stage_bytes * b.stage_slots for b in blocks),
            transfers,
            cycles,
        )

    def shape(self, tiles: tuple[int, ...]) -> Shape | None:
        """A tiling with all that follows from it; None: it would write what it does not compute."""
        if tiles not in self._shapes:
            self._shapes[tiles] = self._measure(Tiling(self.nest, tiles))
        return self._shapes[tiles]

    def _measure(self, tiling: Tiling) -> Shape | None:
        if not tiling.exact():
            return None
        loops = tiling.loop_plans()
        axes = {o.name: self._axes_of(o, tiling) for o in self.nest.operands}
        distinct: dict[tuple[Volume, ...], tuple[int, ...]] = {}
        for order in sorted(self._orders(tiling)):
            distinct.setdefault(tuple(volume(axes[o.name], o.item, loops, order) for o in self.nest.operands), order)
        orders = {order: volumes for volumes, order in distinct.items()}
        return Shape(tiling, loops, axes, compute_cycles(tiling, self.machine), orders)

    def block(self, operand: Operand, axes: Sequence[AxisPlan], stage: str, double: bool) -> Block:
        """Buffer sizes of one operand. Only a box that changes needs a second slot."""
        if self.homes[operand.name] == "L1":
            return Block(0, 0, 0, 0)
        levels = self.machine.target.levels
        box = max(1, math.prod(axis.largest for axis in axes)) * operand.item
        slots = 2 if double and any(axis.loops for axis in axes) and (operand.loaded or operand.stored) else 1
        stage_bytes = {"none": 0, "tile": levels["L2"].align(box), "whole": levels["L2"].align(self.whole[operand.name])}[stage]
        return Block(levels["L1"].align(box), slots, stage_bytes, {"none": 0, "tile": slots, "whole": 1}[stage])

    def _orders(self, tiling: Tiling) -> Iterator[tuple[int, ...]]:
        """Loop orders: every order of the parallel loops (if few), reductions innermost."""
        outer = [i for i in tiling.split if self.nest.loops[i].kind == "parallel"]
        inner = tuple(i for i in tiling.split if self.nest.loops[i].kind != "parallel")
        for order in permutations(outer) if len(outer) <= 3 else (tuple(outer), tuple(outer[::-1])):
            yield (*order, *inner)

    def _transfers(self, volumes: Sequence[Volume], stages: Mapping[str, str]) -> Transfers:
        dma_cycles = ram_cycles = ram_first = 0.0
        dma_bytes = ram_bytes = 0
        for operand, moved in zip(self.nest.operands, volumes, strict=True):
            stage = stages[operand.name]
            key = (operand.name, stage, moved)
            if key not in self._moves:
                home, whole = self.homes[operand.name], self.whole[operand.name]
                self._moves[key] = operand_transfers(operand, home, stage, moved, whole, self.machine.target)
            one = self._moves[key]
            dma_cycles, ram_cycles = dma_cycles + one.dma_cycles, ram_cycles + one.ram_cycles
            ram_first += one.ram_first
            dma_bytes, ram_bytes = dma_bytes + one.dma_bytes, ram_bytes + one.ram_bytes
        return Transfers(dma_cycles, ram_cycles, ram_first, dma_bytes, ram_bytes)

    def _axes_of(self, operand: Operand, tiling: Tiling) -> tuple[AxisPlan, ...]:
        found: list[AxisPlan] = []
        for place, depends in enumerate(self._depends[operand.name]):
            key = (operand.name, place, tuple(tiling.tiles[i] for i in depends))
            if key not in self._axes:
                self._axes[key] = tiling.axis(operand, place)
            found.append(self._axes[key])
        return tuple(found)

    def _rough(self, rungs: Sequence[int]) -> tuple[float, float]:
        """Bytes of one slot of everything, and rough cycles, computation and tiles: for comparing steps of the descent."""
        tiles = tuple(s[r] for s, r in zip(self.ladders, rungs, strict=True))
        if tiles not in self._worth:
            tiling = Tiling(self.nest, tiles)
            blocks = (self.block(o, self._axes_of(o, tiling), "none", False) for o in self.nest.operands)
            count = math.prod(loop.count for loop in tiling.loop_plans())
            work = compute_cycles(tiling, self.machine) + count * self.machine.target.costs["tile"]
            self._worth[tiles] = sum(b.bytes for b in blocks) + tiling.scratch, work
        return self._worth[tiles]


def _loops_of(operand: Operand, nest: Nest) -> tuple[tuple[int, ...], ...]:
    """For every axis of an operand the loops it depends on."""
    found: list[tuple[int, ...]] = []
    for place in range(len(operand.view)):
        names = {name for access in operand.accesses if (index := access.index[place]) is not None for name in index.loops}
        found.append(tuple(i for i, loop in enumerate(nest.loops) if loop.name in names))
    return tuple(found)
