"""Pads that repeat the border, mirror the data or begin anew: parts of the data put together, one axis after the other.

So each has the gradient of its parts, and tiles, without kernels of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from deeploy_ext.graph.invocation import invocation_of, label, set_type
from deeploy_ext.operators.movement import Pad
from deeploy_ext.operators.spec import ONNX, TensorType


def frames_to_parts(graph: ir.Graph) -> list[str]:
    """A Pad with another mode than "constant" becomes a Concat of Slices for each axis; shapes are known."""
    changed: list[str] = []
    for node in [n for n in graph if (n.domain, n.op_type) == (ONNX, "Pad") and "mode" in n.attributes]:
        call = invocation_of(node)
        mode, operator = call.attributes["mode"], call.operator
        assert isinstance(operator, Pad)
        if mode == "constant":
            continue
        parts = _Parts(graph, node, call["data"])
        for axis, (before, after) in enumerate(operator.amounts(call)):
            parts.frame(axis, mode, before, after)
        if parts.value is node.inputs[0]:  # nothing to add
            node.attributes.pop("mode")
            continue
        node.outputs[0].replace_all_uses_with(parts.value, replace_graph_outputs=True)
        parts.value.name, node.outputs[0].name = node.outputs[0].name, None
        graph.remove(node, safe=True)
        changed.append(f"{label(node)}: mode {mode} made of parts of its data")
    return changed


class _Parts:
    """Nodes in the making, which stand before the Pad."""

    def __init__(self, graph: ir.Graph, pad: ir.Node, data: TensorType) -> None:
        assert pad.inputs[0] is not None
        self.graph, self.pad, self.value, self.type = graph, pad, pad.inputs[0], data
        self.name = pad.outputs[0].name or ""
        self.count = 0

    def frame(self, axis: int, mode: str, before: int, after: int) -> None:
        """Frames the value along an axis."""
        size = self.type.shape[axis]
        if mode == "edge":
            parts = [self._repeated(axis, 0, before), self.value, self._repeated(axis, size - 1, after)]
        elif mode == "reflect":
            parts = [self._part(axis, before, 0, -1), self.value, self._part(axis, size - 2, size - 2 - after, -1)]
        else:
            parts = [self._part(axis, size - before, size, 1), self.value, self._part(axis, 0, after, 1)]
        given = [part for part in parts if part is not None]
        if len(given) > 1:
            self.type = self._sized(axis, before + size + after)
            self.value = self._node("Concat", given, self.type, axis=axis)

    def _part(self, axis: int, start: int, end: int, step: int) -> ir.Value | None:
        """Elements along an axis; None if there are none."""
        count = abs(end - start)
        if not count:
            return None
        limits = (start, end if end >= 0 else np.iinfo(np.int64).min, axis, step)  # -1 would be the last
        operands = [self._constant([limit]) for limit in limits]
        return self._node("Slice", [self.value, *operands], self._sized(axis, count))

    def _repeated(self, axis: int, place: int, count: int) -> ir.Value | None:
        """An element along an axis so many times; None if it is none."""
        part = self._part(axis, place, place + 1, 1) if count else None
        if part is None or count == 1:
            return part
        wide = self._sized(axis, count)
        return self._node("Expand", [part, self._constant(list(wide.shape))], wide)

    def _sized(self, axis: int, size: int) -> TensorType:
        return TensorType(self.type.dtype, (*self.type.shape[:axis], size, *self.type.shape[axis + 1 :]))

    def _unique(self, what: str) -> str:
        self.count += 1
        return f"{self.name}/{what}{self.count}"

    def _constant(self, numbers: list[int]) -> ir.Value:
        array, name = np.array(numbers, np.int64), self._unique("number")
        value = ir.Value(name=name, const_value=ir.tensor(array, name=name))
        set_type(value, TensorType(array.dtype, array.shape))
        self.graph.register_initializer(value)
        return value

    def _node(self, op_type: str, operands: Sequence[ir.Value], kind: TensorType, **attributes: int) -> ir.Value:
        name = self._unique(op_type)
        made = ir.Node(ONNX, op_type, operands, ir.convenience.convert_attributes(attributes), name=name)
        made.outputs[0].name = name
        set_type(made.outputs[0], kind)
        self.graph.insert_before(self.pad, made)
        return made.outputs[0]
