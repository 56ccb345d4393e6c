"""Adds typed nodes to a graph: what gradient rules write with."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Literal, overload

import numpy as np
import onnx_ir as ir

from deeploy_ext.graph.shapes import infer_node
from deeploy_ext.operators.spec import ONNX, TensorType


class GraphBuilder:
    """Appends nodes to ``graph``; every value it makes is typed and has a name of its own.

    Attributes:
        prefix: start of the names of what is made from now on, usually the node being differentiated.
        needed: values whose gradient somebody needs.
    """

    def __init__(self, graph: ir.Graph, needed: Collection[ir.Value] = ()) -> None:
        self.graph = graph
        self.prefix = "node"
        self.needed = frozenset(needed)
        values = [*graph.inputs, *graph.initializers.values(), *(value for node in graph for value in node.outputs)]
        self._names = {value.name or "" for value in values} | {node.name or "" for node in graph}

    def unique(self, name: str) -> str:
        """``name``, with a number behind it when it is taken."""
        found, count = name, 1
        while found in self._names:
            found, count = f"{name}_{count}", count + 1
        self._names.add(found)
        return found

    def wanted(self, node: ir.Node) -> list[bool]:
        """For every input of a forward node, whether its gradient is needed."""
        return [value in self.needed for value in node.inputs]

    def input(self, name: str, found: TensorType) -> ir.Value:
        """A new input of the graph."""
        value = ir.Value(
            name=self.unique(name), shape=ir.Shape(found.shape), type=ir.TensorType(ir.DataType.from_numpy(found.dtype))
        )
        self.graph.inputs.append(value)
        return value

    def constant(self, name: str, array: np.ndarray[Any, Any]) -> ir.Value:
        """A value known at compile time."""
        unique = self.unique(f"{self.prefix}/{name}")
        tensor = ir.tensor(array, name=unique)
        value = ir.Value(name=unique, shape=ir.Shape(array.shape), type=ir.TensorType(tensor.dtype), const_value=tensor)
        self.graph.register_initializer(value)
        return value

    @overload
    def node(
        self, op_type: str, inputs: Sequence[ir.Value | None], domain: str = ..., outputs: Literal[1] = ..., **attributes: Any
    ) -> ir.Value: ...

    @overload
    def node(
        self, op_type: str, inputs: Sequence[ir.Value | None], domain: str = ..., *, outputs: int, **attributes: Any
    ) -> tuple[ir.Value, ...]: ...

    def node(
        self, op_type: str, inputs: Sequence[ir.Value | None], domain: str = ONNX, outputs: int = 1, **attributes: Any
    ) -> ir.Value | tuple[ir.Value, ...]:
        """A new node at the end of the graph; returns its output, or the tuple of them when ``outputs`` is not 1.

        Raises:
            BadInputError: the operator refuses the operands or attributes.
        """
        name = self.unique(f"{self.prefix}/{op_type}")
        made = [ir.Value(name=self.unique(f"{name}.{i}")) for i in range(outputs)]
        node = ir.Node(domain, op_type, inputs, ir.convenience.convert_attributes(attributes), outputs=made, name=name)
        self.graph.append(node)
        infer_node(node)
        return made[0] if outputs == 1 else tuple(made)
