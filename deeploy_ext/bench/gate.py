"""Cycle gates: measured cycles of test networks, compared with those that are committed beside them.

``testnets/<network>/cycles.json`` holds a record for each model of the cluster and compiler that somebody measured with. What
is off by more than the tolerance fails in both directions: a record that is no longer true gates nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from deeploy_ext.errors import BadInputError
from deeploy_ext.harness.report import CycleReport

SCHEMA = "deeploy_ext/cycles/1"
FILE = "cycles.json"

NETWORK_TOLERANCE = 0.01
NODE_TOLERANCE = 0.05
NODE_SLACK = 300
"""Cycles that any node may be off by: where code lies in the instruction cache moves small nodes by that."""

ENTRIES = ("minibatch", "update", "inference")


@dataclass(frozen=True)
class Record:
    """Cycles of one network.

    Attributes:
        model, compiler: what they were measured with; records of other ones cannot be compared.
        flags: of the plan, as on the command line.
        entries: cycles by name of the entry.
        nodes: cycles by entry, node and phases, in execution order.
    """

    model: str
    compiler: str
    flags: list[str]
    entries: dict[str, int]
    nodes: dict[str, int] = field(default_factory=dict[str, int])

    @property
    def key(self) -> tuple[str, ...]:
        return (self.model, self.compiler, *self.flags)


def record_of(cycles: CycleReport, compiler: str, flags: list[str]) -> Record:
    """The record of a run with measured cycles."""
    assert cycles.kind == "measured"
    entries = {name: count for name in ENTRIES if (count := getattr(cycles, name)) is not None}
    nodes = {f"{entry}: {node} ({phase})": count for entry, node, phase, count in cycles.per_node}
    return Record(cycles.model, compiler, flags, entries, nodes)


def compiler_key(family: str, version: str) -> str:
    """A compiler as records name it: "clang 19.1.7" from its family and its first line about itself."""
    number = re.search(r"\d+\.\d+(\.\d+)?", version)
    return f"{family} {number[0]}" if number else family


def read_records(path: Path) -> list[Record]:
    """The records of a network; none if there is no file.

    Raises:
        BadInputError: the file is not one of records.
    """
    if not path.exists():
        return []
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
        if value["schema"] != SCHEMA:
            raise ValueError(f"schema {value['schema']!r}")
        return [Record(**record) for record in value["records"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadInputError(f"'{path}' is not a file of cycle records ({error!r}); make it anew with --update.") from error


def records_text(records: list[Record]) -> str:
    """The file's text; equal records give equal bytes."""
    value = {"schema": SCHEMA, "records": [asdict(record) for record in sorted(records, key=lambda record: record.key)]}
    return json.dumps(value, indent=1) + "\n"


@dataclass(frozen=True)
class Difference:
    """A figure that is not within its tolerance; None: it is not there."""

    what: str
    before: int | None
    now: int | None

    def line(self) -> str:
        """As a row of a table."""
        change = f"{self.now / self.before - 1:+.1%}" if self.now and self.before else "new" if self.now else "gone"
        before, now = ("" if count is None else f"{count:,}" for count in (self.before, self.now))
        return f"{before:>14}{now:>14}{change:>9}  {self.what}"


def differences(before: Record, now: Record) -> Iterator[Difference]:
    """What changed by more than the tolerance, in execution order."""
    yield from _differences(before.entries, now.entries, NETWORK_TOLERANCE, 0)
    yield from _differences(before.nodes, now.nodes, NODE_TOLERANCE, NODE_SLACK)


def _differences(before: Mapping[str, int], now: Mapping[str, int], tolerance: float, slack: int) -> Iterator[Difference]:
    for what in dict.fromkeys((*before, *now)):
        old, new = before.get(what), now.get(what)
        if old is None or new is None or abs(new - old) > max(tolerance * old, slack):
            yield Difference(what, old, new)
