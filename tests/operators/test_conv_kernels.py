"""Fast and portable kernels of convolutions against the golden run, over random geometries, many nodes to a program."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from deeploy_ext.bench.cases import Case
from deeploy_ext.bench.task import bench_task
from deeploy_ext.codegen.emit import emit
from deeploy_ext.engines.host import HostEngine
from deeploy_ext.harness.golden import run_golden
from deeploy_ext.operators import registry
from support import FIXED_L1, assert_right, planned

OPERATORS = {name: operator for (_, name), operator in registry().items() if name in ("Conv", "ConvGradX", "ConvGradW")}

REGIMES: dict[str, dict[str, Any]] = {
    "tiles": {"promote": True, "l1": FIXED_L1 + 5000, "cores": 3},
    "filtered": {"promote": True, "cores": 5, "kernels": "filtered"},
    "tiles, filtered": {"promote": True, "l1": FIXED_L1 + 17000, "kernels": "filtered"},
    "portable": {"promote": True, "kernels": "portable"},
}


def geometries(count: int, seed: int) -> list[Case]:
    """The three operators of random layers, most of which the fast kernels know."""
    draw = random.Random(seed)
    cases: list[Case] = []
    for number in range(count):
        kernel, stride = draw.choice((1, 1, 2, 3, 3, 3, 3, 4, 5, 6, 7)), draw.choice((1, 1, 2))
        group = draw.choice((1, 1, 2, 3, 5, 9))
        depthwise = group > 1 and draw.random() < 0.6
        ci, co = (1, 1) if depthwise else (draw.randint(1, 5), draw.randint(1, 6))
        filtered = draw.random() < 0.4  # what minimal filtering takes
        if filtered:
            kernel, stride, group, ci, co = 3, 1, 1, draw.randint(8, 18), draw.randint(8, 18)
        pads = [draw.randint(0, min(3, kernel - 1)) for _ in range(4)]
        image = [
            max(1, kernel - pads[i] - pads[i + 2])
            + (draw.randint(9, 26) if filtered else draw.randint(0, draw.choice((3, 17, 26))))
            for i in (0, 1)
        ]
        x, w = (draw.choice((1, 1, 1, 3)), group * ci, *image), (group * co, ci, kernel, kernel)
        attributes = {"strides": [stride] * 2, "pads": pads, "group": group}
        (y,) = Case("", OPERATORS["Conv"], {"X": x, "W": w}, attributes).results
        forward = {"X": x, "W": w, "B": w[:1]} if draw.random() < 0.5 else {"X": x, "W": w}
        given = {"Conv": forward, "ConvGradX": {"dY": y.shape, "W": w, "X": x}, "ConvGradW": {"dY": y.shape, "X": x, "W": w}}
        cases += [Case(f"layer {number}", OPERATORS[name], inputs, attributes) for name, inputs in given.items()]
    return cases


@pytest.mark.parametrize("regime", REGIMES)
def test_random_geometries(regime: str, tmp_path: Path) -> None:
    bench = bench_task(geometries(10, 7))
    made = planned(bench.task, **REGIMES[regime])
    if REGIMES[regime].get("kernels") == "filtered":
        assert {g.node.split("/")[1] for g in made.plan.groups for b in g.bodies if b.variant == "product"} == set(OPERATORS)
    built = HostEngine().build(emit(bench.task, made.program, made.plan, tmp_path / "c"), tmp_path / "build")
    assert_right(bench.task, run_golden(bench.task), HostEngine().run(built, rounds=1))
