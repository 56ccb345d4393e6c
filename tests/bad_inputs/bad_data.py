"""Training directories whose arrays, graphs or optimizers are missing, broken or not what the format says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
from bad_case import Build, Case
from onnx import helper
from training_directory import write_arrays, write_directory

Edit = Callable[[Path], object]
NET = ("-t", "net_train")


def _directory(edit: Edit) -> Build:
    return lambda folder: edit(write_directory(folder))


def _case(name: str, edit: Edit, *words: str) -> Case:
    return Case(f"directory: {name}", NET, words, _directory(edit))


def _arrays(name: str, words: tuple[str, ...], **changes: np.ndarray | None) -> Case:
    return _case(f"npz {name}", lambda folder: write_arrays(folder, changes), "inputs.npz", *words)


def _bytes(file: str, content: Callable[[bytes], bytes]) -> Edit:
    return lambda folder: (folder / file).write_bytes(content((folder / file).read_bytes()))


def _model(file: str, change: Callable[[onnx.GraphProto], object]) -> Edit:
    def edit(folder: Path) -> None:
        model = onnx.load(folder / file)
        change(model.graph)
        onnx.save(model, folder / file)

    return edit


OPTIMIZER = "../net_optimizer/network.onnx"


def _optimizer(name: str, change: Callable[[onnx.NodeProto], object], *words: str) -> Case:
    return _case(f"optimizer {name}", _model(OPTIMIZER, lambda graph: change(graph.node[0])), *words)


def _set(name: str, value: object) -> Callable[[onnx.NodeProto], object]:
    return lambda node: node.attribute.append(helper.make_attribute(name, value))


def _rate(value: float) -> Callable[[onnx.NodeProto], object]:
    return lambda node: node.attribute[0].CopyFrom(helper.make_attribute("lr", value))


def _in_its_place(file: str) -> Edit:
    def edit(folder: Path) -> None:
        (folder / file).unlink()
        (folder / file).mkdir()

    return edit


def _expected(**arrays: np.ndarray) -> Edit:
    return lambda folder: np.savez(folder / "outputs.npz", **arrays)  # pyright: ignore[reportArgumentType]


def _no_accumulator(graph: onnx.GraphProto) -> None:
    graph.node.pop(0)
    graph.output.pop()


def _whole(value: int) -> np.ndarray:
    return np.array([value])


_LATE = "mb99999999999_arr_0000"
NAN = np.full((2, 3), np.nan, np.float32)

CASES: tuple[Case, ...] = (
    _case("without model", lambda folder: (folder / "network.onnx").unlink(), "no network.onnx", "build.py"),
    _case("with a folder for a model", _in_its_place("network.onnx"), "no network.onnx"),
    _case("with text for a model", _bytes("network.onnx", lambda _: b"no model"), "network.onnx", "export"),
    _case("with half a model", _bytes("network.onnx", lambda c: c[: len(c) // 2]), "network.onnx", "export"),
    _case("without data", lambda folder: (folder / "inputs.npz").unlink(), "no inputs.npz"),
    _case("with text for data", _bytes("inputs.npz", lambda _: b"no zip"), "inputs.npz", "plain numeric arrays"),
    _case("with nothing for data", _bytes("inputs.npz", lambda _: b""), "inputs.npz", "write it again"),
    _case("with half the data", _bytes("inputs.npz", lambda c: c[: len(c) // 2]), "inputs.npz", "write it again"),
    _case("with a flipped bit", _bytes("inputs.npz", lambda c: c[:140] + bytes([c[140] ^ 8]) + c[141:]), "inputs.npz", "write"),
    _case("with one array for data", lambda folder: np.save((folder / "inputs.npz").open("wb"), NAN), "inputs.npz", "savez"),
    _arrays("with objects", ("pickle", "plain"), arr_0000=np.array([{}], object)),
    _arrays("without an array", ("'arr_0002'", "'w'", "write all"), arr_0002=None),
    _arrays("with an array too many", ("'arr_0004'", "take it out"), arr_0004=np.zeros(1)),
    _arrays("with an array of other name", ("'weights'", "take it out"), weights=np.zeros(1)),
    _arrays("with a weight of other shape", ("arr_0002", "(3, 4)", "(4, 3)"), arr_0002=np.zeros((3, 4), np.float32)),
    _arrays("with a weight of other type", ("arr_0002", "float64", "convert"), arr_0002=np.zeros((4, 3))),
    _arrays("with half precision", ("arr_0002", "float16", "convert"), arr_0002=np.zeros((4, 3), np.float16)),
    _arrays("with text for data", ("arr_0000", "<U1", "convert"), arr_0000=np.full((2, 3), "a")),
    _arrays("with NaN in data", ("arr_0000", "NaN", "finite"), arr_0000=NAN),
    _arrays("with NaN in later data", ("mini-batch 1", "NaN", "finite"), mb1_arr_0000=NAN),
    _arrays("with infinity in a weight", ("arr_0002", "infinity"), arr_0002=np.full((4, 3), np.inf, np.float32)),
    _arrays("with a label too large", ("label 4", "0 to 3"), mb1_arr_0001=np.array([1, 4])),
    _arrays("with a negative label", ("label -1", "0 to 3"), arr_0001=np.array([-1, 3])),
    _arrays("with a label beyond 32 bits", (f"label {2**40}", "0 to 3"), arr_0001=np.array([0, 2**40])),
    _arrays("with no mini-batch", ("'meta_n_batches'", "positive"), meta_n_batches=_whole(0)),
    _arrays("with fractions of mini-batches", ("'meta_n_batches'", "positive"), meta_n_batches=np.array([1.5])),
    _arrays("with unequal accumulation", ("4 mini-batches", "by 3", "multiple"), meta_n_accum=_whole(3)),
    _arrays("with countless mini-batches", ("mini-batches", "at most"), meta_n_batches=_whole(2**60)),
    _arrays("with countless data", ("mini-batches", "at most"), meta_data_size=_whole(2**60), meta_n_batches=None),
    _arrays("with a mini-batch of great number", ("mini-batch 99999999999", "'meta_data_size' is 2"), **{_LATE: NAN}),
    _case("without optimizer", lambda folder: (folder / OPTIMIZER).unlink(), "net_optimizer", "--optimizer DIR"),
    _case("with text for an optimizer", _bytes(OPTIMIZER, lambda _: b"no model"), "net_optimizer", "export"),
    _optimizer("of another kind", lambda node: setattr(node, "op_type", "Adam"), "Adam", "plain SGD"),
    _optimizer("with momentum", _set("momentum", 0.9), "'momentum'", "plain SGD"),
    _optimizer("with weight decay", _set("weight_decay", 0.1), "'weight_decay'", "plain SGD"),
    _optimizer("without rate", lambda node: node.ClearField("attribute"), "SGD", "'lr'"),
    _optimizer("with text for a rate", _rate("fast"), "'lr'"),  # pyright: ignore[reportArgumentType]
    _optimizer("with a negative rate", _rate(-0.1), "-0.1", "positive"),
    _optimizer("with a NaN rate", _rate(float("nan")), "nan", "positive"),
    _optimizer("with an infinite rate", _rate(float("inf")), "inf", "positive"),
    _optimizer("of a stranger's weight", lambda node: node.input.__setitem__(0, "v"), "'v'"),
    _optimizer("with a stranger's gradient", lambda node: node.input.__setitem__(1, "v_buffer"), "'v_buffer'"),
    _optimizer("of three operands", lambda node: node.input.append("x"), "SGD"),
    _case("optimizer without nodes", _model(OPTIMIZER, lambda graph: graph.ClearField("node")), "net_optimizer"),
    _case("without accumulators", _model("network.onnx", _no_accumulator), "'w_buffer'", "--optimizer"),
    _case("without loss", _model("network.onnx", lambda graph: graph.ClearField("output")), "network.onnx", "no output"),
    _case("with an accumulator of nothing", _model("network.onnx", lambda g: g.node[0].ClearField("input")), "acc"),
    _case("with losses of another run", _expected(loss=np.zeros(3, np.float32), w=np.zeros((4, 3), np.float32)), "'loss'", "4"),
    _case("with expectations without weights", _expected(loss=np.zeros(4, np.float32)), "'w' is missing"),
    _case(
        "with expectations of other shape", _expected(loss=np.zeros(4, np.float32), w=np.zeros(3, np.float32)), "(3,)", "(4, 3)"
    ),
    _case("with expectations that are no zip", lambda folder: (folder / "outputs.npz").write_text("no"), "outputs.npz"),
    Case(
        "directory: another optimizer that is absent",
        (*NET, "--optimizer", "absent"),
        ("absent", "no such file"),
        write_directory,
    ),
)
