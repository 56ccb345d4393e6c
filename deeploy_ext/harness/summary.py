"""A report (``--json``) as Markdown, for the summary page of a job: ``python -m deeploy_ext.harness.summary report.json``."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deeploy_ext.errors import EXIT_BAD_INPUT, EXIT_PASS, BadInputError
from deeploy_ext.harness.report import SCHEMA

USAGE = "python -m deeploy_ext.harness.summary report.json"

SHOWN = 40
"""Losses that are listed; of more, the first and the last ones."""

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~&$])")


@dataclass(frozen=True)
class Value:
    """A value inside of a report, and where it is; asking for what it is not raises :class:`BadInputError`."""

    value: Any
    where: str = ""

    def __getitem__(self, key: str) -> Value:
        where = f"{self.where}.{key}" if self.where else key
        if not isinstance(self.value, dict):
            raise BadInputError(f"{self.where or 'the file'} is not an object")
        if key not in self.value:
            raise BadInputError(f"{where} is missing")
        return Value(self.value[key], where)

    def __contains__(self, key: str) -> bool:
        return isinstance(self.value, dict) and self.value.get(key) is not None

    def text(self) -> str:
        """The text, in one line, with nothing that Markdown takes for its own."""
        if not isinstance(self.value, str):
            raise BadInputError(f"{self.where} is not a text")
        one_line = " ".join(self.value.encode(errors="replace").decode().split())
        return _SPECIAL.sub(r"\\\1", one_line)

    def count(self) -> int:
        """The number, from 0 to what 64 bits hold."""
        if isinstance(self.value, bool) or not isinstance(self.value, int) or not 0 <= self.value < 2**64:
            raise BadInputError(f"{self.where} is not a count")
        return self.value

    def numbers(self) -> list[float]:
        """The list; not-a-number and infinity are texts in JSON."""
        if not isinstance(self.value, list):
            raise BadInputError(f"{self.where} is not a list")
        for number in self.value:
            if isinstance(number, bool) or (not isinstance(number, int | float) and number not in ("nan", "inf", "-inf")):
                raise BadInputError(f"{self.where} holds what is no number")
        try:
            return [float(number) for number in self.value]
        except OverflowError as error:
            raise BadInputError(f"{self.where} holds a number beyond all floats") from error


def summary(report: Value) -> str:
    """The verdict, the losses beside those of the golden run, and the cycles, measured ones beside predicted ones.

    Raises:
        BadInputError: this is not a report of a run; the message says where.
    """
    if not isinstance(report.value, dict) or report.value.get("schema") != SCHEMA:
        raise BadInputError(f"not the report of a run (it lacks the schema {SCHEMA})")
    passed = report["exit"].count() == EXIT_PASS
    lines = [
        f"### {report['test'].text()}, engine {report['engine'].text()}: {'passed' if passed else 'FAILED'}",
        *_verdict(report["checks"]),
        *_losses(report["losses"]["computed"].numbers(), report["losses"]["golden"].numbers()),
        *_cycles(report),
    ]
    return "\n".join(lines) + "\n"


def _verdict(checks: Value) -> Iterator[str]:
    yield ""
    yield f"Losses: {_of(checks['losses'])}. Errors: {_of(checks)}."
    for name in ("gradients", "parameters", "state", "predictions"):
        if checks[name]["errors"].count():
            worst = f", worst in {checks[name]['worst']['tensor'].text()}" if "worst" in checks[name] else ""
            yield f"Errors in {name}: {_of(checks[name])}{worst}."
    if "expected" in checks:
        yield f"Errors against the maker's own losses and weights: {_of(checks['expected'])}."
    if "repeat" in checks:
        yield f"Second round in the same process differs from the first: {checks['repeat'].text()}."


def _of(part: Value) -> str:
    return f"{part['errors'].count():,} out of {part['total'].count():,}"


def _losses(computed: list[float], golden: list[float]) -> Iterator[str]:
    if len(computed) != len(golden):
        raise BadInputError(f"losses: {len(computed)} computed, {len(golden)} golden")
    yield from ("", "| mini-batch | loss | golden run | difference |", "|--:|--:|--:|--:|")
    for position, (ours, theirs) in enumerate(zip(computed, golden, strict=True)):
        if len(computed) <= SHOWN or min(position, len(computed) - 1 - position) < SHOWN // 2:
            difference = "0" if ours == theirs else f"{ours - theirs:.1e}"
            yield f"| {position} | {ours:.7g} | {theirs:.7g} | {difference} |"
        elif position == SHOWN // 2:
            yield f"| {len(computed) - SHOWN:,} more | | | |"


def _cycles(report: Value) -> Iterator[str]:
    columns = [report["cycles"], *([report["predicted"]] if "predicted" in report else [])]
    names = [f"{column['kind'].text()}: {column['model'].text()}" for column in columns]
    both = len(columns) == 2
    yield ""
    yield f"| cycles | {' | '.join(names)} |{' ratio |' if both else ''}"
    yield "|---|" + "--:|" * (len(columns) + both)
    for entry, label in (("minibatch", "mini-batch"), ("update", "update"), ("inference", "inference")):
        if entry != "minibatch" and entry not in report["cycles"]:
            continue
        counts = [column[entry].count() for column in columns]
        ratio = f" {counts[0] / counts[1] if counts[1] else math.inf:.2f} |" if both else ""
        yield f"| per {label} | {' | '.join(f'{count:,}' for count in counts)} |{ratio}"


def read(file: str) -> Value:
    """The JSON in a file.

    Raises:
        BadInputError: there is no such file, or no JSON in it.
    """
    try:
        return Value(json.loads(Path(file).read_text(encoding="utf-8")))
    except OSError as error:
        raise BadInputError(error.strerror or "cannot be read") from error
    except (ValueError, RecursionError) as error:
        raise BadInputError(f"not JSON ({error})") from error


def main(arguments: Sequence[str]) -> int:
    """Prints the summary; returns the exit status, 2 for a file that is no report."""
    if list(arguments) in (["-h"], ["--help"]):
        print(f"usage: {USAGE}")
        return EXIT_PASS
    if len(arguments) != 1:
        print(f"summary: give one file: {USAGE}", file=sys.stderr)
        return EXIT_BAD_INPUT
    try:
        print(summary(read(arguments[0])), end="")
    except BadInputError as error:
        message = f"summary: {arguments[0]}: {error}"
        print("".join(c if c.isprintable() else ascii(c)[1:-1] for c in message), file=sys.stderr)
        return EXIT_BAD_INPUT
    return EXIT_PASS


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
