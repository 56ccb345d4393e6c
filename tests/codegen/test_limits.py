"""Sizes that both the emitted C and the planner must know agree: the runtime's header, its emitter and ``target.toml``."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from deeploy_ext.codegen.tables import MAX_LOOPS, MAX_OPERANDS, MAX_PHASES, check_limits
from deeploy_ext.errors import BadInputError
from deeploy_ext.operators.nests import MAX_RANK
from deeploy_ext.planning.plan import CONTINUED
from deeploy_ext.training.network import NetworkBuilder
from deeploy_ext.training.task import TrainingSpec
from support import GAP9, emitted, planned, task_from, task_of


def test_the_runtime_header_agrees_with_planner_and_emitter() -> None:
    header = (GAP9.folder / "runtime" / "net_runtime.h").read_text(encoding="utf-8")
    found = {name: int(value) for name, value in re.findall(r"^#define NET_(\w+) (\d+)", header, re.MULTILINE)}
    wanted = {
        "RUNTIME_BYTES": GAP9.runtime_bytes,
        "MAX_LOOPS": MAX_LOOPS,
        "MAX_RANK": MAX_RANK,
        "MAX_OPERANDS": MAX_OPERANDS,
        "MAX_PHASES": MAX_PHASES,
    }
    assert {name: found[name] for name in wanted} == wanted


def test_a_nest_may_have_as_many_bodies_as_the_runtime_holds_beside_a_sum_that_goes_on() -> None:
    """The accumulator behind a sum is in the nest, but has no body of its own."""
    group = planned(task_of("SimpleMLP"), promote=True).plan.groups[0]
    body = group.bodies[0]
    check_limits(replace(group, bodies=(*(body,) * MAX_PHASES, replace(body, variant=CONTINUED))))
    with pytest.raises(BadInputError, match=f"has {MAX_PHASES + 1} phases, the runtime holds {MAX_PHASES}"):
        check_limits(replace(group, bodies=(body,) * (MAX_PHASES + 1)))


def test_chains_of_element_wise_nodes_of_any_length(tmp_path: Path) -> None:
    """What the planner joins, the runtime holds."""
    for length in range(3, 8):
        net = NetworkBuilder(0)
        value = net.input("x", (1, 1, 9, 5))
        for number in range(length):
            factor = net.initializer(f"scale{number}", np.array([[[0.5]]]))
            value = net.node("Mul", f"mul{number}", [value, factor])
        value = net.dense("head", net.node("Flatten", "flat", [value]), (45, 2))
        task = task_from(net.model("chain", value, [1, 2]), TrainingSpec(steps=2), "mse")
        emitted(task, planned(task), tmp_path / str(length))
