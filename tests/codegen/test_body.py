"""Bodies: their layout, the order of their lines, and results that do not depend on the number of cores."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from deeploy_ext.codegen.body import BodyContext, indented
from deeploy_ext.codegen.emit import emit
from deeploy_ext.engines.host import HostEngine
from support import planned, task_of


def test_lines_get_the_indentation_of_their_blocks() -> None:
    text = """
for (a)
for (b)
{
x = 1; /* one */
      if (c)
            y =
z;
else
    {
        z = 2;
    }
} /* end */
while (d) {
--d;
}
return;
"""
    assert indented(text.split("\n")) == [
        "    for (a)",
        "        for (b) {",
        "            x = 1; /* one */",
        "            if (c)",
        "                y =",
        "                    z;",
        "            else {",
        "                z = 2;",
        "            }",
        "        } /* end */",
        "    while (d) {",
        "        --d;",
        "    }",
        "    return;",
    ]


@pytest.mark.parametrize("ahead", [1, 2, 3])
def test_interleaved_lines_load_before_use_and_store_after_it(ahead: int) -> None:
    lanes = range(4)
    lines = BodyContext.interleaved(
        [[f"load a{i}", f"load b{i}"] for i in lanes],
        [[f"first {i}", f"second {i}", f"third {i}"] for i in lanes],
        [[f"store {i}"] for i in lanes],
        ahead,
    )
    assert len(lines) == len(set(lines)) == 24
    for i in lanes:
        order = [f"load a{i}", f"load b{i}", f"first {i}", f"second {i}", f"third {i}", f"store {i}"]
        assert [line for line in lines if line in order] == order


@pytest.mark.parametrize("net", ["TinyCNN", "SimpleMLP"])
def test_results_do_not_depend_on_the_number_of_cores(net: str, tmp_path: Path) -> None:
    task = task_of(net)
    made = planned(task, promote=True, double_buffer=True)
    engine = HostEngine()
    losses: list[list[float]] = []
    weights: list[list[np.ndarray]] = []
    for cores in (1, 3, 8):
        plan = replace(made.plan, options={**made.plan.options, "cores": cores})
        built = engine.build(emit(task, made.program, plan, tmp_path / f"c{cores}"), tmp_path / f"b{cores}")
        result = engine.run(built, rounds=1).rounds[0]
        losses.append(list(result.losses))
        weights.append([array for step in result.parameters for array in step.values()])
    assert losses[0] == losses[1] == losses[2]
    for other in weights[1:]:
        assert all(np.array_equal(a, b) for a, b in zip(weights[0], other, strict=True))
