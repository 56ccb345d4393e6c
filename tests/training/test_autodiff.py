"""Gradients of whole networks against directional differences of the forward graph in float64, and against torch."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import onnx_ir as ir
import pytest
from double_precision import directional_errors, step_gradients
from torch_forward import gradients as torch_gradients

from deeploy_ext.errors import BadInputError
from deeploy_ext.graph.load import LoadOptions, load
from deeploy_ext.graph.testnets import network_folders
from deeploy_ext.harness.golden import run_golden
from deeploy_ext.training.autodiff import differentiate
from deeploy_ext.training.network import NetworkBuilder
from deeploy_ext.training.task import ForwardNetwork, TrainingSpec, TrainingTask

NETWORKS = sorted(network_folders())
TOLD_APART = {"MobileNetV1"}
"""Networks in which an input of a Relu is zero within rounding, so that single and double precision take two sides of it: see
docs/numerics.md. ``tests/harness/test_sides.py`` has what happens then."""
TOLERANCE = 1e-5


@cache
def task_of(name: str) -> TrainingTask:
    network = load(name, LoadOptions(steps=1, accumulation=1))
    assert isinstance(network, ForwardNetwork)
    return differentiate(network)


@pytest.mark.parametrize("name", NETWORKS)
def test_whole_network(name: str) -> None:
    """Gradients against differences of the forward pass, in double precision."""
    task = task_of(name)
    exact = step_gradients(task, task.step)
    errors = directional_errors(task, exact)
    assert len(errors) == 5
    assert max(errors) < TOLERANCE


@pytest.mark.parametrize("name", [name for name in NETWORKS if name not in TOLD_APART])
def test_the_golden_run_is_as_exact_as_single_precision_allows(name: str) -> None:
    task = task_of(name)
    exact, golden = step_gradients(task, task.step), run_golden(task)
    largest = max(float(np.abs(gradient).max()) for gradient in exact.values())
    for weight, gradient in golden.gradients[0].items():
        allowed = 1e-3 * float(np.abs(exact[weight]).max()) + 1e-6 * largest
        assert np.abs(gradient - exact[weight]).max() <= allowed, weight


@pytest.mark.parametrize("name", ["TinyCNN", "ResNet8"])
def test_forgotten_residual_gradient_is_noticed(name: str) -> None:
    task = task_of(name)
    step = ir.from_proto(ir.to_proto(task.step))
    sums = [node for node in step.graph if node.op_type == "Add" and (node.name or "").endswith("_grad/Add")]
    assert sums, "the network has no residual connection"
    first = sums[0].inputs[0]
    assert first is not None
    sums[0].outputs[0].replace_all_uses_with(first)
    assert min(directional_errors(task, step_gradients(task, step))) > 100 * TOLERANCE


@pytest.mark.parametrize("name", NETWORKS)
def test_same_bytes_every_time(name: str) -> None:
    network = load(name)
    assert isinstance(network, ForwardNetwork)
    first, second = differentiate(network), differentiate(network)
    for one, other in ((first.step, second.step), (first.update, second.update)):
        assert ir.to_proto(one).SerializeToString() == ir.to_proto(other).SerializeToString()


def test_names_of_the_training_graph() -> None:
    task = task_of("TinyCNN")
    assert task.data == ("image", "labels")
    for parameter in task.parameters:
        assert parameter.buffer == f"{parameter.weight}_grad.accumulation.buffer"
        assert parameter.buffer_out == f"{parameter.buffer}_out"
        assert parameter.updated == f"{parameter.weight}_updated"
    made = {value.name for node in task.step.graph for value in node.outputs}
    assert {f"{parameter.weight}_grad" for parameter in task.parameters} <= made
    assert [(state.before, state.after) for state in task.states] == [
        ("bn1_mean", "bn1_mean_next"),
        ("bn1_var", "bn1_var_next"),
    ]


def test_nothing_is_computed_for_frozen_layers() -> None:
    network = load("SimpleMLP")
    assert isinstance(network, ForwardNetwork)
    last = ForwardNetwork("last", network.model, network.loss, ("classifier_weight",), network.batches, network.spec)
    task = differentiate(last)
    assert [parameter.weight for parameter in task.parameters] == ["classifier_weight"]
    backward = [node.name for node in task.step.graph if "_grad/" in (node.name or "")]
    assert not any(name and name.startswith("hidden") for name in backward)
    assert "hidden_weight" in task.step.graph.initializers


def _network(layers: Callable[[NetworkBuilder], str], shape: list[int], trainable: tuple[str, ...]) -> ForwardNetwork:
    build = NetworkBuilder(0)
    return ForwardNetwork(
        "test", ir.from_proto(build.model("test", layers(build), shape)), "mse", trainable, (), TrainingSpec()
    )


def test_weight_shared_by_two_layers_gets_the_sum() -> None:
    def layers(build: NetworkBuilder) -> str:
        x, w = build.input("x", [3, 5]), build.weight("w", [5, 5], 5)
        return build.node("Gemm", "second", [build.node("Gemm", "first", [x, w]), w], transB=1)

    generator = np.random.RandomState(1)
    batch = {name: generator.standard_normal((3, 5)).astype(np.float32) for name in ("x", "target")}
    network = _network(layers, [3, 5], ("w",))
    task = differentiate(ForwardNetwork("shared", network.model, "mse", ("w",), (batch,), TrainingSpec(1, 1)))
    assert max(directional_errors(task, step_gradients(task, task.step))) < TOLERANCE


def test_refusals_name_the_thing() -> None:
    def frozen(build: NetworkBuilder) -> str:
        x = build.input("x", [2, 3])
        build.initializer("w", np.ones(3))
        return build.node("Relu", "relu", [x])

    with pytest.raises(BadInputError, match="nothing to train"):
        differentiate(_network(frozen, [2, 3], ()))

    def gradient(build: NetworkBuilder) -> str:
        dense = build.dense("dense", build.input("x", [2, 3]), (3, 4))
        return build.node("ReluGrad", "again", [dense, dense], domain="com.microsoft")

    with pytest.raises(BadInputError, match=r"again \(ReluGrad\): training through this operator"):
        differentiate(_network(gradient, [2, 4], ("dense_weight",)))


@pytest.mark.parametrize("name", NETWORKS)
def test_torch_agrees(name: str) -> None:
    torch = pytest.importorskip("torch")
    task = task_of(name)
    wanted = torch_gradients(torch, task)
    for weight, gradient in step_gradients(task, task.step).items():
        np.testing.assert_allclose(gradient, wanted[weight], rtol=1e-8, atol=1e-10, err_msg=weight)
