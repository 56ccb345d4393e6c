"""Operators that move elements: parts of tensors, repeated, framed, with their axes in another order."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from deeploy_ext.operators.arithmetic import reduce_to
from deeploy_ext.operators.nests import MAX_RANK, broadcasting
from deeploy_ext.operators.relations import Affine, axis
from deeploy_ext.operators.spec import Access, Case, Invocation, Loop, Operator, Phase, TensorType

if TYPE_CHECKING:
    import onnx_ir as ir

    from deeploy_ext.training.builder import GraphBuilder

_INT = ("int64",)


def known(call: Invocation, operand: str) -> list[int] | None:
    """The integers that a constant operand holds; None if it is absent. Refuses what only the run time knows."""
    if call.get(operand) is None and operand not in call.constants:
        return None
    if operand not in call.constants:
        raise call.refuse(f"'{operand}' computed at run time", "make it a constant of the model")
    return [int(number) for number in call.constants[operand].reshape(-1)]


def axes_of(call: Invocation, axes: Sequence[int], rank: int) -> list[int]:
    """Axes counted from the first one. Refuses those beyond the rank, and one named twice."""
    found = [number + rank if number < 0 else number for number in axes]
    if len(set(found)) != len(found) or any(not 0 <= number < rank for number in found):
        raise call.refuse(f"axes {list(axes)} of a tensor of rank {rank}", "name every axis once, within the rank")
    return found


class Transpose(Operator):
    """``transposed[i0, i1, ...] = data`` with its axes in the order ``perm``; the default (an empty list) reverses them."""

    op_type = "Transpose"
    template = "Copy"
    inputs = ("data",)
    outputs = ("transposed",)
    attributes = {"perm": list[int]()}
    cases = (
        Case({"data": (2, 3, 4, 5)}, {"perm": [0, 3, 1, 2]}),
        Case({"data": (2, 3, 5, 7)}, {"perm": [0, 2, 1, 3]}),
        Case({"data": (3, 2, 7, 5)}, {"perm": [3, 1, 2, 0]}),
        Case({"data": (2, 3, 4)}, {"perm": [1, 2, 0]}),
        Case({"data": (5, 7)}),
        Case({"data": (2, 3, 1, 5, 2, 3)}, {"perm": [4, 5, 2, 3, 0, 1]}),
        Case({"data": (3, 1, 5)}, {"perm": [1, 0, 2]}),
        Case({"data": ()}),
    )

    def infer(self, call: Invocation) -> tuple[TensorType, ...]:
        data, perm = call["data"], _permutation(call)
        if sorted(perm) != list(range(len(data.shape))):
            raise call.refuse(f"perm {perm} of a tensor of rank {len(data.shape)}", "name every axis once")
        return (TensorType(data.dtype, tuple(data.shape[i] for i in perm)),)

    def gradient(
        self, call: Invocation, node: ir.Node, grads: Sequence[ir.Value | None], build: GraphBuilder
    ) -> Sequence[ir.Value | None]:
        perm = _permutation(call)
        back: dict[str, Any] = (
            {"perm": [perm.index(i) for i in range(len(perm))]} if perm else {}
        )  # of a scalar there is none to write
        return (build.node("Transpose", [grads[0]], **back),)

    def phases(self, call: Invocation) -> tuple[Phase, ...]:
        shape = call["data"].shape
        runs: list[list[int]] = []  # neighbouring axes that stay neighbours, in the order of the result
        for place in (place for place in _permutation(call) if shape[place] != 1):
            if runs and all(shape[between] == 1 for between in range(runs[-1][-1] + 1, place)) and place > runs[-1][-1]:
                runs[-1].append(place)
            else:
                runs.append([place])
        runs = runs or [[]]
        if len(runs) > MAX_RANK:
            raise call.refuse(f"a permutation that parts a tensor into {len(runs)} axes", f"use at most {MAX_RANK}")
        extents = [math.prod(shape[place] for place in run) for run in runs]
        loops = tuple(Loop(f"i{place}", extent) for place, extent in enumerate(extents))
        order = sorted(range(len(runs)), key=lambda run: runs[run])
        read = Access("data", tuple(axis(f"i{run}") for run in order), tuple(extents[run] for run in order))
        write = Access("transposed", tuple(axis(loop.name) for loop in loops), tuple(extents))
        return (Phase("main", loops, (read,), (write,)),)


def _permutation(call: Invocation) -> list[int]:
    return list(call.attributes["perm"]) or list(range(len(call["data"].shape)))[::-1]


class Expand(Operator):
    """``output = input`` repeated along axes where it has one element, to a shape that both broadcast to."""

    op_type = "Expand"
    inputs = ("input", "shape")
    outputs = ("output",)
    constant_inputs = ("shape",)
    operand_types = {"shape": _INT}
    cases = (
        Case({"input": (3, 1), "shape": np.array([2, 3, 4])}),
        Case({"input": (2, 1, 5), "shape": np.array([3, 1])}),
        Case({"input": (), "shape": np.array([5, 7])}),
        Case({"input": (2, 3, 1, 5), "shape": np.array([2, 3, 7, 5])}),
    )

    def infer(self, call: Invocation) -> tuple[TensorType, ...]:
        data, wanted = call["input"], known(call, "shape") or []
        try:
            shape = np.broadcast_shapes(data.shape, tuple(wanted))
        except ValueError:
            raise call.refuse(f"expanding {data.shape} to {wanted}", "give a shape that it broadcasts with") from None
        return (TensorType(data.dtype, shape),)

    def gradient(
        self, call: Invocation, node: ir.Node, grads: Sequence[ir.Value | None], build: GraphBuilder
    ) -> Sequence[ir.Value | None]:
        assert grads[0] is not None
        return (reduce_to(build, grads[0], call["output"].shape, call["input"].shape), None)

    def phases(self, call: Invocation) -> tuple[Phase, ...]:
        return (broadcasting(call, ("input",), "output"),)


class Slice(Operator):
    """``output`` = the elements of ``data`` from ``starts`` up to ``ends`` along ``axes``, every ``steps``-th one."""

    op_type = "Slice"
    template = "Copy"
    inputs = ("data", "starts", "ends", "axes", "steps")
    outputs = ("output",)
    optional = frozenset({"axes", "steps"})
    constant_inputs = ("starts", "ends", "axes", "steps")
    operand_types = dict.fromkeys(constant_inputs, _INT)
    cases = (
        Case({"data": (5, 7), "starts": np.array([1, 2]), "ends": np.array([4, 7])}),
        Case({"data": (2, 5, 3, 7), "starts": np.array([-4]), "ends": np.array([-1]), "axes": np.array([1])}),
        *(
            Case(
                {
                    "data": (2, 11, 7),
                    "starts": np.array([a]),
                    "ends": np.array([b]),
                    "axes": np.array([x]),
                    "steps": np.array([s]),
                }
            )
            for a, b, x, s in ((1, 11, 1, 3), (-1, -99, 1, -1), (9, 0, -2, -2), (0, 7, 2, 2), (0, 2**62, 0, 1))
        ),
    )

    def infer(self, call: Invocation) -> tuple[TensorType, ...]:
        data = call["data"]
        return (TensorType(data.dtype, tuple(len(part) for part in _parts(call))),)

    def gradient(
        self, call: Invocation, node: ir.Node, grads: Sequence[ir.Value | None], build: GraphBuilder
    ) -> Sequence[ir.Value | None]:
        grad, parts, shape = grads[0], _parts(call), list(call["output"].shape)
        for place, part in enumerate(parts):  # forwards, with gaps of zeros, then with zeros around it
            if part.step < 0:
                grad = slice_of(build, grad, place, -1, -(2**31), -1)
            step = abs(part.step)
            if step > 1:
                wide = [*shape[: place + 1], 1, *shape[place + 1 :]]
                gaps = [0] * (place + 1) + [step - 1] + [0] * (len(shape) - place - 1)
                grad = build.node("Reshape", [grad, build.constant("shape", np.array(wide))])
                grad = build.node("Pad", [grad, build.constant("pads", np.array([0] * len(wide) + gaps))])
                shape[place] *= step
                grad = build.node("Reshape", [grad, build.constant("shape", np.array(shape))])
                shape[place] -= step - 1
                grad = slice_of(build, grad, place, 0, shape[place], 1)
        before = [min(part[0], part[-1]) for part in parts]
        after = [whole - first - size for whole, first, size in zip(call["data"].shape, before, shape, strict=True)]
        if any(before + after):
            grad = build.node("Pad", [grad, build.constant("pads", np.array(before + after))])
        return (grad, *(None for _ in node.inputs[1:]))

    def phases(self, call: Invocation) -> tuple[Phase, ...]:
        return (_cutting(call, "data", "output", call["data"].shape, _parts(call)),)


def slice_of(build: GraphBuilder, value: ir.Value | None, place: int, start: int, end: int, step: int) -> ir.Value:
    """A Slice along one axis."""
    numbers = {"starts": start, "ends": end, "axes": place, "steps": step}
    return build.node("Slice", [value, *(build.constant(name, np.array([number])) for name, number in numbers.items())])


def _parts(call: Invocation) -> list[range]:
    """For every axis of data the indices that are taken."""
    shape = call["data"].shape
    starts, ends = known(call, "starts") or [], known(call, "ends") or []
    axes, steps = known(call, "axes") or list(range(len(starts))), known(call, "steps") or [1] * len(starts)
    if not len(starts) == len(ends) == len(axes) == len(steps) or 0 in steps:
        raise call.refuse(f"starts {starts}, ends {ends}, axes {axes}, steps {steps}", "give as many of each, no step of 0")
    parts = [range(extent) for extent in shape]
    for place, start, end, step in zip(axes_of(call, axes, len(shape)), starts, ends, steps, strict=True):
        parts[place] = range(shape[place])[slice(start, end if step > 0 or end >= -shape[place] else None, step)]
    return parts


def _cutting(call: Invocation, data: str, result: str, shape: Sequence[int], parts: Sequence[range]) -> Phase:
    """A phase that copies the ``parts`` of an operand's axes. An axis that is taken whole joins the one before it."""
    axes: list[tuple[int, range]] = []
    for extent, part in zip(reversed(shape), reversed(parts), strict=True):
        inner, whole = axes[-1] if axes else (1, range(1))
        if part.step == 1 and whole == range(inner) and axes:
            axes[-1] = (extent * inner, range(part.start * inner, part.stop * inner))
        elif extent > 1 or not axes:
            axes.append((extent, part))
    axes.reverse()
    if len(axes) > MAX_RANK:
        raise call.refuse(f"a part of a tensor along {len(axes)} axes", f"cut at most {MAX_RANK} of them in one node")
    loops = tuple(Loop(f"i{place}", len(part)) for place, (_, part) in enumerate(axes))
    index = tuple(Affine(((loop.name, part.step),), part.start) for loop, (_, part) in zip(loops, axes, strict=True))
    read = Access(data, index, tuple(extent for extent, _ in axes))
    write = Access(result, tuple(axis(loop.name) for loop in loops), tuple(loop.extent for loop in loops))
    return Phase("main", loops, (read,), (write,))


_MODES = ("constant", "edge", "reflect", "wrap")
_KEPT = {"reflect": 1, "wrap": 0}
"""Of modes of Pad: how many elements of an axis cannot be taken for its frame."""


class Pad(Operator):
    """``output = data`` with ``constant_value`` (0) around it: ``pads`` elements before each axis, then behind each.
    Loading makes the other modes (edge, reflect, wrap) of parts of the data."""

    op_type = "Pad"
    inputs = ("data", "pads", "constant_value", "axes")
    outputs = ("output",)
    optional = frozenset({"constant_value", "axes"})
    attributes = {"mode": "constant"}
    constant_inputs = ("pads", "constant_value", "axes")
    operand_types = {"pads": _INT, "axes": _INT}
    cases = (
        Case({"data": (2, 3, 5, 7), "pads": np.array([0, 0, 1, 2, 0, 0, 3, 1])}),
        Case({"data": (2, 3, 5), "pads": np.array([1, 0, 0, 0, 2, 0])}),
        Case({"data": (5, 7), "pads": np.array([2, 1]), "constant_value": np.array(1.5, np.float32), "axes": np.array([-1])}),
        Case({"data": (5, 7), "pads": np.zeros(4, np.int64)}),
    )

    def amounts(self, call: Invocation) -> list[tuple[int, int]]:
        """Elements before and behind each axis."""
        rank, pads = len(call["data"].shape), known(call, "pads") or []
        axes = axes_of(call, known(call, "axes") or range(rank), rank)
        if len(pads) != 2 * len(axes) or min(pads, default=0) < 0:
            raise call.refuse(f"pads {pads} of {len(axes)} axes", "give two numbers from 0 for each; a Slice takes away")
        found = [(0, 0)] * rank
        for number, place in enumerate(axes):
            found[place] = (pads[number], pads[len(axes) + number])
        mode = call.attributes["mode"]
        if mode not in _MODES:
            raise call.refuse(f"mode='{mode}'", f"use one of {', '.join(_MODES)}")
        for size, amount in zip(call["data"].shape, found, strict=True):
            if mode in _KEPT and max(amount) > size - _KEPT[mode]:
                raise call.refuse(f"mode='{mode}' by {max(amount)} elements of {size}", "pad by fewer, in several nodes")
        return found

    def _constant_amounts(self, call: Invocation) -> list[tuple[int, int]]:
        if call.attributes["mode"] != "constant":
            raise call.refuse(f"mode='{call.attributes['mode']}' of a node that no file has", "build it of Slices and a Concat")
        return self.amounts(call)

    def value(self, call: Invocation) -> float:
        """What stands around the data."""
        if call.get("constant_value") is not None and "constant_value" not in call.constants:
            raise call.refuse("'constant_value' computed at run time", "make it a constant of the model")
        given = call.constants.get("constant_value")
        return 0.0 if given is None else float(given.reshape(()))

    def infer(self, call: Invocation) -> tuple[TensorType, ...]:
        data = call["data"]
        self.value(call)
        sizes = zip(data.shape, self.amounts(call), strict=True)
        return (TensorType(data.dtype, tuple(before + size + behind for size, (before, behind) in sizes)),)

    def gradient(
        self, call: Invocation, node: ir.Node, grads: Sequence[ir.Value | None], build: GraphBuilder
    ) -> Sequence[ir.Value | None]:
        grad = grads[0]
        for place, (size, amount) in enumerate(zip(call["data"].shape, self._constant_amounts(call), strict=True)):
            if any(amount):
                grad = slice_of(build, grad, place, amount[0], amount[0] + size, 1)
        return (grad, *(None for _ in node.inputs[1:]))

    def phases(self, call: Invocation) -> tuple[Phase, ...]:
        axes: list[tuple[int, int, int]] = []  # extent, before, behind; what is not padded joins the axis before it
        for extent, (before, behind) in zip(reversed(call["data"].shape), reversed(self._constant_amounts(call)), strict=True):
            if axes and axes[-1][1:] == (0, 0):
                inner = axes[-1][0]
                axes[-1] = (extent * inner, before * inner, behind * inner)
            else:
                axes.append((extent, before, behind))
        axes = axes[::-1] or [(1, 0, 0)]
        if len(axes) > MAX_RANK:
            raise call.refuse(f"padding along {len(axes)} axes", f"pad at most {MAX_RANK} of them in one node")
        loops = tuple(Loop(f"i{place}", sum(sizes)) for place, sizes in enumerate(axes))
        index = tuple(axis(loop.name, offset=-before) for loop, (_, before, _) in zip(loops, axes, strict=True))
        read = Access("data", index, tuple(extent for extent, _, _ in axes))
        write = Access("output", tuple(axis(loop.name) for loop in loops), tuple(loop.extent for loop in loops))
        return (Phase("main", loops, (read,), (write,)),)
