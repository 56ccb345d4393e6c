"""The page of ``--plan-html``: well-formed, complete, self-contained, the same bytes twice, and safe whatever names say."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from deeploy_ext.cli import main
from deeploy_ext.harness.plan_page import LONGEST, legible
from deeploy_ext.harness.plan_why import Whys
from deeploy_ext.planning.figures import positions_of, staged_bytes
from deeploy_ext.planning.plan import Plan
from deeploy_ext.planning.traffic import tensor_traffic, title_of
from support import GAP9, planned, task_of

VOID = {"meta", "input", "br", "link", "img"}


class Page(HTMLParser):
    """A page whose every element is closed in order; keeps the texts of table rows, of scripts, and all attributes."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.attributes: list[tuple[str, str, str | None]] = []
        self.rows: dict[str, list[list[str]]] = {}
        self.scripts: list[str] = []
        self._table = ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += [(tag, name, value) for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)
        if tag == "table":
            self._table = dict(attrs).get("id") or "memory"
            self.rows[self._table] = []
        if tag == "tr":
            self.rows[self._table].append([])
        if tag in ("td", "th"):
            self.rows[self._table][-1].append("")
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "script" in self.open:
            self.scripts[-1] += data
        elif {"td", "th"} & set(self.open):
            self.rows[self._table][-1][-1] += data

    @property
    def plan(self) -> dict[str, Any]:
        return json.loads(self.scripts[0])


def page_of(*arguments: str) -> Page:
    assert main([*arguments, "--plan-html", "p.html", "-q"]) == 0
    return Page(Path("p.html").read_text(encoding="utf-8"))


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


LITTLE = ("--promote", "--db", "--l2", "84k", "--l1", "22k")


@pytest.mark.parametrize("flags", [(), ("--promote", "--db"), LITTLE, ("--default-level", "L2")], ids=str)
def test_every_tensor_nest_and_placement_is_on_the_page(flags: tuple[str, ...], empty: Path) -> None:
    page = page_of("-t", "TinyCNN", "--plan-only", "--dump", "d", *flags)
    plan = Plan.from_json((empty / "d/plan.json").read_text())
    assert [row[3] for row in page.rows["nests"][1:]] == [title_of(group) for group in plan.groups]
    assert [row[:3] for row in page.rows["tensors"][1:]] == [[t.entry, t.value, t.home] for t in tensor_traffic(plan)]
    assert [row[:2] for row in page.rows["places"][1:]] == [[p.storage, p.level] for p in plan.placements]
    assert [row[0] for row in page.rows["memory"]] == ["level", "L1", "L2", "L3"]
    drawn = page.plan
    assert len(drawn["places"]) == len(plan.placements) and len(drawn["nests"]) == len(plan.groups)
    assert len(drawn["blocks"]) == sum(len(group.blocks) for group in plan.groups)
    assert {value for p in plan.placements for value in p.values} <= set(drawn["values"])
    text = (empty / "p.html").read_text()
    assert text.count("cycles, <em>predicted, cost model gap9</em>") == len(drawn["entries"]) == len(plan.entries)


def test_what_is_drawn_lies_where_the_plan_says(empty: Path) -> None:
    page = page_of("-t", "TinyCNN", "--plan-only", "--dump", "d", *LITTLE).plan
    plan = Plan.from_json((empty / "d/plan.json").read_text())
    for row, placement in zip(page["places"], plan.placements, strict=True):
        assert row[2:7] == [placement.address, placement.bytes, placement.first, placement.last, int(placement.persistent)]
    ends = [nest[2] for nest in page["nests"]]
    assert [nest[1] for nest in page["nests"]] == [0, *ends[:-1]] and ends[-1] == len(page["steps"])
    starts = [nest[5] for nest in page["nests"]]
    totals = [group.cycles.total for group in plan.groups]
    assert starts == [sum(totals[:i]) for i in range(len(totals))]
    assert [entry[2] for entry in page["entries"]] == [0, *(entry[3] for entry in page["entries"][:-1])]
    levels = {row[0]: row for row in page["levels"]}
    for level, _, address, size in page["fixed"]:
        assert address >= 0 and address + size <= levels[level][1]
    for name, use in plan.memory.items():
        assert sum(size for level, _, _, size in page["fixed"] if level == name) == use.reserved
        assert levels[name][1:2] + levels[name][3:] == [use.capacity, use.used, use.lower_bound]


def test_the_script_reads_the_columns_that_are_written(empty: Path) -> None:
    """Each list is taken apart by position; the script must name as many columns as there are."""
    page = page_of("-t", "TinyCNN", "--plan-only", *LITTLE)
    openings = {
        "nests": "plan.nests.map(([",
        "blocks": "plan.blocks.map(([",
        "places": "function placeLines([",
        "fixed": "const [where, what",
        "levels": "const [level, capacity",
        "entries": "for (const [entry, what, first",
    }
    for key, opening in openings.items():
        _, found, after = page.scripts[1].partition(opening)
        assert found, opening
        names = (found.rpartition("[")[2] + after.partition("]")[0]).split(",")
        assert {len(row) for row in page.plan[key]} == {len(names)}, key


def test_a_run_draws_the_same_page_and_so_does_a_second_time(empty: Path) -> None:
    page_of("-t", "SimpleMLP", "--db", "--plan-only")
    first = (empty / "p.html").read_bytes()
    page_of("-t", "SimpleMLP", "--db", "--plan-only", "--dump", "d")
    assert (empty / "p.html").read_bytes() == first
    page_of("-t", "SimpleMLP", "--db", "--engine", "host")
    assert (empty / "p.html").read_bytes() == first
    page_of("-t", "SimpleMLP", "--plan-only", "--plan", "d/plan.json", "--db")
    assert (empty / "p.html").read_bytes() == first


def test_nothing_is_fetched_from_anywhere(empty: Path) -> None:
    page = page_of("-t", "TinyCNN", "--plan-only")
    assert not [attribute for attribute in page.attributes if attribute[1] in ("src", "href", "srcset", "action", "onclick")]
    text = (empty / "p.html").read_text()
    assert "default-src 'none'" in text
    assert not re.search(r"https?:|url\(|@import|fetch\(|XMLHttp|innerHTML|document\.write|eval\(", text)
    assert {"prefers-color-scheme: dark", "aria-label"} <= set(re.findall("prefers-color-scheme: dark|aria-label", text))


def test_a_plan_that_does_not_fit_leaves_no_page(empty: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["-t", "TinyCNN", "--plan-only", "--l1", "8k", "--plan-html", "p.html"]) == 3
    assert not list(empty.iterdir())


HOSTILE = (
    "</script><script>planted()</script>", "<!--planted", "<img src=x onerror=planted()>", '"onmouseover="planted()',
    "&lt;b&gt;&amp;", "${planted}", "<%planted%>",
    "## planted", "% planted", "'); planted(); ('", "\u202eplanted", "emoji 😀", "x" * 5_000,
)  # fmt: skip


def test_hostile_names_are_shown_and_do_nothing(empty: Path) -> None:
    nodes, weights, last = [], [], "input"
    for name in HOSTILE:
        weights.append(numpy_helper.from_array(np.eye(3, dtype=np.float32), name))
        nodes.append(helper.make_node("Gemm", [last, name], [f"{name}|out"], name=f"{name}|node"))
        last = f"{name}|out"
    ends = [helper.make_tensor_value_info(value, onnx.TensorProto.FLOAT, [1, 3]) for value in ("input", last)]
    graph = helper.make_graph(nodes, HOSTILE[0], [ends[0]], [ends[1]], weights)
    onnx.save(helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 21)]), "model.onnx")
    page = page_of("-t", "model.onnx", "--loss", "mse", "--plan-only", "--promote")
    assert len(page.scripts) == 3 and not [name for _, name, _ in page.attributes if name.startswith("on")]
    assert "img" not in {tag for tag, _, _ in page.attributes}
    shown = {row[0] for row in page.rows["places"]}
    assert {legible(name) for name in HOSTILE} <= shown & set(page.plan["values"])
    assert max(map(len, page.plan["values"])) < 2 * LONGEST
    assert all(character.isprintable() or character == "\n" for character in (empty / "p.html").read_text(encoding="utf-8"))


def test_where_a_tensor_lives_is_explained() -> None:
    def why(net: str, **options: Any) -> dict[str, str]:
        plan = planned(task_of(net), **options).plan
        whys = Whys(plan, GAP9)
        return {placement.storage: whys.why(placement) for placement in plan.placements}

    told = why("TinyCNN")
    assert told["reset"].startswith("in L1: a run-time argument")
    assert told["conv1_weight"] == "in L3: the default level; --promote lets the planner choose"
    assert why("TinyCNN", default_level="L2")["conv1_weight"].startswith("in L2: the default level")
    plan = planned(task_of("TinyCNN"), promote=True).plan
    size = next(placement.bytes for placement in plan.placements if placement.storage == "conv1_weight")
    promoted = why("TinyCNN", promote=True)["conv1_weight"]
    assert promoted.startswith(f"in L2: promoted, saves at least {size:,} bytes per mini-batch, {2 * size:,} bytes per update")
    some = why("ResNet8", promote=True, l2=400_000)
    assert "in L3: did not fit; at schedule position" in some["stack3_conv2_weight"]
    assert any(text.startswith("in L2: promoted") for text in some.values())


def test_phases_one_after_the_other_share_a_schedule_position() -> None:
    plan = planned(task_of("ResNet8"), l1=24_000).plan
    positions = positions_of(plan.groups)
    assert list(positions) == sorted(positions) and set(positions) == set(range(positions[-1] + 1))
    assert len(positions) > positions[-1] + 1
    staged = staged_bytes(plan.groups)  # by all in turn, not together
    assert max(staged.values()) == max(sum(b.stage_bytes * len(b.stage_slots) for b in g.blocks) for g in plan.groups)
