"""The constant tables of a group: region tables, axes, loops, blocks. Equal tables are emitted once."""

from __future__ import annotations

from dataclasses import dataclass, field

from deeploy_ext.codegen.text import c_comment
from deeploy_ext.errors import BadInputError
from deeploy_ext.operators.nests import MAX_RANK
from deeploy_ext.planning.plan import BlockPlan, Group, Placement

MAX_LOOPS = 8
MAX_OPERANDS = 10
_WIDTH = 116
_STAGES = {"none": "NET_DIRECT", "tile": "NET_BY_TILE", "whole": "NET_WHOLE"}


@dataclass
class Tables:
    """Collects C definitions; each method gives the name (or the initialiser) to refer to what it was given."""

    definitions: list[str] = field(default_factory=list[str])
    _names: dict[str, str] = field(default_factory=dict[str, str])
    _counts: dict[str, int] = field(default_factory=dict[str, int])
    _heading: str = ""

    def begin(self, heading: str) -> None:
        """The tables that follow are those of another group; ``heading`` is fit for a comment."""
        self._heading = heading

    def array(self, kind: str, stem: str, rows: list[str]) -> str:
        """Name of a ``static const`` array of these rows."""
        body = wrap(rows)
        key = f"{kind} {body}"
        if key not in self._names:
            number = self._counts.get(stem, 0)
            self._counts[stem] = number + 1
            self._names[key] = f"{stem}_{number}"
            if self._heading:
                self.definitions.append(f"/* {self._heading} */")
                self._heading = ""
            self.definitions.append(f"static const {kind} {stem}_{number}[] = {{{body}}};")
        return self._names[key]

    def loops(self, group: Group) -> str:
        return self.array(
            "net_loop_t",
            "loops",
            [
                f"{{{loop.extent}, {loop.tile}, {loop.count}, {str(loop.reduction).lower()}}} /* {loop.name} */"
                for loop in group.loops
            ],
        )

    def axes(self, block: BlockPlan) -> str:
        rows: list[str] = []
        for axis in block.axes:
            regions = self.array("net_interval_t", "regions", [f"{{{start}, {size}}}" for start, size in axis.regions])
            first, second = (*axis.loops, -1, -1)[:2]
            rows.append(f"{{{axis.extent}, {{{first}, {second}}}, {regions}}}")
        return self.array("net_axis_t", "axes", rows)

    def blocks(self, group: Group, homes: dict[str, Placement]) -> str:
        rows: list[str] = []
        for block in group.blocks:
            home = homes[block.value]
            mask = sum(1 << loop for loop in block.loops)
            slots, stages = (", ".join(map(str, at)) or "0" for at in (block.slots, block.stage_slots))
            rows.append(
                f"{{{self.axes(block)}, {home.address}, {{{slots}}}, {{{stages}}}, "
                f"NET_{home.level}, {_STAGES[block.stage]}, {len(block.axes)}, {block.item}, {len(block.slots)}, "
                f"{mask:#x}, {str(block.loaded).lower()}, {str(block.stored).lower()}}} "
                f"/* {block.operand}: {c_comment(block.value, 40)} */"
            )
        return self.array("net_block_t", "blocks", rows)


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
        ("axes", max((len(b.axes) for b in group.blocks), default=0), MAX_RANK),
        ("split loops per axis", max((len(axis.loops) for axis in regions), default=0), 2),
    ):
        if count > limit:
            raise BadInputError(f"node '{group.node}' has {count} {what}, the runtime holds {limit}; split the node.")
