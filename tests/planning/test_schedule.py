"""Execution orders: always valid, never worse than the given one, near the optimum of small graphs."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deeploy_ext.errors import BadInputError
from deeploy_ext.graph.lower import lower
from deeploy_ext.graph.program import Call, Program, root
from deeploy_ext.operators.spec import Invocation, Operator, TensorType
from deeploy_ext.planning.check import PlanError, check_plan
from deeploy_ext.planning.schedule import in_order, scheduled, scheduled_steps
from deeploy_ext.planning.schedule import live_peak as peak_of_steps
from deeploy_ext.planning.steps import Flow, ordered, single_steps
from support import planned, task_of


class Anything(Operator):
    """Any node: ``x`` may lie where ``a`` was, ``after`` must lie where ``before`` was."""

    op_type = "Anything"
    inputs = ("a", "b", "c", "before")
    outputs = ("x", "y", "after")
    optional = frozenset({"b", "c", "before", "x", "y", "after"})
    in_place = (("a", "x"),)
    state = (("before", "after"),)


ANYTHING = Anything()


def live_peak(program: Program) -> int:
    return peak_of_steps(Flow(program), single_steps(program))


@dataclass
class Maker:
    """Collects nodes; a value is its name and its bytes."""

    sizes: dict[str, int] = field(default_factory=dict)
    same: dict[str, str] = field(default_factory=dict)
    kept: list[str] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)

    def keep(self, name: str, size: int) -> str:
        self.sizes[name] = size
        self.kept.append(name)
        return name

    def node(self, reads: Sequence[str], sizes: Sequence[int], state: str | None = None, entry: str = "step") -> list[str]:
        name = f"n{len(self.calls)}"
        operands = dict(zip(("a", "b", "c"), reads, strict=False))
        made = [f"{name}.{i}" for i in range(len(sizes))]
        operands |= dict(zip(("x", "y"), made, strict=False))
        self.sizes |= dict(zip(made, sizes, strict=True))
        if state is not None:
            after = f"{name}.after"
            operands |= {"before": state, "after": after}
            self.sizes[after], self.same[after] = self.sizes[state], state
            made.append(after)
        types = [tuple(self._type(operands.get(o)) for o in names) for names in (ANYTHING.inputs, ANYTHING.outputs)]
        self.calls.append(Call(entry, Invocation(name, ANYTHING, types[0], types[1], {}), operands))
        return made

    def _type(self, value: str | None) -> TensorType | None:
        return None if value is None else TensorType(np.dtype(np.uint8), (self.sizes[value],))

    def program(self) -> Program:
        types = {name: TensorType(np.dtype(np.uint8), (size,)) for name, size in self.sizes.items()}
        return Program(tuple(self.calls), types, self.same, (), (), "loss", {}, tuple(self.kept))


@st.composite
def programs(draw: st.DrawFn, most: int) -> Program:
    """Random graphs; some nodes write a kept tensor in place, whose older contents others may read before."""
    make = Maker()
    states = [make.keep(f"w{i}", draw(st.integers(1, 9))) for i in range(draw(st.integers(1, 3)))]
    values: list[str] = list(states)
    for _ in range(draw(st.integers(1, most))):
        reads = draw(st.lists(st.sampled_from(values), min_size=1, max_size=3, unique=True))
        sizes = draw(st.lists(st.sampled_from([1, 4, 4, 16, 32]), min_size=0, max_size=2))
        place = draw(st.integers(0, len(states) - 1))
        state = states[place] if not sizes or draw(st.integers(0, 4)) == 0 else None
        made = make.node(reads, sizes, state)
        values += made
        if state is not None:
            values.remove(states[place])  # later nodes of the given order find the new contents there
            states[place] = made[-1]
    return make.program()


def is_right(program: Program) -> bool:
    """Whether every node finds the values that it reads in their storage: the meaning of an order, by running it."""
    contents = {root(value, program.same): value for value in program.persistent}
    for call in program.calls:
        if any(contents.get(root(value, program.same)) != value for value in call.reads):
            return False
        contents.update({root(value, program.same): value for value in call.writes})
    return True


def right_orders(program: Program, begun: tuple[Call, ...] = ()) -> Iterator[Program]:
    """All right orders."""
    if not is_right(replace(program, calls=begun)):
        return
    rest = [call for call in program.calls if call not in begun]
    if not rest:
        yield replace(program, calls=begun)
    for call in rest:
        yield from right_orders(program, (*begun, call))


@settings(max_examples=300, deadline=None)
@given(programs(14))
def test_an_order_is_right_no_worse_than_the_given_one_and_always_the_same(program: Program) -> None:
    made = scheduled(program)
    assert is_right(program) and is_right(made)
    assert sorted(call.name for call in made.calls) == sorted(call.name for call in program.calls)
    assert live_peak(made) <= live_peak(program)
    assert scheduled(program) == made
    assert in_order(program, [(call.entry, call.name) for call in made.calls]) == made


@settings(max_examples=100, deadline=None)
@given(programs(12), st.data())
def test_steps_of_several_nodes_keep_their_dependences_and_need_no_more_memory(program: Program, data: st.DataObject) -> None:
    program = scheduled(program)
    flow, steps = Flow(program), single_steps(program)
    needed = flow.dependencies()
    for _ in range(data.draw(st.integers(0, 4))):
        pair = data.draw(st.sets(st.integers(0, len(steps) - 1), max_size=2))
        joined = tuple(sorted((call for place in pair for call in steps[place]), key=flow.index))
        rest = [step for place, step in enumerate(steps) if place not in pair]
        steps = (ordered([*rest, joined], flow, needed) if joined else None) or steps
    made = scheduled_steps(flow, steps)
    assert sorted(made, key=str) == sorted(steps, key=str)
    assert peak_of_steps(flow, made) <= peak_of_steps(flow, steps)
    at = {flow.index(call): place for place, step in enumerate(made) for call in step}
    assert all(at[i] <= at[later] for later, before in enumerate(needed) for i in before)


@settings(max_examples=40, deadline=None)
@given(programs(6))
def test_small_graphs_are_near_their_optimum(program: Program) -> None:
    made = live_peak(scheduled(program))
    assert made <= 1.34 * min(map(live_peak, right_orders(program)))


@settings(max_examples=100, deadline=None)
@given(programs(7), st.randoms(use_true_random=False))
def test_an_order_is_accepted_exactly_when_it_is_right(program: Program, random) -> None:
    calls = list(program.calls)
    random.shuffle(calls)
    order = [(call.entry, call.name) for call in calls]
    if is_right(replace(program, calls=tuple(calls))):
        assert in_order(program, order).calls == tuple(calls)
    else:
        with pytest.raises(ValueError, match="has to wait for"):
            in_order(program, order)


def test_readers_of_old_contents_come_before_what_overwrites_them() -> None:
    make = Maker()
    weight = make.keep("w", 64)
    (gradient,) = make.node([weight], [64])
    make.node([gradient], [], weight)
    make.node([weight], [8])
    program = make.program()
    assert not is_right(program)
    assert is_right(scheduled(program))


def test_two_nodes_that_overwrite_one_value_are_refused_by_name() -> None:
    make = Maker()
    weight = make.keep("w", 64)
    for _ in range(2):
        make.node([weight], [], weight)
    with pytest.raises(BadInputError, match="'n0' writes over a value"):
        scheduled(make.program())


def test_a_large_result_waits_until_there_is_room() -> None:
    """As a weight gradient whose accumulator follows it: behind the nodes that free what is live before."""
    make = Maker()
    buffer, image = make.keep("buffer", 100), make.keep("image", 1)
    (early,) = make.node([image], [60])
    (small,) = make.node([early], [8])
    (large,) = make.node([small], [100])
    make.node([large], [], buffer)
    make.node([early, small], [1])
    assert [call.name for call in scheduled(make.program()).calls] == ["n0", "n1", "n4", "n2", "n3"]


def _training(layers: int) -> Program:
    """Forward, backward, accumulators: the shape of a training step."""
    make = Maker()
    values = [make.keep("image", 64)]
    weights = [make.keep(f"w{i}", 16 + 7 * (i % 5)) for i in range(layers)]
    buffers = [make.keep(f"b{i}", 16 + 7 * (i % 5)) for i in range(layers)]
    for i in range(layers):
        values += make.node([values[-1], weights[i]], [64 >> (i * 3 // layers)])
    grad = values[-1]
    for i in reversed(range(layers)):
        (wide,) = make.node([grad, values[i]], [16 + 7 * (i % 5)])
        (grad,) = make.node([grad, weights[i]], [64 >> (max(i - 1, 0) * 3 // layers)])
        make.node([wide], [], buffers[i])
    return make.program()


def test_two_thousand_nodes_take_less_than_a_second() -> None:
    program = _training(500)
    assert len(program.calls) == 2000
    start = time.process_time()
    made = scheduled(program)
    assert time.process_time() - start < 1.0
    assert live_peak(made) <= live_peak(program)


def test_wide_graphs_take_no_longer() -> None:
    make = Maker()
    image = make.keep("image", 8)
    parts = [make.node([image], [8 + i % 9])[0] for i in range(1500)]
    for i in range(0, 1500, 3):
        make.node(parts[i : i + 3], [4])
    start = time.process_time()
    made = scheduled(make.program())
    assert time.process_time() - start < 1.0
    assert live_peak(made) < 60 < live_peak(make.program())


def test_a_network_of_several_entries_keeps_them_apart() -> None:
    program = lower(task_of("ResNet8"))
    made = scheduled(program)
    entries = [call.entry for call in made.calls]
    assert entries == sorted(entries, key=program.entries.index)
    assert live_peak(made) < 0.9 * live_peak(program)


def test_a_plan_brings_its_own_order_and_must_have_a_valid_one() -> None:
    program = lower(task_of("TinyCNN"))
    made = planned(task_of("TinyCNN"))
    planned_order = [(group.entry, group.node) for group in made.plan.groups]
    assert list(dict.fromkeys(planned_order)) != [(call.entry, call.name) for call in program.calls]
    check_plan(program, made.plan)
    groups = list(made.plan.groups)
    update = next(i for i, group in enumerate(groups) if group.entry == "update")
    for wrong in (groups[::-1], [groups[update], *groups[:update], *groups[update + 1 :]], [*groups[1:], groups[0]]):
        with pytest.raises(PlanError, match="order"):
            check_plan(program, replace(made.plan, groups=tuple(wrong)))
