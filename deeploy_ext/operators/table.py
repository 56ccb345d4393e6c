"""The table of supported operators, generated from the registry (``docs/operators.md``)."""

from __future__ import annotations

from deeploy_ext.operators import registry
from deeploy_ext.operators.spec import Operator

_HEAD = """# Supported operators

Generated from the registry (`pytest tests/operators/test_table.py --update-golden`). An attribute that is not listed is
refused, never ignored. *Gradient*: training goes through the operator. *Kernel*: it exists in the emitted C (operators
without one are rewritten before, or are views of the same memory).

| operator | domain | attributes (default) | gradient | kernel |
|---|---|---|---|---|
"""


def operator_table() -> str:
    """The page as Markdown."""
    return _HEAD + "".join(f"{_row(operator)}\n" for operator in registry().values())


def _row(operator: Operator) -> str:
    attributes = ", ".join(f"`{name}`" + _default(value) for name, value in sorted(operator.attributes.items()))
    kind = type(operator)
    gradient = "yes" if kind.gradient is not Operator.gradient else ""
    kernel = "view" if kind.view else "yes" if kind.phases is not Operator.phases else "rewritten"
    if kind.variants:
        kernel = " or ".join(variant.name for variant in kind.variants)
    return f"| {operator.op_type} | {operator.domain or 'ai.onnx'} | {attributes} | {gradient} | {kernel} |"


def _default(value: object) -> str:
    return f" ({value})" if isinstance(value, int | float | str | list) else ""
