"""Candidates: for every combination of homes, the ways to run a node that are worth choosing between.

A *unit* is what runs as one: a step, in one tile nest or in one after the other. The tilings that the greedy search meets, with
all operands in L2, all in L3 and as the greedy planner has them, are put in a table once per kind of unit; from it the Pareto
front of L2 staging bytes against predicted cycles follows for any homes by sums of columns.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from deeploy_ext.planning.cost import Transfers, operand_transfers, total_cycles
from deeploy_ext.planning.nest import Nest, Operand, Volume
from deeploy_ext.planning.search import Choice, NestSearch, Room, Shape
from deeploy_ext.planning.steps import Step
from deeploy_ext.planning.ways import Ways, homes_of

STAGES = ("tile", "whole")
"""How operands in L3 pass through L2, all of a nest alike; see :class:`deeploy_ext.planning.plan.BlockPlan`."""


@dataclass(frozen=True)
class Unit:
    """What is planned as one.

    Attributes:
        key: equal for units that cost the same under the same homes.
        entry: the entry it belongs to.
        first, last: schedule positions it covers, both included.
        ways: the alternatives, each a sequence of nests that run one after the other.
        slots: its distinct storages, in order of first use by an operand.
        slot_of: value of an operand with a home -> index in ``slots``; None for a run-time argument, which lives in L1.
        sizes: value of any operand -> bytes.
    """

    key: Hashable
    entry: str
    first: int
    last: int
    ways: tuple[tuple[Nest, ...], ...]
    slots: tuple[str, ...]
    slot_of: Mapping[str, int | None]
    sizes: Mapping[str, int]

    def slot(self, operand: Operand) -> int | None:
        """Where in ``slots`` an operand's storage is; None: it has no home to choose."""
        return self.slot_of[operand.value] if operand.loaded or operand.stored else None

    def homes(self, nest: Nest, levels: Sequence[str]) -> dict[str, str]:
        """Level of every operand of one of the nests, from those of the slots."""
        return homes_of(nest, {v: "L1" if slot is None else levels[slot] for v, slot in self.slot_of.items()})


def units_of(ways: Ways, steps: Sequence[Step], owner: Mapping[str, str]) -> tuple[Unit, ...]:
    """The units of a program, one per step; ``owner`` names the storage of every value."""
    program = ways.flow.program
    found: list[Unit] = []
    for position, step in enumerate(steps):
        slots: dict[str, int] = {}
        slot_of: dict[str, int | None] = {}
        pattern: list[tuple[str, int | None]] = []
        home = {value: "L1" if owner[value] in program.arguments else "" for call in step for value in call.operands.values()}
        nests = tuple(ways.nests(step)[way] for way in ways.suited(step, home, owner))
        operands = [operand for way in nests for nest in way for operand in nest.operands]
        for operand in operands:
            if operand.loaded or operand.stored:
                storage = owner[operand.value]
                argument = storage in program.arguments
                slot_of[operand.value] = None if argument else slots.setdefault(storage, len(slots))
                pattern.append((operand.name, slot_of[operand.value]))
        sizes = {operand.value: program.values[operand.value].bytes for operand in operands}
        key = ways.kind(step), tuple(pattern)
        found.append(Unit(key, step[0].entry, position, position, nests, tuple(slots), slot_of, sizes))
    return tuple(found)


@dataclass(frozen=True)
class Part:
    """One nest of a candidate: row of its table, and how operands in L3 are staged."""

    row: int
    stage: str


@dataclass(frozen=True)
class Candidate:
    """A way to run a unit: bytes of L2 for staging, predicted cycles, bytes of L1, and which of its ways, nest by nest."""

    stage: int
    cycles: int
    l1: int
    way: int
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Burden:
    """What it costs at most to have one more slot in L3: cycles, and bytes of staging."""

    cycles: int
    stage: int


class _Table:
    """Rows (tiling, order of loops, buffering) of one nest, and columns of what they take and cost.

    ``met`` has tiles and buffering of the rows. ``columns[slot][option]`` has the stage bytes, and of :class:`Transfers` the
    DMA cycles, RAM cycles and those that nothing hides, of all operands of a slot, for the options "L2" and ``STAGES``.
    """

    def __init__(self, search: NestSearch, met: Iterable[tuple[tuple[int, ...], bool]], unit: Unit, room: int) -> None:
        self.search, self.unit = search, unit
        target, operands = search.machine.target, search.nest.operands
        self.rows: list[tuple[Shape, tuple[int, ...], bool]] = []
        sizes: list[list[int]] = []
        l1: list[int] = []
        for tiles, double in sorted(met):
            shape = search.shape(tiles)
            if shape is None or (double and not shape.tiling.split):
                continue
            blocks = [search.block(o, shape.axes[o.name], "none", double) for o in operands]
            size = sum(b.bytes * b.slots for b in blocks) + target.levels["L1"].align(shape.tiling.scratch)
            if size <= room and max((b.bytes for b in blocks), default=0) <= target.costs["dma.max_bytes"]:
                self.rows += [(shape, order, double) for order in shape.orders]
                staged = [search.block(o, shape.axes[o.name], "tile", double) for o in operands]
                sizes += [[b.stage_bytes * b.stage_slots for b in staged]] * len(shape.orders)
                l1 += [size] * len(shape.orders)
        self.l1 = np.array(l1, np.int64)
        self.compute = np.array([shape.compute for shape, _, _ in self.rows])
        self.tiles = np.array([shape.count for shape, _, _ in self.rows], np.int64)
        self.double = np.array([double for _, _, double in self.rows], bool)
        self.columns = [{option: np.zeros((4, len(self.rows))) for option in ("L2", *STAGES)} for _ in unit.slots]
        self.both = {unit.slot(o) for o in operands if o.loaded and o.stored}
        for place, operand in enumerate(operands):
            slot = unit.slot(operand)
            if slot is not None:
                self._price(place, slot, np.array([size[place] for size in sizes], np.int64))

    def _price(self, place: int, slot: int, tile_bytes: np.ndarray) -> None:
        """Adds what an operand costs to its slot's columns, for each option of its home."""
        operand, target = self.search.nest.operands[place], self.search.machine.target
        whole = self.search.whole[operand.name]
        volumes = [shape.orders[order][place] for shape, order, _ in self.rows]
        columns: list[Any] = [np.array([getattr(v, name) for v in volumes]) for name in Volume.__match_args__]
        moved = Volume(*columns)  # of every row at once
        staged = {"none": 0, "tile": tile_bytes, "whole": target.levels["L2"].align(whole)}
        for option, home, stage in (("L2", "L2", "none"), *((s, "L3", s) for s in STAGES)):
            transfers = operand_transfers(operand, home, stage, moved, whole, target)
            for row, added in enumerate((staged[stage], transfers.dma_cycles, transfers.ram_cycles, transfers.ram_first)):
                self.columns[slot][option][row] += added

    def priced(self, levels: Sequence[str], stage: str) -> tuple[np.ndarray, np.ndarray]:
        """Staging bytes and cycles of every row."""
        used = [c[stage if level == "L3" else "L2"] for c, level in zip(self.columns, levels, strict=True)]
        staged, dma, ram, first = sum(used, np.zeros((4, len(self.rows))))
        whole = stage == "whole" and "L3" in levels
        target, steps = self.search.machine.target, self.search.nest.steps
        columns: Any = dma, ram, first
        cycles = total_cycles(self.compute, Transfers(*columns), self.tiles, steps, self.double, whole, target)
        return staged.astype(np.int64), np.rint(cycles).astype(np.int64)

    def front(self, levels: Sequence[str], way: int) -> list[Candidate]:
        """Pareto front of staging bytes against cycles, fewest bytes first."""
        found: list[Candidate] = []
        for stage in STAGES if "L3" in levels else STAGES[:1]:
            sizes, cycles = self.priced(levels, stage)
            ranked = np.lexsort((self.l1, cycles, sizes))
            if stage == "tile" and any(levels[slot] == "L3" for slot in self.both if slot is not None):
                ranked = ranked[~self.double[ranked]]  # see Choice.keeps_stages
            least = np.minimum.accumulate(cycles[ranked])
            better = np.concatenate(([True], least[1:] < least[:-1]))[: len(ranked)]
            for row in ranked[better].tolist():
                found.append(Candidate(int(sizes[row]), int(cycles[row]), int(self.l1[row]), way, (Part(row, stage),)))
        return pareto(found)

    def burden(self, slot: int) -> Burden:
        """At most what a slot adds to a row when it moves from L2 to L3, whatever else is in L3."""
        cycles = stage = 0
        for option in STAGES:
            size, dma, ram, _ = self.columns[slot][option] - self.columns[slot]["L2"]
            added = (ram + np.maximum(dma, 0)) * (1 + self.double / self.tiles)
            cycles = max(cycles, math.ceil(added.max(initial=0)) + 1)
            stage = max(stage, int(size.max(initial=0)))
        return Burden(cycles + (self._hidden() if slot in self.both else 0), stage)

    def _hidden(self) -> int:
        """At most what double buffering saves: a slot that must not be staged by tiles with it may need the row without."""
        away = [np.maximum(c["tile"], c["whole"]) for c in self.columns]
        _, dma, ram, _ = sum(away, np.zeros((4, len(self.rows))))
        saved = self.compute + dma + ram - np.maximum(np.maximum(self.compute, dma), ram)
        return math.ceil(saved[self.double].max(initial=0)) + 1

    def choice(self, part: Part, levels: Sequence[str]) -> Choice:
        """The row with all that follows from it, for the emitted tables."""
        shape, order, double = self.rows[part.row]
        homes = self.unit.homes(self.search.nest, levels)
        search = NestSearch(self.search.nest, homes, self.search.whole, self.search.machine, like=self.search)
        stages = {name: part.stage if homes[name] == "L3" else "none" for name in (o.name for o in search.nest.operands)}
        return search.choice(shape, order, stages, double)


def pareto(found: Iterable[Candidate]) -> list[Candidate]:
    """Those that none beats in both bytes and cycles, fewest bytes first."""
    kept: list[Candidate] = []
    for one in sorted(found, key=lambda o: (o.stage, o.cycles, o.l1)):
        if not kept or one.cycles < kept[-1].cycles:
            kept.append(one)
    return kept


class Candidates:
    """The candidates of one kind of unit.

    Args:
        unit: any unit of the kind.
        contexts: levels of its slots and room under which the greedy search looks for tilings.
        room: bytes of L1 that a nest may use.
        ways: for the searches.
    """

    def __init__(self, unit: Unit, contexts: Sequence[tuple[Sequence[str], Room]], room: int, ways: Ways) -> None:
        self._fronts: dict[tuple[str, ...], list[Candidate]] = {}
        self._burdens: dict[int, Burden] = {}
        self._tables = [[_met(unit, nest, contexts, room, ways) for nest in way] for way in unit.ways]

    def front(self, levels: tuple[str, ...]) -> list[Candidate]:
        """Ways to run the unit with these levels of its slots, none better than another in staging bytes and cycles; the one
        with the fewest bytes first. Empty: not even the smallest tile fits L1.
        """
        if levels not in self._fronts:
            found: list[Candidate] = []
            for way, tables in enumerate(self._tables):
                together = [Candidate(0, 0, 0, way, ())]
                for table in tables:
                    together = pareto(_after(a, b) for a in together for b in table.front(levels, way))
                found += together
            self._fronts[levels] = pareto(found)
        return self._fronts[levels]

    def burden(self, slot: int) -> Burden:
        """At most what a slot adds to any candidate when it moves from L2 to L3."""
        if slot not in self._burdens:
            each = [[table.burden(slot) for table in tables] for tables in self._tables]
            cycles = max(sum(b.cycles for b in burdens) for burdens in each)
            self._burdens[slot] = Burden(cycles, max(b.stage for burdens in each for b in burdens))
        return self._burdens[slot]

    def choices(self, candidate: Candidate, levels: Sequence[str]) -> tuple[Choice, ...]:
        """A candidate with all that follows from it, nest by nest."""
        tables = self._tables[candidate.way]
        return tuple(table.choice(part, levels) for table, part in zip(tables, candidate.parts, strict=True))


def _after(a: Candidate, b: Candidate) -> Candidate:
    """Two that run one after the other."""
    return Candidate(max(a.stage, b.stage), a.cycles + b.cycles, max(a.l1, b.l1), a.way, a.parts + b.parts)


def _met(unit: Unit, nest: Nest, contexts: Sequence[tuple[Sequence[str], Room]], room: int, ways: Ways) -> _Table:
    """The table of a nest: all tilings that the greedy search meets in some contexts."""
    searches = [ways.search(nest, unit.homes(nest, levels)) for levels, _ in contexts]
    met: set[tuple[tuple[int, ...], bool]] = {(searches[0].smallest_tiles, False)}
    for search, (_, allowed) in zip(searches, contexts, strict=True):
        search.best(allowed)
        met |= search.met
    if any(o.loaded and o.stored for o in nest.operands):
        met |= {(tiles, False) for tiles, _ in met}
    return _Table(searches[0], met, unit, room)
