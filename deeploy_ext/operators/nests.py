"""Loop nests that many operators share: flat, broadcasting, reducing."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from deeploy_ext.operators.relations import Affine, axis
from deeploy_ext.operators.spec import Access, Invocation, Loop, Phase, Start, Work

MAX_RANK = 4
"""Axes that an operand of the emitted C can have, after neighbouring axes are joined (``NET_MAX_RANK``)."""


def scalar(operand: str, start: Start = "none") -> Access:
    """An operand of one element."""
    return Access(operand, (axis(),), (1,), start)


def flat(
    call: Invocation, reads: Sequence[str], writes: Sequence[str], scalars: Sequence[str] = (), work: Work = "elementwise"
) -> Phase:
    """A phase that walks operands of equal size as one flat axis ``i``."""
    size = call[writes[0]].elements

    def whole(operand: str) -> Access:
        return Access(operand, (axis("i"),), (size,))

    return Phase("main", (Loop("i", size),), (*map(whole, reads), *map(scalar, scalars)), tuple(map(whole, writes)), work)


def joined(shape: Sequence[int], marks: Iterable[object]) -> list[tuple[int, object]]:
    """Neighbouring axes with the same mark joined to one; axes of one element vanish. Gives (extent, mark) pairs."""
    found: list[tuple[int, object]] = []
    for extent, mark in zip(shape, marks, strict=True):
        if extent == 1:
            continue
        if found and found[-1][1] == mark:
            found[-1] = (found[-1][0] * extent, mark)
        else:
            found.append((extent, mark))
    return found or [(1, None)]


def broadcasting(call: Invocation, inputs: Sequence[str], output: str, work: Work = "elementwise") -> Phase:
    """A phase over the output's axes in which inputs repeat along axes where they have one element."""
    shape = call[output].shape
    padded = {name: (1,) * (len(shape) - len(call[name].shape)) + call[name].shape for name in inputs}
    axes = joined(shape, (tuple(padded[name][i] != 1 for name in inputs) for i in range(len(shape))))
    if len(axes) > MAX_RANK:
        raise call.refuse(f"broadcasting that alternates over {len(axes)} axes", f"use at most {MAX_RANK}")
    loops = tuple(Loop(f"i{i}", extent) for i, (extent, _) in enumerate(axes))

    def access(present: Iterable[bool], operand: str) -> Access:
        pairs = list(zip(loops, present, strict=True))
        index: tuple[Affine | None, ...] = tuple(axis(loop.name) if here else axis() for loop, here in pairs)
        return Access(operand, index, tuple(loop.extent if here else 1 for loop, here in pairs))

    def marked(place: int) -> list[bool]:
        return [bool(mark[place]) if isinstance(mark, tuple) else False for _, mark in axes]

    reads = tuple(access(marked(place), name) for place, name in enumerate(inputs))
    return Phase("main", loops, reads, (access([True] * len(loops), output),), work)


def reducing(
    call: Invocation, data: str, result: str, axes: Sequence[int], work: Work = "elementwise", start: Start = "zero"
) -> Phase:
    """A phase that sums ``data`` over ``axes`` into ``result``, which starts from zero."""
    shape = call[data].shape
    found = joined(shape, (i in axes for i in range(len(shape))))
    if len(found) > MAX_RANK:
        raise call.refuse(f"a reduction that alternates over {len(found)} axes", f"use at most {MAX_RANK}")
    loops = tuple(Loop(f"i{i}", extent, "reduction" if mark else "parallel") for i, (extent, mark) in enumerate(found))
    kept = [loop for loop in loops if loop.kind == "parallel"]
    index = tuple(axis(loop.name) for loop in kept) or (axis(),)
    return Phase(
        "main",
        loops,
        (Access(data, tuple(axis(loop.name) for loop in loops), tuple(loop.extent for loop in loops)),),
        (Access(result, index, tuple(loop.extent for loop in kept) or (1,), start),),
        work,
    )


def planes(shape: Sequence[int]) -> tuple[int, int, int]:
    """(N, C, S) of a tensor (N, C, ...): everything behind the channel axis joined."""
    return shape[0], shape[1], math.prod(shape[2:])
