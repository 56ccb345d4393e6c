"""JSON to dataclasses, strictly: exactly the fields, each of exactly its type. What is in a plan file is not to be trusted."""

from __future__ import annotations

import types
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, get_args, get_origin, get_type_hints


@cache
def _hints(kind: type) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in fields(kind)}


def typed(kind: Any, data: Any, where: str) -> Any:
    """``data`` as a value of ``kind``: a dataclass, ``tuple``, ``dict`` with text keys, union, plain type or ``Any``.

    Raises:
        ValueError: names the place that is of another type.
    """
    if kind is Any:
        return data
    origin, arguments = get_origin(kind), get_args(kind)
    if is_dataclass(kind) and isinstance(kind, type):
        hints = _hints(kind)
        if not isinstance(data, dict) or set(data) != set(hints):
            raise ValueError(f"{where} does not have exactly the fields {', '.join(hints)}")
        return kind(**{name: typed(hint, data[name], f"{where}.{name}") for name, hint in hints.items()})
    if origin is tuple and isinstance(data, list):
        kinds = arguments[:1] * len(data) if arguments[-1] is Ellipsis else arguments
        if len(kinds) == len(data):
            return tuple(typed(one, item, f"{where}[{i}]") for i, (one, item) in enumerate(zip(kinds, data, strict=True)))
    if origin is dict and isinstance(data, dict):
        return {key: typed(arguments[1], item, f"{where}.{key}") for key, item in data.items()}
    if (origin is types.UnionType and type(data) in arguments) or (isinstance(kind, type) and type(data) is kind):
        return data
    raise ValueError(f"{where} is of the wrong type")
