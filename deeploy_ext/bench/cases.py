"""From layers to nodes: what the bench runs, one operator at a time."""

from __future__ import annotations

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
        inputs: shape of every input that is given, by operand name.
        attributes: of the node; those left out have the operator's defaults.
        parameter: the node is the accumulation or the update of a trained tensor of that shape, instead of one of its own.
    """

    layer: str
    operator: Operator
    inputs: Mapping[str, Shape]
    attributes: Mapping[str, Any] = field(default_factory=dict[str, Any])
    parameter: bool = False

    @property
    def name(self) -> str:
        """Unique among the cases of a list."""
        sizes = ", ".join("x".join(map(str, shape)) for shape in self.inputs.values())
        return f"{self.layer}: {self.operator.op_type} {sizes}"


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
        for layer in layers:
            try:
                cases += KINDS[kind](layer)
            except (KeyError, TypeError, ValueError) as error:
                raise BadInputError(f"--shapes: '{path}': {kind} {layer} is not complete ({error!r}); see {SHAPES}.") from error
    known = {case.operator.op_type.lower(): case.operator.op_type for case in cases}
    for name in operators:
        if name.lower() not in known:
            raise BadInputError(f"--op {name}: no layer of the list has it; listed are {', '.join(sorted(known.values()))}.")
    wanted = {name.lower() for name in operators}
    distinct = {(case.name, repr(case.attributes)): case for case in cases}.values()
    return [case for case in distinct if not wanted or case.operator.op_type.lower() in wanted]


def _operator(op_type: str) -> Operator:
    (found,) = [operator for (_, name), operator in registry().items() if name == op_type]
    return found


def output_types(operator: Operator, inputs: Mapping[str, Shape], attributes: Mapping[str, Any]) -> tuple[TensorType, ...]:
    """Types of a node's outputs; all inputs are float32 but those that the operator says are not."""
    types = {name: TensorType(np.dtype(operator.operand_types.get(name, ("float32",))[0]), s) for name, s in inputs.items()}
    given = tuple(types.get(name) for name in operator.inputs)
    return operator.infer(Invocation(operator.op_type, operator, given, (), {**operator.attributes, **attributes}))


def _shape(sizes: Sequence[Any]) -> Shape:
    if any(not isinstance(size, int) or size < 1 for size in sizes):
        raise ValueError(f"{sizes} are not sizes")
    return tuple(sizes)


def _conv(layer: Mapping[str, Any]) -> list[Case]:
    x, w = _shape(layer["x"]), _shape(layer["w"])
    attributes = {
        "strides": list(layer.get("strides", [layer.get("stride", 1)] * 2)),
        "pads": list(layer.get("pads", [layer.get("pad", 0)] * 4)),
        "group": layer.get("group", 1),
    }
    (y,) = output_types(_operator("Conv"), {"X": x, "W": w}, attributes)
    return [
        Case(layer["of"], _operator("Conv"), {"X": x, "W": w}, attributes),
        Case(layer["of"], _operator("ConvGradX"), {"dY": y.shape, "W": w, "X": x}, attributes),
        Case(layer["of"], _operator("ConvGradW"), {"dY": y.shape, "X": x, "W": w}, attributes),
    ]


def _gemm(layer: Mapping[str, Any]) -> list[Case]:
    m, k, n = _shape([layer["m"], layer["k"], layer["n"]])
    gemm = _operator("Gemm")
    return [
        Case(f"{layer['of']}, forward", gemm, {"A": (m, k), "B": (n, k), "C": (n,)}, {"transB": 1}),
        Case(f"{layer['of']}, dX", gemm, {"A": (m, n), "B": (n, k)}),
        Case(f"{layer['of']}, dW", gemm, {"A": (m, n), "B": (m, k)}, {"transA": 1}),
    ]


def _normalisation(layer: Mapping[str, Any]) -> list[Case]:
    x = _shape(layer["x"])
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


def _pooling(layer: Mapping[str, Any]) -> list[Case]:
    x = _shape(layer["x"])
    small = (*x[:2], *(1 for _ in x[2:]))
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


KINDS: Mapping[str, Callable[[Mapping[str, Any]], list[Case]]] = {
    "conv": _conv,
    "gemm": _gemm,
    "normalisation": _normalisation,
    "elementwise": _elementwise,
    "pooling": _pooling,
    "parameter": _parameter,
}
