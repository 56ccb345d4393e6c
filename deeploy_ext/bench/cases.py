"""From layers to nodes: what the bench runs, one operator at a time."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from deeploy_ext.errors import BadInputError
from deeploy_ext.operators import registry
from deeploy_ext.operators.spec import Invocation, Operator, TensorType

SHAPES = Path(__file__).with_name("shapes.toml")

FLOAT = np.dtype(np.float32)
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Case:
    """One node to measure.

    Attributes:
        layer: the layer that it is from, as the list of shapes names it.
        operator: what is run.
        inputs, attributes, outputs, ranges: as those of :class:`deeploy_ext.operators.spec.Case`.
        parameter: the node is the accumulation or the update of a trained tensor of that shape, instead of one of its own.
    """

    layer: str
    operator: Operator
    inputs: Mapping[str, Shape | np.ndarray[Any, Any]]
    attributes: Mapping[str, Any] = field(default_factory=dict[str, Any])
    parameter: bool = False
    outputs: tuple[str, ...] = ()
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict[str, tuple[float, float]])

    @property
    def name(self) -> str:
        """Unique among the cases of a list."""
        sizes = ", ".join("x".join(map(str, kind.shape)) for kind in self.types.values())
        return f"{self.layer}: {self.operator.op_type} {sizes}"

    @property
    def types(self) -> Mapping[str, TensorType]:
        """Type of every input that is given; random ones are float32 but those that the operator says are not."""
        known = {name: np.dtype(self.operator.operand_types.get(name, ("float32",))[0]) for name in self.inputs}
        return {
            name: TensorType(known[name], given) if isinstance(given, tuple) else TensorType(given.dtype, given.shape)
            for name, given in self.inputs.items()
        }

    @property
    def results(self) -> tuple[TensorType, ...]:
        """Types of the node's outputs.

        Raises:
            BadInputError: the operator refuses the case.
        """
        types, operator = self.types, self.operator
        given = tuple(types.get(name) for name in operator.inputs)
        constants = {name: value for name, value in self.inputs.items() if isinstance(value, np.ndarray)}
        attributes = {**operator.attributes, **self.attributes}
        return operator.infer(Invocation(operator.op_type, operator, given, (), attributes, constants))


def load_cases(path: Path = SHAPES, operators: Sequence[str] = ()) -> list[Case]:
    """The cases of a list of shapes, in its order; of the named operators only, if any are named (upper or lower case).

    Raises:
        BadInputError: the list cannot be read, a layer is not complete, or a name is of no operator in it.
    """
    try:
        listed = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        message = f"--shapes: '{path}' cannot be read ({error}); give a list like {SHAPES}."
        raise BadInputError(message) from error
    cases: list[Case] = []
    for kind, layers in listed.items():
        if kind not in KINDS:
            raise BadInputError(f"--shapes: '{path}' lists '{kind}'; known are {', '.join(sorted(KINDS))}.")
        if not isinstance(layers, list) or not all(isinstance(layer, dict) for layer in layers):
            raise BadInputError(f"--shapes: '{path}': {kind} is not a list of layers; see {SHAPES}.")
        for layer in layers:
            try:
                cases += _cases(kind, layer)
            except (ValueError, BadInputError) as error:
                raise BadInputError(f"--shapes: '{path}': {kind} {layer}: {error}") from error
    if not cases:
        raise BadInputError(f"--shapes: '{path}' lists no layer; give a list like {SHAPES}.")
    known = {case.operator.op_type.lower(): case.operator.op_type for case in cases}
    for name in operators:
        if name.lower() not in known:
            raise BadInputError(f"--op '{name}': no layer of the list has it; listed are {', '.join(sorted(known.values()))}.")
    wanted = {name.lower() for name in operators}
    distinct = {(case.name, repr(case.attributes)): case for case in cases}.values()
    return [case for case in distinct if not wanted or case.operator.op_type.lower() in wanted]


def _operator(op_type: str) -> Operator:
    (found,) = [operator for (_, name), operator in registry().items() if name == op_type]
    return found


MOST = 1 << 21
"""Elements of a tensor, at most: data are made before the planner can say that they do not fit."""


def _cases(kind: str, layer: Mapping[str, Any]) -> list[Case]:
    """The cases of a layer. Raises ValueError in words that end a sentence."""
    needed, possible, make = KINDS[kind]
    for key in needed:
        if key not in layer:
            raise ValueError(f"'{key}' is missing; a layer has {', '.join((*needed, *possible))}.")
    for key in layer:
        if key not in (*needed, *possible):
            raise ValueError(f"'{key}' is not known; a layer has {', '.join((*needed, *possible))}.")
    if not isinstance(layer["of"], str):
        raise ValueError("'of' is not a text; name the layer.")
    for one, two in (("stride", "strides"), ("pad", "pads")):
        if one in layer and two in layer:
            raise ValueError(f"'{one}' and '{two}' say the same; leave one out.")
    return make(layer)


def _shape(sizes: Any, rank: int | None = None) -> Shape:
    whole = isinstance(sizes, list) and all(type(size) is int and size > 0 for size in sizes)
    if not whole or not sizes or (rank and len(sizes) != rank):
        raise ValueError(f"{sizes} are not {rank or 'some'} sizes; give whole numbers from 1.")
    if math.prod(sizes) > MOST:
        raise ValueError(f"{sizes} are more than {MOST} elements; give a smaller layer.")
    return tuple(sizes)


def _counts(layer: Mapping[str, Any], key: str, default: int, count: int) -> list[int]:
    """A list of numbers of an attribute, or one number for all of them."""
    given = layer.get(f"{key}s", [layer.get(key, default)] * count)
    if not isinstance(given, list) or any(type(number) is not int for number in given):
        raise ValueError(f"'{key}' is not of whole numbers; correct it.")
    return given


def _conv(layer: Mapping[str, Any]) -> list[Case]:
    x, w = _shape(layer["x"], 4), _shape(layer["w"], 4)
    attributes = {
        "strides": _counts(layer, "stride", 1, 2),
        "pads": _counts(layer, "pad", 0, 4),
        "group": _counts(layer, "group", 1, 1)[0],
    }
    forward = Case(layer["of"], _operator("Conv"), {"X": x, "W": w}, attributes)
    (y,) = forward.results
    return [
        forward,
        Case(layer["of"], _operator("ConvGradX"), {"dY": y.shape, "W": w, "X": x}, attributes),
        Case(layer["of"], _operator("ConvGradW"), {"dY": y.shape, "X": x, "W": w}, attributes),
    ]


def _gemm(layer: Mapping[str, Any]) -> list[Case]:
    m, k, n = (_shape([layer[size]])[0] for size in ("m", "k", "n"))
    for sides in ((m, k), (k, n), (m, n)):
        _shape(list(sides))
    gemm = _operator("Gemm")
    return [
        Case(f"{layer['of']}, forward", gemm, {"A": (m, k), "B": (n, k), "C": (n,)}, {"transB": 1}),
        Case(f"{layer['of']}, dX", gemm, {"A": (m, n), "B": (n, k)}),
        Case(f"{layer['of']}, dW", gemm, {"A": (m, n), "B": (m, k)}, {"transA": 1}),
    ]


def _normalisation(layer: Mapping[str, Any]) -> list[Case]:
    x = _shape(layer["x"], 4)
    c = x[1:2]
    forward = {"X": x, "scale": c, "B": c, "mean": c, "var": c}
    backward = {"dY": x, "X": x, "scale": c, "saved_mean": c, "saved_inv_std": c}
    return [
        Case(layer["of"], _operator("BatchNormInternal"), forward, {"training_mode": 1}),
        Case(layer["of"], _operator("BatchNormalizationGrad"), backward),
    ]


def _elementwise(layer: Mapping[str, Any]) -> list[Case]:
    x = _shape(layer["x"])
    names = {"Relu": ("x",), "ReluGrad": ("dy", "y"), "Add": ("A", "B"), "Mul": ("A", "B")}
    return [Case(layer["of"], _operator(name), dict.fromkeys(operands, x)) for name, operands in names.items()]


def _exponential(layer: Mapping[str, Any]) -> list[Case]:
    """Element-wise ones with an exponential or an error function, and rows (the last axis) of probabilities."""
    x = _shape(layer["x"])
    operators = [_operator(name) for name in ("Exp", "Sigmoid", "Tanh", "Gelu", "GeluGrad", "Softmax", "LogSoftmax")]
    return [Case(layer["of"], operator, dict.fromkeys(operator.inputs, x)) for operator in operators]


def _pooling(layer: Mapping[str, Any]) -> list[Case]:
    x = _shape(layer["x"], 4)
    small = (*x[:2], 1, 1)
    return [
        Case(layer["of"], _operator("GlobalAveragePool"), {"X": x}),
        Case(layer["of"], _operator("GlobalAveragePoolGrad"), {"dY": small}, {"kernel_shape": list(x[2:])}),
    ]


def _parameter(layer: Mapping[str, Any]) -> list[Case]:
    x = _shape(layer["x"])
    return [
        Case(layer["of"], _operator("InPlaceAccumulatorV2"), {"buffer": x}, parameter=True),
        Case(layer["of"], _operator("SGD"), {"weight": x}, parameter=True),
    ]


Maker = Callable[[Mapping[str, Any]], list[Case]]

KINDS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...], Maker]] = {
    "conv": (("of", "x", "w"), ("stride", "strides", "pad", "pads", "group"), _conv),
    "gemm": (("of", "m", "k", "n"), (), _gemm),
    "normalisation": (("of", "x"), (), _normalisation),
    "elementwise": (("of", "x"), (), _elementwise),
    "exponential": (("of", "x"), (), _exponential),
    "pooling": (("of", "x"), (), _pooling),
    "parameter": (("of", "x"), (), _parameter),
}
"""Kinds of layers: what one has to say, what it may say, and the cases that it gives."""
