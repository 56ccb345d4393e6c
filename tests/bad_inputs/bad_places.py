"""Outputs that cannot be written, and engines and targets that are not there."""

from __future__ import annotations

from pathlib import Path

from bad_case import Case

NET = ("-t", "TinyCNN")


def _there(name: str, arguments: tuple[str, ...], *words: str) -> Case:
    """A file ``f``, a folder ``o`` with a stranger's file, and a link ``l`` to itself are there already."""

    def build(folder: Path) -> None:
        (folder / "f").write_text("")
        (folder / "o").mkdir()
        (folder / "o/mine.txt").write_text("mine")
        (folder / "l").symlink_to("l")

    return Case(f"place: {name}", NET, words, build, arguments)


CASES: tuple[Case, ...] = (
    _there("json over a folder", ("--json", "o"), "--json", "not a regular file", "another name"),
    _there("json in no folder", ("--json", "absent/r.json"), "--json", "absent", "create it"),
    _there("json below a file", ("--json", "f/r.json"), "--json", "create it"),
    _there("json over a device", ("--json", "/dev/null"), "--json", "/dev/null"),
    _there("json in a place of the system's", ("--json", "/proc/r.json"), "--json", "/proc"),
    _there("json of 5000 characters", ("--json", "r" * 5000), "--json", "cannot be", "too long"),
    _there("json with NUL", ("--json", "a\0b"), "--json", "not a path"),
    _there("json without name", ("--json", ""), "--json", "not a path"),
    _there("out with NUL", ("--out", "a\0b"), "--out", "not a path"),
    _there("out of 300 characters", ("--out", "o" * 300), "--out", "cannot be written"),
    _there("out over a file", ("--out", "f"), "--out", "not a folder"),
    _there("out over a stranger's folder", ("--out", "o"), "--out", "mine.txt", "new folder"),
    _there("out in the current folder", ("--out", "."), "--out", "current folder"),
    _there("dump over a stranger's folder", ("--dump", "o"), "--dump", "mine.txt"),
    _there("dump at a link in a circle", ("--dump", "l"), "--dump"),
    _there("out and dump in one", ("--out", "x", "--dump", "./x"), "--out", "--dump", "separate"),
    _there("dump within out", ("--out", "o", "--dump", "o/d"), "--out", "--dump", "separate"),
    _there("code of a plan that is not run", ("--plan-only", "--out", "c"), "--out", "--plan-only"),
    Case("choice: a rate with which training diverges", (*NET, "--lr", "1e30"), ("mini-batch 2", "golden run", "smaller --lr")),
    Case("choice: target", (*NET, "-p", "gap8"), ("gap8", "gap9")),
    Case("choice: target of no name", (*NET, "-p", ""), ("target", "gap9")),
    Case("choice: target at a path", (*NET, "-p", "../gap9"), ("../gap9", "available: gap9")),
    Case("choice: engine", (*NET, "--engine", "hots"), ("--engine", "hots", "host")),
    Case("choice: engine that is absent", (*NET, "--engine", "gvsoc"), ("GVSOC_HOME", "gvsoc/gvsoc"), status=4),
    Case("choice: cores beyond the chip's", (*NET, "--cores", "9"), ("--cores 9", "8 cores")),
    *(
        Case(f"choice: {option} {value}", (*NET, option, value), (option, f"'{value}'"))
        for option, value in (
            ("--cores", "0"), ("--cores", "-1"), ("--cores", "x"), ("--cores", "٣"), ("--steps", "0"), ("--accum", "0"),
            ("--steps", "-1"), ("--steps", "1e3"), ("--lr", "nan"), ("--lr", "-1"), ("--lr", "inf"), ("--lr", "0"),
            ("--lr", "1e99999"), ("--lr", "0x1p3"), ("--tolerance", "-1"), ("--seed", "-1"), ("--seed", str(2**32)),
            ("--l1", "0"), ("--l1", "-1"), ("--l1", "1.5k"), ("--l2", "9" * 40), ("--default-level", "L1"),
        )
    ),
)  # fmt: skip
