"""Names, domains and ranks that other exporters use, brought to those that operators are known by."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from deeploy_ext.errors import BadInputError
from deeploy_ext.graph.load import LoadOptions, load
from deeploy_ext.graph.normalise import normalise
from deeploy_ext.graph.opset import to_opset
from deeploy_ext.operators import registry
from deeploy_ext.operators.spec import MICROSOFT, ONNX, OWN
from deeploy_ext.training.task import ForwardNetwork


def graph_of(nodes: list[onnx.NodeProto], shapes: dict[str, tuple[int, ...]], output: str, opset: int = 21) -> ir.Graph:
    """The normalised graph of some nodes; names with a shape that no node gives are inputs."""
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()]
    outputs = [helper.make_tensor_value_info(output, TensorProto.FLOAT, None)]
    domains = {node.domain for node in nodes} - {""}
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(domain, 1) for domain in domains)]
    model = helper.make_model(helper.make_graph(nodes, "g", inputs, outputs), opset_imports=opsets, ir_version=10)
    graph = ir.from_proto(to_opset(model, "g")).graph
    normalise(graph)
    return graph


def names(graph: ir.Graph) -> list[tuple[str, str]]:
    return [(node.domain, node.op_type) for node in graph]


@pytest.mark.parametrize(
    ("node", "known", "attributes"),
    [
        (helper.make_node("Gelu", ["x"], ["y"], domain=MICROSOFT), (ONNX, "Gelu"), {}),
        (helper.make_node("FastGelu", ["x"], ["y"], domain=MICROSOFT), (ONNX, "Gelu"), {"approximate": "tanh"}),
        (helper.make_node("GeluGrad", ["x", "x"], ["y"]), (MICROSOFT, "GeluGrad"), {}),
        (helper.make_node("MSELossGrad", ["x", "x"], ["y"], domain=MICROSOFT), (OWN, "MSELossGrad"), {}),
        (helper.make_node("Swish", ["x"], ["y"], alpha=1.5), (OWN, "Swish"), {"alpha": 1.5}),
    ],
    ids=lambda value: value.op_type if isinstance(value, onnx.NodeProto) else "",
)
def test_other_names_and_domains(node: onnx.NodeProto, known: tuple[str, str], attributes: dict[str, Any]) -> None:
    if node.op_type == "MSELossGrad":
        node.input[:] = ["one", "x", "x"]
    graph = graph_of([node], {"x": (2, 3), "one": ()}, "y")
    assert names(graph) == [known]
    assert {name: value.value for name, value in next(iter(graph)).attributes.items()} == attributes


def own_model(folder: Path, op_type: str, domain: str, *functions: onnx.FunctionProto, **attributes: Any) -> ir.Graph:
    """The loaded graph of a user's model with a node of some domain before a dense layer."""
    nodes = [
        helper.make_node(op_type, ["x"], ["h"], "act", domain=domain, **attributes),
        helper.make_node("Gemm", ["h", "w"], ["y"], "head"),
    ]
    weight = numpy_helper.from_array(np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3), "w")
    inputs, outputs = ([helper.make_tensor_value_info(n, TensorProto.FLOAT, s)] for n, s in (("x", (2, 4)), ("y", (2, 3))))
    opsets = [helper.make_opsetid(name, version) for name, version in {"": 17, domain: 17 if domain == "" else 1}.items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, [weight])
    onnx.save(helper.make_model(graph, opset_imports=opsets, functions=functions, ir_version=8), folder / "m.onnx")
    network = load(str(folder / "m.onnx"), LoadOptions(loss="mse"))
    assert isinstance(network, ForwardNetwork)
    return network.model.graph


@pytest.mark.parametrize(("op_type", "domain"), [("Gelu", MICROSOFT), ("FastGelu", MICROSOFT), ("Swish", ONNX), ("Relu", OWN)])
def test_users_models_with_names_of_the_shared_domains(op_type: str, domain: str, tmp_path: Path) -> None:
    first, _ = names(own_model(tmp_path, op_type, domain))
    assert first in registry()


@pytest.mark.parametrize("domain", ["acme", "ai.onnx.contrib", "com.microsoft.nhwc"])
def test_a_name_of_another_domain_is_that_domains_own(domain: str, tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=f"unsupported operators: {domain}::Relu"):
        graph_of([helper.make_node("Relu", ["x"], ["y"], "act", domain=domain)], {"x": (2, 3)}, "y")
    with pytest.raises(BadInputError, match=f"unsupported operators: {domain}::Relu"):
        own_model(tmp_path, "Relu", domain)
    meaning = [helper.make_node("Neg", ["a"], ["b"])]
    function = helper.make_function(domain, "Relu", ["a"], ["b"], meaning, [helper.make_opsetid("", 17)])
    assert names(own_model(tmp_path, "Relu", domain, function)) == [(ONNX, "Neg"), (ONNX, "Gemm")]


@pytest.mark.parametrize("opset", [13, 21])
def test_an_operator_beside_the_standard_in_any_opset(opset: int) -> None:
    node = helper.make_node("RMSNorm", ["x", "scale"], ["y"], eps=1e-3)
    graph = graph_of([node], {"x": (2, 3), "scale": (3,)}, "y", opset)
    (found,) = graph
    assert (found.domain, found.op_type) == (OWN, "RMSNormalization")
    assert found.attributes["epsilon"].as_float() == pytest.approx(1e-3)


def test_lines_are_images_of_one_row() -> None:
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="conv", strides=[2], pads=[1, 0]),
        helper.make_node("MaxPool", ["c"], ["y"], name="pool", kernel_shape=[3], dilations=[2]),
    ]
    graph = graph_of(nodes, {"x": (1, 2, 17), "w": (4, 2, 3)}, "y")
    assert [op for _, op in names(graph)] == ["Unsqueeze", "Unsqueeze", "Conv", "Squeeze", "Unsqueeze", "MaxPool", "Squeeze"]
    conv, pool = (node for node in graph if node.op_type in ("Conv", "MaxPool"))
    assert (list(conv.attributes["strides"].value), list(conv.attributes["pads"].value)) == ([1, 2], [0, 1, 0, 0])
    assert (list(pool.attributes["kernel_shape"].value), list(pool.attributes["dilations"].value)) == ([1, 3], [1, 2])
    assert graph.outputs[0].name == "y" and graph.outputs[0].shape == ir.Shape((1, 4, 4))


def test_a_convolution_of_three_dimensions_is_refused() -> None:
    with pytest.raises(BadInputError, match="rank 5"):
        graph_of([helper.make_node("Conv", ["x", "w"], ["y"])], {"x": (1, 2, 4, 4, 4), "w": (3, 2, 1, 1, 1)}, "y")


def test_gemm_of_stacks_is_a_product_of_stacks() -> None:
    node = helper.make_node("Gemm", ["a", "b", "c"], ["y"], name="gemm", alpha=0.5, beta=2.0, transA=1)
    graph = graph_of([node], {"a": (2, 4, 3), "b": (2, 4, 5), "c": (5,)}, "y")
    assert [op for _, op in names(graph)] == ["Transpose", "MatMul", "Mul", "Mul", "Add"]
    assert graph.outputs[0].name == "y" and graph.outputs[0].shape == ir.Shape((2, 3, 5))
    model = ir.to_proto(ir.Model(graph, ir_version=10))
    random = np.random.RandomState(1)
    a, b, c = (random.standard_normal(shape).astype(np.float32) for shape in ((2, 4, 3), (2, 4, 5), (5,)))
    (made,) = ReferenceEvaluator(model).run(None, {"a": a, "b": b, "c": c})
    np.testing.assert_allclose(made, 0.5 * a.transpose(0, 2, 1) @ b + 2 * c, rtol=1e-5, atol=1e-5)


def test_every_node_on_lines_has_constants_of_its_own() -> None:
    nodes = [helper.make_node("MaxPool", [f"x{i}"], [f"x{i + 1}"], kernel_shape=[2]) for i in range(3)]
    graph = graph_of(nodes, {"x0": (1, 1, 9)}, "x3")
    axes = [value.const_value.numpy() for value in graph.initializers.values() if value.const_value is not None]
    assert all(np.array_equal(array, [2]) for array in axes) and graph.outputs[0].shape == ir.Shape((1, 1, 6))
