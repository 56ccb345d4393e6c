"""The greedy planner: whatever the memories, the plan passes the static check; what does not fit is explained."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deeploy_ext.errors import BadInputError, InfeasibleError
from deeploy_ext.graph.lower import lower
from deeploy_ext.planning.allocation import Request, pack
from deeploy_ext.planning.code_size import code_bytes
from deeploy_ext.planning.options import PlanOptions
from deeploy_ext.planning.plan import Plan
from deeploy_ext.planning.planner import make_plan
from deeploy_ext.planning.schedule import scheduled
from deeploy_ext.planning.steps import Flow
from deeploy_ext.training.network import NetworkBuilder
from deeploy_ext.training.task import TrainingSpec
from support import FIXED_L1, GAP9, planned, task_from, task_of

requests = st.lists(
    st.tuples(st.integers(1, 9), st.integers(0, 9), st.integers(0, 9)).map(lambda r: (r[0] * 8, min(r[1:]), max(r[1:]))),
    max_size=25,
).map(lambda rs: [Request(f"r{i}", *r) for i, r in enumerate(rs)])


@given(requests)
def test_packed_blocks_that_live_together_never_overlap(wanted: list[Request]) -> None:
    at = pack(wanted)
    for i, a in enumerate(wanted):
        assert at[a.name] % 8 == 0
        for b in wanted[i + 1 :]:
            together = a.first <= b.last and b.first <= a.last
            assert not together or at[a.name] + a.bytes <= at[b.name] or at[b.name] + b.bytes <= at[a.name]


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from(["TinyCNN", "SimpleMLP", "TinyAutoencoder"]),
    st.integers(11_000, 30_000),
    st.integers(42_000, 90_000),
    st.booleans(),
    st.booleans(),
    st.integers(1, 8),
)
def test_any_plan_passes_the_static_check_or_names_what_is_missing(net, l1, l2, promote, double_buffer, cores) -> None:
    task = task_of(net)
    try:
        made = planned(task, l1=l1, l2=l2, promote=promote, double_buffer=double_buffer, cores=cores)
    except InfeasibleError as error:
        assert error.needed > error.available
        assert f"--{error.level.lower()} " in str(error)
        return
    for level, use in made.plan.memory.items():
        assert 0 <= use.lower_bound <= use.used <= use.capacity, level


@pytest.mark.parametrize("flags", [{}, {"promote": True}, {"double_buffer": True}, {"promote": True, "double_buffer": True}])
def test_the_suggested_l1_is_the_smallest_that_works(flags: dict) -> None:
    program = scheduled(lower(task_of("TinyCNN")))
    with pytest.raises(InfeasibleError) as caught:
        make_plan(program, GAP9, PlanOptions(l1=FIXED_L1 + 60, **flags))
    smallest = int(str(caught.value).split("--l1 ")[1].split(" ")[0])
    assert caught.value.level == "L1"
    planned(task_of("TinyCNN"), l1=smallest, **flags)
    with pytest.raises(InfeasibleError):
        make_plan(program, GAP9, PlanOptions(l1=smallest - 8, **flags))


def test_the_suggested_l2_is_the_smallest_that_works() -> None:
    program = scheduled(lower(task_of("TinyCNN")))
    reserved = code_bytes(program, GAP9, "fast")
    with pytest.raises(InfeasibleError, match=str(reserved)):
        make_plan(program, GAP9, PlanOptions(l2=reserved - 8))
    with pytest.raises(InfeasibleError) as first:
        make_plan(program, GAP9, PlanOptions(l2=1))
    planned(task_of("TinyCNN"), l2=int(str(first.value).split("--l2 ")[1].split(" ")[0]))
    with pytest.raises(InfeasibleError) as caught:
        make_plan(program, GAP9, PlanOptions(l2=reserved + 8))
    smallest = int(str(caught.value).split("--l2 ")[1].split(" ")[0])
    planned(task_of("TinyCNN"), l2=smallest)
    with pytest.raises(InfeasibleError):
        make_plan(program, GAP9, PlanOptions(l2=smallest - 8))


def test_an_l2_too_small_for_everything_is_infeasible_without_promotion() -> None:
    with pytest.raises(InfeasibleError, match="--default-level L3"):
        planned(task_of("ResNet8"), default_level="L2", l2=800_000)


def test_promotion_never_moves_more_than_leaving_everything_in_l3() -> None:
    nothing = planned(task_of("ResNet8")).plan
    some = planned(task_of("ResNet8"), promote=True, l2=1_000_000).plan
    everything = planned(task_of("ResNet8"), promote=True).plan
    moved = [plan.traffic["step"].l3_l2 for plan in (nothing, some, everything)]
    assert moved[0] > moved[1] > moved[2]
    assert {p.level for p in some.placements if p.storage != "reset"} >= {"L2", "L3"}


def test_double_buffering_is_chosen_only_where_it_pays() -> None:
    single = planned(task_of("ResNet8"), promote=True).plan
    double = planned(task_of("ResNet8"), promote=True, double_buffer=True).plan
    assert double.cycles("step") < single.cycles("step")
    assert not any(group.double_buffer for group in single.groups)
    assert 0 < sum(group.double_buffer for group in double.groups) < len(double.groups)
    assert all(group.tiles > 1 for group in double.groups if group.double_buffer)


def test_more_l1_costs_no_more() -> None:
    plans = [planned(task_of("ResNet8"), promote=True, double_buffer=True, l1=l1).plan for l1 in (24_000, 65_536, None)]
    for entry in ("step", "update", "infer"):
        cycles = [plan.cycles(entry) for plan in plans]
        assert cycles[1] <= 1.005 * cycles[0] and cycles[2] <= 1.005 * cycles[1], entry


def test_the_same_input_gives_the_same_bytes_and_the_text_reads_back() -> None:
    texts = [
        planned(task_of("TinyCNN"), double_buffer=True, promote=True, l1=FIXED_L1 + 3_760).plan.to_json() for _ in range(2)
    ]
    assert texts[0] == texts[1]
    assert Plan.from_json(texts[0]).to_json() == texts[0]


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"schema": "other"}', '{"schema": "deeploy_ext/plan/3"}'])
def test_what_is_no_plan_is_refused(text: str) -> None:
    with pytest.raises(BadInputError):
        Plan.from_json(text)


def test_cores_beyond_the_target_are_refused() -> None:
    with pytest.raises(BadInputError, match="1 to 8"):
        planned(task_of("TinyCNN"), cores=9)


@pytest.mark.parametrize("net", ["TinyCNN", "ResNet8", "SimpleMLP"])
@pytest.mark.parametrize("promote", [False, True])
def test_every_value_is_still_in_its_place_when_it_is_read(net: str, promote: bool) -> None:
    """Aliases, in-place results and reused addresses: no byte of a value is overwritten before its last reader."""
    made = planned(task_of(net), promote=promote)
    homes = {value: p for p in made.plan.placements for value in p.values}
    contents: dict[tuple[str, int], str] = {}

    def root(value: str) -> str:
        while value in made.program.same:
            value = made.program.same[value]
        return value

    def cells(value: str) -> list[tuple[str, int]]:
        start = homes[value].address
        return [(homes[value].level, at) for at in range(start, start + made.program.values[value].bytes, 8)]

    for value in (*made.program.persistent, *made.program.arguments):
        contents.update(dict.fromkeys(cells(value), root(value)))
    flow, calls = Flow(made.program), {(call.entry, call.name): call for call in made.program.calls}
    steps = [tuple(calls[entry, name] for name in nodes) for entry, nodes in made.plan.schedule]
    for step in steps * 2:
        inside, computed = flow.internal(step), {value for call in step for value in call.writes}
        for call in step:
            for value in call.reads:
                if flow.tensor(value) not in computed:
                    assert {contents.get(cell) for cell in cells(value)} == {root(value)}, (call.name, value)
        for value in sorted(computed - inside):
            contents.update(dict.fromkeys(cells(value), root(value)))


def test_batch_normalisation_is_split_over_space_when_a_channel_does_not_fit() -> None:
    """Its phases then run one nest after the other: statistics over all tiles first, then normalise."""
    made = planned(task_of("ResNet8"), l1=FIXED_L1 + 2_760)
    for op_type, phases in (("BatchNormInternal", 3), ("BatchNormalizationGrad", 2)):
        nodes = {c.name for c in made.program.calls if c.invocation.operator.op_type == op_type}
        step = made.plan.entry("step")
        groups = [g for g in step if g.node in nodes and any(g.loops[i].name == "s" for i in g.order)]
        assert groups, f"no {op_type} is split over space"
        for node in {g.node for g in groups}:
            assert sum(g.node == node for g in step) == phases


def test_more_l1_than_one_transfer_can_fill_is_no_trap() -> None:
    """A DMA command moves less than 128 KiB, whatever the size of L1."""
    net = NetworkBuilder(1)
    x = net.dense("wide", net.input("image", [1, 300]), (300, 200))
    made = planned(task_from(net.model("wide", x, [1, 200]), TrainingSpec()), l1=4_000_000, promote=True)
    blocks = [block for group in made.plan.groups for block in group.blocks]
    assert max(block.bytes for block in blocks) <= 131_064
    assert max(made.program.values[block.value].bytes for block in blocks) > 131_072


def test_a_tile_that_no_transfer_moves_is_named_with_the_remedy() -> None:
    net = NetworkBuilder(1)
    x = net.dense("wide", net.input("image", [1, 3]), (3, 50_000))
    task = task_from(net.model("wide", x, [1, 50_000]), TrainingSpec())
    for l1 in (None, 600_000):
        with pytest.raises(InfeasibleError, match="no --l1 helps"):
            planned(task, l1=l1)


def test_dispatch_is_folded_only_where_every_tile_agrees() -> None:
    made = planned(task_of("ResNet8"), promote=True, l1=40_000, dispatch="static", kernels="portable")
    groups = {node: g for g in made.plan.groups for node in g.nodes}
    chosen = {
        call.name: groups[call.name].bodies[0].variant
        for call in made.program.calls
        if call.invocation.operator.op_type == "ConvGradX"
    }
    assert set(chosen.values()) == {"gather", "scatter"}
    for name, variant in chosen.items():
        blocks = {b.operand: b for b in groups[name].blocks}
        images = [axis for operand in ("dY", "dX") for axis in blocks[operand].axes[2:]]
        assert (variant == "gather") == all(size == axis.extent for axis in images for _, size in axis.regions)
