"""What the page of ``--plan-html`` draws, as plain values: rectangles of memory over time, bars of traffic, a timeline."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from deeploy_ext.harness.plan_report import PlanReport, reserved_for, tiles_text
from deeploy_ext.harness.plan_why import EXECUTION, Whys
from deeploy_ext.planning.figures import positions_of
from deeploy_ext.planning.plan import BlockPlan
from deeploy_ext.planning.traffic import BlockTraffic, Hops, moved_by, title_of, uses_of


class PlanView:
    """Derives everything from the report's plan.

    The lists go into the page as JSON; ``templates/plan/page.js`` reads their columns in the order given here.
    """

    def __init__(self, report: PlanReport) -> None:
        self.report, self.plan = report, report.plan
        self.whys = Whys(report.plan, report.target)
        self.uses = uses_of(report.plan)
        self.positions = positions_of(report.plan.groups)

    @cached_property
    def values(self) -> dict[str, int]:
        """Every value's number in the page."""
        found = [value for placement in self.plan.placements for value in (placement.storage, *placement.values)]
        found += [use.block.value for use in self.uses]
        return {value: i for i, value in enumerate(dict.fromkeys(found))}

    @cached_property
    def spans(self) -> list[tuple[float, float]]:
        """Of every nest: begin and end on the axis of schedule positions; nests of one position share it evenly."""
        count: dict[int, int] = {}
        for position in self.positions:
            count[position] = count.get(position, 0) + 1
        seen: dict[int, int] = {}
        spans: list[tuple[float, float]] = []
        for position in self.positions:
            i = seen.get(position, 0)
            seen[position] = i + 1
            spans.append((position + i / count[position], position + (i + 1) / count[position]))
        return spans

    def moved(self, entry: str) -> Hops:
        """What one execution of an entry moves."""
        return moved_by(use for use in self.uses if use.group.entry == entry)

    def data(self) -> dict[str, Any]:
        """Everything that the page draws."""
        return {
            "values": list(self.values),
            "model": self.report.target.model,
            "steps": [[name, operator] for name, operator in zip(self.report.schedule, self.report.operators, strict=True)],
            "entries": self._entries(),
            "levels": [
                [name, use.capacity, reserved_for(self.report, name), use.used, use.lower_bound]
                for name, use in sorted(self.plan.memory.items(), reverse=True)
            ],
            "fixed": self._fixed(),
            "nests": self._nests(),
            "places": self._places(),
            "blocks": self._blocks(),
        }

    def _entries(self) -> list[list[Any]]:
        """Name, what an execution is, first and end position."""
        rows: list[list[Any]] = []
        for entry in self.plan.entries:
            at = [p for p, group in zip(self.positions, self.plan.groups, strict=True) if group.entry == entry]
            if at:
                rows.append([entry, EXECUTION.get(entry, entry), min(at), max(at) + 1])
        return rows

    def _fixed(self) -> list[list[Any]]:
        """Reserved bytes: level, what, address, bytes. The linker places code and stacks; they are drawn at the end."""
        runtime, rows = self.report.target.runtime_bytes, list[list[Any]]()
        for name, use in sorted(self.plan.memory.items()):
            front = runtime if name == "L1" else 0
            if front:
                rows.append([name, "the runtime's state", 0, front])
            if use.reserved > front:
                what = "stacks" if name == "L1" else "code, tables, data and stack"
                size = use.reserved - front
                rows.append([name, f"{what}; where is the linker's choice", use.capacity - size, size])
        return rows

    def _nests(self) -> list[list[Any]]:
        """Title, begin, end, tiles, double, cycles (start, total, compute, dma, ram), bytes fetched and stored and commands
        of both hops, scratch address and bytes."""
        by_nest: dict[int, list[BlockTraffic]] = {}
        for use in self.uses:
            by_nest.setdefault(use.nest, []).append(use)
        start, rows = 0, list[list[Any]]()
        for i, (group, (begin, end)) in enumerate(zip(self.plan.groups, self.spans, strict=True)):
            uses, cycles = by_nest.get(i, []), group.cycles
            fetched = sum((use.fetched for use in uses), Hops())
            stored = sum((use.stored for use in uses), Hops())
            rows.append(
                [
                    title_of(group), _short(begin), _short(end), tiles_text(group), int(group.double_buffer),
                    start, cycles.total, cycles.compute, cycles.dma, cycles.ram,
                    fetched.l3_l2.bytes, stored.l3_l2.bytes, fetched.l3_l2.commands + stored.l3_l2.commands,
                    fetched.l2_l1.bytes, stored.l2_l1.bytes, fetched.l2_l1.commands + stored.l2_l1.commands,
                    group.scratch, group.scratch_bytes,
                ]
            )  # fmt: skip
            start += cycles.total
        return rows

    def _places(self) -> list[list[Any]]:
        """Level, storage, address, bytes, first and last position, persistent, why, values, nests that write, that read."""
        rows: list[list[Any]] = []
        for p in self.plan.placements:
            uses = self.whys.uses(p)
            writers = sorted({use.nest for use in uses if use.block.stored})
            readers = sorted({use.nest for use in uses if use.block.loaded})
            values = [self.values[value] for value in p.values]
            rows.append(
                [
                    p.level, self.values[p.storage], p.address, p.bytes, p.first, p.last, int(p.persistent),
                    self.whys.why(p), values, writers, readers,
                ]
            )  # fmt: skip
        return rows

    def _blocks(self) -> list[list[Any]]:
        """Nest, operand, value, persistent, loaded, stored, home, box, bytes, slots, stage, its bytes and slots, bytes of the
        tensor and of what passes in one direction, reasons of reloading."""
        lasting = {value for p in self.plan.placements if p.persistent for value in p.values}
        rows: list[list[Any]] = []
        for use in self.uses:
            block = use.block
            reasons = "; ".join(map(str, use.reasons)) if use.reloads else ""
            rows.append(
                [
                    use.nest, block.operand, self.values[block.value], int(block.value in lasting),
                    int(block.loaded), int(block.stored), use.home, box_text(block), block.bytes, list(block.slots),
                    block.stage, block.stage_bytes, list(block.stage_slots), use.bytes, use.once.l2_l1.bytes, reasons,
                ]
            )  # fmt: skip
        return rows


def box_text(block: BlockPlan) -> str:
    """The largest box: its size on every axis, of how many where that is less than all."""
    return " x ".join(str(a.extent) if a.largest == a.extent else f"{a.largest} of {a.extent}" for a in block.axes)


def _short(position: float) -> float | int:
    return int(position) if position == int(position) else round(position, 4)
