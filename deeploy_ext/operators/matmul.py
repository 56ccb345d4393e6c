"""Matrix products of stacks of matrices, as attention has them; their axes before the last two broadcast."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from deeploy_ext.operators.arithmetic import reduce_to
from deeploy_ext.operators.nests import MAX_RANK, joined
from deeploy_ext.operators.relations import Affine, axis
from deeploy_ext.operators.spec import MICROSOFT, Access, Case, Invocation, Loop, Operator, Phase, TeamKernel, TensorType

if TYPE_CHECKING:
    import onnx_ir as ir

    from deeploy_ext.training.builder import GraphBuilder


def _flags(call: Invocation) -> tuple[bool, bool]:
    """Whether the last two axes of A and of B are exchanged."""
    return bool(call.attributes.get("transA", 0)), bool(call.attributes.get("transB", 0))


def _sizes(call: Invocation) -> tuple[tuple[int, ...], tuple[int, ...], int, int, int]:
    """Stacks of A and B padded to one rank, and m, n, k; vectors count as matrices of one row or column."""
    a, b = call["A"].shape, call["B"].shape
    a, b = (1, *a) if len(a) == 1 else a, (*b, 1) if len(b) == 1 else b
    (m, k), (k_b, n) = (s[-2:][::-1] if turned else s[-2:] for s, turned in zip((a, b), _flags(call), strict=True))
    rank = max(len(a), len(b)) - 2
    stacks = [(1,) * (rank + 2 - len(shape)) + shape[:-2] for shape in (a, b)]
    if k != k_b or any(x != y and 1 not in (x, y) for x, y in zip(*stacks, strict=True)):
        raise call.refuse(
            f"A {call['A'].shape} with B {call['B'].shape}", "make inner dimensions agree and the others broadcast"
        )
    return stacks[0], stacks[1], m, n, k


class MatMul(Operator):
    """``Y[..., m, n] = sum over k of A[..., m, k] * B[..., k, n]``; an A or B of rank 1 is a row or a column."""

    op_type = "MatMul"
    inputs = ("A", "B")
    outputs = ("Y",)
    cases = (
        Case({"A": (5, 7), "B": (7, 3)}),
        Case({"A": (2, 3, 5, 4), "B": (2, 3, 4, 7)}),
        Case({"A": (2, 3, 5, 4), "B": (4, 7)}),
        Case({"A": (3, 2, 5), "B": (2, 1, 5, 3)}),
        Case({"A": (5, 7), "B": (3, 7, 2)}),
        Case({"A": (7,), "B": (7, 3)}),
        Case({"A": (2, 5, 7), "B": (7,)}),
        Case({"A": (5,), "B": (5,)}),
        Case({"A": (3, 1, 7), "B": (3, 7, 5)}),
    )

    def infer(self, call: Invocation) -> tuple[TensorType, ...]:
        if not call["A"].shape or not call["B"].shape:
            raise call.refuse("a scalar", "use Mul")
        stack_a, stack_b, m, n, _ = _sizes(call)
        rows, columns = (() if len(call[name].shape) == 1 else (size,) for name, size in (("A", m), ("B", n)))
        return (TensorType(call["A"].dtype, (*np.broadcast_shapes(stack_a, stack_b), *rows, *columns)),)

    def gradient(
        self, call: Invocation, node: ir.Node, grads: Sequence[ir.Value | None], build: GraphBuilder
    ) -> Sequence[ir.Value | None]:
        stack_a, stack_b, m, n, k = _sizes(call)
        stack = np.broadcast_shapes(stack_a, stack_b)
        a_shape, b_shape = (*stack_a, m, k), (*stack_b, k, n)

        def shaped(value: ir.Value | None, have: Sequence[int], want: Sequence[int]) -> ir.Value | None:
            if tuple(have) == tuple(want):
                return value
            return build.node("Reshape", [value, build.constant("shape", np.array(want, np.int64))])

        def turned(value: ir.Value | None, rank: int) -> ir.Value:
            return build.node("Transpose", [value], perm=[*range(rank - 2), rank - 1, rank - 2])

        dy = shaped(grads[0], call["Y"].shape, (*stack, m, n))
        a, b = (shaped(v, call[x].shape, s) for v, x, s in zip(node.inputs, "AB", (a_shape, b_shape), strict=True))
        found: list[ir.Value | None] = [None, None]
        wanted = build.wanted(node)
        if wanted[0]:
            made = build.node("MatMul", [dy, turned(b, len(b_shape))])
            found[0] = shaped(reduce_to(build, made, (*stack, m, k), a_shape), a_shape, call["A"].shape)
        if wanted[1] and stack_a == stack and set(stack_b) <= {1}:  # one matrix for all: all rows of A at once
            rows = int(np.prod(stack, dtype=np.int64)) * m
            operands = [shaped(a, a_shape, (rows, k)), shaped(dy, (*stack, m, n), (rows, n))]
            found[1] = shaped(build.node("Gemm", operands, transA=1), (k, n), call["B"].shape)
        elif wanted[1]:
            made = build.node("MatMul", [turned(a, len(a_shape)), dy])
            found[1] = shaped(reduce_to(build, made, (*stack, k, n), b_shape), b_shape, call["B"].shape)
        return found

    def kernels(self, call: Invocation) -> tuple[TeamKernel, ...]:
        """Blocks of 4 x 4 sums, matrix by matrix, where matrices are so large; see Gemm."""
        loops = {loop.name: loop.extent for loop in self.phases(call)[0].loops}
        if min(loops["m"], loops["n"]) < 4 or loops["k"] < 2 or call.attributes.get("alpha", 1.0) != 1.0:
            return ()
        return (TeamKernel(("blocked",), "mac_matrix", lambda tile: 0),)

    def phases(self, call: Invocation) -> tuple[Phase, ...]:
        stack_a, stack_b, m, n, k = _sizes(call)
        marks = [(x != 1, y != 1) for x, y in zip(stack_a, stack_b, strict=True)]
        stack = joined(np.broadcast_shapes(stack_a, stack_b), marks)
        turned_a, turned_b = _flags(call)
        if stack[-1][1] == (True, False) and not turned_a:  # B is the same for all: the stack of A is one of more rows
            m *= stack.pop()[0]
        stack = [(extent, mark) for extent, mark in stack if extent > 1]
        if len(stack) > MAX_RANK - 2:
            raise call.refuse(f"stacks that broadcast along {len(stack)} axes in turn", f"use at most {MAX_RANK - 2}")
        outer = tuple(Loop(f"b{place}", extent) for place, (extent, _) in enumerate(stack))
        loops = (*outer, Loop("m", m), Loop("n", n), Loop("k", k, "reduction"))

        def access(operand: str, place: int | None, *sizes: tuple[str, int], start: Any = "none") -> Access:
            here = [place is None or (isinstance(mark, tuple) and mark[place]) for _, mark in stack]
            index: list[Affine] = [axis(loop.name) if there else axis() for loop, there in zip(outer, here, strict=True)]
            view = [loop.extent if there else 1 for loop, there in zip(outer, here, strict=True)]
            index += [axis(name) for name, _ in sizes]
            return Access(operand, tuple(index), (*view, *(size for _, size in sizes)), start)

        a, b = (("m", m), ("k", k)), (("k", k), ("n", n))
        reads = (access("A", 0, *(a[::-1] if turned_a else a)), access("B", 1, *(b[::-1] if turned_b else b)))
        return (Phase("main", loops, reads, (access("Y", None, ("m", m), ("n", n), start="zero"),), "mac_dense"),)


class FusedMatMul(MatMul):
    """``Y = alpha * A' * B'`` with A' = A or its last two axes exchanged, likewise B'. Lowering makes it from MatMul and
    Transpose; in ONNX Runtime's training graphs it stands itself."""

    domain = MICROSOFT
    op_type = "FusedMatMul"
    template = "MatMul"
    attributes = {"alpha": 1.0, "transA": 0, "transB": 0, "transBatchA": 0, "transBatchB": 0}
    cases = (
        Case({"A": (2, 3, 4, 5), "B": (2, 3, 4, 7)}, {"transA": 1}),
        Case({"A": (2, 3, 5, 4), "B": (2, 3, 7, 4)}, {"transB": 1, "alpha": 0.3}),
        Case({"A": (3, 7, 5), "B": (3, 4, 7)}, {"transA": 1, "transB": 1}),
        Case({"A": (2, 5, 7), "B": (11, 7)}, {"transB": 1}),
        Case({"A": (2, 7, 5), "B": (7, 11)}, {"transA": 1}),
    )

    def infer(self, call: Invocation) -> tuple[TensorType, ...]:
        if call.attributes["transBatchA"] or call.attributes["transBatchB"]:
            raise call.refuse("transBatchA or transBatchB", "put a Transpose before it")
        if any(_flags(call)) and min(len(call["A"].shape), len(call["B"].shape)) < 2:
            raise call.refuse("exchanging the axes of a vector", "leave the flag out")
        return super().infer(call)

    gradient = Operator.gradient
