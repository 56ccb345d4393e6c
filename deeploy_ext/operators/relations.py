"""Access relations: which loop indices of an operator touch which index of a tensor.

A relation is stated once, as an affine expression of loop indices, and everything about tiles is derived from it by
interval arithmetic: regions, halos, DMA boxes, whether a region is exact. For a convolution ``i = s*o + d*k - p`` serves
the forward pass and dW as it stands, and dX through :meth:`Affine.solve`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Range = tuple[int, int]
"""A half-open range ``(begin, end)`` of one loop or of one tensor axis."""


@dataclass(frozen=True)
class Affine:
    """``(sum(coefficient * loop) + offset) / divisor``, the index of one tensor axis.

    With ``divisor > 1`` only the loop values that divide evenly touch an element; the interval covers them all.
    """

    terms: tuple[tuple[str, int], ...] = ()
    offset: int = 0
    divisor: int = 1

    @property
    def loops(self) -> tuple[str, ...]:
        """Names of the loops this index depends on."""
        return tuple(name for name, _ in self.terms)

    def interval(self, ranges: Mapping[str, Range], extent: int) -> Range:
        """Region of an axis of ``extent`` elements touched while every loop runs over its range.

        The result is clamped to the axis; it is empty (``begin == end``) when nothing on the axis is touched.
        """
        low = high = self.offset
        for name, coefficient in self.terms:
            begin, end = ranges[name]
            first, last = coefficient * begin, coefficient * (end - 1)
            low += min(first, last)
            high += max(first, last)
        low, high = -(-low // self.divisor), high // self.divisor
        low, high = max(low, 0), min(high, extent - 1)
        return (low, high + 1) if low <= high else (min(low, extent), min(low, extent))

    def size_if_exact(self, ranges: Mapping[str, Range], extent: int) -> bool:
        """Whether the interval holds exactly one element per combination of loop values (needed of writes)."""
        begin, end = self.interval(ranges, extent)
        combinations = 1
        for name, _ in self.terms:
            combinations *= ranges[name][1] - ranges[name][0]
        return self.divisor == 1 and end - begin == combinations

    def solve(self, unknown: str, result: str) -> Affine:
        """The inverse relation: from ``result = self`` the index ``unknown`` as a function of ``result`` and the other loops.

        ``i = s*o + d*k - p`` solved for ``o`` gives ``o = (i - d*k + p) / s``.
        """
        coefficients = dict(self.terms)
        pivot = coefficients.pop(unknown)
        if self.divisor != 1 or pivot <= 0:
            raise ValueError(f"cannot solve {self} for {unknown!r}")
        others = tuple((name, -c) for name, c in coefficients.items())
        return Affine(((result, 1), *others), -self.offset, pivot)


def axis(*loops: str, offset: int = 0, **scaled: int) -> Affine:
    """Shorthand: ``axis("n")`` is loop n, ``axis(oy=2, ky=1, offset=-1)`` is ``2*oy + ky - 1``, ``axis()`` is index 0."""
    return Affine((*((name, 1) for name in loops), *scaled.items()), offset)


def sliding(out: str, tap: str, stride: int, dilation: int, pad: int) -> Affine:
    """Input index of a sliding window: ``stride*out + dilation*tap - pad``."""
    return Affine(((out, stride), (tap, dilation)), -pad)
