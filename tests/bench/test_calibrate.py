"""Fits recover the constants that samples were made of, without negative ones, and leave held-out layers out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from deeploy_ext.bench.calibrate import Sample, errors, fit
from deeploy_ext.engines.base import GroupCycles
from support import GAP9

COMMAND = GAP9.costs["dma.command_cycles"]
CONSTANTS = {"body.mac": 700.0, "iteration.mac": 0.5, "nest": 900.0, "tile": 40.0, "dma.command_cycles": COMMAND}


def sample(random: np.random.RandomState, held_out: bool = False, factor: float = 1.0) -> Sample:
    tiles = float(random.randint(1, 9))
    kernel = {"body.mac": tiles, "iteration.mac": float(random.randint(1000, 90000))}
    around = {"nest": 1.0, "tile": tiles, "dma.command_cycles": float(random.randint(1, 60))}
    streamed = float(random.randint(100, 9000))
    cycles = round(factor * sum(CONSTANTS[name] * times for name, times in kernel.items()))
    rest = sum(CONSTANTS[name] * times for name, times in around.items()) + streamed
    return Sample(held_out, kernel, around, GroupCycles(round(cycles + rest), cycles, 0), streamed)


def test_constants_are_recovered() -> None:
    random = np.random.RandomState(1)
    found = fit([sample(random) for _ in range(60)], GAP9)
    for name, value in {k: v for k, v in CONSTANTS.items() if k != "dma.command_cycles"}.items():
        assert found[name] == pytest.approx(value, rel=0.02), name


def test_what_is_held_out_does_not_count() -> None:
    random = np.random.RandomState(2)
    samples = [sample(random) for _ in range(60)] + [sample(random, True, 3.0) for _ in range(60)]
    found = fit(samples, GAP9)
    assert found["iteration.mac"] == pytest.approx(0.5, rel=0.02)
    off = errors(samples, {**GAP9.costs, **found})
    assert np.abs(off[:60]).max() < 0.01
    assert off[60:].max() < -0.2


def test_no_constant_is_negative() -> None:
    random = np.random.RandomState(3)
    samples = [sample(random) for _ in range(30)]
    cheaper = [replace(s, measured=replace(s.measured, total=s.measured.total - round(90 * s.around["tile"]))) for s in samples]
    found = fit(cheaper, GAP9)
    assert found["tile"] == 0
    assert min(found.values()) >= 0
