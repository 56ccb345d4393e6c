"""An own model from file to trained file: through the command line and the host engine."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from own_models import cnn, samples, write, write_samples
from training_directory import write_directory

from deeploy_ext.cli import main


def run(model: str, *options: str) -> int:
    return main(["-t", model, "--loss", "cross_entropy", "--promote", "-q", *options])


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a model, eight mini-batches of data, and their halves."""
    monkeypatch.chdir(tmp_path)
    write(cnn(17, batch=2), tmp_path)
    arrays = samples(16)
    write_samples(arrays, tmp_path / "all.npz")
    write_samples({name: array[:8] for name, array in arrays.items()}, tmp_path / "first.npz")
    write_samples({name: array[8:] for name, array in arrays.items()}, tmp_path / "second.npz")
    return tmp_path


def losses(folder: str) -> np.ndarray:
    with np.load(Path(folder, "measured.npz")) as found:
        return found["losses"]


@pytest.mark.parametrize("batchnorm", ["frozen", "train"])
def test_training_continues_bit_for_bit(files: Path, batchnorm: str) -> None:
    """Four steps at once, or two, saved, and two more: the same losses and the same weights, to the last bit."""
    common = ("--batchnorm", batchnorm, "--lr", "0.1")
    assert run("own.onnx", *common, "--steps", "4", "--data", "all.npz", "--dump", "whole", "--save-weights", "w.onnx") == 0
    assert run("own.onnx", *common, "--data", "first.npz", "--dump", "begin", "--save-weights", "half.onnx") == 0
    assert run("half.onnx", *common, "--data", "second.npz", "--dump", "end", "--save-weights", "both.onnx") == 0
    np.testing.assert_array_equal(losses("whole"), np.concatenate([losses("begin"), losses("end")]))
    assert Path("w.onnx").read_bytes() == Path("both.onnx").read_bytes()
    assert Path("w.onnx").read_bytes() != Path("half.onnx").read_bytes()


def test_saved_weights_are_the_measured_ones_and_nothing_else_changes(files: Path) -> None:
    chosen = ("--trainable", "fc.*,bn.scale", "--batchnorm", "train")
    for suffix in ("npz", "onnx"):
        assert run("own.onnx", *chosen, "--dump", f"d_{suffix}", "--save-weights", f"w.{suffix}") == 0
    with np.load("w.npz") as saved, np.load("d_npz/measured.npz") as measured:
        assert saved.files == ["bn.mean", "bn.scale", "bn.var", "fc.bias", "fc.weight"]
        for name in saved.files:
            last = f"state/3/{name}" if name in ("bn.mean", "bn.var") else f"parameter/1/{name}"
            np.testing.assert_array_equal(saved[name], measured[last])
        before, after = onnx.load("own.onnx"), onnx.load("w.onnx")
        onnx.checker.check_model(after, full_check=True)
        for old, new in zip(before.graph.initializer, after.graph.initializer, strict=True):
            assert old.name == new.name
            expected = saved[old.name] if old.name in saved else numpy_helper.to_array(old)
            np.testing.assert_array_equal(numpy_helper.to_array(new), expected)
        assert not np.array_equal(saved["fc.weight"], numpy_helper.to_array(before.graph.initializer[4]))
    for model in (before, after):
        del model.graph.initializer[:]
    assert before == after


def test_a_shipped_network_saves_and_trains_on_as_a_model(files: Path) -> None:
    assert main(["-t", "TinyCNN", "--promote", "-q", "--trainable", "last:1", "--save-weights", "tiny.onnx"]) == 0
    assert run("tiny.onnx") == 0


def test_refused_places(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (files / "network.onnx").touch()
    for place, expected in {
        "w.txt": "'w.txt' is neither .npz nor .onnx",
        "nowhere/w.npz": "there is no folder",
        ".": "is neither",
        "d/x.npz": "there is no folder",
    }.items():
        assert run("own.onnx", "--save-weights", place) == 2
        assert expected in capsys.readouterr().err
    (files / "folder.npz").mkdir()
    assert run("own.onnx", "--save-weights", "folder.npz") == 2
    assert "exists and is not a regular file" in capsys.readouterr().err
    assert run("own.onnx", "--save-weights", "a.npz", "--json", "a.npz") == 2
    assert "overlap" in capsys.readouterr().err
    assert run("own.onnx", "--save-weights", "a.npz", "--plan-only") == 2
    assert "--plan-only trains nothing" in capsys.readouterr().err
    assert not Path("a.npz").exists()


def test_a_training_directory_saves_npz_only(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_directory(files)
    assert main(["-t", str(folder), "--promote", "-q", "--save-weights", "w.onnx"]) == 2
    assert "came without an inference model; give a name that ends in .npz" in capsys.readouterr().err
    assert main(["-t", str(folder), "--promote", "-q", "--save-weights", "w.npz"]) == 0
    assert not Path("w.onnx").exists() and Path("w.npz").exists()
