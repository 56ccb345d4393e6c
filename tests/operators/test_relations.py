"""Interval arithmetic on access relations, against enumeration of every loop value."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from deeploy_ext.operators.relations import Affine, axis, sliding

ranges = st.tuples(st.integers(0, 6), st.integers(1, 5)).map(lambda r: (r[0], r[0] + r[1]))


def touched(index: Affine, loops: dict[str, tuple[int, int]], extent: int) -> set[int]:
    """Elements on the axis that some combination of loop values touches."""
    found: set[int] = set()
    for values in product(*(range(*loops[name]) for name in index.loops)):
        value = index.offset + sum(c * v for (_, c), v in zip(index.terms, values, strict=True))
        if value % index.divisor == 0 and 0 <= value // index.divisor < extent:
            found.add(value // index.divisor)
    return found


@given(ranges, ranges, st.integers(1, 3), st.integers(1, 3), st.integers(0, 3), st.integers(1, 25))
def test_interval_of_a_sliding_window_covers_exactly_first_to_last(out, tap, stride, dilation, pad, extent) -> None:
    index = sliding("o", "k", stride, dilation, pad)
    begin, end = index.interval({"o": out, "k": tap}, extent)
    found = touched(index, {"o": out, "k": tap}, extent)
    assert 0 <= begin <= end <= extent
    assert found <= set(range(begin, end))
    if stride == 1 or dilation == 1:
        assert not found or (begin <= min(found) and max(found) < end)


@given(ranges, st.integers(1, 4), st.integers(1, 3), st.integers(1, 3), st.integers(0, 3), st.integers(1, 12))
def test_inverse_interval_covers_every_output_that_reads_the_input(rows, taps, stride, dilation, pad, extent) -> None:
    inverse = sliding("o", "k", stride, dilation, pad).solve("o", "i")
    loops = {"i": rows, "k": (0, taps)}
    begin, end = inverse.interval(loops, extent)
    wanted = {o for o in range(extent) for k in range(taps) if rows[0] <= stride * o + dilation * k - pad < rows[1]}
    assert wanted <= set(range(begin, end))
    # nothing but rounding of the strides may be added
    assert not wanted or (min(wanted) - begin < dilation * taps + 1 and end - max(wanted) <= dilation * taps + 1)


@given(st.integers(1, 5), st.integers(1, 5), ranges, ranges)
def test_exactness_of_a_split_channel(groups, per_group, g, c) -> None:
    channel = axis(g=per_group, c=1)
    loops = {"g": (min(g[0], groups - 1), min(g[1], groups)), "c": (min(c[0], per_group - 1), min(c[1], per_group))}
    extent = groups * per_group
    begin, end = channel.interval(loops, extent)
    assert channel.size_if_exact(loops, extent) == (len(touched(channel, loops, extent)) == end - begin)


def test_solve_undoes_the_relation_of_a_convolution() -> None:
    assert sliding("o", "k", 2, 3, 1).solve("o", "i") == Affine((("i", 1), ("k", -3)), 1, 2)
