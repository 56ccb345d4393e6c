"""Training graphs at random: layers of every trainable kind, in any order and geometry, against the golden run.

A graph is drawn by hypothesis from a fixed seed, so that the same graphs are trained every time. Its C is compiled without
optimisation, which takes a quarter of the time; how the kernels compile otherwise, other tests show.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, assume, given, seed, settings
from hypothesis import strategies as st

from deeploy_ext.engines import host
from deeploy_ext.errors import BadInputError
from deeploy_ext.harness.golden import run_golden
from deeploy_ext.harness.sides import judge
from deeploy_ext.operators import registry
from deeploy_ext.operators.elementwise import Floor, Unary
from deeploy_ext.training.network import NetworkBuilder
from deeploy_ext.training.task import TrainingSpec, TrainingTask, Trajectory
from support import FIXED_L1, task_from, trained

QUICK_GRAPHS, PORTIONS, ALL_GRAPHS = 100, 4, 400
"""Of the tests that are not slow, in so many tests that run side by side, and of all."""

LARGEST = 1e3
"""Of all numbers of a run: graphs that go beyond are not trained."""


def _activations() -> list[tuple[str, str]]:
    """Operators of one operand of any size and sign that have a gradient, by name."""
    found: list[tuple[str, str]] = []
    for key, operator in registry().items():
        smooth = isinstance(operator, Unary) and type(operator).gradient is not Floor.gradient  # which is zero
        if smooth and all(low < 0 for case in operator.cases for low, _ in case.ranges.values()):
            found.append(key)
    return [("", "Relu"), *found]


Draw = Callable[[st.SearchStrategy[Any]], Any]


class _Net:
    """A network that grows layer by layer; ``shape`` is that of its last value."""

    def __init__(self, draw: Draw) -> None:
        self.draw, self.net, self.count = draw, NetworkBuilder(draw(st.integers(0, 99))), 0
        self.normalised = False  # rows have the mean 0 and the variance 1
        self.shape = tuple(draw(st.integers(low, high)) for low, high in ((1, 3), (1, 5), (3, 9), (3, 9)))
        self.value = self.net.input("x", self.shape)

    def name(self, kind: str) -> str:
        self.count += 1
        return f"{kind}{self.count}"

    def number(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))

    def conv(self) -> None:
        n, c, *image = self.shape
        kernel = [self.number(1, min(3, extent)) for extent in image]
        pads = [self.number(0, k - 1) for k in (*kernel, *kernel)]
        strides = [self.number(1, 2) for _ in kernel]
        spans = [extent + pads[i] + pads[i + 2] for i, extent in enumerate(image)]
        dilations = [self.number(1, 2) if span >= 2 * (k - 1) + 1 else 1 for span, k in zip(spans, kernel, strict=True)]
        group = self.draw(st.sampled_from([g for g in range(1, c + 1) if c % g == 0]))
        out = group * self.number(1, 3)
        name = self.name("conv")
        inputs = [self.value, self.net.weight(f"{name}_w", (out, c // group, *kernel), c // group * kernel[0] * kernel[1])]
        if self.draw(st.booleans()):
            inputs.append(self.net.initializer(f"{name}_b", 0.1 * np.arange(out)))
        attributes = {"kernel_shape": kernel, "pads": pads, "strides": strides, "dilations": dilations, "group": group}
        self.value = self.net.node("Conv", name, inputs, **attributes)
        extents = [(s - d * (k - 1) - 1) // t + 1 for s, d, k, t in zip(spans, dilations, kernel, strides, strict=True)]
        self.shape = (n, out, *extents)

    def batch_norm(self) -> None:
        assume(not self.normalised)  # running statistics would stand still but for rounding: nothing to compare
        assume(self.shape[0] * self.shape[2] * self.shape[3] >= 6)
        self.value = self.net.batch_norm(self.name("bn"), self.value, self.shape[1])

    def activation(self) -> None:
        domain, op_type = self.draw(st.sampled_from(_activations()))
        self.value = self.net.node(op_type, self.name("act"), [self.value], domain=domain)

    def pool(self) -> None:
        kernel = [self.number(1, min(3, extent)) for extent in self.shape[2:]]
        strides = [self.number(1, 2) for _ in kernel]
        op_type = self.draw(st.sampled_from(["MaxPool", "AveragePool"]))
        self.value = self.net.node(op_type, self.name("pool"), [self.value], kernel_shape=kernel, strides=strides)
        image = [(extent - k) // s + 1 for extent, k, s in zip(self.shape[2:], kernel, strides, strict=True)]
        self.shape = (*self.shape[:2], *image)

    def residual(self) -> None:
        """A branch of a 1x1 convolution and an activation, added to what it starts from."""
        before, c = self.value, self.shape[1]
        self.value = self.net.conv(self.name("branch"), self.value, (c, c), 1)
        self.activation()
        self.value = self.net.add(self.name("add"), before, self.value)

    def scale(self) -> None:
        """Each channel by a number that trains."""
        name = self.name("scale")
        factors = self.net.initializer(f"{name}_w", np.linspace(0.5, 1.5, self.shape[1])[:, None, None])
        self.value = self.net.node("Mul", name, [self.value, factors])

    def normalise_rows(self) -> None:
        """LayerNormalization over the last axis."""
        name, width = self.name("ln"), self.shape[-1]
        assume(width >= 3)
        inputs = [
            self.value,
            self.net.initializer(f"{name}_w", np.ones(width)),
            self.net.initializer(f"{name}_b", np.zeros(width)),
        ]
        self.value = self.net.node("LayerNormalization", name, inputs)
        self.normalised = True

    def softmax(self) -> None:
        axis = self.draw(st.sampled_from([1, -1]))
        assume(self.shape[axis] > 1)  # else all are 1: a normalisation behind it would divide rounding by rounding
        self.value = self.net.node("Softmax", self.name("softmax"), [self.value], axis=axis)

    def product(self) -> None:
        """A stack of matrix products with a matrix that trains."""
        name, width, out = self.name("matmul"), self.shape[-1], self.number(1, 5)
        self.value = self.net.node("MatMul", name, [self.value, self.net.weight(f"{name}_w", (width, out), width, 1.0)])
        self.shape = (*self.shape[:-1], out)

    def transpose(self) -> None:
        """The image axes change places."""
        self.value = self.net.node("Transpose", self.name("turned"), [self.value], perm=[0, 1, 3, 2])
        self.shape = (*self.shape[:2], self.shape[3], self.shape[2])

    def head(self) -> int:
        """A dense layer on the flat features; returns the number of its outputs."""
        if self.draw(st.booleans()):
            self.value = self.net.node("GlobalAveragePool", self.name("gap"), [self.value])
            self.shape = (*self.shape[:2], 1, 1)
        self.value = self.net.node("Flatten", self.name("flat"), [self.value])
        features, out = int(np.prod(self.shape[1:])), self.number(2, 5)
        self.value = self.net.dense("head", self.value, (features, out))
        return out


LAYERS = (
    _Net.conv, _Net.conv, _Net.batch_norm, _Net.activation, _Net.pool, _Net.residual, _Net.scale, _Net.normalise_rows,
    _Net.softmax, _Net.product, _Net.transpose,
)  # fmt: skip


class Drawn:
    """A task that a failing test prints as its layers (of a dataclass hypothesis prints all fields)."""

    def __init__(self, task: TrainingTask) -> None:
        self.task = task

    def __repr__(self) -> str:
        assert self.task.forward is not None
        graph = self.task.forward.graph
        types = [f"{node.op_type} {node.outputs[0].shape} {dict(node.attributes.items())}" for node in graph]
        return f"{graph.inputs[0].shape}: {'; '.join(types)}"


@st.composite
def drawings(draw: Draw) -> Drawn:
    """A small network with data, ready to train."""
    made = _Net(draw)
    for layer in draw(st.lists(st.sampled_from(LAYERS), min_size=1, max_size=5)):
        made.normalised &= layer in (_Net.transpose, _Net.batch_norm)
        layer(made)
    out = made.head()
    spec = TrainingSpec(steps=2, accumulation=draw(st.integers(1, 2)), learning_rate=0.05, seed=draw(st.integers(0, 99)))
    model = made.net.model("random", made.value, [made.shape[0], out])
    loss = draw(st.sampled_from(["cross_entropy", "mse"]))
    return Drawn(task_from(model, spec, loss))


FLAGS = st.fixed_dictionaries(
    {"promote": st.booleans(), "double_buffer": st.booleans(), "l1": st.sampled_from([None, FIXED_L1 + 3000, FIXED_L1 + 12000])}
)


def _tame(golden: Trajectory) -> bool:
    """Whether no number of a golden run is beyond what training can use."""
    rows = [*golden.gradients, *golden.parameters, *golden.states, *golden.predictions]
    return max(float(np.abs(array).max()) for row in rows for array in row.values()) < LARGEST


def _train(count: int, number: int) -> int:
    """Trains so many graphs of a seed; returns how many it were."""
    done: list[str] = []

    @seed(number)
    @settings(
        max_examples=count, deadline=None, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
    )
    @given(drawn=drawings(), flags=FLAGS)
    def one(drawn: Drawn, flags: dict[str, Any]) -> None:
        task = drawn.task
        try:
            golden = run_golden(task)
        except BadInputError as error:
            assert "not finite" in str(error)
            golden = None
        assume(golden is not None and _tame(golden))  # exponentials of exponentials
        with tempfile.TemporaryDirectory() as folder:
            result = trained(task, Path(folder), **flags)
        judgement = judge(task, golden, result.rounds[0])
        assert judgement.verdict.passed, judgement
        done.append(task.name)

    one()
    return len(done)


@pytest.fixture
def unoptimised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "FLAGS", tuple("-O0" if flag == "-O2" else flag for flag in host.FLAGS))


@pytest.mark.usefixtures("unoptimised")
@pytest.mark.parametrize("portion", range(PORTIONS))
def test_a_hundred_random_graphs(portion: int) -> None:
    assert _train(QUICK_GRAPHS // PORTIONS, portion) == QUICK_GRAPHS // PORTIONS


@pytest.mark.slow
@pytest.mark.usefixtures("unoptimised")
@pytest.mark.parametrize("portion", range(PORTIONS))
def test_more_random_graphs(portion: int) -> None:
    assert _train(ALL_GRAPHS // PORTIONS, 1000 + portion) == ALL_GRAPHS // PORTIONS
