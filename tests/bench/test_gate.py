"""Cycle gates: tolerances in both directions, records by model and compiler, files that can be trusted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from deeploy_ext.bench import gate_command
from deeploy_ext.bench.gate import Record, compiler_key, differences, read_records, records_text
from deeploy_ext.cli import main
from deeploy_ext.errors import BadInputError
from deeploy_ext.resources import resource
from deeploy_ext.toolchain.riscv import find_riscv_compiler

RECORD = Record(
    "GVSoC gap9like",
    "clang 19.1.7",
    ["--promote", "--db"],
    {"minibatch": 1_000_000, "update": 50_000},
    {"step: conv (main)": 400_000, "step: relu (main)": 2_000},
)


def with_nodes(**changed: int) -> Record:
    return replace(RECORD, nodes={**RECORD.nodes, **{f"step: {name} (main)": count for name, count in changed.items()}})


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        (RECORD, []),
        (replace(RECORD, entries={"minibatch": 1_009_000, "update": 49_600}), []),
        (replace(RECORD, entries={"minibatch": 1_011_000, "update": 50_000}), ["minibatch"]),
        (replace(RECORD, entries={"minibatch": 980_000, "update": 50_000}), ["minibatch"]),
        (replace(RECORD, entries={"minibatch": 1_000_000}), ["update"]),
        (with_nodes(conv=419_000, relu=2_290), []),
        (with_nodes(conv=421_000, relu=2_310), ["step: conv (main)", "step: relu (main)"]),
        (with_nodes(new=10), ["step: new (main)"]),
    ],
)
def test_differences_beyond_the_tolerance_are_shown(now: Record, expected: list[str]) -> None:
    assert [difference.what for difference in differences(RECORD, now)] == expected


def test_a_row_says_what_changed() -> None:
    slower, gone = differences(RECORD, replace(RECORD, entries={"minibatch": 1_100_000}))
    assert slower.line().split() == ["1,000,000", "1,100,000", "+10.0%", "minibatch"]
    assert gone.line().split() == ["50,000", "gone", "update"]


@pytest.mark.parametrize(
    ("family", "version", "key"),
    [
        ("clang", "Debian clang version 19.1.7 (3~deb12u1)", "clang 19.1.7"),
        ("zig", "clang version 21.1.0 (https://...)", "zig 21.1.0"),
        ("vendor", "says nothing", "vendor"),
    ],
)
def test_compilers_have_keys(family: str, version: str, key: str) -> None:
    assert compiler_key(family, version) == key


def test_records_survive_their_file(tmp_path: Path) -> None:
    file = tmp_path / "cycles.json"
    assert read_records(file) == []
    other = replace(RECORD, compiler="clang 18.1.0")
    file.write_text(records_text([RECORD, other]))
    assert read_records(file) == [other, RECORD]
    assert records_text([other, RECORD]) == file.read_text()


@pytest.mark.parametrize(
    "text", ["", "[]", '{"schema": "other", "records": []}', '{"schema": "deeploy_ext/cycles/1", "records": [{}]}']
)
def test_other_files_are_refused(text: str, tmp_path: Path) -> None:
    file = tmp_path / "cycles.json"
    file.write_text(text)
    with pytest.raises(BadInputError, match="is not a file of cycle records"):
        read_records(file)


def test_every_shipped_record_can_be_read() -> None:
    files = sorted(resource("testnets").glob("*/cycles.json"))
    assert {"ResNet8", "TinyCNN"} <= {file.parent.name for file in files}
    for file in files:
        assert file.read_text() == records_text(read_records(file))


@pytest.mark.parametrize(
    ("arguments", "said", "status"),
    [(["--engine", "host"], "invalid choice: 'host'", 2), (["NoNet", "--gvsoc", "/no/such"], "/no/such", 4)],
)
def test_bad_options_are_refused(arguments: list[str], said: str, status: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cycles", *arguments]) == status
    assert said in capsys.readouterr().err


@pytest.mark.gvsoc
def test_the_gate_holds_and_falls(gvsoc: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    compiler = find_riscv_compiler(None)
    key = compiler_key(compiler.family, compiler.version)
    if all(record.compiler != key for record in read_records(resource("testnets", "SimpleMLP") / "cycles.json")):
        pytest.skip(f"no record of cycles for {key}")
    assert main(["cycles", "SimpleMLP", "--gvsoc", gvsoc]) == 0
    assert "as recorded" in capsys.readouterr().out
    monkeypatch.setattr(gate_command, "read_records", lambda _: [replace(RECORD, compiler=key)])
    assert main(["cycles", "SimpleMLP", "--gvsoc", gvsoc]) == 1
    assert "--update" in capsys.readouterr().out
