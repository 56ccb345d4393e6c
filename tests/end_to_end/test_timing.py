"""When transfers move their data and how many cores compute changes nothing, bit for bit; sanitizers find nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from deeploy_ext.engines.host import HostEngine
from deeploy_ext.errors import ToolError
from deeploy_ext.harness.compare import identical
from support import FIXED_L1, assert_right, emitted, golden_of, planned, task_of, trained

SMALL: dict[str, Any] = {"l1": FIXED_L1 + 1_260, "double_buffer": True}


@pytest.mark.parametrize(
    ("net", "options"),
    [
        ("TinyCNN", {**SMALL, "l2_room": 25_424}),
        ("TinyCNN", {"l1": FIXED_L1 + 1_260, "l2_room": 7_424, "promote": True}),
        ("TinyAutoencoder", {**SMALL, "promote": True}),
        pytest.param("ResNet8", {"l1": 24_000, "l2": 400_000, "promote": True, "double_buffer": True}, marks=pytest.mark.slow),
    ],
)
def test_dma_timing_changes_nothing(net: str, options: dict[str, Any], tmp_path: Path) -> None:
    task, engine = task_of(net), HostEngine()
    built = engine.build(emitted(task, planned(task, **options), tmp_path), tmp_path / "build")
    eager = engine.run(built, dma="eager", rounds=1)
    assert_right(task, golden_of(net), eager)
    for dma, seed in (("lazy", 0), ("random", 1), ("random", 2)):
        other = engine.run(built, dma=dma, seed=seed, rounds=2)  # type: ignore[arg-type]
        assert identical(eager.rounds[0], other.rounds[0]) is None
        assert identical(eager.rounds[0], other.rounds[1]) is None


@pytest.mark.parametrize("cores", [1, 3, 8])
def test_the_number_of_cores_changes_nothing_that_matters(cores: int, tmp_path: Path) -> None:
    task = task_of("TinyCNN")
    assert_right(task, golden_of("TinyCNN"), trained(task, tmp_path, cores=cores, **SMALL))


@pytest.mark.parametrize("sanitize", ["address", "undefined", "thread"])
@pytest.mark.parametrize("net", ["TinyCNN", "TinyAutoencoder"])
def test_sanitizers_find_nothing(net: str, sanitize: str, tmp_path: Path) -> None:
    """Under AddressSanitizer every byte of L1, L2 and L3 but the tile's own boxes is poisoned while a kernel runs."""
    task = task_of(net)
    try:
        result = trained(task, tmp_path, sanitize=sanitize, dma="random", **SMALL)
    except ToolError as error:
        if "cannot find" in str(error) or "unsupported" in str(error):
            pytest.skip(f"no {sanitize} sanitizer runtime here")
        raise
    assert_right(task, golden_of(net), result)


@pytest.mark.slow
def test_resnet8_is_clean_under_address_sanitizer(tmp_path: Path) -> None:
    task = task_of("ResNet8")
    assert_right(task, golden_of("ResNet8"), trained(task, tmp_path, sanitize="address", l1=24_000, double_buffer=True))
