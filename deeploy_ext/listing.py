"""``deeployRunner --list``: what there is to name, with the size of every test network and whether it trains."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from deeploy_ext.bench.gate import FILE
from deeploy_ext.errors import DeeployError
from deeploy_ext.graph.lower import lower
from deeploy_ext.graph.options import LoadOptions
from deeploy_ext.graph.testnets import description_of, load_network, network_folders
from deeploy_ext.planning.nest import macs
from deeploy_ext.planning.target import target_names
from deeploy_ext.training.autodiff import differentiate


@dataclass(frozen=True)
class NetworkInfo:
    """One line of the list.

    Attributes:
        task: kind of loss.
        parameters: trained numbers.
        macs: multiply-accumulates of one mini-batch, forward and backward.
        status: ``trains``, with the cycles recorded beside it or without, or why it is refused.
    """

    name: str
    task: str
    parameters: int
    macs: int
    status: str
    description: str


def network_info(name: str, folder: Path) -> NetworkInfo:
    """Loads and differentiates a test network; whatever is wrong with it becomes its status."""
    try:
        network = load_network(folder, LoadOptions(steps=1, accumulation=1))
        task = differentiate(network)
        count = sum(macs(call) for call in lower(task).calls if call.entry == "step")
        parameters = sum(task.initial[parameter.weight].size for parameter in task.parameters)
        status = "trains, cycles recorded" if (folder / FILE).is_file() else "trains"
        return NetworkInfo(name, network.loss, parameters, count, status, description_of(folder))
    except DeeployError as error:
        return NetworkInfo(name, "", 0, 0, f"refused: {str(error).splitlines()[0]}", "")


def listing() -> list[str]:
    """Test networks as a table, then targets."""
    infos = [network_info(name, folder) for name, folder in network_folders().items()]
    rows = [("network", "task", "parameters", "MACs", "status", "")]
    rows += [(i.name, i.task, f"{i.parameters:,}", f"{i.macs:,}", i.status, i.description) for i in infos]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines: list[str] = []
    for row in rows:
        cells = [cell.rjust(width) if column in (2, 3) else cell.ljust(width) for column, (cell, width) in _cells(row, widths)]
        lines.append(f"  {'  '.join(cells)}".rstrip())
    head = "test networks (numbers that train; multiply-accumulates of one mini-batch, forward and backward):"
    return [head, *lines, "targets:", *(f"  {name}" for name in target_names())]


def _cells(row: tuple[str, ...], widths: list[int]) -> Iterator[tuple[int, tuple[str, int]]]:
    return enumerate(zip(row, widths, strict=True))
