"""Nests of several nodes: which may be joined, what stays in the tile; any chain of operators gives a plan that holds."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deeploy_ext.graph.lower import lower
from deeploy_ext.graph.program import Call
from deeploy_ext.planning.check import PlanError, check_plan
from deeploy_ext.planning.joint import flat_phase, join
from deeploy_ext.planning.plan import CONTINUED, Group, Plan
from deeploy_ext.planning.steps import Flow, Step, ordered, single_steps
from deeploy_ext.training.network import NetworkBuilder
from deeploy_ext.training.task import TrainingSpec, TrainingTask
from support import FIXED_L1, Made, planned, task_from, task_of

SPEC = TrainingSpec(steps=1, accumulation=2, learning_rate=0.05, seed=3)


def chain_of(layers: list[str], channels: int = 4, size: int = 5) -> TrainingTask:
    """Layers one after the other, each on the result of the one before; "add" adds the result of two layers before."""
    net = NetworkBuilder(11)
    x = before = net.input("image", (2, channels, size, size))
    for i, kind in enumerate(layers):
        name, last = f"{kind}{i}", x
        if kind == "conv":
            x = net.node("Conv", name, [x, net.weight(f"{name}_w", (channels, channels, 3, 3), channels)], pads=[1, 1, 1, 1])
        elif kind == "bn":
            x = net.batch_norm(name, x, channels)
        elif kind == "add":
            x = net.add(name, x, before)
        else:
            x = net.relu(name, x)
        before = last
    return task_from(net.model("chain", net.dense("classifier", net.pool("pool", x), (channels, 3)), [2, 3]), SPEC)


def program_of(layers: list[str]) -> tuple[Flow, dict[str, Call]]:
    program = lower(chain_of(layers))
    return Flow(program), {call.name: call for call in program.calls if call.entry == "step"}


def test_a_flat_node_takes_the_relation_of_its_neighbour_and_what_is_between_stays() -> None:
    flow, calls = program_of(["conv", "bn", "relu", "conv"])
    nest = join((calls["bn1"], calls["relu2"]), flow)
    assert nest is not None and [flat.call.name for flat in nest.after] == ["relu2"]
    assert flow.internal((calls["bn1"], calls["relu2"])) == {calls["bn1"].operands["Y"]}
    block = next(o for o in nest.operands if o.value == calls["relu2"].operands["y"])
    assert [use.operand for use in block.uses] == ["Y", "x", "y"] and block.stored and not block.loaded
    assert nest.splittable == (True, False, False)


def test_a_value_that_others_read_is_stored_too() -> None:
    flow, calls = program_of(["conv", "relu", "bn", "add"])
    step = calls["relu1"], calls["bn2"]
    nest = join(step, flow)
    assert nest is not None and not flow.internal(step)
    assert next(o for o in nest.operands if o.value == calls["relu1"].operands["y"]).stored


def test_two_nodes_with_loops_of_their_own_are_not_joined() -> None:
    flow, calls = program_of(["conv", "bn"])
    assert join((calls["conv0"], calls["bn1"]), flow) is None


def test_a_halo_is_no_place_for_a_node_before() -> None:
    flow, calls = program_of(["bn", "relu", "conv"])
    assert join((calls["relu1"], calls["conv2"]), flow) is None


def test_a_gradient_goes_on_from_its_buffer() -> None:
    flow, calls = program_of(["conv"])
    weight = next(call for name, call in calls.items() if name.endswith("/W"))
    accumulate = next(call for call in calls.values() if call.operands.get("value") == weight.operands["dW"])
    nest = join((weight, accumulate), flow)
    assert nest is not None and nest.continued == 1
    buffer = next(o for o in nest.operands if o.value == accumulate.operands["buffer"])
    assert buffer.loaded and buffer.stored and {use.operand for use in buffer.uses} >= {"dW", "value", "buffer_out"}


def test_which_operators_are_flat_follows_from_their_phases() -> None:
    program = lower(task_of("TinyCNN"))
    kinds = {(call.invocation.operator.op_type, flat_phase(call) is not None) for call in program.calls}
    assert {kind for kind, flat in kinds if flat} == {"Add", "InPlaceAccumulatorV2", "Relu", "ReluGrad", "SGD"}


def test_nodes_between_which_another_must_run_cannot_be_ordered() -> None:
    flow, calls = program_of(["conv", "bn", "relu", "conv", "add"])
    single = [step for step in single_steps(flow.program) if step[0].name not in ("relu2", "add4") or step[0].entry != "step"]
    joined: Step = (calls["relu2"], calls["add4"])
    assert ordered([*single, joined], flow, flow.dependencies()) is None
    whole = ordered(single_steps(flow.program), flow, flow.dependencies())
    assert whole == single_steps(flow.program)


LAYERS = st.lists(st.sampled_from(["conv", "bn", "relu", "add"]), min_size=1, max_size=5)


@settings(max_examples=12, deadline=None)
@given(LAYERS, st.integers(400, 3000), st.booleans(), st.booleans())
def test_any_chain_gives_a_plan_that_holds_and_is_no_slower(layers, l1, promote, double_buffer) -> None:
    task = chain_of(layers)
    options = {"l1": FIXED_L1 + l1, "promote": promote, "double_buffer": double_buffer}
    joint, single = (planned(task, groups=groups, **options).plan for groups in ("joint", "single"))
    assert all(len(group.nodes) == 1 for group in single.groups)
    assert sum(map(joint.cycles, joint.entries)) <= sum(map(single.cycles, single.entries))
    placed = {value for placement in joint.placements for value in placement.values}
    for group in joint.groups:
        for block in group.blocks:
            assert (block.loaded or block.stored) <= (block.value in placed)


@pytest.fixture(scope="module")
def made() -> Made:
    return planned(task_of("TinyCNN"), promote=True)


def changed(plan: Plan, group: Group, **changes: object) -> Plan:
    return replace(plan, groups=tuple(replace(g, **changes) if g is group else g for g in plan.groups))  # type: ignore[arg-type]


def test_faults_of_joint_groups_are_found(made: Made) -> None:
    plan = made.plan
    joint = next(g for g in plan.groups if len(g.nodes) > 1 and g.main == 0 and g.bodies[-1].flat)
    continued = next(g for g in plan.groups if any(body.variant == CONTINUED for body in g.bodies))
    faults = {
        "another main node": changed(plan, joint, main=1),
        "nodes swapped": changed(plan, joint, nodes=joint.nodes[::-1]),
        "a body is missing": changed(plan, joint, bodies=joint.bodies[:-1]),
        "other operands": changed(plan, joint, bodies=(*joint.bodies[:-1], replace(joint.bodies[-1], flat=(0, 0)))),
        "a sum that is added again": changed(
            plan,
            continued,
            bodies=tuple(replace(b, variant="" if b.variant == CONTINUED else b.variant) for b in continued.bodies),
        ),
        "a result that is not stored": changed(plan, joint, blocks=tuple(replace(b, stored=False) for b in joint.blocks)),
    }
    check_plan(made.program, plan)
    for name, fault in faults.items():
        with pytest.raises(PlanError):
            check_plan(made.program, fault)
            pytest.fail(name)
