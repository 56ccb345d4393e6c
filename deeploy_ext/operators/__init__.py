"""The registry: every operator known, found by its ONNX name.

Operators come from the modules of this package and from other packages' entry points (group ``deeploy_ext.operators``,
each naming a module with Operator subclasses).
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from importlib.metadata import entry_points
from types import ModuleType

from deeploy_ext.errors import BadInputError
from deeploy_ext.operators.spec import Operator

_NOT_OPERATORS = {"convolution", "nests", "relations", "spec", "table"}


def _operators_of(module: ModuleType) -> list[Operator]:
    found = [c for c in vars(module).values() if isinstance(c, type) and issubclass(c, Operator)]
    return [c() for c in found if c.__module__ == module.__name__ and "op_type" in vars(c)]


@cache
def registry() -> dict[tuple[str, str], Operator]:
    """All operators by (domain, op_type), sorted by name."""
    names = sorted(m.name for m in pkgutil.iter_modules(__path__) if m.name not in _NOT_OPERATORS)
    modules = [importlib.import_module(f"{__name__}.{name}") for name in names]
    modules += [entry.load() for entry in sorted(entry_points(group="deeploy_ext.operators"), key=lambda e: e.name)]
    operators: dict[tuple[str, str], Operator] = {}
    for module in modules:
        for operator in _operators_of(module):
            other = operators.get(operator.key)
            if other is not None:
                raise BadInputError(
                    f"operator {operator.op_type} is claimed by {type(other).__module__} and {module.__name__}; remove one."
                )
            operators[operator.key] = operator
    return dict(sorted(operators.items()))


def find(domain: str, op_type: str) -> Operator | None:
    """The operator of that ONNX name, or None."""
    return registry().get((domain, op_type))
