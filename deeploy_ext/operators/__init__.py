"""The registry: every operator known, found by its ONNX name.

Operators come from the modules of this package and from other packages' entry points (group ``deeploy_ext.operators``,
each naming a module with Operator subclasses, or a package of such modules), which are guarded (``guard.py``).
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from functools import cache
from types import ModuleType

from deeploy_ext.errors import BadInputError
from deeploy_ext.operators.guard import check_body, guarded
from deeploy_ext.operators.spec import Operator
from deeploy_ext.plugins import OPERATORS, announced, raised

_NOT_OPERATORS = {"bodies", "convolution", "expression", "guard", "nests", "relations", "rows", "spec", "table", "windows"}


def _operators_of(module: ModuleType) -> list[Operator]:
    """One of each class that a module, or any module of a package, defines with an ONNX name."""
    if hasattr(module, "__path__"):
        names = sorted(m.name for m in pkgutil.iter_modules(module.__path__) if m.name not in _NOT_OPERATORS)
        return [operator for name in names for operator in _operators_of(importlib.import_module(f"{module.__name__}.{name}"))]
    found = [c for c in vars(module).values() if isinstance(c, type) and issubclass(c, Operator)]
    return [c() for c in found if c.__module__ == module.__name__ and "op_type" in vars(c)]


@cache
def registry() -> dict[tuple[str, str], Operator]:
    """All operators by (domain, op_type), sorted by name.

    Raises:
        BadInputError: a plugin is wrong, or two packages claim one operator.
    """
    made = [("deeploy_ext", operator) for operator in _operators_of(sys.modules[__name__])]
    for plugin in announced(OPERATORS):
        try:
            found = _operators_of(plugin.module)
        except Exception as error:  # the plugin's modules may raise anything
            raise BadInputError(f"plugin {plugin.origin}, entry point '{OPERATORS}': {raised(error)}; correct it.") from error
        if not found:
            raise BadInputError(
                f"plugin {plugin.origin}, entry point '{OPERATORS}': {plugin.module.__name__} defines no Operator; "
                "name the module, or the package of modules, whose classes have an op_type."
            )
        made += [(plugin.origin, guarded(operator, plugin.origin)) for operator in found]
    operators: dict[tuple[str, str], Operator] = {}
    claims: dict[tuple[str, str], str] = {}
    for origin, operator in made:
        other = claims.setdefault(operator.key, origin)
        if operators.setdefault(operator.key, operator) is not operator:
            name = "::".join(filter(None, operator.key))
            raise BadInputError(f"operator {name} is claimed by {other} and by {origin}; uninstall one, or use another domain.")
    for origin, operator in made:
        if origin != "deeploy_ext":
            check_body(operator, origin, operators)
    return dict(sorted(operators.items()))


def find(domain: str, op_type: str) -> Operator | None:
    """The operator of that ONNX name, or None."""
    return registry().get((domain, op_type))
