"""Plan files that are of another network, broken or edited by hand, and memories in which nothing fits."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from bad_case import OUTPUTS, Case

from deeploy_ext.graph.lower import lower
from deeploy_ext.planning.options import PlanOptions
from deeploy_ext.planning.planner import make_plan
from deeploy_ext.planning.schedule import scheduled
from support import FIXED_L1, GAP9, task_of

NET = ("-t", "SimpleMLP")
PLAN = (*NET, "--plan", "plan.json")
AGAIN = ("plan", "--dump")


@cache
def _plan(name: str = "SimpleMLP") -> str:
    return make_plan(scheduled(lower(task_of(name))), GAP9, PlanOptions(promote=True, l1=FIXED_L1 + 1_760)).to_json()


@cache
def _fused() -> str:
    """A plan without an update of its own, which a network with several mini-batches per step must have."""
    program = scheduled(lower(task_of("SimpleMLP", accumulation=1), fuse=True))
    return make_plan(program, GAP9, PlanOptions(promote=True)).to_json()


def _swapped(data: dict[str, Any]) -> None:
    groups = data["groups"]
    groups[0], groups[1] = groups[1], groups[0]


def _text(name: str, make: Callable[[], str | bytes], *words: str) -> Case:
    def build(folder: Path) -> None:
        content = make()
        (folder / "plan.json").write_bytes(content.encode() if isinstance(content, str) else content)

    return Case(f"plan: {name}", PLAN, words or AGAIN, build)


def _edit(name: str, change: Callable[[dict[str, Any]], object], *words: str) -> Case:
    def edited() -> str:
        data = json.loads(_plan())
        change(data)
        return json.dumps(data)

    return _text(name, edited, *words)


def _set(path: tuple[str | int, ...], value: Any) -> Callable[[dict[str, Any]], None]:
    def change(data: Any) -> None:
        for key in path[:-1]:
            data = data[key]
        data[path[-1]] = value

    return change


def _drop(path: tuple[str | int, ...]) -> Callable[[dict[str, Any]], None]:
    def change(data: Any) -> None:
        for key in path[:-1]:
            data = data[key]
        del data[path[-1]]

    return change


def _nonsense(path: tuple[str | int, ...], *values: Any) -> tuple[Case, ...]:
    """The same place with values of every wrong kind."""
    name = ".".join(map(str, path))
    return tuple(_edit(f"{name} = {json.dumps(value)}", _set(path, value)) for value in values)


def _tiled(data: dict[str, Any]) -> dict[str, Any]:
    return next(group for group in data["groups"] if group["order"])


def _memory(name: str, *arguments: str, words: tuple[str, ...], status: int = 3, net: str = "TinyCNN") -> Case:
    return Case(f"memory: {name}", ("-t", net, *arguments), words, status=status)


CASES: tuple[Case, ...] = (
    Case("plan: absent", PLAN, ("--plan", "plan.json", "--dump")),
    Case("plan: a folder", PLAN, ("--plan", "plan.json", "--dump"), lambda folder: (folder / "plan.json").mkdir()),
    _text("empty", lambda: ""),
    _text("binary", lambda: b"\xff\xfe\0", "plan.json"),
    _text("truncated", lambda: _plan()[: len(_plan()) // 2]),
    _text("a list", lambda: "[]"),
    _text("a number", lambda: "3"),
    _text("nested without end", lambda: "[" * 100_000),
    _text("of another network", lambda: _plan("TinyCNN")),
    _edit("of another schema", _set(("schema",), "deeploy_ext/plan/0"), "plan/0", "plan again"),
    _edit("without schema", _drop(("schema",))),
    _edit("of another target", _set(("target",), "gap8"), "gap8", "gap9"),
    _edit("with an unknown key in a group", _set(("groups", 0, "speed"), 3)),
    _edit("without a group", lambda data: data["groups"].pop()),
    _edit("with a group twice", lambda data: data["groups"].append(data["groups"][-1])),
    _edit("with two nodes swapped", _swapped, "has to wait for", "plan again"),
    _text("with a fused update for several mini-batches", _fused, "entries", "plan again"),
    _edit("without a placement", lambda data: data["placements"].pop()),
    _edit("with a larger tile", lambda data: _tiled(data)["loops"][_tiled(data)["order"][0]].update(tile=10**6)),
    _edit("with a tile of zero", lambda data: _tiled(data)["loops"][_tiled(data)["order"][0]].update(tile=0)),
    _edit("with a negative tile", lambda data: _tiled(data)["loops"][0].update(tile=-1)),
    _edit("with a wrong extent", lambda data: _tiled(data)["loops"][0].update(extent=3)),
    _edit("with a region beyond its axis", lambda data: data["groups"][0]["blocks"][0]["axes"][0].update(regions=[[5, 100]])),
    _edit("without regions", lambda data: data["groups"][0]["blocks"][0]["axes"][0].update(regions=[])),
    _edit("with an operand of other items", _set(("groups", 0, "blocks", 0, "item"), 1)),
    _edit("with a block too small", _set(("groups", 0, "blocks", 0, "bytes"), 8)),
    _edit(
        "with two slots in one place", lambda d: d["groups"][0]["blocks"][1].update(slots=d["groups"][0]["blocks"][0]["slots"])
    ),
    _edit("with two tensors in one place", lambda d: [p.update(address=0) for p in d["placements"] if p["level"] == "L2"]),
    _edit("with a memory of another size", _set(("memory", "L1", "capacity"), 2**40)),
    _edit("with more used than there is", _set(("memory", "L2", "used"), 2**40)),
    _edit("without a level", _drop(("memory", "L3"))),
    _edit("with a level of nobody", lambda data: data["memory"].update(L4=data["memory"]["L3"])),
    _edit("with an unknown phase", _set(("groups", 0, "bodies", 0, "phase"), "*/ int x;")),
    _edit("with an unknown variant", _set(("groups", 0, "bodies", 0, "variant"), "*/ int x;")),
    *_nonsense(("placements", 5, "address"), -8, 3, 2**40, "0", None, 1.5),
    *_nonsense(("placements", 5, "level"), "L4", "", None, ["L2"]),
    *_nonsense(("placements", 5, "bytes"), 0, -4, "many", None),
    *_nonsense(("placements", 5, "values"), [], None, [3], ["nobody"], "w"),
    *_nonsense(("placements", 5, "layout"), "blocked", None),
    *_nonsense(("placements", 5, "last"), -1, 3, None, "x"),
    *_nonsense(("options", "cores"), 0, 9, -1, "8", None, 2.5, "*/ int x;", 10**9),
    *_nonsense(("groups", 0, "bodies", 0, "core_loop"), 99, -2, "oy", 0.5),
    *_nonsense(("groups", 0, "order"), [7], [-1], [0, 0], None, ["co"]),
    *_nonsense(("groups", 0, "blocks", 0, "slots"), [], [-8], [4], [2**40], ["a"], None),
    *_nonsense(("groups", 0, "blocks", 0, "stage"), "half", None),
    *_nonsense(("groups", 0, "double_buffer"), "yes", 3, None),
    *_nonsense(("groups", 0, "cycles"), None, {}, 3),
    *_nonsense(("entries",), [], ["step"], ["update", "step"], None, 3),
    *_nonsense(("traffic",), None, {}, {"step": 3}),
    *_nonsense(("memory", "L1", "reserved"), 0, -1, None, 10**9),
    _memory("L1 of one byte", "--l1", "1", words=("L1", "--l1 ")),
    _memory("L2 of one byte", "--l2", "1", words=("L2", "--l2 ")),
    _memory("L1 without room for a tile", "--l1", str(FIXED_L1 + 60), words=("L1", "--l1 ")),
    _memory("L2 without room for a stage", "--l2", "69200", words=("L2", "--l2 ")),
    _memory("everything in a small L2", "--l2", "170k", "--default-level", "L2", words=("L2", "--promote"), net="ResNet8"),
    _memory("more L1 than the chip has", "--l1", "4000M", words=("--l1", "gap9", "131072"), status=2),
    _memory("more L2 than the chip has", "--l2", "4000M", words=("--l2", "gap9", "1572864"), status=2),
    _memory("countless steps", "--steps", "999999999", words=("mini-batches", "at most"), status=2),
    _memory("countless accumulation", "--accum", "999999999", words=("mini-batches", "at most"), status=2),
    _memory("countless both", "--accum", "99999", "--steps", "99999", words=("mini-batches", "at most"), status=2),
    Case("memory: plan only", ("-t", "TinyCNN", "--plan-only", "--l1", "9k"), ("L1", "--l1 "), outputs=OUTPUTS[2:], status=3),
)
