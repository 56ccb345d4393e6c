"""The Plan: every decision between the graph and the C, as one value that can be dumped, read and fed back.

Code generation decides nothing: tile sizes, regions, addresses and buffer counts are taken from here, and
``planning.check`` proves them against each other before anything is emitted.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

from deeploy_ext.errors import BadInputError
from deeploy_ext.planning.typed import typed

SCHEMA = "deeploy_ext/plan/3"


MAX_LOOPS = 8
MAX_OPERANDS = 14
MAX_PHASES = 8
MAX_FLAT = 6
"""What one nest can have, as the runtime's tables hold it (``NET_MAX_LOOPS`` and so on)."""


@dataclass(frozen=True)
class LoopPlan:
    """One loop of a tile nest; ``tile`` iterations per tile, the last tile may be smaller."""

    name: str
    extent: int
    tile: int
    reduction: bool

    @property
    def count(self) -> int:
        return -(-self.extent // self.tile)

    def range(self, index: int) -> tuple[int, int]:
        """Half-open range of the loop in tile ``index``."""
        return index * self.tile, min((index + 1) * self.tile, self.extent)


@dataclass(frozen=True)
class AxisPlan:
    """One axis of an operand: its extent and the region (start, size) that each tile touches.

    ``loops`` are the split loops (indices into ``Group.loops``) the region depends on; ``regions`` is their mixed-radix
    table, last loop fastest. A region that no split loop changes has one row.
    """

    extent: int
    loops: tuple[int, ...]
    regions: tuple[tuple[int, int], ...]

    @cached_property
    def largest(self) -> int:
        """Largest size of a region."""
        return max(size for _, size in self.regions)


def gapless(axes: Sequence[AxisPlan]) -> bool:
    """Whether all boxes of an operand are runs of its tensor: behind the first axis with several elements all are whole."""
    outer = next((place for place, axis in enumerate(axes) if axis.extent > 1), len(axes))
    return all(size == axis.extent for axis in axes[outer + 1 :] for _, size in axis.regions)


AFTER, TURN, EARLY, KEPT = ARRIVALS = ("after", "turn", "early", "kept")
"""When the box of a nest's first tile is loaded: when the results of the nest before are at home, when its last tile is
computed, while it is computed, or not at all because that tile left it in the slot. Each is sooner than the one before.
"""


@dataclass(frozen=True)
class Use:
    """What a block is to a node of its group: which node, and which of its operands."""

    node: int
    operand: str


@dataclass(frozen=True)
class BlockPlan:
    """An operand of a group and its L1 block.

    Attributes:
        uses: the operands that it is. Several where one node computes what another reads, or in place of it.
        value: its name in the graph; of one that nodes compute in place, the one that has a home.
        loaded, stored: whether tiles are read from / written to its home; neither: it has none, and lives in its tile only.
        item: bytes per element.
        axes: regions per axis of the operand's view.
        bytes: size of one L1 slot, aligned.
        slots: L1 byte offsets; two of them with double buffering, none for an operand that lives in L1.
        stage: how an L3 operand passes through L2: ``none`` (home is L2 or L1), ``tile`` or ``whole``.
        stage_bytes, stage_slots: size and L2 byte offsets of the staging buffers.
        arrival: when the box of the first tile comes, one of :data:`ARRIVALS`.
    """

    uses: tuple[Use, ...]
    value: str
    loaded: bool
    stored: bool
    item: int
    axes: tuple[AxisPlan, ...]
    bytes: int
    slots: tuple[int, ...]
    stage: str
    stage_bytes: int
    stage_slots: tuple[int, ...]
    arrival: str = AFTER

    @property
    def operand(self) -> str:
        """The operand that it is to the first node that uses it."""
        return self.uses[0].operand

    @property
    def loops(self) -> tuple[int, ...]:
        """Split loops that change this operand's box, sorted."""
        return tuple(sorted({loop for axis in self.axes for loop in axis.loops}))

    @property
    def gapless(self) -> bool:
        """Whether every box is one run of bytes of its tensor: split along its outermost axis only."""
        return gapless(self.axes)

    @property
    def box_bytes(self) -> int:
        """Bytes of the largest box."""
        return math.prod(axis.largest for axis in self.axes) * self.item


@dataclass(frozen=True)
class BodyPlan:
    """One phase computed on each tile.

    Attributes:
        core_loop: the loop that the cores split; None: one core, or see ``team`` and ``flat``.
        variant: the chosen one, "" or "runtime"; :data:`CONTINUED`: nothing is computed.
        team: a step of a team kernel, ``variant``, whose workers share the work out themselves.
        node: place in the group.
        flat: blocks of the operands of an element-wise node, what it writes first; the cores share out all elements of their
            boxes.
    """

    phase: str
    core_loop: int | None
    variant: str = ""
    team: bool = False
    node: int = 0
    flat: tuple[int, ...] = ()


@dataclass(frozen=True)
class Cycles:
    """Predicted cycles of one execution of a group."""

    compute: int
    dma: int
    ram: int
    total: int


@dataclass(frozen=True)
class Group:
    """One tile nest.

    ``nodes`` are computed tile by tile, one after the other. The loops are those of the *main* one (its place); element-wise
    ones before it run on every tile, those behind it on the last tile of each reduction. ``order`` lists the split loops
    outermost first; reduction loops come last, so an output tile stays in L1 until done.
    ``drains``: the results of the nest before may still be on their way out while the first tile is computed.
    """

    entry: str
    nodes: tuple[str, ...]
    main: int
    bodies: tuple[BodyPlan, ...]
    loops: tuple[LoopPlan, ...]
    order: tuple[int, ...]
    blocks: tuple[BlockPlan, ...]
    double_buffer: bool
    cycles: Cycles
    scratch: int = 0
    scratch_bytes: int = 0
    drains: bool = False

    @property
    def node(self) -> str:
        """All its nodes, as reports name them."""
        return "+".join(self.nodes)

    @property
    def behind(self) -> int:
        """The main node's last body, beside which worker 0 prepares what comes next; later ones run where reductions end."""
        return max(i for i, body in enumerate(self.bodies) if body.node == self.main)

    @property
    def computed(self) -> tuple[BodyPlan, ...]:
        """The bodies that are emitted."""
        return tuple(body for body in self.bodies if body.variant != CONTINUED)

    def chain(self, place: int) -> int:
        """How many element-wise bodies, of those computed, go on with the elements of the one at a place, without a barrier."""
        bodies, found = self.computed, 0
        if bodies[place].flat:
            axes = self.blocks[bodies[place].flat[0]].axes
            for body in bodies[place + 1 :]:
                if not body.flat or self.blocks[body.flat[0]].axes != axes:
                    break
                found += 1
        return found

    @property
    def team(self) -> bool:
        """Whether a team kernel computes it."""
        return any(body.team for body in self.bodies)

    @property
    def phases(self) -> tuple[str, ...]:
        """The phases of its main node, each once, in order."""
        return tuple(dict.fromkeys(body.phase for body in self.bodies if body.node == self.main))

    @property
    def tiles(self) -> int:
        return math.prod(self.loops[i].count for i in self.order)


CONTINUED = "continued"
"""Variant of the body of a node that adds to a sum what the group's main node goes on with instead."""

CONTIGUOUS = "contiguous"
"""The layout of a tensor in C order without border or gaps; the only one that the emitted tables express so far."""


@dataclass(frozen=True)
class Placement:
    """A placement segment: where a storage lives from schedule position ``first`` to ``last``, both included.

    Attributes:
        level, address: memory level and byte offset in it.
        layout: how the values lie there.
        persistent: the contents are kept between entries.
        values: names of the values that share the storage.
    """

    storage: str
    level: str
    address: int
    bytes: int
    layout: str
    first: int
    last: int
    persistent: bool
    values: tuple[str, ...]


@dataclass(frozen=True)
class Prepare:
    """A weight image in a kernel's own order, made once per update: from which value, into which."""

    source: str
    image: str


@dataclass(frozen=True)
class LevelUse:
    """Bytes of one level; ``used`` and ``lower_bound`` (largest sum of live bytes) include what is reserved."""

    capacity: int
    reserved: int
    used: int
    lower_bound: int

    @property
    def gap(self) -> int:
        """Bytes above the lower bound."""
        return self.used - self.lower_bound


@dataclass(frozen=True)
class Traffic:
    """Bytes moved by one execution of an entry, both directions."""

    l3_l2: int
    l2_l1: int


@dataclass(frozen=True)
class Plan:
    """All decisions; see the module docstring.

    Attributes:
        options: those that shaped the plan, with the target's own values filled in.
        entries: names of the entries in execution order.
        groups: tile nests of all entries, in execution order.
        prepare: weight images; the portable kernels need none.
    """

    target: str
    options: dict[str, Any]
    entries: tuple[str, ...]
    groups: tuple[Group, ...]
    placements: tuple[Placement, ...]
    prepare: tuple[Prepare, ...]
    memory: dict[str, LevelUse]
    traffic: dict[str, Traffic] = field(default_factory=dict[str, Traffic])

    def entry(self, name: str) -> tuple[Group, ...]:
        """Groups of one entry in execution order."""
        return tuple(g for g in self.groups if g.entry == name)

    @property
    def schedule(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Entry and nodes of every schedule position: a node may take several groups that follow each other."""
        return tuple(dict.fromkeys((g.entry, g.nodes) for g in self.groups))

    def cycles(self, entry: str) -> int:
        """Predicted cycles of one execution of an entry."""
        return sum(g.cycles.total for g in self.entry(entry))

    def to_json(self) -> str:
        """A text that :meth:`from_json` reads back; equal plans give equal bytes. One group, placement or level per line."""

        def lines(rows: Iterable[Any]) -> str:
            return "[\n  " + ",\n  ".join(json.dumps(asdict(row), separators=(",", ":")) for row in rows) + "\n ]"

        return (
            "{\n"
            f' "schema": {json.dumps(SCHEMA)},\n "target": {json.dumps(self.target)},\n'
            f' "options": {json.dumps(self.options, sort_keys=True)},\n'
            f' "memory": {json.dumps({k: asdict(v) for k, v in self.memory.items()})},\n'
            f' "traffic": {json.dumps({k: asdict(v) for k, v in self.traffic.items()})},\n'
            f' "entries": {json.dumps(self.entries)},\n "prepare": {json.dumps([asdict(p) for p in self.prepare])},\n'
            f' "placements": {lines(self.placements)},\n "groups": {lines(self.groups)}\n'
            "}\n"
        )

    @staticmethod
    def from_json(text: str) -> Plan:
        """Read a plan.

        Raises:
            BadInputError: the text is not a plan of this version.
        """
        try:
            data = json.loads(text)
            if data["schema"] != SCHEMA:
                raise BadInputError(f"plan has schema {data['schema']!r}, this version reads {SCHEMA!r}; plan again.")
            return typed(Plan, {key: value for key, value in data.items() if key != "schema"}, "plan")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise BadInputError(f"not a plan file ({type(error).__name__}: {error}); use one written by --dump.") from error
