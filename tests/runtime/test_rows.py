"""The order in which a task reads its rows."""

from __future__ import annotations

import pickle
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from millrace.runtime.router import Outbox
from millrace.runtime.rows import REPORT_LEVEL, decode_buffer, decode_report, encode, origin_of, rank

small = st.integers(0, (1 << 20) - 1)


@given(small, small, small, small, small, small)
def test_ranks_sort_by_origin_then_channel_then_part(a: int, b: int, c: int, d: int, e: int, f: int) -> None:
    assert (rank(a, b, c) < rank(d, e, f)) == ((a, b, c) < (d, e, f))
    assert origin_of(rank(a, b, c)) == a


def test_rows_of_one_place_keep_the_order_in_which_they_were_put() -> None:
    outbox = Outbox()
    outbox.move_to(3, 1)
    for number in range(5):
        outbox.put(0, 1, 7, b"%d" % number)
    taken = outbox.take()
    taken.reverse()
    rows = sorted(taken, key=lambda row: (row.seq, row.rank))
    assert [row.payload for row in rows] == [b"0", b"1", b"2", b"3", b"4"]


def test_what_is_taken_is_gone() -> None:
    outbox = Outbox()
    outbox.put(0, 1, 0, b"12345")
    assert outbox.size == 5
    assert len(outbox.take()) == 1
    assert (outbox.take(), outbox.size) == ([], 0)


def test_instances_of_a_class_made_inside_a_function_cross_an_exchange() -> None:
    class Local:
        def __init__(self, number: int) -> None:
            self.number = number

    values: Any = decode_buffer(encode((1, 0, 1, [Local(7)], None, None, False))).values
    assert values[0].number == 7


def test_plain_values_are_pickled_the_fast_way() -> None:
    fields = (1, 0, 1, [(1, "a")], [5], 9, False)
    assert encode(fields) == pickle.dumps(fields, 5)


def test_a_report_tells_its_place() -> None:
    outbox = Outbox()
    outbox.move_to(4, 2)
    outbox.report(0, 3, "the report")
    [row] = outbox.take()
    assert row.level == REPORT_LEVEL
    assert decode_report(row.payload) == (row.seq, row.rank, "the report")
