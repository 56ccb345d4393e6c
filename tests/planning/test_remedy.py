"""When nothing fits, what is proposed works, and a little less does not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from deeploy_ext import pipeline
from deeploy_ext.errors import BadInputError, InfeasibleError
from deeploy_ext.graph.lower import lower
from deeploy_ext.harness.files import Outputs
from deeploy_ext.harness.terminal import Terminal
from deeploy_ext.planning.code_size import code_bytes
from deeploy_ext.planning.options import PlanOptions
from deeploy_ext.planning.planner import make_plan
from deeploy_ext.planning.remedy import fewer_layers
from deeploy_ext.planning.schedule import scheduled
from deeploy_ext.run_options import RunOptions
from support import FIXED_L1, GAP9, planned, task_of

CODE = GAP9.reserved(8, code_bytes(scheduled(lower(task_of("TinyCNN"))), GAP9, "fast"))["L2"]

NOTHING_FITS: dict[str, dict[str, Any]] = {
    "little L1": {"l1": FIXED_L1 + 60},
    "little L1, all flags": {"l1": FIXED_L1 + 60, "promote": True, "double_buffer": True},
    "no L2 for code": {"l2": 1},
    "no L2 for staging": {"l2": CODE + 8},
    "no L2 for tensors": {"l2": CODE + 800, "default_level": "L2"},
    "neither": {"l1": FIXED_L1 + 60, "l2": CODE},
}


def changed(options: dict[str, Any], change: str) -> dict[str, Any]:
    """Options with a change as a user would type it."""
    words = change.split()
    found = dict(options)
    for flag, value in zip(words, [*words[1:], ""], strict=True):
        if flag in ("--l1", "--l2"):
            found[flag[2:]] = int(value)
        elif flag == "--default-level":
            found["default_level"] = value
        elif flag == "--promote":
            found["promote"] = True
    return found


@pytest.mark.parametrize("case", NOTHING_FITS)
def test_every_proposed_change_fits(case: str) -> None:
    task, options = task_of("TinyCNN"), NOTHING_FITS[case]
    with pytest.raises(InfeasibleError) as caught:
        planned(task, **options)
    assert caught.value.changes
    for change in caught.value.changes:
        assert change in str(caught.value)
        planned(task, **changed(options, change))


@pytest.mark.parametrize("case", NOTHING_FITS)
def test_a_proposed_size_is_the_smallest(case: str) -> None:
    task, options = task_of("TinyCNN"), NOTHING_FITS[case]
    with pytest.raises(InfeasibleError) as caught:
        planned(task, **options)
    for change in caught.value.changes:
        new = changed(options, change)
        for level in ("l1", "l2"):
            if new.get(level) != options.get(level):
                with pytest.raises(InfeasibleError):
                    make_plan(scheduled(lower(task)), GAP9, PlanOptions(**{**new, level: new[level] - 8}))


def test_a_network_trains_its_last_layers_where_it_cannot_train_all() -> None:
    options = RunOptions("ResNet8", default_level="L2", l2=800_000)
    with Outputs(json_file=None, out=None, dump=None) as outputs:
        with pytest.raises(InfeasibleError) as caught:
            pipeline.plan_only(options, outputs, Terminal(-1))
        (layers,) = [int(c.rpartition(":")[2]) for c in caught.value.changes if c.startswith("--trainable last:")]
        assert {"--promote", "--default-level L3"} < set(caught.value.changes)
        pipeline.plan_only(replace(options, trainable=f"last:{layers}"), outputs, Terminal(-1))
        with pytest.raises(InfeasibleError):
            pipeline.plan_only(replace(options, trainable=f"last:{layers + 1}"), outputs, Terminal(-1))


@pytest.mark.parametrize("most", [1, 2, 5, 8, 11])
def test_the_most_layers_are_found(most: int) -> None:
    def fits(layers: int) -> bool:
        if layers > 11:
            raise BadInputError("there are eleven")
        return layers <= most

    assert fewer_layers(fits) == most
    assert fewer_layers(lambda layers: False) is None
