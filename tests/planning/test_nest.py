"""Tile nests: regions follow from relations, every output element is written once, volumes are those of a walk."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deeploy_ext.graph.program import Call
from deeploy_ext.operators import find
from deeploy_ext.operators.spec import MICROSOFT, OWN, Invocation, TensorType
from deeploy_ext.planning.nest import Tiling, commands_per_box, make_nest, nests_of, row_of, volume
from deeploy_ext.planning.search import ladder

F32 = np.dtype(np.float32)


def call_of(domain: str, op_type: str, attributes: dict, **shapes: tuple[int, ...]) -> Call:
    """A node of an operator with float32 inputs of these shapes."""
    operator = find(domain, op_type)
    assert operator is not None
    inputs = tuple(TensorType(F32, shapes[name]) if name in shapes else None for name in operator.inputs)
    bare = Invocation("node", operator, inputs, (), {**operator.attributes, **attributes})
    full = Invocation("node", operator, inputs, operator.infer(bare), bare.attributes)
    present = [n for n in (*operator.inputs, *operator.outputs) if full.get(n) is not None]
    return Call("step", full, {name: name for name in present})


@st.composite
def convolutions(draw: st.DrawFn) -> Call:
    group, co, ci = draw(st.sampled_from([(1, 3, 2), (2, 2, 1), (1, 1, 5), (3, 1, 1)]))
    k, s, d, p = (draw(st.tuples(st.integers(1, n), st.integers(1, n))) for n in (3, 3, 2, 2))
    x = tuple(draw(st.integers(max(1, d[i] * (k[i] - 1) + 1 - 2 * p[i]), 9)) for i in (0, 1))
    attributes = {"group": group, "strides": list(s), "dilations": list(d), "pads": [*p, *p]}
    shapes = {"X": (2, group * ci, *x), "W": (group * co, ci, *k)}
    forward = call_of("", "Conv", attributes, **shapes)
    shapes["dY"] = forward.invocation["Y"].shape
    op = draw(st.sampled_from(["Conv", "ConvGradX", "ConvGradW"]))
    return forward if op == "Conv" else call_of(OWN, op, attributes, **shapes)


CALLS = st.one_of(
    convolutions(),
    st.sampled_from(
        [
            call_of("", "Relu", {}, x=(3, 7)),
            call_of("", "Add", {}, A=(2, 3, 5), B=(3, 1)),
            call_of("", "Gemm", {"transB": 1}, A=(3, 7), B=(5, 7), C=(5,)),
            call_of("", "GlobalAveragePool", {}, X=(2, 3, 4, 5)),
            call_of(MICROSOFT, "BatchNormInternal", {}, X=(2, 5, 3, 3), scale=(5,), B=(5,), mean=(5,), var=(5,)),
        ]
    ),
)


@st.composite
def tilings(draw: st.DrawFn) -> Tiling:
    nests = draw(st.sampled_from(nests_of(draw(CALLS))))
    nest = draw(st.sampled_from(nests))
    tiles = [
        draw(st.sampled_from(ladder(loop))) if free else loop.extent
        for loop, free in zip(nest.loops, nest.splittable, strict=True)
    ]
    return Tiling(nest, tuple(tiles))


def walk(tiling: Tiling, order: tuple[int, ...]):
    """Tile indices of all split loops, in execution order."""
    loops = tiling.loop_plans()
    for tile in product(*(range(loops[i].count) for i in order)):
        yield dict(zip(order, tile, strict=True))


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(tilings())
def test_every_output_element_is_in_exactly_one_written_box(tiling: Tiling) -> None:
    if not tiling.exact():
        return
    loops = tiling.loop_plans()
    for operand in tiling.nest.operands:
        if not operand.stored:
            continue
        axes = tiling.axes(operand)
        count = np.zeros(operand.view, int)
        moved = tuple(sorted({i for a in axes for i in a.loops}))
        for at in walk(tiling, moved):
            boxes = [a.regions[row_of(a, loops, at)] for a in axes]
            count[tuple(slice(s, s + n) for s, n in boxes)] += 1
        assert (count == 1).all()


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(tilings())
def test_boxes_hold_whatever_the_loops_of_their_tile_touch(tiling: Tiling) -> None:
    loops = tiling.loop_plans()
    for operand in tiling.nest.operands:
        axes = tiling.axes(operand)
        for at in walk(tiling, tiling.split):
            ranges = {loop.name: loop.range(at[i]) if i in at else (0, loop.extent) for i, loop in enumerate(loops)}
            for access in operand.accesses:
                for index, a in zip(access.index, axes, strict=True):
                    start, size = a.regions[row_of(a, loops, at)]
                    begin, end = (0, a.extent) if index is None else index.interval(ranges, a.extent)
                    assert begin == end or (start <= begin and end <= start + size)
                    assert size == 0 or (start >= 0 and start + size <= a.extent)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(tilings(), st.randoms(use_true_random=False))
def test_volume_counts_the_boxes_that_change_along_the_walk(tiling: Tiling, random) -> None:
    loops = tiling.loop_plans()
    order = list(tiling.split)
    random.shuffle(order)
    order.sort(key=lambda i: loops[i].reduction)
    for operand in tiling.nest.operands:
        axes = tiling.axes(operand)
        last, boxes, size = None, 0, 0
        for at in walk(tiling, tuple(order)):
            box = tuple(a.regions[row_of(a, loops, at)] for a in axes)
            tile = tuple(at[i] for i in sorted({i for a in axes for i in a.loops}))
            if tile != last:
                boxes, size, last = boxes + 1, size + math.prod(n for _, n in box) * operand.item, tile
        found = volume(axes, operand.item, loops, tuple(order))
        assert (found.boxes, found.bytes) == (boxes, size)


def test_several_phases_only_share_loops_that_are_parallel_in_all() -> None:
    call = call_of(MICROSOFT, "BatchNormInternal", {}, X=(2, 5, 3, 3), scale=(5,), B=(5,), mean=(5,), var=(5,))
    joint = make_nest(call, call.invocation.operator.phases(call.invocation))
    assert [loop.name for loop, free in zip(joint.loops, joint.splittable, strict=True) if free] == ["c"]
    apart = nests_of(call)[1]
    assert [loop.name for loop, free in zip(apart[0].loops, apart[0].splittable, strict=True) if free] == ["c", "n", "s"]


def test_a_box_moves_in_as_few_commands_as_its_shape_allows() -> None:
    assert commands_per_box([4, 8, 8], [4, 8, 8]) == 1
    assert commands_per_box([2, 8, 8], [4, 8, 8]) == 1
    assert commands_per_box([4, 3, 8], [4, 8, 8]) == 1
    assert commands_per_box([4, 3, 5], [4, 8, 8]) == 4
    assert commands_per_box([2, 3, 3, 5], [2, 4, 8, 8]) == 6
