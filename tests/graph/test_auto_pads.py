"""Padding that is left to the runtime: written out, a graph means what it meant under onnxruntime."""

from __future__ import annotations

from typing import Any

import pytest
from one_node import assert_means_the_same, model_of, normalised
from onnx import helper

from deeploy_ext.errors import BadInputError

SIZES: tuple[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]], ...] = (
    ((1, 2, 7, 6), (3, 2, 3, 3), {}),
    ((2, 2, 8, 5), (4, 1, 3, 2), {"strides": [2, 3], "group": 2}),
    ((1, 3, 11), (2, 3, 4), {"strides": [2]}),
)
"""Image, weight and attributes."""


@pytest.mark.parametrize("mode", ["VALID", "SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize(("image", "weight", "attributes"), SIZES)
def test_convolutions(image: tuple[int, ...], weight: tuple[int, ...], attributes: dict[str, Any], mode: str) -> None:
    made = assert_means_the_same(
        model_of(helper.make_node("Conv", ["x0", "x1"], ["y"], "conv", auto_pad=mode, **attributes), [image, weight])
    )
    assert not [one for node in made.graph.node for one in node.attribute if one.name == "auto_pad"]


@pytest.mark.parametrize(
    ("mode", "pads"), [("VALID", [0, 0, 0, 0]), ("SAME_UPPER", [1, 1, 1, 2]), ("SAME_LOWER", [1, 2, 1, 1])]
)
def test_dilated_convolutions(mode: str, pads: list[int]) -> None:
    """onnxruntime has none with SAME."""
    node = helper.make_node("Conv", ["x0", "x1"], ["y"], "conv", auto_pad=mode, dilations=[2, 3], strides=[1, 2])
    (conv,) = normalised(model_of(node, [(1, 1, 9, 9), (2, 1, 2, 2)])).graph.node
    assert {one.name: list(one.ints) for one in conv.attribute}["pads"] == pads


@pytest.mark.parametrize("mode", ["VALID", "SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize("op_type", ["MaxPool", "AveragePool"])
def test_pooling(op_type: str, mode: str) -> None:
    for kernel, strides in (([2, 2], [2, 2]), ([3, 2], [2, 1])):
        node = helper.make_node(op_type, ["x0"], ["y"], "pool", auto_pad=mode, kernel_shape=kernel, strides=strides)
        assert_means_the_same(model_of(node, [(1, 2, 7, 5)]))


@pytest.mark.parametrize("given", [{"auto_pad": "SAME"}, {"auto_pad": "SAME_UPPER", "pads": [1, 1, 1, 1]}])
def test_what_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(BadInputError, match=r"conv \(Conv\): auto_pad=SAME"):
        normalised(model_of(helper.make_node("Conv", ["x0", "x1"], ["y"], "conv", **given), [(1, 1, 5, 5), (1, 1, 3, 3)]))
