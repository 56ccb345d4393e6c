"""Traffic and reload factors: hand-computed nests, and sums that agree with the plan's own whatever the flags."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from test_nest import F32, call_of

from deeploy_ext.graph.program import Call
from deeploy_ext.operators import find
from deeploy_ext.operators.spec import Invocation, TensorType
from deeploy_ext.planning.nest import Tiling, make_nest
from deeploy_ext.planning.plan import AxisPlan, BlockPlan, Cycles, Group, LevelUse, Placement, Plan, Use
from deeploy_ext.planning.traffic import BlockTraffic, Hops, Moved, TensorTraffic, moved_by, tensor_traffic, uses_of
from support import FIXED_L1, planned, task_of

NOTHING = Hops()


def traffic(
    call: Call, order: tuple[str, ...], home: str = "L2", stage: str = "none", **tiles: int
) -> dict[str, TensorTraffic]:
    """Traffic of a plan of one nest with these tiles and this order of the split loops, by operand."""
    nest = make_nest(call, call.invocation.operator.phases(call.invocation))
    tiling = Tiling(nest, tuple(tiles.get(loop.name, loop.extent) for loop in nest.loops))
    names = [loop.name for loop in nest.loops]
    assert {names[i] for i in tiling.split} == set(order)
    blocks = tuple(
        BlockPlan((Use(0, o.name),), o.value, o.loaded, o.stored, o.item, tiling.axes(o), 8, (0,), stage, 8, ())
        for o in nest.operands
    )
    loops = tuple(names.index(name) for name in order)
    group = Group("step", (call.name,), 0, (), tiling.loop_plans(), loops, blocks, False, Cycles(1, 1, 1, 1))
    places = tuple(Placement(o.value, home, 0, 8, "contiguous", 0, 0, False, (o.value,)) for o in nest.operands)
    memory = {level: LevelUse(1, 0, 0, 0) for level in ("L1", "L2", "L3")}
    plan = Plan("gap9", {}, ("step",), (group,), places, (), memory)
    return {tensor.uses[0].block.operand: tensor for tensor in tensor_traffic(plan)}


def told(tensor: TensorTraffic) -> list[tuple[str, str, int | None, Fraction]]:
    return [(r.kind, r.where, r.axis, r.times) for use in tensor.uses for r in use.reasons]


def conv(side: int, kernel: int, pad: int, stride: int = 1) -> Call:
    attributes = {"group": 1, "strides": [stride] * 2, "dilations": [1, 1], "pads": [pad] * 4}
    return call_of("", "Conv", attributes, X=(1, 2, side, side), W=(4, 2, kernel, kernel))


def test_halo_of_a_3x3_convolution() -> None:
    found = traffic(conv(8, 3, 1), ("oy",), oy=4)
    x, w, y = (found[name] for name in ("X", "W", "Y"))
    assert told(x) == [("overlap", "oy", 2, Fraction(5 + 5, 8))]  # rows 0 to 4 and 3 to 7
    assert x.fetched.l2_l1 == Moved(2 * 10 * 8 * 4, 2) and x.factors == (0, Fraction(5, 4))
    assert x.uses[0].reloads == "L2-L1" and x.stored.l2_l1 == Moved()
    assert "halo" in str(x.uses[0].reasons[0]) and "axis 2" in str(x.uses[0].reasons[0])
    assert told(w) == [] and w.factors == (0, 1) and w.uses[0].reloads == ""
    assert y.stored.l2_l1.bytes == y.bytes and y.fetched.l2_l1 == Moved() and y.factors == (0, 0)


def test_both_sides_of_a_tile_have_a_halo() -> None:
    assert told(traffic(conv(9, 3, 1), ("oy",), oy=3)["X"]) == [("overlap", "oy", 2, Fraction(4 + 5 + 4, 9))]
    both = traffic(conv(8, 3, 1), ("oy", "ox"), oy=4, ox=4)["X"]
    assert both.factors[1] == Fraction(5, 4) ** 2 and [reason[2] for reason in told(both)] == [2, 3]


def test_weights_come_back_for_every_spatial_tile_unless_they_are_outside() -> None:
    inside = traffic(conv(8, 1, 0), ("oy", "co"), oy=2, co=2)
    assert told(inside["W"]) == [("loop", "oy", None, Fraction(4))] and inside["W"].factors[1] == 4
    assert told(inside["X"]) == [] and inside["X"].factors[1] == 1
    outside = traffic(conv(8, 1, 0), ("co", "oy"), oy=2, co=2)
    assert told(outside["W"]) == [] and outside["W"].factors[1] == 1
    assert told(outside["X"]) == [("loop", "co", None, Fraction(2))] and outside["X"].factors[1] == 2
    assert str(outside["X"].uses[0].reasons[0]) == "loop order: again for each of 2 tiles of co"


def test_a_stride_leaves_elements_out() -> None:
    found = traffic(conv(8, 1, 0, stride=2), ("oy",), oy=1)["X"]
    assert told(found) == [("gaps", "oy", 2, Fraction(1, 2)), ("gaps", "", 3, Fraction(7, 8))]  # row by row, to the last
    assert found.factors[1] == Fraction(7, 16) and found.uses[0].reloads == ""


@pytest.mark.parametrize(("stage", "far"), [("tile", 4), ("whole", 1)])
def test_what_is_staged_as_a_whole_crosses_l3_once(stage: str, far: int) -> None:
    w = traffic(conv(8, 1, 0), ("oy", "co"), "L3", stage, oy=2, co=2)["W"]
    assert w.factors == (far, 4) and w.uses[0].reloads == ("L3-L2 and L2-L1" if far > 1 else "L2-L1")
    assert w.fetched.l3_l2 == Moved(far * w.bytes, 8 if stage == "tile" else 1)


def test_what_lives_in_l1_is_not_moved() -> None:
    found = traffic(conv(8, 3, 1), ("oy",), home="L1", oy=4)
    assert moved_by(use for tensor in found.values() for use in tensor.uses) == NOTHING
    assert not any(use.reloads for tensor in found.values() for use in tensor.uses)


def test_axes_cut_by_one_loop_count_together() -> None:
    """A diagonal does not exist among the operators: two axes that one loop moves, built by hand."""
    operator = find("", "Relu")
    assert operator is not None
    kind = TensorType(F32, (4, 4))
    call = Call("step", Invocation("node", operator, (kind,), (kind,), {}), {"x": "x", "y": "y"})
    plain = traffic(call, ("i",), i=4)["x"].uses[0]
    (flat,) = plain.block.axes
    quarter = AxisPlan(4, flat.loops, ((0, 1), (1, 1), (2, 1), (3, 1)))
    group = replace(plain.group, blocks=(replace(plain.block, axes=(quarter, quarter)),))
    place = Placement("x", "L2", 0, 64, "contiguous", 0, 0, False, ("x",))
    (use,) = uses_of(Plan("gap9", {}, ("step",), (group,), (place,), (), {}))
    assert [(r.kind, r.axis, r.times) for r in use.reasons] == [("gaps", None, Fraction(1, 4))]
    assert use.factor == Fraction(1, 4)


FLAGS: list[dict[str, Any]] = [
    {},
    {"promote": True, "double_buffer": True},
    {"promote": True, "double_buffer": True, "l1": FIXED_L1 + 6_000, "l2": 120_000},
    {"l1": FIXED_L1 + 6_000},
    {"default_level": "L2", "kernels": "portable", "l1": FIXED_L1 + 6_000},
]


@pytest.mark.parametrize("flags", FLAGS, ids=str)
@pytest.mark.parametrize("net", ["TinyCNN", "SimpleMLP", "TinyAutoencoder", "TinySeparable"])
def test_the_parts_are_the_plans_traffic(net: str, flags: dict[str, Any]) -> None:
    assert_consistent(planned(task_of(net), **flags).plan)


def test_the_parts_are_the_plans_traffic_where_little_fits() -> None:
    plan = planned(task_of("ResNet8"), promote=True, double_buffer=True, l1=24_000, l2=200_000).plan
    assert_consistent(plan)
    reloads = [use for use in uses_of(plan) if use.reloads]
    assert {reason.kind for use in reloads for reason in use.reasons} >= {"loop", "overlap"}
    assert any("L3-L2" in use.reloads for use in reloads)


def assert_consistent(plan: Plan) -> None:
    """Bytes add up, factors are products of reasons, and whoever fetches more than the tensor has a reason to."""
    tensors, uses = tensor_traffic(plan), uses_of(plan)
    assert sum(len(tensor.uses) for tensor in tensors) == len(uses) == sum(len(group.blocks) for group in plan.groups)
    for entry in plan.entries:
        moved = moved_by(use for tensor in tensors if tensor.entry == entry for use in tensor.uses)
        assert (moved.l3_l2.bytes, moved.l2_l1.bytes) == (plan.traffic[entry].l3_l2, plan.traffic[entry].l2_l1)
        assert (moved.l3_l2.commands > 0) == (moved.l3_l2.bytes > 0)
    for use in uses:
        assert_explained(use)
    for tensor in tensors:
        fetching = [use for use in tensor.uses if use.block.loaded and use.home != "L1"]
        assert tensor.factors[1] == sum(use.factor - Fraction(use.kept.bytes, use.bytes) for use in fetching)


def assert_explained(use: BlockTraffic) -> None:
    if use.home == "L1":
        assert use.once == NOTHING and not use.reloads
        return
    assert use.factor == math.prod((reason.times for reason in use.reasons), start=Fraction(1))
    assert all(reason.times != 1 for reason in use.reasons)
    assert not use.reloads or any(reason.times > 1 and reason.kind != "gaps" for reason in use.reasons)
