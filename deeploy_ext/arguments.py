"""Command lines: the values that options take, an argument parser whose errors are one line, options of several commands."""

from __future__ import annotations

import argparse
import difflib
import itertools
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from deeploy_ext.errors import BadInputError
from deeploy_ext.toolchain.gvsoc import TARGETS

_SIZE = re.compile(r"([0-9]{1,18})(k|KiB|M|MiB)?")
_FACTOR = {None: 1, "k": 1024, "KiB": 1024, "M": 1024**2, "MiB": 1024**2}


def size(text: str) -> int:
    """Bytes from "24000", "24k" or "128KiB"."""
    match = _SIZE.fullmatch(text)
    value = int(match[1]) * _FACTOR[match[2]] if match else 0
    if not 0 < value < 2**32:
        raise argparse.ArgumentTypeError(
            f"'{text}' is not a size; give bytes above 0 and below 4 GiB, e.g. 131072, 128k or 128KiB"
        )
    return value


def named(text: str) -> str:
    """A name or path that is not empty and can be printed."""
    if not text or any(unicodedata.category(character) in ("Cc", "Zl", "Zp") for character in text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a network; give a name (--list), a file or a folder")
    return text


def place(text: str) -> str:
    """A path that is not empty."""
    if not text or "\0" in text:
        raise argparse.ArgumentTypeError(f"{text!r} is not a path; give the name of a file or a folder")
    return text


def count(text: str) -> int:
    """A whole number from 1."""
    if not re.fullmatch(r"[0-9]{1,9}", text) or int(text) == 0:
        raise argparse.ArgumentTypeError(f"'{text}' is not a count; give a whole number from 1 to 999999999")
    return int(text)


def seed(text: str) -> int:
    """A whole number from 0 that fits 32 bits."""
    if not re.fullmatch(r"[0-9]{1,10}", text) or int(text) >= 2**32:
        raise argparse.ArgumentTypeError(f"'{text}' is not a seed; give a whole number from 0 to {2**32 - 1}")
    return int(text)


def number(lowest: float, highest: float) -> Callable[[str], float]:
    """A parser of finite numbers between two limits, in plain or exponent notation."""

    def parse(text: str) -> float:
        value = float(text) if re.fullmatch(r"[0-9]*\.?[0-9]+([eE][-+]?[0-9]+)?|[0-9]+\.", text) else -1.0
        if not lowest <= value <= highest:
            raise argparse.ArgumentTypeError(f"'{text}' is not usable; give a number from {lowest:g} to {highest:g}, e.g. 1e-3")
        return value

    return parse


class UsageError(BadInputError):
    """The command line itself is wrong; a traceback would say nothing."""


class Parser(argparse.ArgumentParser):
    """Answers bad usage with one line and exit status 2."""

    def error(self, message: str) -> NoReturn:
        unknown = re.match(r"unrecognized arguments: (--[\w-]+)", message)
        if unknown:
            known = [option for action in self._actions for option in action.option_strings]
            near = difflib.get_close_matches(unknown[1], known, n=1)
            message += f"; did you mean {near[0]}?" if near else "; see --help"
        raise UsageError(message)

    def answer(self, given: Sequence[str]) -> argparse.Namespace | None:
        """What is asked for; None: --help or --version has printed it already."""
        try:
            return self.parse_args(given)
        except SystemExit:
            return None


def spare_inputs(inputs: Mapping[str, str | None], outputs: Mapping[str, str | None], *besides: tuple[str, str]) -> None:
    """Refuse to write over what is read: paths by their option; ``besides`` are pairs of options that may name one file."""
    for (read, source), (written, target) in itertools.product(inputs.items(), outputs.items()):
        if source and target and (read, written) not in besides and _same_file(source, target):
            raise UsageError(f"argument {written}: '{target}' is what {read} reads; write to another place")


def _same_file(a: str, b: str) -> bool:
    """Whether both are there and the same; names that no file can have are not."""
    try:
        return Path(a).samefile(b)
    except (OSError, ValueError):
        return False


ENGINES = ("host", "gvsoc", "board", "auto")


def add_engine_options(
    top: argparse.ArgumentParser, engines: Sequence[str] = ENGINES, boards: Sequence[str] = tuple(TARGETS)
) -> Any:
    """The options that say what runs the emitted C, in a group of their own, which is returned. Defaults: the last of the
    engines, the first of the boards."""
    engine = top.add_argument_group("engine")
    engine.add_argument("--engine", choices=engines, default=engines[-1], help="what runs the C")
    engine.add_argument("--cc", type=place, metavar="CC", help="C compiler; for gvsoc a RISC-V one, or ziglang")
    engine.add_argument("--gvsoc", type=place, metavar="DIR", help="install folder of GVSoC (default: GVSOC_HOME, PATH, ...)")
    engine.add_argument("--gvsoc-target", choices=boards, default=boards[0], help="simulated board")
    engine.add_argument("--isa", choices=("xpulp", "rv32"), default="xpulp", help="gvsoc: instructions kernels may use")
    engine.add_argument("--time-limit", type=number(1e-3, 1e6), metavar="S", help="seconds that a run may take")
    return engine
