"""Bad usage gets one line naming the thing, the right exit status, no traceback, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from deeploy_ext import __version__, pipeline
from deeploy_ext.arguments import size
from deeploy_ext.cli import main
from deeploy_ext.errors import BadInputError, InfeasibleError, ToolError
from deeploy_ext.harness.files import MANIFEST, OutputFolder, Outputs

NET = ("-t", "ResNet8")

BAD: dict[str, tuple[Sequence[str], Sequence[str]]] = {
    "no test": ((), ("-t/--test", "--list")),
    "empty test": (("-t", ""), ("''",)),
    "unknown option": ((*NET, "--promot"), ("--promot", "did you mean --promote?")),
    "unknown option without likeness": ((*NET, "--xyzzy"), ("--xyzzy", "--help")),
    "abbreviated option": ((*NET, "--opt", "x"), ("--opt",)),
    "stray argument": ((*NET, "stray"), ("stray",)),
    "option without value": ((*NET, "--l1"), ("--l1",)),
    "zero l1": ((*NET, "--l1", "0"), ("--l1", "'0'", "128KiB")),
    "negative l1": ((*NET, "--l1", "-5"), ("--l1", "'-5'")),
    "fraction of l1": ((*NET, "--l1", "1.5k"), ("--l1", "'1.5k'")),
    "unknown unit": ((*NET, "--l2", "12kB"), ("--l2", "'12kB'", "KiB")),
    "l2 beyond 32 bits": ((*NET, "--l2", "4096M"), ("--l2", "4 GiB")),
    "unknown level": ((*NET, "--default-level", "L1"), ("--default-level", "L1", "L2", "L3")),
    "zero cores": ((*NET, "--cores", "0"), ("--cores", "'0'")),
    "too many cores": ((*NET, "--cores", "9"), ("--cores 9", "gap9", "8")),
    "zero steps": ((*NET, "--steps", "0"), ("--steps", "'0'")),
    "steps in words": ((*NET, "--steps", "two"), ("--steps", "'two'")),
    "zero accumulation": ((*NET, "--accum", "0"), ("--accum", "'0'")),
    "nan rate": ((*NET, "--lr", "nan"), ("--lr", "'nan'")),
    "infinite rate": ((*NET, "--lr", "inf"), ("--lr", "'inf'")),
    "zero rate": ((*NET, "--lr", "0"), ("--lr", "'0'")),
    "negative rate": ((*NET, "--lr", "-1"), ("--lr", "'-1'")),
    "rate beyond float32": ((*NET, "--lr", "1e39"), ("--lr", "1e39")),
    "nan tolerance": ((*NET, "--tolerance", "nan"), ("--tolerance", "'nan'")),
    "vacuous tolerance": ((*NET, "--tolerance", "100"), ("--tolerance", "'100'")),
    "negative seed": ((*NET, "--seed", "-1"), ("--seed", "'-1'")),
    "unknown engine": ((*NET, "--engine", "toaster"), ("--engine", "toaster", "host")),
    "unknown dispatch": ((*NET, "--dispatch", "x"), ("--dispatch", "'x'", "static")),
    "unknown dma": ((*NET, "--dma", "x"), ("--dma", "'x'", "lazy")),
    "unknown sanitizer": ((*NET, "--sanitize", "memory"), ("--sanitize", "memory", "address")),
    "unknown target": ((*NET, "--target", "gap8"), ("gap8", "gap9")),
    "unknown network": (("-t", "ResNet88"), ("ResNet88", "ResNet8")),
    "loud and quiet": ((*NET, "-v", "-q"), ("-q", "not allowed")),
    "plan that is absent": ((*NET, "--plan", "absent.json"), ("--plan", "absent.json")),
    "json in no folder": ((*NET, "--json", "absent/x.json"), ("--json", "absent")),
    "json without name": ((*NET, "--json", ""), ("--json", "''")),
    "json over a folder": ((*NET, "--json", "."), ("--json", "not a regular file")),
    "json over a device": ((*NET, "--json", "/dev/null"), ("--json", "/dev/null")),
    "page in no folder": ((*NET, "--plan-html", "absent/x.html"), ("--plan-html", "absent")),
    "page and report in one": ((*NET, "--plan-html", "x", "--json", "x"), ("--plan-html", "--json", "overlap")),
    "out in no folder": ((*NET, "--out", "absent/x"), ("--out", "absent")),
    "out is the current folder": ((*NET, "--out", "."), ("--out", "current folder")),
    "out above the current folder": ((*NET, "--out", ".."), ("--out", "current folder")),
    "dump over a file": ((*NET, "--dump", sys.executable), ("--dump", "not a folder")),
    "out and dump in one": ((*NET, "--out", "x", "--dump", "x"), ("--out", "--dump", "overlap")),
    "json inside out": ((*NET, "--out", "x", "--json", "x/r.json"), ("--json",)),
}


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("case", BAD)
def test_bad_usage(case: str, empty: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments, named = BAD[case]
    assert main(list(arguments)) == 2
    out, err = capsys.readouterr()
    lines = err.strip().splitlines()
    assert 1 <= len(lines) <= 2, err
    assert lines[0].startswith("deeployRunner: ")
    for word in named:
        assert word in err
    assert "Traceback" not in err and "Errors:" not in out
    assert not list(empty.iterdir())


@pytest.mark.parametrize(
    ("text", "expected"), [("24000", 24000), ("24k", 24576), ("128KiB", 131072), ("1M", 2**20), ("2MiB", 2**21)]
)
def test_sizes(text: str, expected: int) -> None:
    assert size(text) == expected


def test_version_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"deeployRunner {__version__}\n"
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    for option in ("--promote", "--db", "--l1", "--json", "130  interrupted"):
        assert option in text


def test_list_names_networks_and_targets(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list"]) == 0
    text = capsys.readouterr().out
    assert "ResNet8" in text and "gap9" in text


def test_as_a_module() -> None:
    done = subprocess.run([sys.executable, "-m", "deeploy_ext", "--lr", "nan"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("deeployRunner: argument --lr: 'nan'") and done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("error", "status", "words"),
    [
        (BadInputError("that file"), 2, ("that file",)),
        (InfeasibleError("no room", node="conv", level="L1", needed=2, available=1), 3, ("no room",)),
        (ToolError("cc failed"), 4, ("cc failed",)),
        (KeyboardInterrupt(), 130, ("interrupted",)),
        (OSError(28, "No space left on device"), 4, ("No space left on device",)),
        (ZeroDivisionError("a\nb"), 4, ("internal error: ZeroDivisionError: a b", "report")),
    ],
)
def test_failures_of_stages(
    error: BaseException,
    status: int,
    words: Sequence[str],
    empty: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One line, the documented status, and neither a report nor half of the C; a tool's failure leaves the dump."""

    def fail(options: object, outputs: Outputs, terminal: object) -> None:
        assert outputs.out and outputs.dump and outputs.json
        (outputs.out.draft / "net.c").write_text("half")
        (outputs.dump.draft / "plan.json").write_text("{}")
        raise error

    monkeypatch.setattr(pipeline, "run", fail)
    assert main([*NET, "--out", "c", "--dump", "d", "--json", "r.json"]) == status
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and all(word in err for word in words)
    left = {path.name for path in empty.iterdir()}
    assert left == ({"d"} if isinstance(error, ToolError) else set())
    assert main([*NET, "-v", "--json", "r.json", "--out", "c", "--dump", "e"]) == status
    assert ("Traceback" in capsys.readouterr().err) == (status != 130)


def test_a_folder_of_ours_is_replaced_as_a_whole(empty: Path) -> None:
    for name in ("first.c", "second.c"):
        folder = OutputFolder("--out", "c")
        (folder.draft / name).write_text("x")
        folder.commit()
    assert sorted(path.name for path in (empty / "c").iterdir()) == sorted([MANIFEST, "second.c"])
    assert [path.name for path in empty.iterdir()] == ["c"]


def test_a_folder_with_a_strangers_file_is_refused(empty: Path) -> None:
    folder = OutputFolder("--out", "c")
    (folder.draft / "net.c").write_text("x")
    folder.commit()
    (empty / "c" / "notes.txt").write_text("mine")
    with pytest.raises(BadInputError, match=r"notes\.txt"):
        OutputFolder("--out", "c")
    assert (empty / "c" / "notes.txt").read_text() == "mine"
    assert [path.name for path in empty.iterdir()] == ["c"]


@pytest.mark.parametrize("manifest", ["", "[]", "{}", '{"files": 3}', "\x00"])
def test_a_broken_manifest_protects_the_folder(manifest: str, empty: Path) -> None:
    (empty / "c").mkdir()
    (empty / "c" / MANIFEST).write_text(manifest)
    (empty / "c" / "net.c").write_text("mine")
    with pytest.raises(BadInputError, match=r"net\.c"):
        OutputFolder("--out", "c")


def test_a_failing_run_keeps_the_earlier_output(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = OutputFolder("--out", "c")
    (folder.draft / "net.c").write_text("good")
    folder.commit()
    (empty / "r.json").write_text("good")

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(pipeline, "run", interrupted)
    assert main([*NET, "--out", "c", "--json", "r.json"]) == 130
    assert (empty / "c" / "net.c").read_text() == "good" and (empty / "r.json").read_text() == "good"
    assert len(list(empty.iterdir())) == 2


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_ended_leaves_nothing(number: signal.Signals, tmp_path: Path) -> None:
    """Ctrl-C and the signal that time limits send are alike: one line, status 130, no draft beside the outputs."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    command = [sys.executable, "-m", "deeploy_ext", "-t", "ResNet8", "--out", "o", "--dump", "d", "--json", "j.json"]
    run = subprocess.Popen(
        command,
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(scratch), "PYTHONPATH": str(Path(__file__).resolve().parents[1])},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),  # a job in the background inherits that it is ignored
    )
    assert run.stdout is not None
    for line in run.stdout:
        if line.startswith("golden"):
            break
    run.send_signal(number)
    _, errors = run.communicate(timeout=60)
    assert run.returncode == 130, errors
    assert errors.count("\n") == 1 and "interrupted" in errors
    assert sorted(p.name for p in tmp_path.iterdir()) == ["scratch"]
    assert not list(scratch.glob("deeployRunner-*"))


@pytest.mark.parametrize("written", ["--json", "--out", "--dump", "--save-weights", "--plan-html"])
@pytest.mark.parametrize("read", ["-t", "--data", "--plan"])
def test_a_run_does_not_write_over_what_it_reads(
    read: str, written: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "thing.npz"
    place.write_bytes(b"precious")
    given = [read, str(place)] if read == "-t" else ["-t", "TinyCNN", read, str(place)]
    if (read, written) == ("-t", "--save-weights"):
        return  # weights may go back into the model
    assert main([*given, written, f"{tmp_path}/./thing.npz"]) == 2
    assert "thing.npz" in capsys.readouterr().err
    assert place.read_bytes() == b"precious"
