"""Guards operators of plugins: what they declare is checked once, what their methods raise or return each time.

A mistake of a plugin's is reported with its file, the operator and what was expected, before any stage works with it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import Any

from deeploy_ext.errors import BadInputError, DeeployError
from deeploy_ext.operators.relations import Affine
from deeploy_ext.operators.spec import Case, Invocation, Operator, Phase, TeamKernel, TensorType, Variant
from deeploy_ext.plugins import raised


def guarded(operator: Operator, origin: str) -> Operator:
    """The operator with guards around its methods.

    Raises:
        BadInputError: what the class declares is not of the form that :class:`Operator` describes.
    """
    kind: Any = type(operator)  # nothing of what it declares is certain

    def wrong(what: str, expected: str) -> BadInputError:
        return BadInputError(f"{_file(kind)}: operator {kind.__name__} of plugin {origin}: {what}; expected: {expected}.")

    _check(kind, wrong)
    checks: Mapping[str, Callable[[Invocation, Any], str]] = {
        "infer": _of_infer, "phases": _of_phases, "gradient": _of_gradient, "kernels": _of_kernels,
    }  # fmt: skip
    for name, check in checks.items():
        setattr(operator, name, _method(name, getattr(operator, name), check, wrong))
    return operator


def _file(kind: type[Operator]) -> str:
    return str(getattr(sys.modules[kind.__module__], "__file__", kind.__module__))


Wrong = Callable[[str, str], BadInputError]


def _check(kind: Any, wrong: Wrong) -> None:
    """The declarations of a class."""
    names = "a tuple of operand names, each an identifier and used once"
    operands = [*getattr(kind, "inputs", ()), *getattr(kind, "outputs", ())]
    if not (isinstance(kind.op_type, str) and kind.op_type.isidentifier()):
        raise wrong(f"op_type is {kind.op_type!r}", "the ONNX name, an identifier")
    for attribute in ("inputs", "outputs"):
        given = getattr(kind, attribute, None)
        if not isinstance(given, tuple) or not all(isinstance(n, str) and n.isidentifier() for n in given):
            raise wrong(f"{attribute} is {given!r}", names)
    if len(set(operands)) != len(operands) or not kind.outputs:
        raise wrong(f"inputs {kind.inputs} and outputs {kind.outputs}", f"{names}, and at least one output")
    for attribute in ("optional", "positive", "constant_inputs", "needed", "operand_types"):
        unknown = sorted(set(getattr(kind, attribute)) - set(operands))
        if unknown:
            raise wrong(f"{attribute} names {unknown[0]!r}", f"operands: {', '.join(operands)}")
    for attribute in ("in_place", "state"):
        for pair in getattr(kind, attribute):
            if len(pair) != 2 or pair[0] not in kind.inputs or pair[1] not in kind.outputs:
                raise wrong(f"{attribute} has {pair!r}", "pairs of an input and an output")
    if kind.infer is Operator.infer:
        raise wrong("there is no infer()", "def infer(self, call: Invocation) -> tuple[TensorType, ...]")
    if kind.phases is Operator.phases and not kind.view:
        raise wrong("there is no phases()", "def phases(self, call: Invocation) -> tuple[Phase, ...], or view = True")
    if kind.domain != "" and kind.function is None:
        raise wrong("there is no reference body (function)", "one in ONNX's textual syntax: no standard defines the operator")
    if not all(isinstance(variant, Variant) for variant in kind.variants):
        raise wrong(f"variants is {kind.variants!r}", "a tuple of Variant")
    if not isinstance(kind.cases, tuple) or not all(isinstance(case, Case) for case in kind.cases):
        raise wrong(f"cases is {kind.cases!r}", "a tuple of Case")
    for case in kind.cases:
        unknown = sorted({*case.inputs} - {*kind.inputs} | {*case.outputs} - {*kind.outputs})
        if unknown:
            raise wrong(f"a case names the operand {unknown[0]!r}", f"one of {', '.join(operands)}")


def _method(name: str, method: Callable[..., Any], check: Callable[[Invocation, Any], str], wrong: Wrong) -> Callable[..., Any]:
    @wraps(method)
    def call(call: Invocation, *arguments: Any) -> Any:
        try:
            result = method(call, *arguments)
        except DeeployError:
            raise
        except Exception as error:  # the plugin's code may raise anything
            raise wrong(f"{name}() of node '{call.name}' raised {raised(error)}", "a result, or call.refuse()") from error
        expected = check(call, result)
        if expected:
            raise wrong(f"{name}() of node '{call.name}' returned {str(result)[:200]}", expected)
        return result

    return call


def _of_infer(call: Invocation, result: Any) -> str:
    names = call.operator.outputs
    good = isinstance(result, tuple) and len(result) == len(names) and all(isinstance(t, TensorType) for t in result)
    return "" if good else f"a tuple of TensorType, one for each of {', '.join(names)}"


def _of_gradient(call: Invocation, result: Any) -> str:
    good = isinstance(result, Sequence) and len(result) >= sum(1 for kind in call.inputs if kind is not None)
    return "" if good else f"a sequence of gradients or None, one for each of {', '.join(call.operator.inputs)}"


def _of_kernels(call: Invocation, result: Any) -> str:
    good = isinstance(result, tuple) and all(isinstance(kernel, TeamKernel) for kernel in result)
    return "" if good else "a tuple of TeamKernel"


def _of_phases(call: Invocation, result: Any) -> str:
    if not isinstance(result, tuple) or not result or not all(isinstance(phase, Phase) for phase in result):
        return "a tuple of Phase, at least one"
    for phase in result:
        loops = {loop.name: loop for loop in phase.loops}
        if len(loops) != len(phase.loops):
            return f"loops of different names in phase '{phase.name}'"
        for access in (*phase.reads, *phase.writes):
            where = f"in phase '{phase.name}', access to '{access.operand}':"
            kind = call.get(access.operand)
            if kind is None:
                return f"{where} an operand that is there"
            view = access.view or kind.shape or (1,)
            if len(access.index) != len(view):
                return f"{where} one index for each axis of {view}"
            if TensorType(kind.dtype, view).elements != kind.elements:
                return f"{where} a view with the {kind.elements} elements of {kind.shape}"
            for index in access.index:
                if index is not None and not (isinstance(index, Affine) and all(name in loops for name in index.loops)):
                    return f"{where} indices in the loops {', '.join(loops)}"
        if not phase.writes or any(access.operand not in call.operator.outputs for access in phase.writes):
            return f"in phase '{phase.name}': writes, of outputs"
    return ""


def template_folder(operator: Operator) -> Path | None:
    """Folder of a plugin's own templates, beside the file of its operator; None for operators of this package."""
    name = type(operator).__module__
    file = getattr(sys.modules[name], "__file__", None)
    if name.startswith("deeploy_ext.operators.") or file is None:
        return None
    return Path(file).resolve().parent / "templates"
