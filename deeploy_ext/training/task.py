"""The value that load and autodiff hand on: a training step, an update, the data, and how to judge the result."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

Arrays = dict[str, np.ndarray[Any, Any]]


@dataclass(frozen=True)
class TrainingSpec:
    """How to train and how to compare.

    Attributes:
        steps: number of optimizer steps; ``steps * accumulation`` mini-batches run.
        accumulation: mini-batches per step; their gradients are *summed*.
        learning_rate: of plain SGD.
        tolerance: of losses, relative to max(1, |golden|).
        seed: of generated weights and data.
    """

    steps: int = 2
    accumulation: int = 2
    learning_rate: float = 0.01
    tolerance: float = 1e-5
    seed: int = 0

    @property
    def mini_batches(self) -> int:
        return self.steps * self.accumulation


@dataclass(frozen=True)
class Parameter:
    """A trained tensor: names of the weight, its accumulated gradient (input and output of ``step``), and the weight after
    ``update``."""

    weight: str
    buffer: str
    buffer_out: str
    updated: str


@dataclass(frozen=True)
class State:
    """A tensor that ``step`` carries from one mini-batch to the next, e.g. a running mean: its input and output names."""

    before: str
    after: str


@dataclass(frozen=True)
class Expectation:
    """What the maker of a network says comes out: one loss per mini-batch, parameters after the last step."""

    losses: np.ndarray[Any, Any]
    parameters: Arrays


@dataclass(frozen=True)
class ForwardNetwork:
    """A network before autodiff.

    Attributes:
        name: identifier of the network.
        model: forward graph from data inputs to one output, the prediction; weights are initializers.
        loss: kind of loss, a key of ``deeploy_ext.training.losses.LOSSES``.
        trainable: names of the initializers that are trained, in order of first use.
        batches: one dict of data per mini-batch, the loss's target under its input name included.
        notes: what loading changed or assumed, for the user.
        original: the file that the network came from; trained weights go back into it.
    """

    name: str
    model: ir.Model
    loss: str
    trainable: tuple[str, ...]
    batches: tuple[Arrays, ...]
    spec: TrainingSpec = field(default_factory=TrainingSpec)
    notes: tuple[str, ...] = ()
    original: onnx.ModelProto | None = None


@dataclass(frozen=True)
class TrainingTask:
    """A network to train.

    Attributes:
        name: identifier of the network.
        step: graph with inputs data, weights, state, buffers, ``reset`` (bool[1]; true: overwrite the buffers) and
            outputs ``loss``, buffers, state.
        update: graph with inputs weights, buffers, ``learning_rate`` (float[]) and outputs updated weights.
        forward: the loss-giving forward graph autodiff started from; None for graphs that came with their backward part.
        infer: graph from data, weights and state to the prediction, batch normalisation with running statistics; None for
            graphs that came with their backward part.
        data: names of the inputs that change with every mini-batch.
        initial: values of weights and state before the first step (buffers start at zero).
        batches: one dict of data per distinct mini-batch; they are cycled when more are needed.
        original: the inference model that the network came from, whose initializers hold the weights; None: there is none.
    """

    name: str
    step: ir.Model
    update: ir.Model
    forward: ir.Model | None
    infer: ir.Model | None
    loss: str
    reset: str
    learning_rate: str
    data: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    states: tuple[State, ...]
    initial: Arrays
    batches: tuple[Arrays, ...]
    spec: TrainingSpec = field(default_factory=TrainingSpec)
    expected: Expectation | None = None
    original: onnx.ModelProto | None = None

    @property
    def prediction(self) -> str | None:
        """Name of the prediction, the output of ``infer``."""
        return self.infer.graph.outputs[0].name if self.infer else None

    def batch(self, index: int) -> Arrays:
        """Data of mini-batch ``index``, cycling through those given."""
        return self.batches[index % len(self.batches)]


@dataclass(frozen=True)
class Trajectory:
    """Everything a training run produces, from the golden run or from an engine, in execution order.

    Attributes:
        losses: one per mini-batch.
        gradients: per mini-batch, accumulated gradient by *weight* name.
        parameters: per step, weight after the update by name.
        states: per mini-batch, state by its input name.
        predictions: inference after the last step, one per distinct mini-batch; empty for tasks without ``infer``.
    """

    losses: list[float]
    gradients: list[Arrays]
    parameters: list[Arrays]
    states: list[Arrays]
    predictions: list[Arrays] = field(default_factory=list[Arrays])
