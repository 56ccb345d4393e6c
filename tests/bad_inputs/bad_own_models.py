"""``-t model.onnx``: the same broken models as a user's file, and the options and data that go with one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import bad_models
import bad_operators
import numpy as np
import onnx
from bad_case import Build, Case, changed, dense, info

OWN = ("-t", "net/model.onnx", "--loss", "cross_entropy")

# What a file is told where a test network is told something else.
_WORDS: Mapping[str, tuple[str, ...]] = {
    "model: file that is text": ("model.onnx", "not a readable ONNX file", "export"),
    "model: without inputs": ("model.onnx", "one data input", "none", "export"),
    "model: with a shapeless input": ("model.onnx", "'x' has no shape", "static"),
    "model: with a scalar input": ("model.onnx", "'x' has no shape", "static"),
}
# The mini-batch size of a file, whatever it says, becomes 1.
_ALLOWED = {
    f"model: with {what}" for what in ("a zero dimension", "a negative dimension", "a dynamic batch", "an unknown dimension")
}


def _as_file(case: Case) -> Case:
    words = _WORDS.get(case.name, tuple(word.replace("build.py", "model.onnx") for word in case.words))
    return replace(case, name=f"own {case.name}", arguments=OWN, words=words)


def _model(folder: Path) -> None:
    (folder / "net").mkdir()
    onnx.save(dense(), folder / "net/model.onnx")


def _case(name: str, arguments: tuple[str, ...], *words: str, build: Build = _model) -> Case:
    return Case(f"own: {name}", arguments, words, build)


def _shaped(name: str, change: Callable[[onnx.GraphProto], object], *words: str) -> Case:
    def build(folder: Path) -> None:
        (folder / "net").mkdir()
        onnx.save(changed(lambda model: change(model.graph)), folder / "net/model.onnx")

    return _case(name, OWN, *words, build=build)


def _data(name: str, *words: str, content: bytes | None = None, **arrays: np.ndarray | None) -> Case:
    """The file ``data.npz``: 4 correct samples after changes, or bytes."""

    def build(folder: Path) -> None:
        _model(folder)
        right: dict[str, Any] = {"x": np.ones((4, 4), np.float32), "labels": np.arange(4) % 3}
        kept = {key: array for key, array in (right | arrays).items() if array is not None}
        np.savez(folder / "data.npz", **kept)
        if content is not None:
            (folder / "data.npz").write_bytes(content or (folder / "data.npz").read_bytes()[:200])

    return _case(f"data {name}", (*OWN, "--data", "data.npz"), "data.npz", *words, build=build)


CASES: tuple[Case, ...] = (
    *(_as_file(case) for case in (*bad_models.CASES, *bad_operators.CASES) if case.name not in _ALLOWED),
    _shaped("a dynamic feature", lambda g: g.input[0].CopyFrom(info("x", [1, "n"])), "'x'", "'n'", "axis 1", "fixed"),
    _shaped("a zero feature", lambda g: g.input[0].CopyFrom(info("x", [1, 0])), "'x'", "axis 1", "fixed"),
    _shaped("two inputs", lambda g: g.input.append(info("z", [1, 4])), "'x', 'z'", "one input"),
    _shaped("two predictions", lambda g: g.output.append(info("r", [1, 5])), "'r'", "one output"),
    _shaped("a prediction of rank 3", lambda g: g.input[0].CopyFrom(info("x", [1, 1, 4])), "scores"),
    _case("without loss", OWN[:2], "--loss cross_entropy", "mse"),
    _case("unknown loss", (*OWN[:3], "hinge"), "--loss", "hinge", "mse"),
    _case("loss of a test network", ("-t", "TinyCNN", "--loss", "mse"), "--loss", "TinyCNN", build=lambda folder: None),
    _case("optimizer", (*OWN, "--optimizer", "x"), "--optimizer", "model.onnx"),
    _case("empty choice", (*OWN, "--trainable", ""), "--trainable", "no weight is chosen"),
    _case("choice of commas", (*OWN, "--trainable", ",,"), "--trainable", "no weight is chosen"),
    _case("unknown weight", (*OWN, "--trainable", "w3"), "--trainable", "'w3'", "w1"),
    _case("glob of nothing", (*OWN, "--trainable", "conv*"), "--trainable", "'conv*'", "w1"),
    _case("an input as weight", (*OWN, "--trainable", "x"), "--trainable", "'x'"),
    _case("no layer", (*OWN, "--trainable", "last:0"), "last:0", "1 to 2"),
    _case("too many layers", (*OWN, "--trainable", "last:99"), "last:99", "1 to 2"),
    _case("a layer in words", (*OWN, "--trainable", "last:two"), "'last:two'", "w1"),
    _case("unknown batch normalisation", (*OWN, "--batchnorm", "x"), "--batchnorm", "'x'", "train"),
    _case("weights of unknown form", (*OWN, "--save-weights", "w.txt"), "--save-weights", "w.txt", ".npz"),
    _case("weights in no folder", (*OWN, "--save-weights", "absent/w.npz"), "--save-weights", "absent"),
    _case("weights without name", (*OWN, "--save-weights", ""), "--save-weights"),
    _case("weights over a folder", (*OWN, "--save-weights", "net"), "--save-weights", "net"),
    _case("absent data", (*OWN, "--data", "absent.npz"), "absent.npz", "no such file"),
    _case("data without name", (*OWN, "--data", ""), "--data", "not a path"),
    _case("a folder of data", (*OWN, "--data", "net"), "net"),
    _data("that are text", "plain", content=b"text"),
    _data("that are truncated", "write it again", content=b""),
    _data("of objects", "pickle", x=np.array([[{}] * 4])),
    _data("without input", "'x' is missing", x=None),
    _data("without labels", "'labels' is missing", labels=None),
    _data("with a stranger", "'z'", "no input", z=np.zeros(4)),
    _data("of other features", "'x'", "(4, 5)", "(samples, 4)", x=np.zeros((4, 5), np.float32)),
    _data("of other rank", "'x'", "(4,)", "(samples, 4)", x=np.zeros(4, np.float32)),
    _data("in double precision", "'x'", "float64", "convert", x=np.zeros((4, 4))),
    _data("of whole numbers", "'x'", "int64", "convert", x=np.zeros((4, 4), np.int64)),
    _data("with fractions for labels", "'labels'", "float64", "convert", labels=np.zeros(4)),
    _data("of no sample", "0 samples", x=np.zeros((0, 4), np.float32), labels=np.zeros(0, np.int64)),
    _data("of unequal counts", "different numbers", labels=np.zeros(3, np.int64)),
    _data("with NaN", "NaN", "finite", x=np.full((4, 4), np.nan, np.float32)),
    _data("with infinity", "infinity", "finite", x=np.full((4, 4), np.inf, np.float32)),
    _data("with a label too large", "label 3", "0 to 2", labels=np.array([0, 1, 2, 3])),
    _data("with a negative label", "label -1", "0 to 2", labels=np.array([0, 1, 2, -1])),
    _data("with a label that wraps", "label", "0 to 2", labels=np.array([0, 1, 2, 2**64 - 1], np.uint64)),
)
