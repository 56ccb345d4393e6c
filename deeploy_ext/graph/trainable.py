"""Which weights of a network train: all, those of its last layers, or those the user names."""

from __future__ import annotations

import difflib
import fnmatch
import re
from collections.abc import Collection, Sequence

import onnx_ir as ir

from deeploy_ext.errors import BadInputError
from deeploy_ext.graph.invocation import operator_of, type_of

_LAST = re.compile(r"last:([0-9]{1,9})")


def weights_by_node(graph: ir.Graph, named: Collection[str]) -> list[list[str]]:
    """Float weights of every node that reads some, in execution order; ``named`` are the initializers of the user's file.

    State (running statistics) and inputs that must be known at compile time are no weights.
    """
    found: list[list[str]] = []
    for node in graph:
        operator = operator_of(node)
        fixed = {source for source, _ in operator.state} | set(operator.constant_inputs)
        weights = [
            value.name
            for operand, value in zip(operator.inputs, node.inputs, strict=False)
            if value is not None and operand not in fixed and value.name in named and value.dtype == ir.DataType.FLOAT
        ]
        if weights:
            found.append([name for name in weights if name is not None])
    return found


def select_trainable(graph: ir.Graph, named: Collection[str], given: str | Sequence[str], origin: str) -> tuple[str, ...]:
    """Names of the weights to train, in order of first use.

    Args:
        given: ``all`` (but numbers of rank 0, which are constants more often than weights), ``last:N`` (weights of the last
            N nodes that have some), or names and globs, as a list or separated by commas.
        origin: where the choice was made, for messages.

    Raises:
        BadInputError: nothing is chosen, or a name or glob fits no weight.
    """
    layers = weights_by_node(graph, named)
    candidates = list(dict.fromkeys(name for layer in layers for name in layer))
    if not candidates:
        raise BadInputError(
            f"{origin}: the model has no float initializers that a layer reads as weights; export it with its parameters as "
            "initializers (weights in Constant nodes are constants)."
        )
    last = _LAST.fullmatch(given) if isinstance(given, str) else None
    if given == "all":
        chosen = {name for name in candidates if _rank(graph, name) > 0}
    elif last is not None:
        count = int(last[1])
        if not 1 <= count <= len(layers):
            raise BadInputError(
                f"{origin}: last:{count} does not fit; {len(layers)} nodes have weights, use 1 to {len(layers)}."
            )
        chosen = {name for layer in layers[-count:] for name in layer}
    else:
        patterns = [part.strip() for part in given.split(",")] if isinstance(given, str) else list(given)
        chosen = set[str]().union(*(_matching(pattern, candidates, origin) for pattern in patterns if pattern))
    if not chosen:
        raise BadInputError(f"{origin}: no weight is chosen; use all, last:N or some of: {_listed(candidates)}.")
    return tuple(name for name in candidates if name in chosen)


def _rank(graph: ir.Graph, name: str) -> int:
    found = type_of(graph.initializers[name])
    return len(found.shape) if found else 0


def _matching(pattern: str, candidates: Sequence[str], origin: str) -> set[str]:
    """The weight of that name, else all that fit the glob."""
    found = {pattern} & set(candidates) or {name for name in candidates if fnmatch.fnmatchcase(name, pattern)}
    if not found:
        near = difflib.get_close_matches(pattern, candidates, n=3, cutoff=0.4)
        hint = f"nearest: {', '.join(near)}" if near else f"use all, last:N or some of: {_listed(candidates)}"
        raise BadInputError(f"{origin}: '{pattern}' is no weight of the model; {hint}.")
    return found


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:12])
    return f"{shown} and {len(names) - 12} more" if len(names) > 12 else shown
