"""Matrix product with bias."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from deeploy_ext.operators.arithmetic import reduce_to
from deeploy_ext.operators.relations import axis
from deeploy_ext.operators.spec import Access, Case, Invocation, Loop, Operator, Phase, TeamKernel, TensorType

if TYPE_CHECKING:
    import onnx_ir as ir

    from deeploy_ext.training.builder import GraphBuilder


class Gemm(Operator):
    """``Y = alpha * A' * B' + beta * C`` with A' = A or its transpose, likewise B'; C broadcasts to Y."""

    op_type = "Gemm"
    inputs = ("A", "B", "C")
    outputs = ("Y",)
    optional = frozenset({"C"})
    attributes = {"alpha": 1.0, "beta": 1.0, "transA": 0, "transB": 0}
    cases = (
        *(
            Case(
                {"A": (3, 4) if ta else (4, 3), "B": (2, 3) if tb else (3, 2), "C": (2,)},
                {"alpha": 0.7, "beta": 1.3, "transA": ta, "transB": tb},
            )
            for ta in (0, 1)
            for tb in (0, 1)
        ),
        *(Case({"A": (4, 3), "B": (3, 2), "C": c}) for c in ((4, 2), (4, 1), (1, 2), (1,), ())),
        Case({"A": (4, 3), "B": (3, 2)}),
        *(Case({"A": (5, 7)[:: -1 if t else 1], "B": (7, 11)}, {"transA": t}) for t in (0, 1)),
    )

    def infer(self, call: Invocation) -> tuple[TensorType, ...]:
        a, b, c = call["A"], call["B"], call.get("C")
        if len(a.shape) != 2 or len(b.shape) != 2:
            raise call.refuse(f"A {a.shape} with B {b.shape}", "use matrices (rank 2)")
        m, k = a.shape[::-1] if call.attributes["transA"] else a.shape
        k_b, n = b.shape[::-1] if call.attributes["transB"] else b.shape
        if k != k_b:
            raise call.refuse(f"A {a.shape} with B {b.shape}", "make the inner dimensions agree")
        if c is not None:
            padded = (1,) * (2 - len(c.shape)) + c.shape
            if len(c.shape) > 2 or padded[0] not in (1, m) or padded[1] not in (1, n):
                raise call.refuse(f"C of shape {c.shape} with Y of shape {(m, n)}", "use a bias that broadcasts to Y")
        return (TensorType(a.dtype, (m, n)),)

    def gradient(
        self, call: Invocation, node: ir.Node, grads: Sequence[ir.Value | None], build: GraphBuilder
    ) -> Sequence[ir.Value | None]:
        a, b, dy = node.inputs[0], node.inputs[1], grads[0]
        assert dy is not None
        alpha, beta, ta, tb = (call.attributes[name] for name in ("alpha", "beta", "transA", "transB"))
        wanted = build.wanted(node)
        found: list[ir.Value | None] = [None] * len(wanted)
        if wanted[0] and ta:
            found[0] = build.node("Gemm", [b, dy], alpha=alpha, transA=tb, transB=1)
        elif wanted[0]:
            found[0] = build.node("Gemm", [dy, b], alpha=alpha, transA=0, transB=1 - tb)
        if wanted[1] and tb:
            found[1] = build.node("Gemm", [dy, a], alpha=alpha, transA=1, transB=ta)
        elif wanted[1]:
            found[1] = build.node("Gemm", [a, dy], alpha=alpha, transA=1 - ta, transB=0)
        if wanted[2:] == [True]:
            found[2] = reduce_to(build, dy, call["Y"].shape, call["C"].shape)
            if beta != 1.0:
                found[2] = build.node("Mul", [found[2], build.constant("beta", np.array(beta, np.float32))])
        return found

    def kernels(self, call: Invocation) -> tuple[TeamKernel, ...]:
        """Blocks of 4 x 4 sums, where there are such: products of a matrix with a vector are bound by their loads."""
        scales = call.attributes["alpha"], call.attributes["beta"] if call.get("C") else 1.0
        inner = call["A"].shape[0 if call.attributes["transA"] else 1]
        if min(call["Y"].shape) < 4 or inner < 2 or scales != (1.0, 1.0) or call["A"].dtype != np.float32:
            return ()
        return (TeamKernel(("blocked",), "mac_matrix", lambda tile: 0),)

    def phases(self, call: Invocation) -> tuple[Phase, ...]:
        m, n = call["Y"].shape
        k = call["A"].shape[0 if call.attributes["transA"] else 1]
        loops = (Loop("m", m), Loop("n", n), Loop("k", k, "reduction"))
        a, b = (axis("m"), axis("k")), (axis("k"), axis("n"))
        reads = [
            Access("A", a[::-1] if call.attributes["transA"] else a),
            Access("B", b[::-1] if call.attributes["transB"] else b),
        ]
        c = call.get("C")
        if c is not None and call.attributes["beta"] != 0.0:
            shape = (1,) * (2 - len(c.shape)) + c.shape
            index = tuple(axis() if extent == 1 else axis(name) for extent, name in zip(shape, "mn", strict=True))
            reads.append(Access("C", index, shape))
        start = "seed" if len(reads) == 3 else "sum" if k > 1 else "zero"
        return (Phase("main", loops, tuple(reads), (Access("Y", (axis("m"), axis("n")), start=start),), "mac_dense"),)
