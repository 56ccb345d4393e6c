"""Packing: no overlap, never above a greedy order, exact where greedy orders do not reach what fits."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from deeploy_ext.planning.allocation import Request, _in_order, bound_of, largest_gap, pack, peak

requests = st.lists(
    st.tuples(st.integers(1, 9), st.integers(0, 9), st.integers(0, 9)).map(lambda r: (r[0] * 8, min(r[1:]), max(r[1:]))),
    min_size=1,
    max_size=14,
).map(lambda rs: [Request(f"r{i}", *r) for i, r in enumerate(rs)])


def apart(wanted: list[Request], at: dict[str, int]) -> bool:
    return all(
        a.last < b.first or b.last < a.first or at[a.name] + a.bytes <= at[b.name] or at[b.name] + b.bytes <= at[a.name]
        for i, a in enumerate(wanted)
        for b in wanted[i + 1 :]
    )


@settings(max_examples=40, deadline=None)
@given(requests)
def test_a_packing_for_the_lower_bound_is_sound_and_no_higher_than_greedy(wanted: list[Request]) -> None:
    bound = bound_of(wanted)
    at = pack(wanted, bound)
    assert apart(wanted, at) and all(address % 8 == 0 for address in at.values())
    by_size = _in_order(sorted(wanted, key=lambda r: (-r.bytes, r.first, r.last, r.name)), 0)
    assert bound <= peak(wanted, at) <= max(peak(wanted, by_size), bound)
    assert at == pack(wanted, bound)


def test_exact_packing_finds_what_greedy_orders_do_not() -> None:
    """Eight blocks that fill 56 bytes exactly; every greedy order needs more."""
    wanted = [
        Request("a", 24, 0, 1), Request("b", 32, 0, 3), Request("c", 16, 2, 5), Request("d", 8, 2, 3),
        Request("e", 24, 4, 7), Request("f", 16, 4, 5), Request("g", 32, 6, 9), Request("h", 24, 8, 9),
    ]  # fmt: skip
    bound = bound_of(wanted)
    assert bound == 56
    at = pack(wanted, bound)
    assert apart(wanted, at) and peak(wanted, at) == bound


def test_the_largest_gap_is_the_lowest_of_equals() -> None:
    assert largest_gap([(8, 16), (40, 48)], 64) == (16, 24)
    assert largest_gap([(8, 16), (24, 32)], 32) == (0, 8)
    assert largest_gap([], 64) == (0, 64)
    assert largest_gap([(0, 64)], 64) == (0, 0)
