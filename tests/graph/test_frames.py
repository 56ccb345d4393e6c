"""Pads that are not of a constant, and long Concats: a normalised graph means what it meant; what cannot be is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from one_node import assert_means_the_same, model_of, normalised
from onnx import helper

from deeploy_ext.errors import BadInputError
from deeploy_ext.operators.joining import MOST_PARTS


def pad(shape: tuple[int, ...], pads: list[int], mode: str, **constants: Any) -> onnx.ModelProto:
    names = ["x0", "pads", *(["", *constants] if constants else [])]
    return model_of(helper.make_node("Pad", names, ["y"], name="pad", mode=mode), [shape], pads=np.array(pads), **constants)


@pytest.mark.parametrize("mode", ["edge", "reflect", "wrap"])
@pytest.mark.parametrize(
    ("shape", "pads"),
    [
        ((2, 3, 5, 7), [0, 0, 1, 2, 0, 0, 3, 1]),
        ((2, 3, 5, 7), [1, 2, 4, 6, 1, 2, 4, 6]),
        ((5, 4), [0, 3, 0, 0]),
        ((5,), [0, 4]),
        ((5, 3), [0, 0, 0, 0]),
    ],
)
def test_frames_of_every_mode(mode: str, shape: tuple[int, ...], pads: list[int]) -> None:
    made = assert_means_the_same(pad(shape, pads, mode))
    assert ("Pad" in {node.op_type for node in made.graph.node}) == (not any(pads))


def test_a_frame_of_named_axes() -> None:
    assert_means_the_same(pad((2, 3, 5), [2, 1], "edge", axes=np.array([-1])))


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (pad((2, 5), [0, 5, 0, 0], "reflect"), "pad (Pad): mode='reflect' by 5 elements of 5 is not supported; pad by fewer"),
        (pad((2, 5), [0, 6, 0, 0], "wrap"), "pad (Pad): mode='wrap' by 6 elements of 5"),
        (pad((2, 5), [0, 1, 0, 0], "mirror"), "pad (Pad): mode='mirror' is not supported; use one of constant, edge"),
        (pad((2, 5), [0, -1, 0, 0], "edge"), "pad (Pad): pads [0, -1, 0, 0] of 2 axes"),
    ],
)
def test_frames_that_are_refused(model: onnx.ModelProto, said: str) -> None:
    with pytest.raises(BadInputError) as caught:
        normalised(model)
    assert said in str(caught.value)


@pytest.mark.parametrize("count", [2, MOST_PARTS, MOST_PARTS + 1, 2 * MOST_PARTS, MOST_PARTS**2 + 1])
def test_concats_of_any_number_of_inputs(count: int) -> None:
    shapes = [(2, 1 + number % 3, 3) for number in range(count)]
    names = [f"x{number}" for number in range(count)]
    made = assert_means_the_same(model_of(helper.make_node("Concat", names, ["y"], name="cat", axis=1), shapes))
    assert max(len(node.input) for node in made.graph.node) == min(count, MOST_PARTS)
