"""Fixtures of the engine tests."""

from __future__ import annotations

import pytest
from hal_programs import Hal


@pytest.fixture(scope="session")
def hal(tmp_path_factory: pytest.TempPathFactory) -> Hal:
    """The host HAL, for small programs."""
    return Hal(tmp_path_factory.mktemp("hal"))
