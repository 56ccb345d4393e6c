"""The command from end to end on small networks: what it proves, what it writes, and that it can fail."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

from deeploy_ext import pipeline
from deeploy_ext.cli import main
from deeploy_ext.codegen.program import EmittedProgram
from deeploy_ext.errors import BadInputError
from deeploy_ext.graph.load import load
from deeploy_ext.graph.lower import lower
from deeploy_ext.harness.files import MANIFEST, Outputs
from deeploy_ext.harness.terminal import Terminal
from deeploy_ext.planning.nest import macs
from deeploy_ext.planning.options import PlanOptions
from deeploy_ext.planning.plan import Plan
from deeploy_ext.planning.planner import make_plan
from deeploy_ext.planning.traffic import Hops
from deeploy_ext.run_options import RunOptions
from deeploy_ext.training.autodiff import differentiate
from deeploy_ext.training.task import ForwardNetwork
from support import FIXED_L1, GAP9, task_of

NET = ("-t", "TinyCNN")


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def contents(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_a_proven_run_writes_everything_and_repeats_to_the_byte(empty: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [*NET, "--promote", "--db", "--out", "c", "--dump", "d", "--json", "r.json"]
    assert main(arguments) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[:7]] == ["load", "autodiff", "golden", "plan", "emit", "build", "run"]
    assert "Losses: 0 out of 4" in lines and "Errors: 0 out of 52" in lines
    assert any(line.startswith("Cycles (predicted, ") for line in lines)

    report: dict[str, Any] = json.loads((empty / "r.json").read_text())
    assert (report["test"], report["engine"], report["exit"]) == ("TinyCNN", "host", 0)
    assert (report["checks"]["total"], report["checks"]["errors"], report["checks"]["repeat"]) == (52, 0, None)
    assert report["cycles"]["minibatch"] == sum(n["cycles"] for n in report["cycles"]["per_node"] if n["entry"] == "step")

    product, dump = contents(empty / "c"), contents(empty / "d")
    assert {"net.c", "net.h", "main.c", "CMakeLists.txt", "README.md", "runtime/net_walker.c", MANIFEST} < set(product)
    assert {"forward.onnx", "training.onnx", "update.onnx", "golden.npz", "measured.npz", "plan.json"} < set(dump)
    proven = {name.removeprefix("c/"): data for name, data in dump.items() if name.startswith("c/")}
    kept = {name.removeprefix("runtime/"): data for name, data in product.items()}
    assert {name: kept[name] for name in proven if name != "net_test.h"} == {
        name: data for name, data in proven.items() if name != "net_test.h"
    }
    for graph in ("training", "update"):
        onnxruntime.InferenceSession(empty / "d" / f"{graph}.onnx", providers=["CPUExecutionProvider"])
    assert set(np.load(empty / "d/golden.npz")) == set(np.load(empty / "d/measured.npz"))

    # again, over its own output, from the dumped plan: the same bytes, apart from the seconds
    (empty / "plan.json").write_bytes(dump["plan.json"])
    assert main([*arguments, "--plan", "plan.json"]) == 0
    assert contents(empty / "c") == product
    again: dict[str, Any] = json.loads((empty / "r.json").read_text())
    for value in (report, again):
        del value["seconds"], value["options"]["plan"]
    assert again == report
    assert {path.name for path in empty.iterdir()} == {"c", "d", "r.json", "plan.json"}


def test_wrong_code_is_found_and_not_kept(
    empty: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An optimizer that steps uphill: the losses of the first step are right, every update is not."""
    emit = pipeline.emit

    def uphill(*arguments: Any) -> EmittedProgram:
        emitted = emit(*arguments)
        code = emitted.directory / "net.c"
        text = code.read_text()
        assert "const float rate = learning_rate[0];" in text
        code.write_text(text.replace("const float rate = learning_rate[0];", "const float rate = -learning_rate[0];"))
        return emitted

    monkeypatch.setattr(pipeline, "emit", uphill)
    assert main([*NET, "--out", "c", "--dump", "d", "--json", "r.json"]) == 1
    out = capsys.readouterr().out
    assert "parameters: " in out and "c was not written" in out
    checks = json.loads((empty / "r.json").read_text())["checks"]
    assert checks["parameters"]["errors"] >= 10 and checks["errors"] >= checks["parameters"]["errors"]
    assert {path.name for path in empty.iterdir()} == {"d", "r.json"}


def test_code_that_does_not_compile_leaves_the_dump_with_the_log(
    empty: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    emit = pipeline.emit

    def broken(*arguments: Any) -> EmittedProgram:
        emitted = emit(*arguments)
        with (emitted.directory / "net.c").open("a") as code:
            code.write("int unfinished(\n")
        return emitted

    monkeypatch.setattr(pipeline, "emit", broken)
    assert main([*NET, "--out", "c", "--dump", "d", "--json", "r.json"]) == 4
    err = capsys.readouterr().err
    assert "Traceback" not in err and len(err.strip().splitlines()) <= 2
    assert {path.name for path in empty.iterdir()} == {"d"}
    assert {"plan.json", "golden.npz"} < {path.name for path in (empty / "d").iterdir()}
    assert main(list(NET)) == 4
    assert "use --dump" in capsys.readouterr().err


def test_a_memory_that_is_too_small_is_answered_and_the_answer_works(empty: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*NET, "--l1", "4k", "--json", "r.json", "--dump", "d", "--out", "c"]) == 3
    err = capsys.readouterr().err
    assert "L1" in err and "--l1 " in err and "Traceback" not in err
    assert not list(empty.iterdir())
    smallest = err.split("--l1 ")[1].split()[0]
    assert main([*NET, "--l1", smallest]) == 0


def test_a_plan_of_another_network_is_refused(empty: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["-t", "TinySeparable", "--dump", "d", "-q"]) == 0
    assert main([*NET, "--plan", "d/plan.json"]) == 2
    assert "plan" in capsys.readouterr().err
    (empty / "x.json").write_bytes(b"\xff")
    assert main([*NET, "--plan", "x.json"]) == 2
    assert "x.json" in capsys.readouterr().err


TABLES = 3
"""Commands that bring the tables of one nest to L1."""


@pytest.mark.parametrize("promote", [False, True])
def test_the_plan_predicts_the_bytes_that_are_moved(promote: bool) -> None:
    options = RunOptions("TinyCNN", promote=promote, l1=FIXED_L1 + 3_760, steps=2, accumulation=3)
    with Outputs(json_file=None, out=None, dump=None) as outputs:
        report = pipeline.run(options, outputs, Terminal(-1))
    step, update, infer = (report.traffic[entry] for entry in ("step", "update", "infer"))
    counted = report.counters
    assert report.exit_status == 0
    assert 6 * (step.l2_l1 + infer.l2_l1) + 2 * update.l2_l1 == counted["l2_to_l1_bytes"] + counted["l1_to_l2_bytes"]
    assert 6 * (step.l3_l2 + infer.l3_l2) + 2 * update.l3_l2 == counted["l3_to_l2_bytes"] + counted["l2_to_l3_bytes"]
    times = {"step": 6, "update": 2, "infer": 6}
    moved = [(use.fetched + use.stored) * times[use.group.entry] for tensor in report.tensors for use in tensor.uses]
    commands = sum(moved, Hops())
    nests = sum(times[entry] for entry, *_ in report.cycles.per_node)
    assert commands.l3_l2.commands == counted["ram_transfers"]
    assert commands.l2_l1.commands == counted["dma_commands"] - TABLES * nests


@pytest.mark.parametrize("flags", [[], ["--no-fuse"]])
def test_a_plan_file_brings_order_and_fused_update(flags: list[str], empty: Path) -> None:
    arguments = [*NET, "--accum", "1", "--promote", "--plan-only"]
    assert main([*arguments, *flags, "--dump", "d"]) == 0
    assert main([*arguments, "--plan", "d/plan.json", "--dump", "e"]) == 0
    plan = (empty / "d/plan.json").read_text()
    assert (empty / "e/plan.json").read_text() == plan
    assert ('"update"' in plan) == bool(flags)

    program = lower(task_of("TinyCNN", accumulation=1), fuse=not flags)
    unscheduled = make_plan(program, GAP9, PlanOptions(promote=True, cores=8))
    (empty / "graph.json").write_text(unscheduled.to_json())
    assert main([*arguments, "--plan", "graph.json", "--dump", "f"]) == 0
    order = [group.node for group in Plan.from_json((empty / "f/plan.json").read_text()).groups]
    assert order == [group.node for group in unscheduled.groups]
    assert order != [group.node for group in Plan.from_json(plan).groups]


def test_multiply_accumulates_of_resnet8() -> None:
    """MLPerf Tiny's 12.5 million forward and for dW; for dX all but the first layer's; strides do not count twice."""
    network = load("ResNet8")
    assert isinstance(network, ForwardNetwork)
    forward, stem, dense = 12_500_992, 442_368, 3 * 640
    calls = [call for call in lower(differentiate(network)).calls if call.entry == "step"]
    assert sum(map(macs, calls)) == 3 * forward - stem + dense


OTHERWISE: dict[str, Any] = {
    "double_buffer": True, "default_level": "L2", "cores": 4, "dispatch": "static", "kernels": "portable", "planner": "greedy",
    "groups": "single",
}  # fmt: skip
"""Of every flag that shapes a plan, a value that the plan below was not made with."""


def test_flags_beside_a_plan_must_be_those_that_made_it(tmp_path: Path) -> None:
    asked = RunOptions("SimpleMLP", promote=True, accumulation=1)
    given = replace(asked, plan=str(tmp_path / "plan.json"))
    with Outputs(json_file=None, out=None, dump=None) as outputs:
        made = pipeline.plan_only(asked, outputs, Terminal(-1)).plan
        (tmp_path / "plan.json").write_text(made.to_json(), encoding="utf-8")
        assert {*OTHERWISE, "promote", "l1", "l2"} == {*made.options}
        assert pipeline.plan_only(replace(given, l2=made.memory["L2"].used), outputs, Terminal(-1)).plan.groups == made.groups
        for name, value in OTHERWISE.items():
            with pytest.raises(BadInputError, match=r"^--\S+( \S+)?: the plan of .* was made without"):
                pipeline.plan_only(replace(given, **{name: value}), outputs, Terminal(-1))
        with pytest.raises(BadInputError, match=r"^--no-fuse: the plan of .* has fused updates"):
            pipeline.plan_only(replace(given, fuse=False), outputs, Terminal(-1))
