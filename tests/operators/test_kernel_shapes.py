"""Kernels whose code depends on the sizes of planes and matrices, over many of these, on this machine and on the simulator.

The simulator runs code of its own, in hardware loops, for each number of columns of a depthwise convolution up to six, and
for what is left of wider ones.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest

from deeploy_ext.bench.cases import Case
from deeploy_ext.bench.task import bench_task
from deeploy_ext.codegen.emit import emit
from deeploy_ext.engines.base import Engine
from deeploy_ext.engines.gvsoc import GvsocEngine
from deeploy_ext.engines.host import HostEngine
from deeploy_ext.harness.golden import run_golden
from deeploy_ext.operators import registry
from support import FIXED_L1, assert_right, planned

OPERATORS = {name: operator for (_, name), operator in registry().items()}

REGIMES: dict[str, dict[str, Any]] = {
    "whole": {"promote": True},
    "tiles": {"promote": True, "l1": FIXED_L1 + 5000, "cores": 5},
    "double-buffered": {"promote": True, "double_buffer": True, "l1": FIXED_L1 + 9000},
}


def depthwise() -> list[Case]:
    """The three operators of depthwise layers: planes of all widths that differ, with and without a border, batches, biases."""
    rows, pads = (2, 5, 1, 7, 3), ([1, 1, 1, 1], [1, 1, 1, 1], [0, 1, 1, 0], [1, 0, 0, 1], [0, 0, 1, 1])
    shapes = [(columns, rows[columns % 5], 1, pads[0]) for columns in range(1, 15)]
    shapes += [(columns, 6, 1, pads[columns % 5]) for columns in range(3, 12)]
    shapes += [(columns, 5 + columns % 4, 2, pads[columns % 5]) for columns in range(4, 12)]
    cases: list[Case] = []
    for number, (columns, height, stride, pad) in enumerate(shapes):
        batch, channels = (1, 1, 3)[number % 3], (11, 2, 9, 20)[number % 4]
        x, w = (batch, channels, height, columns), (channels, 1, 3, 3)
        attributes = {"strides": [stride] * 2, "pads": pad, "group": channels}
        (y,) = Case("", OPERATORS["Conv"], {"X": x, "W": w}, attributes).results
        forward = {"X": x, "W": w, "B": w[:1]} if number % 2 else {"X": x, "W": w}
        given = {"Conv": forward, "ConvGradX": {"dY": y.shape, "W": w, "X": x}, "ConvGradW": {"dY": y.shape, "X": x, "W": w}}
        cases += [Case(f"layer {number}", OPERATORS[name], inputs, attributes) for name, inputs in given.items()]
    return cases


def vectors() -> list[Case]:
    """What one sample makes of fully connected layers: their output, and the gradients of input and weight."""
    gemm, cases = OPERATORS["Gemm"], list[Case]()
    for number, (n, k) in enumerate(product((1, 2, 7, 8, 43), (1, 2, 9, 16, 61))):
        bias: dict[str, tuple[int, ...]] = ({}, {"C": (n,)}, {"C": (1,)})[number % 3]
        cases += [
            Case(f"layer {number}, forward", gemm, {"A": (1, k), "B": (n, k), **bias}, {"transB": 1}),
            Case(f"layer {number}, dX", gemm, {"A": (1, n), "B": (n, k)}, {}),
            Case(f"layer {number}, dW", gemm, {"A": (1, n), "B": (1, k)}, {"transA": 1}),
        ]
    return cases


def check(cases: list[Case], engine: Engine, regime: str, folder: Path) -> None:
    bench = bench_task(cases)
    made = planned(bench.task, **REGIMES[regime])
    built = engine.build(emit(bench.task, made.program, made.plan, folder / "c"), folder / "build")
    assert_right(bench.task, run_golden(bench.task), engine.run(built, rounds=1))


@pytest.mark.parametrize("regime", REGIMES)
@pytest.mark.parametrize("cases", [depthwise, vectors])
def test_on_this_machine(cases: Any, regime: str, tmp_path: Path) -> None:
    check(cases(), HostEngine(), regime, tmp_path)


@pytest.mark.gvsoc
@pytest.mark.usefixtures("gvsoc")
@pytest.mark.parametrize("regime", REGIMES)
@pytest.mark.parametrize("cases", [depthwise, vectors])
def test_on_the_simulator(cases: Any, regime: str, tmp_path: Path) -> None:
    check(cases(), GvsocEngine(), regime, tmp_path)
