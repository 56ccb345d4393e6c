"""The constant tables of a group: its shape (loops, axes), its work (phases, operands), its regions; equal ones once."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from deeploy_ext.codegen.text import c_comment
from deeploy_ext.errors import BadInputError
from deeploy_ext.operators.nests import MAX_RANK
from deeploy_ext.planning.plan import (
    AFTER,
    EARLY,
    KEPT,
    MAX_LOOPS,
    MAX_OPERANDS,
    MAX_PHASES,
    TURN,
    AxisPlan,
    BlockPlan,
    Group,
    Placement,
)  # fmt: skip

SLOT_UNIT = 8
MOST_L1 = 65536 * SLOT_UNIT
"""Bytes of L1 in which slots can be numbered."""
_WIDTH = 116
_STAGES = {"none": "NET_DIRECT", "tile": "NET_BY_TILE", "whole": "NET_WHOLE"}
_ARRIVALS = {AFTER: "NET_AFTER", TURN: "NET_AT_TURN", EARLY: "NET_EARLY", KEPT: "NET_KEPT"}


@dataclass
class Tables:
    """Collects C definitions; each method gives the name to refer to what it was given."""

    definitions: list[str] = field(default_factory=list[str])
    regions: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    _names: dict[str, str] = field(default_factory=dict[str, str])
    _counts: dict[str, int] = field(default_factory=dict[str, int])
    _rows: dict[tuple[tuple[int, int], ...], int] = field(default_factory=dict[tuple[tuple[int, int], ...], int])
    _heading: str = ""

    def begin(self, heading: str) -> None:
        """The tables that follow are those of another group; ``heading`` is fit for a comment."""
        self._heading = heading

    def region_text(self) -> str:
        """Initialiser of the regions of all groups."""
        return wrap([f"{{{start}, {size}}}" for start, size in self.regions or [(0, 0)]])

    def _define(self, stem: str, kind: str, body: str) -> str:
        key = f"{kind} {body}"
        if key not in self._names:
            number = self._counts.get(stem, 0)
            self._counts[stem] = number + 1
            self._names[key] = f"{stem}_{number}"
            if self._heading:
                self.definitions.append(f"/* {self._heading} */")
                self._heading = ""
            self.definitions.append(f"static const {kind} {stem}_{number} = {{{body}}};")
        return self._names[key]

    def _region(self, axis: AxisPlan) -> int:
        """First row of an axis' regions; -1 when it is always whole."""
        if axis.regions == ((0, axis.extent),):
            return -1
        if axis.regions not in self._rows:
            self._rows[axis.regions] = len(self.regions)
            self.regions.extend(axis.regions)
        return self._rows[axis.regions]

    def shape(self, group: Group) -> str:
        """Name of the table of a group's geometry: head, loops, and the axes of all its operands."""
        axes = [axis for block in group.blocks for axis in block.axes]
        order = ", ".join(map(str, group.order)) or "0"
        reductions = sum(1 << i for i, loop in enumerate(group.loops) if loop.reduction)
        double = str(group.double_buffer).lower()
        head = f"{{{group.tiles}, {{{order}}}, {len(group.loops)}, {len(group.order)}, {len(axes)}, {reductions:#x}, {double}}}"
        loops = wrap([f"{{{loop.extent}, {loop.tile}, {loop.count}}}" for loop in group.loops])
        rows: list[str] = []
        for axis in axes:
            first, second = (*axis.loops, -1, -1)[:2]
            rows.append(f"{{{axis.extent}, {self._region(axis)}, {{{first}, {second}}}}}")
        kind = f"struct {{ net_shape_t head; net_loop_t loops[{len(group.loops)}]; net_axis_t axes[{len(axes)}]; }}"
        return self._define("shape", kind, f"{head}, {{{loops}}}, {{{wrap(rows)}}}")

    def tile(self, group: Group) -> str:
        """Name of the table that is the first tile of a group, as far as it is known: loops and boxes."""
        loops = [f"{{0, {min(loop.tile, loop.extent)}}}" for loop in group.loops]
        last = all(loop.count == 1 for loop in group.loops if loop.reduction)
        operands: list[str] = []
        for block in group.blocks:
            boxes = [axis.regions[0] for axis in block.axes]
            strides = [math.prod(size for _, size in boxes[i + 1 :]) for i in range(len(boxes))]
            columns = [start for start, _ in boxes], [size for _, size in boxes], strides
            operands.append("{0, " + ", ".join("{" + ", ".join(map(str, column)) + "}" for column in columns) + ", true}")
        head = "net_interval_t loop[NET_MAX_LOOPS]; bool first, last; void *scratch"
        kind = f"struct {{ {head}; net_operand_t operand[{len(operands)}]; }}"
        return self._define("tile", kind, f"{{{', '.join(loops)}}}, true, {str(last).lower()}, 0, {{{wrap(operands)}}}")

    def work(self, group: Group, phases: list[str], restart: int | None, homes: dict[str, Placement]) -> str:
        """Name of the table of what a group computes: its phases, which operand says whether sums start anew, and where its
        operands are."""
        rows: list[str] = []
        axes = 0
        for block in group.blocks:
            level, address = home_of(block, homes)
            mask = sum(1 << loop for loop in block.loops)
            size = math.prod(axis.extent for axis in block.axes) * block.item
            numbers = [slot // SLOT_UNIT for slot in block.slots]
            slots, stages = (", ".join(map(str, at)) or "0" for at in (numbers, block.stage_slots))
            rows.append(
                f"{{{address}, {size}, {{{stages}}}, {{{slots}}}, {axes}, "
                f"NET_{level}, {_STAGES[block.stage]}, {len(block.axes)}, {block.item}, {len(block.slots)}, "
                f"{mask:#x}, {_ARRIVALS[block.arrival]}, {_flags(block.loaded, block.stored)}}} "
                f"/* {_uses(block, group)}: {c_comment(block.value, 40)} */"
            )
            axes += len(block.axes)
        staged = any(block.stage != "none" for block in group.blocks)
        refilled = any(block.loaded and block.stored for block in group.blocks)
        flags = _flags(_simple(group, homes), staged, refilled, group.drains)
        counts = f"{len(phases)}, {group.behind + 1}, {len(rows)}, {-1 if restart is None else restart}"
        head = f"{{{counts}, {flags}, {group.scratch}, {group.scratch_bytes}}}"
        kind = f"struct {{ net_work_t head; net_phase_t phases[{len(phases)}]; net_block_t blocks[{len(rows)}]; }}"
        return self._define("work", kind, f"{head}, {{{', '.join(phases)}}}, {{{wrap(rows)}}}")


def home_of(block: BlockPlan, homes: dict[str, Placement]) -> tuple[str, int]:
    """Level and address of a block's home; what lives in its tile only is never moved, so that it does not matter."""
    if not (block.loaded or block.stored):
        return "L2", 0
    return homes[block.value].level, homes[block.value].address


def _uses(block: BlockPlan, group: Group) -> str:
    """What a block is to the nodes of its group, for a comment."""
    several = len(group.nodes) > 1
    return ", ".join(f"{use.operand} of node {use.node + 1}" if several else use.operand for use in block.uses)


def _simple(group: Group, homes: dict[str, Placement]) -> bool:
    """Whether a group is one tile of whole tensors, none of which passes through L2 on its way."""
    whole = all(axis.regions == ((0, axis.extent),) for block in group.blocks for axis in block.axes)
    return group.tiles == 1 and whole and all(home_of(block, homes)[0] != "L3" for block in group.blocks)


def _flags(*flags: bool) -> str:
    return ", ".join(str(flag).lower() for flag in flags)


def wrap(rows: list[str]) -> str:
    """Rows of an initialiser, broken into lines when long."""
    text = ", ".join(rows)
    if len(text) <= 60:
        return text
    lines, line = [""], 0
    for row in rows:
        if line and len(lines[-1]) + len(row) + 2 > _WIDTH:
            lines.append("")
            line = 0
        lines[-1] += f"{row}, "
        line += 1
    return "\n    " + "\n    ".join(text.rstrip() for text in lines) + "\n"


def check_limits(group: Group) -> None:
    """Refuse what the runtime's fixed-size tables cannot hold."""
    regions = [axis for block in group.blocks for axis in block.axes]
    for what, count, limit in (
        ("loops", len(group.loops), MAX_LOOPS),
        ("operands", len(group.blocks), MAX_OPERANDS),
        ("phases", len(group.computed), MAX_PHASES),
        ("axes", max((len(b.axes) for b in group.blocks), default=0), MAX_RANK),
        ("bytes of L1 up to the end of its blocks", max((s for b in group.blocks for s in b.slots), default=0), MOST_L1 - 1),
        ("split loops per axis", max((len(axis.loops) for axis in regions), default=0), 2),
    ):
        if count > limit:
            raise BadInputError(f"node '{group.node}' has {count} {what}, the runtime holds {limit}; split the node.")
