"""Formulas of element-wise operators, stated once: written as C for the templates, as ONNX for reference bodies.

A :class:`Term` is built with Python's operators and the functions below from the operator's own operands and attributes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deeploy_ext.operators.spec import Work


@dataclass(frozen=True)
class Term:
    """An operation on terms, by its ONNX name; or a leaf (no arguments): ``operand`` or ``attribute`` (a name), ``number``."""

    op: str
    arguments: tuple[Term, ...] = ()
    leaf: str | float = ""

    def __add__(self, other: Term | float) -> Term:
        return Term("Add", (self, term(other)))

    def __radd__(self, other: float) -> Term:
        return Term("Add", (term(other), self))

    def __sub__(self, other: Term | float) -> Term:
        return Term("Sub", (self, term(other)))

    def __rsub__(self, other: float) -> Term:
        return Term("Sub", (term(other), self))

    def __mul__(self, other: Term | float) -> Term:
        return Term("Mul", (self, term(other)))

    def __rmul__(self, other: float) -> Term:
        return Term("Mul", (term(other), self))

    def __truediv__(self, other: Term | float) -> Term:
        return Term("Div", (self, term(other)))

    def __rtruediv__(self, other: float) -> Term:
        return Term("Div", (term(other), self))

    def __neg__(self) -> Term:
        return Term("Neg", (self,))

    def __gt__(self, other: Term | float) -> Term:
        return Term("Greater", (self, term(other)))

    def __ge__(self, other: Term | float) -> Term:
        return Term("GreaterOrEqual", (self, term(other)))

    def __lt__(self, other: Term | float) -> Term:
        return Term("Less", (self, term(other)))

    def __le__(self, other: Term | float) -> Term:
        return Term("LessOrEqual", (self, term(other)))

    def __and__(self, other: Term) -> Term:
        return Term("And", (self, other))


_C = {
    "Add": "({} + {})",
    "Sub": "({} - {})",
    "Mul": "({} * {})",
    "Div": "({} / {})",
    "Neg": "(-{})",
    "Greater": "({} > {})",
    "GreaterOrEqual": "({} >= {})",
    "Less": "({} < {})",
    "LessOrEqual": "({} <= {})",
    "And": "({} && {})",
    "Where": "({} ? {} : {})",
    "Max": "net_larger({}, {})",
    "Min": "net_smaller({}, {})",
    "Abs": "net_abs({})",
    "Sqrt": "net_sqrt({})",
    "Exp": "net_exp({})",
    "Log": "net_log({})",
    "Tanh": "net_tanh({})",
    "Erf": "net_erf({})",
    "Pow": "net_pow({}, {})",
    "Floor": "net_floor({})",
    "Ceil": "net_ceil({})",
}
_TRUTHS = frozenset({"Greater", "GreaterOrEqual", "Less", "LessOrEqual", "And"})
_COSTLY = frozenset({"Exp", "Log", "Tanh", "Erf", "Pow", "Sqrt", "Div"})
"""Operations that take many cycles."""


def term(value: Term | float) -> Term:
    """A term itself, or the constant of a number."""
    return value if isinstance(value, Term) else Term("number", leaf=float(value))


def operand(name: str) -> Term:
    """An element of an operand."""
    return Term("operand", leaf=name)


def attribute(name: str) -> Term:
    """The value of an attribute of the node."""
    return Term("attribute", leaf=name)


def where(condition: Term, yes: Term | float, no: Term | float) -> Term:
    return Term("Where", (condition, term(yes), term(no)))


def larger(a: Term | float, b: Term | float) -> Term:
    return Term("Max", (term(a), term(b)))


def smaller(a: Term | float, b: Term | float) -> Term:
    return Term("Min", (term(a), term(b)))


def power(a: Term, b: Term | float) -> Term:
    return Term("Pow", (a, term(b)))


def function_of(op: str) -> Callable[[Term], Term]:
    """An ONNX operator of one operand as a function of terms."""
    return lambda a: Term(op, (a,))


absolute, exp, log, sqrt, tanh, erf, floor, ceil = map(
    function_of, ("Abs", "Exp", "Log", "Sqrt", "Tanh", "Erf", "Floor", "Ceil")
)


def work_of(formula: Term) -> Work:
    """The class of work of an element."""
    found = _operations(formula)
    return "error_function" if "Erf" in found else "exponential" if found & _COSTLY else "elementwise"


def costly(formula: Term) -> bool:
    """Whether an element takes so many cycles that a loop around it is not unrolled."""
    return work_of(formula) != "elementwise"


def _operations(formula: Term) -> set[str]:
    return {formula.op}.union(*map(_operations, formula.arguments))


def operands_of(formula: Term) -> tuple[str, ...]:
    """Names of the operands that a formula reads, sorted."""
    if formula.op == "operand":
        return (str(formula.leaf),)
    return tuple(sorted({name for argument in formula.arguments for name in operands_of(argument)}))


def c_values(
    formula: Term,
    attributes: Mapping[str, Any],
    literal: Callable[[float], str],
    result: str,
    renamed: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """C expressions by name, each of operands and names before it; the last is ``result``, the others are used repeatedly.

    ``literal`` writes a number, ``renamed`` are operands under other names.
    """
    uses: dict[Term, int] = {}

    def count(found: Term) -> None:
        uses[found] = uses.get(found, 0) + 1
        if uses[found] == 1:
            for argument in found.arguments:
                count(argument)

    count(formula)
    made: dict[str, str] = {}
    names: dict[Term, str] = {}

    def text(found: Term) -> str:
        if found.op == "operand":
            return (renamed or {}).get(str(found.leaf), str(found.leaf))
        if found.op in ("attribute", "number"):
            return literal(float(attributes[str(found.leaf)] if found.op == "attribute" else found.leaf))
        if found in names:
            return names[found]
        written = _C[found.op].format(*map(text, found.arguments))
        if uses[found] > 1 and found.op not in _TRUTHS:
            names[found] = f"part{len(made)}"
            made[names[found]] = written
            return names[found]
        return written

    whole = text(formula)
    return {**made, result: whole[1:-1] if whole.startswith("(") and _encloses(whole) else whole}


def _encloses(text: str) -> bool:
    """Whether the first parenthesis closes at the end."""
    depth = 0
    for place, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0:
            return place == len(text) - 1
    return False


def onnx_function(formula: Term, inputs: Sequence[str], output: str, attributes: Sequence[str] = ()) -> str:
    """The formula as a reference body in ONNX's textual function syntax; constants get the type of the first input."""
    lines: list[str] = []
    names: dict[Term, str] = {}

    def write(found: Term) -> str:
        if found.op == "operand":
            return str(found.leaf)
        if found in names:
            return names[found]
        arguments = ", ".join([write(argument) for argument in found.arguments])
        name = names[found] = output if found == formula else f"v{len(names)}"
        if found.op in ("attribute", "number"):
            value = f"@{found.leaf}" if found.op == "attribute" else repr(found.leaf)
            lines.append(f"{name}_float = Constant <value_float: float = {value}> ()")
            lines.append(f"{name} = CastLike ({name}_float, {inputs[0]})")
        else:
            lines.append(f"{name} = {found.op} ({arguments})")
        return name

    write(formula)
    head = f"<{', '.join(attributes)}> " if attributes else ""
    return f"{head}({', '.join(inputs)}) => ({output}) {{ {' '.join(lines)} }}"
