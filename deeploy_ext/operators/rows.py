"""Normalisation of *rows*: parts of a tensor with a mean and a deviation each, elements *inside* a row, weights for some loops.

Layer-, RMS-, Group-, Instance- and batch normalisation are this family. Variances are population variances. Statistics and
sums of a row are outputs, so that rows may be cut into tiles.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from deeploy_ext.operators.relations import axis
from deeploy_ext.operators.spec import Access, Invocation, Loop, Phase, Start

INVERSE_DEVIATION = """
        epsilon_float = Constant <value_float: float = @epsilon> ()
        epsilon_like = CastLike (epsilon_float, X)
        shifted = Add (variance, epsilon_like)
        deviation = Sqrt (shifted)
        inv_std = Reciprocal (deviation)"""
"""Lines of a reference body: ``inv_std`` from the ``variance`` and the attribute ``epsilon``."""

PROJECTION = """
        products = Mul (weighted, normalised)
        mean_weighted = ReduceMean <keepdims: int = 1> (weighted, last)
        mean_product = ReduceMean <keepdims: int = 1> (products, last)
        along = Mul (normalised, mean_product)
        difference = Sub (weighted, mean_weighted)
        projected = Sub (difference, along)"""
"""Lines of a gradient's body: what of ``weighted`` (dY by the weights) moves neither mean nor deviation of a row; its elements
are along the axis ``last``."""


@dataclass(frozen=True)
class Layout:
    """How X is seen: loops over rows and inside each, outermost first, and the loops that weights are indexed by.

    ``axes`` are the loops in the order of X's axes, where that is another.
    """

    rows: Mapping[str, int]
    inside: Mapping[str, int]
    weights: tuple[str, ...]
    axes: tuple[str, ...] = ()

    @property
    def loops(self) -> Mapping[str, int]:
        return {**self.rows, **self.inside}

    def access(self, operand: str, names: Sequence[str], start: Start = "none") -> Access:
        return Access(operand, tuple(map(axis, names)), tuple(self.loops[name] for name in names), start)

    def whole(self, operand: str) -> Access:
        return self.access(operand, self.axes or tuple(self.loops))

    def row(self, operand: str, start: Start = "none") -> Access:
        return self.access(operand, tuple(self.rows), start)

    def weight(self, operand: str, start: Start = "none") -> Access:
        return self.access(operand, self.weights, start)

    def nest(self, parallel: Sequence[str]) -> tuple[Loop, ...]:
        """The named loops, then the others as reductions."""
        others = [name for name in self.loops if name not in parallel]
        return (
            *(Loop(name, self.loops[name]) for name in parallel),
            *(Loop(name, self.loops[name], "reduction") for name in others),
        )

    def forward(self, call: Invocation) -> tuple[Phase, ...]:
        """Mean (where there is one), deviation, then Y."""
        rows, loops = self.nest(tuple(self.rows)), self.nest(tuple(self.loops))
        mean = [self.row("mean")] if call.get("mean") else []
        weights = [self.weight(name) for name in ("scale", "B") if call.get(name)]
        means = (Phase("mean", rows, (self.whole("X"),), (self.row("mean", "zero"),), "statistics"),) if mean else ()
        return (
            *means,
            Phase("deviation", rows, (self.whole("X"), *mean), (self.row("inv_std", "zero"),), "statistics"),
            Phase("normalise", loops, (self.whole("X"), *weights, *mean, self.row("inv_std")), (self.whole("Y"),)),
        )

    def backward(self, call: Invocation) -> tuple[Phase, ...]:
        """Sums over each row, sums over all rows for the weights, then dX from those of its row."""
        dy, x = self.whole("dY"), self.whole("X")
        statistics = [self.row(name) for name in ("mean", "inv_std") if call.get(name)]
        sums = [name for name in ("sum", "product") if call.get(name)]
        weights = tuple(self.weight(name, "zero") for name in ("dscale", "dB") if call.get(name))
        rows, loops, over = (self.nest(tuple(names)) for names in (self.rows, self.loops, self.weights))
        reads = (dy, x, self.weight("scale"), *statistics)
        found = [Phase("sums", rows, reads, tuple(self.row(name, "zero") for name in sums), "statistics")]
        if weights:
            found.append(Phase("parameters", over, (dy, x, *statistics), weights, "statistics"))
        if call.get("dX"):  # last: it may lie where dY is
            found.append(Phase("input", loops, (*reads, *map(self.row, sums)), (self.whole("dX"),)))
        return tuple(found)


def check_weights(call: Invocation, shape: tuple[int, ...], *names: str) -> None:
    for name in names:
        found = call.get(name)
        if found is not None and found.shape != shape:
            raise call.refuse(f"'{name}' of shape {found.shape} with X {call['X'].shape}", f"use shape {shape}")


def check_dy(call: Invocation) -> None:
    if call["dY"] != call["X"]:
        raise call.refuse(f"dY of shape {call['dY'].shape} with X of shape {call['X'].shape}", "give both one shape")
