"""The list of test networks says of each what it is, how large, and whether it trains."""

from __future__ import annotations

from pathlib import Path

from deeploy_ext.graph.testnets import network_folders
from deeploy_ext.listing import listing, network_info


def test_every_shipped_network_trains() -> None:
    lines = listing()
    for name in network_folders():
        (line,) = [line for line in lines if line.startswith(f"  {name} ")]
        assert " trains" in line
    assert lines[-2:] == ["targets:", "  gap9"]


def test_the_figures_of_a_network() -> None:
    info = network_info("ResNet8", network_folders()["ResNet8"])
    assert (info.task, info.parameters, info.macs) == ("cross_entropy", 78_042, 37_062_528)
    assert info.status == "trains, cycles recorded"
    assert info.description.startswith("MLPerf Tiny ResNet8")


def test_a_network_that_cannot_be_loaded_says_why(tmp_path: Path) -> None:
    (tmp_path / "build.py").write_text("def build(seed):\n    return None\n")
    (tmp_path / "test.toml").write_text('description = "d"\nloss = "mse"\n')
    info = network_info("broken", tmp_path)
    assert info.status.startswith("refused: ") and "build() returned NoneType" in info.status
