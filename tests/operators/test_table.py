"""docs/operators.md says what the registry says; every operator with a kernel has a template with all its phases."""

from __future__ import annotations

from pathlib import Path

import pytest

from deeploy_ext.operators import registry
from deeploy_ext.operators.spec import Operator
from deeploy_ext.operators.table import operator_table
from deeploy_ext.resources import resource

PAGE = Path(__file__).resolve().parents[2] / "docs" / "operators.md"


def test_the_page_is_generated(update_golden: bool) -> None:
    if update_golden:
        PAGE.write_text(operator_table())
    assert PAGE.read_text() == operator_table()


@pytest.mark.parametrize("key", sorted(registry()))
def test_every_operator_has_a_template_or_no_kernel(key: tuple[str, str]) -> None:
    operator = registry()[key]
    template = resource("templates", f"{operator.template or operator.op_type}.c.mako")
    has_kernel = type(operator).phases is not Operator.phases
    assert template.is_file() == has_kernel
    assert not (operator.view and has_kernel)
