"""Slots in L1: placed without overlap, and so that the next nest finds room beside the one before."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from deeploy_ext.planning.arrival import Span, overlap
from deeploy_ext.planning.l1 import Request, place

spans = st.lists(st.tuples(st.integers(0, 60), st.integers(1, 20)).map(lambda s: (8 * s[0], 8 * (s[0] + s[1]))), max_size=4)
sizes = st.lists(st.tuples(st.integers(1, 12), st.booleans()), max_size=8)


@settings(max_examples=200, deadline=None)
@given(sizes, spans, spans, st.booleans())
def test_slots_overlap_neither_each_other_nor_what_is_taken(
    wanted: list[tuple[int, bool]], taken: list[Span], avoided: list[Span], top: bool
) -> None:
    requests = [Request((i, 0), 8 * size, early) for i, (size, early) in enumerate(wanted)]
    arena = (0, 640)
    at = place(requests, arena, taken, avoided, top)
    if at is None:
        assert sum(r.bytes for r in requests) > 0
        assert taken or avoided or sum(r.bytes for r in requests) > 640
        return
    placed = [(at[r.name], at[r.name] + r.bytes) for r in requests]
    for i, span in enumerate(placed):
        assert span[0] >= 0 and span[1] <= 640 and span[0] % 8 == 0
        assert not any(overlap(span, other) for other in (*placed[:i], *taken))


def test_what_may_come_early_avoids_the_nest_before() -> None:
    requests = [Request((0, 0), 64, True), Request((1, 0), 64, False)]
    assert place(requests, (0, 256), [], [(0, 128)], False) == {(0, 0): 128, (1, 0): 0}
    assert place(requests, (0, 256), [], [(0, 128)], True) == {(0, 0): 192, (1, 0): 128}


def test_without_room_beside_the_nest_before_it_goes_where_it_fits() -> None:
    assert place([Request((0, 0), 200, True)], (0, 256), [], [(0, 128)], False) == {(0, 0): 0}
    assert place([Request((0, 0), 264, True)], (0, 256), [], [], False) is None


@given(sizes, st.booleans())
def test_all_that_fits_in_sum_fits_in_an_empty_arena(wanted: list[tuple[int, bool]], top: bool) -> None:
    requests = [Request((i, 0), 8 * size, early) for i, (size, early) in enumerate(wanted)]
    assert place(requests, (0, sum(r.bytes for r in requests)), [], [], top) is not None
