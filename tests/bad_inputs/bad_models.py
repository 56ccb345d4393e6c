"""Models that are not ONNX, not a graph, or not a graph of static float32 tensors."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import onnx
from bad_case import Case, changed, dense, info, network, weight
from onnx import TensorProto, helper, numpy_helper

Change = Callable[[onnx.ModelProto], object]


def _case(name: str, change: Change, *words: str) -> Case:
    def build(folder: Path) -> None:
        network(folder)
        (folder / "net/model.onnx").write_bytes(changed(change).SerializeToString())

    return Case(f"model: {name}", ("-t", "net"), words, build)


def _graph(name: str, change: Callable[[onnx.GraphProto], object], *words: str) -> Case:
    return _case(name, lambda model: change(model.graph), *words)


def _replace(name: str, make: Callable[[onnx.TensorProto], onnx.TensorProto]) -> Callable[[onnx.GraphProto], None]:
    """The initializer of that name becomes another."""

    def change(graph: onnx.GraphProto) -> None:
        for tensor in graph.initializer:
            if tensor.name == name:
                tensor.CopyFrom(make(tensor))

    return change


def _as(kind: int, graph: onnx.GraphProto) -> None:
    """Weight ``w1`` gets another element type."""
    graph.initializer[0].CopyFrom(helper.make_tensor("w1", kind, [5, 4], np.ones(20)))


def _value(value: float, graph: onnx.GraphProto) -> None:
    array = numpy_helper.to_array(graph.initializer[2]).copy()
    array[1, 2] = value
    graph.initializer[2].CopyFrom(numpy_helper.from_array(array, "w2"))


def _input(shape: list[int | str] | None, kind: int = TensorProto.FLOAT) -> Callable[[onnx.GraphProto], None]:
    return lambda graph: graph.input[0].CopyFrom(info("x", shape, kind))


def _unshaped(graph: onnx.GraphProto) -> None:
    graph.input[0].type.tensor_type.ClearField("shape")


def _unknown(graph: onnx.GraphProto) -> None:
    graph.input[0].type.tensor_type.shape.dim[0].Clear()


def _external(location: str) -> Callable[[onnx.GraphProto], None]:
    def change(graph: onnx.GraphProto) -> None:
        tensor = graph.initializer[0]
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value=location)

    return change


def _branch(graph: onnx.GraphProto) -> None:
    arm = helper.make_graph([helper.make_node("Relu", ["h"], ["arm"])], "arm", [], [info("arm", [1, 5])])
    graph.initializer.append(numpy_helper.from_array(np.array(True), "flag"))
    graph.node[1].CopyFrom(helper.make_node("If", ["flag"], ["r"], name="choice", then_branch=arm, else_branch=arm))


def _loop(graph: onnx.GraphProto) -> None:
    inside = [info("i", [], TensorProto.INT64), info("go", [], TensorProto.BOOL), info("v", [1, 5])]
    results = [info("stay", [], TensorProto.BOOL), info("v_next", [1, 5])]
    nodes = [helper.make_node("Identity", ["go"], ["stay"]), helper.make_node("Relu", ["v"], ["v_next"])]
    graph.initializer.append(numpy_helper.from_array(np.array(3), "count"))
    body = helper.make_graph(nodes, "body", inside, results)
    graph.node[1].CopyFrom(helper.make_node("Loop", ["count", "", "h"], ["r"], name="again", body=body))


def _several(graph: onnx.GraphProto) -> None:
    graph.node[0].op_type = "Einsum"
    graph.node[1].op_type, graph.node[1].domain = "Mish", "com.acme"


def _sparse(graph: onnx.GraphProto) -> None:
    values, indices = weight("w1", 1), numpy_helper.from_array(np.array([0], np.int64), "w1_indices")
    del graph.initializer[0]
    graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [5, 4]))


def _function(model: onnx.ModelProto) -> None:
    """The graph uses a function whose body uses what nobody knows."""
    body = [helper.make_node("Mish", ["a"], ["b"], domain="com.acme")]
    imports = [helper.make_opsetid("com.acme", 1)]
    model.functions.append(helper.make_function("own", "Act", ["a"], ["b"], body, imports))
    model.graph.node[1].op_type, model.graph.node[1].domain = "Act", "own"
    model.opset_import.append(helper.make_opsetid("own", 1))


def _opset(version: int) -> Change:
    return lambda model: setattr(model.opset_import[0], "version", version)


_BROKEN = "model: file "


def _file(name: str, content: Callable[[bytes], bytes], *words: str) -> Case:
    def build(folder: Path) -> None:
        network(folder)
        (folder / "net/model.onnx").write_bytes(content(dense().SerializeToString()))

    return Case(f"{_BROKEN}{name}", ("-t", "net"), words, build)


CASES: tuple[Case, ...] = (
    _file("that is empty", lambda _: b"", "build.py", "not an ONNX model"),
    _file("that is text", lambda _: b"this is no model\n", "build.py", "DecodeError", "correct"),
    _file("cut in half", lambda content: content[: len(content) // 2], "build.py"),
    _case("without a graph", lambda model: model.ClearField("graph"), "no graph", "export"),
    _graph("without nodes", lambda graph: graph.ClearField("node"), "no nodes", "export"),
    _graph("without outputs", lambda graph: graph.ClearField("output"), "no output", "export"),
    _graph("without inputs", lambda graph: graph.ClearField("input"), "'x'", "nothing gives"),
    _graph("with an output of nobody", lambda graph: setattr(graph.output[0], "name", "nowhere"), "nowhere"),
    _graph("with a dangling operand", lambda g: g.node[2].input.__setitem__(1, "nowhere"), "last (Gemm)", "'nowhere'"),
    _graph("with a cycle", lambda graph: graph.node[0].input.__setitem__(0, "r"), "cycl"),
    _graph("with a value made twice", lambda graph: graph.node[1].output.__setitem__(0, "h"), "'h'", "twice"),
    _graph("with an input twice", lambda graph: graph.input.append(info("x", [1, 4])), "'x'", "twice"),
    _graph("with a weight twice", lambda graph: graph.initializer.append(weight("w1", 5, 4)), "'w1'", "twice"),
    _graph("with a weight made again", lambda graph: graph.node[1].output.__setitem__(0, "w1"), "'w1'", "twice"),
    _graph("with a dynamic batch", _input(["batch", 4]), "'x'", "dynamic shape (batch, 4)", "static"),
    _graph("with an unknown dimension", _unknown, "'x'", "dynamic", "static"),
    _graph("with a zero dimension", _input([0, 4]), "'x'", "(0, 4)", "static"),
    _graph("with a negative dimension", _input([-1, 4]), "'x'", "-1", "static"),
    _graph("with a shapeless input", _unshaped, "'x'", "no type or shape", "static"),
    _graph("with a scalar input", _input([]), "first (Gemm)", "()"),
    _graph("with an enormous input", _input([1, 2**40]), "'x'", "bytes", "static"),
    _graph("with an empty weight", _replace("b1", lambda _: weight("b1", 0)), "first (Gemm)", "(0,)"),
    _graph(
        "with a weight that lacks its data", lambda graph: setattr(graph.initializer[0], "raw_data", b""), "'w1'", "broken data"
    ),
    _graph("with a weight that claims 40 GB", lambda g: g.initializer[0].dims.__setitem__(0, 10**10), "'w1'", "broken data"),
    _graph("with a weight of negative extent", lambda g: g.initializer[0].dims.__setitem__(0, -5), "'w1'", "(-5, 4)", "export"),
    *(
        _graph(f"with {name} weights", partial(_as, kind), "'w1'", name, "float32")
        for name, kind in (
            ("float64", TensorProto.DOUBLE),
            ("float16", TensorProto.FLOAT16),
            ("bfloat16", TensorProto.BFLOAT16),
            ("int4", TensorProto.INT4),
            ("int8", TensorProto.INT8),
            ("complex64", TensorProto.COMPLEX64),
        )
    ),
    _graph("with text for weights", lambda g: g.initializer[0].CopyFrom(helper.make_tensor("w1", 8, [1], [b"a"])), "'w1'"),
    *(
        _graph(f"with a {name} input", _input([1, 4], kind), "'x'", name, "float32")
        for name, kind in (
            ("float64", TensorProto.DOUBLE),
            ("float16", TensorProto.FLOAT16),
            ("bfloat16", TensorProto.BFLOAT16),
            ("int4", TensorProto.INT4),
            ("uint8", TensorProto.UINT8),
            ("string", TensorProto.STRING),
        )
    ),
    _graph("with NaN in a weight", partial(_value, np.nan), "'w2'", "NaN", "finite"),
    _graph("with infinity in a weight", partial(_value, -np.inf), "'w2'", "infinity", "finite"),
    _graph("with a sparse weight", _sparse, "sparse", "dense"),
    _graph("with external data that is missing", _external("absent.bin"), "absent.bin"),
    _graph("with external data outside its folder", _external("../secret.bin"), "secret.bin"),
    _graph("with external data at an absolute path", _external("/etc/hostname"), "/etc/hostname"),
    _graph("with a branch", _branch, "choice (If)", "control flow", "export"),
    _graph("with a loop", _loop, "again (Loop)", "control flow", "export"),
    _graph("with unknown operators", _several, "ai.onnx::Einsum (first)", "com.acme::Mish (act)", "Replace"),
    _graph("with an operator of no type", lambda g: setattr(g.node[1], "op_type", ""), "act", "Replace"),
    _case("with an unknown operator in a function", _function, "Mish"),
    _case("of a future opset", _opset(99), "opset 99", "export"),
    _case("of an ancient opset", _opset(3), "opset 3", "export"),
    _case("of opset zero", _opset(0), "opset 0", "export"),
    _case("without opset", lambda model: model.ClearField("opset_import"), "opset", "export"),
)
