"""Guards operators of plugins: what they declare is checked once, what their methods raise or return each time.

A mistake of a plugin's is reported with its file, the operator and what was expected, before any stage works with it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, get_args

import numpy as np
import onnx_ir as ir

from deeploy_ext.errors import BadInputError, DeeployError
from deeploy_ext.operators.bodies import mistake_in, types_by_body
from deeploy_ext.operators.relations import Affine
from deeploy_ext.operators.spec import (
    Access,
    Alias,
    Case,
    Invocation,
    LoopKind,
    Operator,
    Phase,
    TeamKernel,
    TensorType,
    Variant,
    Work,
)
from deeploy_ext.plugins import raised


def guarded(operator: Operator, origin: str) -> Operator:
    """The operator with guards around its methods.

    Raises:
        BadInputError: what the class declares is not of the form that :class:`Operator` describes.
    """
    kind: Any = type(operator)  # nothing of what it declares is certain
    wrong = _wrong_of(kind, origin)
    _check(kind, wrong)
    checks: Mapping[str, Callable[[Invocation, Any], str]] = {
        "infer": _of_infer, "phases": _of_phases, "gradient": _of_gradient, "kernels": _of_kernels,
    }  # fmt: skip
    for name, check in checks.items():
        setattr(operator, name, _method(name, getattr(operator, name), check, wrong))
    return operator


class PluginError(BadInputError):
    """A mistake of a plugin's, already reported as such."""


Wrong = Callable[[str, str], PluginError]


def _wrong_of(kind: type[Operator], origin: str) -> Wrong:
    """What makes an error from what is wrong and what was expected."""
    file = getattr(sys.modules[kind.__module__], "__file__", kind.__module__)

    def wrong(what: str, expected: str) -> PluginError:
        return PluginError(f"{file}: operator {kind.__name__} of plugin {origin}: {what}; expected: {expected}.")

    return wrong


def check_body(operator: Operator, origin: str, known: Collection[tuple[str, str]]) -> None:
    """Checks the reference body of a plugin's operator, which may call ``known`` ones.

    Raises:
        BadInputError: it cannot be one.
    """
    said = mistake_in(operator, known) if operator.function is not None else ""
    if said:
        head = f"({', '.join(operator.inputs)}) => ({', '.join(operator.outputs)})"
        expected = f"{head} {{ ... }} of standard or registered operators, in ONNX's textual syntax"
        raise _wrong_of(type(operator), origin)(f"reference body (function): {said}", expected)


def _check(kind: Any, wrong: Wrong) -> None:
    """The declarations of a class."""
    names = "a tuple of operand names, each an identifier and used once"
    operands = [*getattr(kind, "inputs", ()), *getattr(kind, "outputs", ())]
    if not (isinstance(kind.op_type, str) and kind.op_type.isidentifier()):
        raise wrong(f"op_type is {kind.op_type!r}", "the ONNX name, an identifier")
    if not isinstance(kind.domain, str):
        raise wrong(f"domain is {kind.domain!r}", "a text, such as the package's name")
    if not isinstance(kind.attributes, Mapping) or not all(isinstance(name, str) for name in kind.attributes):
        raise wrong(f"attributes is {kind.attributes!r}", "a mapping from names to defaults")
    if not isinstance(kind.aliases, tuple) or not all(isinstance(alias, Alias) for alias in kind.aliases):
        raise wrong(f"aliases is {kind.aliases!r}", "a tuple of Alias")
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
        for name, value in case.inputs.items():
            if not isinstance(value, np.ndarray) and not _is_shape(value):
                raise wrong(f"a case gives '{name}' = {value!r}", "a shape, which is a tuple of int, or an array of values")
        if unknown := sorted({*case.attributes} - {*kind.attributes}):
            raise wrong(f"a case gives the attribute {unknown[0]!r}", f"one of {', '.join(kind.attributes) or 'none'}")


def _method(name: str, method: Callable[..., Any], check: Callable[[Invocation, Any], str], wrong: Wrong) -> Callable[..., Any]:
    @wraps(method)
    def call(call: Invocation, *arguments: Any) -> Any:
        try:
            result = method(call, *arguments)
        except DeeployError as error:
            own = f"{call.name} ({call.operator.op_type}): "  # as call.refuse() begins
            if name != "gradient" or isinstance(error, PluginError) or str(error).startswith(own):
                raise
            said = str(error).rstrip(".")
            raise wrong(f"gradient() of node '{call.name}': {said}", "known operators, on operands that they take") from error
        except Exception as error:  # the plugin's code may raise anything
            raise wrong(f"{name}() of node '{call.name}' raised {raised(error)}", "a result, or call.refuse()") from error
        expected = check(call, result)
        if expected:
            raise wrong(f"{name}() of node '{call.name}' returned {str(result)[:200]}", expected)
        return result

    return call


def _is_shape(value: Any) -> bool:
    return isinstance(value, tuple) and all(type(extent) is int for extent in value)


def _of_infer(call: Invocation, result: Any) -> str:
    names = call.operator.outputs
    good = isinstance(result, tuple) and len(result) == len(names) and all(isinstance(t, TensorType) for t in result)
    if not good:
        return f"a tuple of TensorType, one for each of {', '.join(names)}"
    if not all(isinstance(kind.dtype, np.dtype) and _is_shape(kind.shape) for kind in result):
        return "types of a numpy.dtype and a tuple of int each"
    if call.operator.function is None:
        return ""
    found = types_by_body(call)
    if isinstance(found, str):
        return f"what the reference body gives, which cannot be computed on these operands: {found}"
    for name, kind, other in zip(names, result, found, strict=True):
        if other is not None and other != kind:
            return f"'{name}' of {other.dtype} {other.shape}, as the reference body gives it"
    return ""


def _of_gradient(call: Invocation, result: Any) -> str:
    kinds = [kind for kind in call.inputs if kind is not None]
    if not isinstance(result, Sequence) or len(result) < len(kinds):
        return f"a sequence of gradients or None, one for each of {', '.join(call.operator.inputs)}"
    for name, kind, value in zip(call.operator.inputs, call.inputs, result, strict=False):
        if value is not None and not isinstance(value, ir.Value):
            return f"for '{name}': None, or a value that build.node() gave"
        if value is not None and kind is not None and value.shape is not None and value.shape.numpy() != kind.shape:
            return f"a gradient of '{name}' of its shape, {kind.shape}; it is {value.shape.numpy()}"
    return ""


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
        if not all(type(loop.extent) is int and loop.extent > 0 and loop.kind in get_args(LoopKind) for loop in phase.loops):
            return f"in phase '{phase.name}', loops of at least one iteration (an int) that are {', '.join(get_args(LoopKind))}"
        if phase.work not in get_args(Work):
            return f"in phase '{phase.name}', work that is one of {', '.join(get_args(Work))}"
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
        for access in phase.writes if len(result) == 1 else ():
            if missed := _missed(access, phase, call):
                return f"in phase '{phase.name}': all elements of '{access.operand}' written, {missed}"
        if not phase.writes or any(access.operand not in call.operator.outputs for access in phase.writes):
            return f"in phase '{phase.name}': writes, of outputs"
    return ""


def _missed(access: Access, phase: Phase, call: Invocation) -> str:
    """What loops leave of an operand that they write; "": nothing."""
    ranges = {loop.name: (0, loop.extent) for loop in phase.loops}
    view = access.view or call[access.operand].shape or (1,)
    for number, (index, extent) in enumerate(zip(access.index, view, strict=True)):
        found = index.interval(ranges, extent) if index is not None else (0, extent)
        if found != (0, extent):
            return f"0 to {extent - 1} along axis {number}; the loops reach {found[0]} to {found[1] - 1}"
    return ""


def template_folder(operator: Operator) -> Path | None:
    """Folder of a plugin's own templates, beside the file of its operator; None for operators of this package."""
    name = type(operator).__module__
    file = getattr(sys.modules[name], "__file__", None)
    if name.startswith("deeploy_ext.operators.") or file is None:
        return None
    return Path(file).resolve().parent / "templates"
