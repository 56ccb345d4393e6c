"""The page of results on what others made (``docs/conformance.md``): one row of a table for each network and operator."""

from __future__ import annotations

from pathlib import Path

PAGE = Path(__file__).resolve().parent.parent / "docs" / "conformance.md"

_HEAD = """# Networks and operators that others made

Results of `tests/end_to_end/test_fixtures.py` on folders of the public Deeploy project (Apache-2.0), which are no part of this
repository: `pytest tests/end_to_end/test_fixtures.py --fixtures DIR`, with `--update-golden` to write this page. Engine: host.

"""

_NETWORKS = """## Networks

In each combination of flags: tensors that differ of those compared, by the network's own settings against the golden run and
against the maker's own losses and final weights; then for two steps against the golden run. [numerics.md](numerics.md) has the
rule, and says what a Relu input on the other side is; which inputs of a run are there also depends on how its plan orders sums.
On GVSoC (gap9like, `--promote --db`) {gvsoc} train with the same result; `pytest -m gvsoc`
repeats it.

| network | no flag | `--promote` | `--db` | `--promote --db` | remark |
|---|---|---|---|---|---|
"""

_KERNELS = """
## Operators

All of them against the maker's expectation by the rule of gradients, whole and in small tiles.

| folder | operators | result |
|---|---|---|
"""


def rows(text: str, columns: int) -> dict[str, str]:
    """Rows of the table with so many columns, by their first cell."""
    found = [line for line in text.splitlines() if line.startswith("| ") and line.count(" |") == columns]
    return {line.split(" |")[0][2:]: line for line in found if not line.startswith(("| network", "| folder"))}


def page(text: str, row: str, gvsoc: tuple[str, ...]) -> str:
    """The page with a row added, or in place of that of the same first cell."""
    networks, kernels = rows(text, 6), rows(text, 3)
    (networks if row.count(" |") == 6 else kernels)[row.split(" |")[0][2:]] = row
    tables = ["".join(f"{table[name]}\n" for name in sorted(table)) for table in (networks, kernels)]
    on_gvsoc = f"{', '.join(gvsoc[:-1])} and {gvsoc[-1]}"
    return _HEAD + _NETWORKS.format(gvsoc=on_gvsoc) + tables[0] + _KERNELS + tables[1]
