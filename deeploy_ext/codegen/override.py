"""Kernels of the user's own: C that takes the place of the generated bodies of one node, or of all nodes of an operator."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from deeploy_ext.codegen.body import stem_of
from deeploy_ext.errors import BadInputError
from deeploy_ext.graph.program import Program
from deeploy_ext.planning.plan import Plan

PARAMETERS = "const net_tile_t *tile, const net_range_t *range"
"""Of every body: the operands of a tile, and this worker's part of the loops."""

_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_FUNCTION = re.compile(r"^([A-Za-z_][\w\s*]*?)\b([A-Za-z_]\w*)\s*\(([^()]*)\)\s*\{", re.MULTILINE)


@dataclass(frozen=True)
class Override:
    """A file with kernels for some nodes.

    Attributes:
        file: the user's, as given.
        text: what it holds.
        functions: by node and stem of a generated body (:func:`stem_of`), the function of the file that takes its place.
        static: those of the functions that the file keeps to itself, as a generated body that was copied does.
    """

    file: Path
    text: str
    functions: Mapping[tuple[str, str], str]
    static: frozenset[str] = frozenset()


def assignments(option: str, given: Iterable[str], program: Program) -> list[tuple[tuple[str, ...], str]]:
    """``NODE=VALUE`` texts as names of nodes and value; an operator's name stands for all of its nodes.

    Raises:
        BadInputError: a text is not of that form, or names nothing in the program.
    """
    nodes = list(dict.fromkeys(call.name for call in program.calls))
    kinds: dict[str, list[str]] = {}
    for call in program.calls:
        kinds.setdefault(call.invocation.operator.op_type, []).append(call.name)
    found: list[tuple[tuple[str, ...], str]] = []
    for text in given:
        name, equals, value = text.rpartition("=")
        if not equals or not name or not value:
            raise BadInputError(f"{option}: '{text}' is not of the form NODE=...; -v lists the nodes of a network.")
        chosen = [name] if name in nodes else list(dict.fromkeys(kinds.get(name, ())))
        if not chosen:
            raise BadInputError(
                f"{option}: '{name}' is no node and no operator of this network; -v lists its nodes, its operators are "
                f"{', '.join(sorted(kinds))}."
            )
        found.append((tuple(chosen), value))
    return found


def read_overrides(given: Sequence[str], program: Program, plan: Plan) -> tuple[Override, ...]:
    """The files of ``--override NODE=FILE.c``, each function checked against the bodies that the plan has for the node.

    Raises:
        BadInputError: no such node, no readable file, no function of a name and signature that fit: the message gives the
            prototypes that do.
    """
    calls = {(call.entry, call.name): call for call in program.calls}
    found: list[Override] = []
    for nodes, file in assignments("--override", given, program):
        try:
            text = Path(file).read_text(encoding="ascii")
        except (OSError, UnicodeDecodeError) as error:
            raise BadInputError(f"--override: '{file}' cannot be read ({error}); give a file of C in ASCII.") from error
        stems = {
            (node, stem_of(calls[group.entry, node], body)): None
            for group in plan.groups
            for body in group.computed
            if (node := group.nodes[body.node]) in nodes
        }
        functions, static = _fitting(file, text, list(dict.fromkeys(stem for _, stem in stems)))
        fitting = {key: functions[key[1]] for key in stems if key[1] in functions}
        found.append(Override(Path(file), text, fitting, static))
    return tuple(found)


def _fitting(file: str, text: str, stems: Sequence[str]) -> tuple[dict[str, str], frozenset[str]]:
    """Functions of a file that can stand for bodies, by stem, and those of them that are static."""
    expected = "; ".join(f"void {stem}({PARAMETERS})" for stem in stems)
    found: dict[str, str] = {}
    static: set[str] = set()
    for result, name, parameters in _FUNCTION.findall(_COMMENT.sub(" ", text)):
        stem = re.sub(r"_\d+$", "", name)
        if stem not in stems and name not in stems:
            continue
        types = [re.sub(r"\w+$", "", part.strip()).replace(" ", "") for part in parameters.split(",")]
        if result.split()[-1:] != ["void"] or types != ["constnet_tile_t*", "constnet_range_t*"]:
            given = " ".join(f"{result}{name}({parameters})".split())
            raise BadInputError(f"--override: '{file}' has '{given}', which does not fit; expected: {expected}.")
        found[stem if stem in stems else name] = name
        if "static" in result.split():
            static.add(name)
    if not found:
        raise BadInputError(f"--override: '{file}' defines no kernel of this node; expected: {expected}.")
    return found, frozenset(static)


def prototypes(overrides: Sequence[Override]) -> list[str]:
    """Declarations for ``net.c``."""
    return [f"void {name}({PARAMETERS});" for name in sorted(set(names(overrides).values()))]


def names(overrides: Sequence[Override]) -> dict[tuple[str, str], str]:
    """Name in the program of the function for a node and stem; a later file goes before an earlier one."""
    return {key: f"override_{i}_{name}" for i, one in enumerate(overrides) for key, name in one.functions.items()}


def source(number: int, override: Override, kernels: Sequence[str]) -> str:
    """The C file of an override: the user's text, its functions renamed, behind what generated bodies see (``kernels``).

    A static function keeps its name and is called by one of the new name.
    """
    functions = sorted(set(override.functions.values()))
    own = [name for name in functions if name not in override.static]
    nodes = ", ".join(sorted({node for node, _ in override.functions})).replace("*/", "* /")
    lines = [
        f"/* Kernel of the user's own for {nodes}. */",
        *(f'#include "{name}"' for name in ("net.h", "net_index.h", "net_math.h")),
        *kernels,
        *(f"#define {name} override_{number}_{name}" for name in own),
        *(f"void override_{number}_{name}({PARAMETERS});" for name in functions),
        f'#line 1 "{override.file.name}"',
        override.text.rstrip("\n"),
        *(f"void override_{number}_{name}({PARAMETERS}) {{ {name}(tile, range); }}" for name in sorted(override.static)),
    ]
    return "\n".join([*lines, ""])
