"""Options of the whole test suite."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from deeploy_ext.errors import ToolError
from deeploy_ext.toolchain.gvsoc import find_installation
from deeploy_ext.toolchain.riscv import find_riscv_compiler

NO_GVSOC = "/no/such/gvsoc"

DEFAULT_FIXTURES = Path(__file__).resolve().parent.parent.parent / "shared" / "fixtures"


def _free_option(parser: pytest.Parser, name: str) -> None:
    """Take an option string off pytest's own action (``--fixtures`` lists fixtures; ``--funcargs`` still does).

    pytest has no public way to do so: through argparse in pytest 9, through its own list of names in pytest 8.
    """
    for option in (option for group in parser._groups for option in group.options if name in option.names()):
        if hasattr(option, "_action"):
            option._action.option_strings.remove(name)
            parser.optparser._option_string_actions.pop(name)
        else:
            option._long_opts.remove(name)


def pytest_addoption(parser: pytest.Parser) -> None:
    _free_option(parser, "--fixtures")
    group = parser.getgroup("deeploy_ext")
    folder = f"networks made by other exporters (default: {DEFAULT_FIXTURES})"
    group.addoption("--fixtures", dest="fixtures", metavar="DIR", type=Path, default=DEFAULT_FIXTURES, help=folder)
    group.addoption("--update-golden", action="store_true", help="write the snapshots anew instead of comparing with them")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Without the folder, one test of those that need it stays, to say so in one line."""
    if config.option.fixtures.is_dir():
        return
    needing = [item for item in items if "fixtures" in getattr(item, "fixturenames", ())]
    config.hook.pytest_deselected(items=needing[1:])
    items[:] = [item for item in items if item not in needing[1:]]


@pytest.fixture(scope="session")
def fixtures(request: pytest.FixtureRequest) -> Path:
    """Folder of networks made by others; skips the test when it is not there."""
    folder: Path = request.config.option.fixtures
    if not folder.is_dir():
        pytest.skip(f"no fixtures at {folder} (use --fixtures DIR)")
    return folder


@pytest.fixture(scope="session")
def update_golden(request: pytest.FixtureRequest) -> bool:
    """Whether snapshot tests write instead of compare."""
    return bool(request.config.option.update_golden)


def pytest_configure() -> None:
    """``--engine auto`` is the host engine here, whatever is installed: tests that want GVSoC ask for it."""
    found = os.environ.get("GVSOC_HOME")
    if found != NO_GVSOC:  # else a worker of pytest-xdist, which inherits what its parent has set
        os.environ["DEEPLOY_TEST_GVSOC"] = found or ""
        os.environ["GVSOC_HOME"] = NO_GVSOC


@pytest.fixture
def gvsoc(monkeypatch: pytest.MonkeyPatch) -> str:
    """Prefix of the installed GVSoC, which engines find from now on; skips without one, or without a RISC-V compiler."""
    home = os.environ["DEEPLOY_TEST_GVSOC"]
    monkeypatch.setenv("GVSOC_HOME", home) if home else monkeypatch.delenv("GVSOC_HOME")
    try:
        find_riscv_compiler()
        return str(find_installation().folder)
    except ToolError as error:
        pytest.skip(str(error).splitlines()[0])
