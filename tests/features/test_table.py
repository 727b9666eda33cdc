"""Rows in an order that nobody's labels can influence."""

from __future__ import annotations

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from features.table import order_rows

PAIRS = st.lists(st.tuples(st.integers(-(2**62), 2**62), st.integers(0, 5)), min_size=1, max_size=40, unique=True)


@settings(deadline=None, max_examples=50)
@given(PAIRS, st.randoms())
def test_order_rows_when_shuffled_then_same_rows(pairs, random):
    frame = pl.DataFrame(pairs, schema={"query": pl.Int64, "item": pl.Int64}, orient="row")
    shuffled = list(pairs)
    random.shuffle(shuffled)
    again = pl.DataFrame(shuffled, schema=frame.schema, orient="row")
    assert order_rows(frame).equals(order_rows(again))


def test_order_rows_when_sorted_by_label_then_label_does_not_matter():
    frame = pl.DataFrame({"query": [1] * 6, "item": list("abcdef"), "relevance": [5.0, 4.0, 3.0, 2.0, 1.0, 0.0]})
    best_first, worst_first = frame.sort("relevance", descending=True), frame.sort("relevance")
    assert order_rows(best_first).equals(order_rows(worst_first))


def test_order_rows_when_query_spans_times_then_stays_together_at_its_earliest():
    frame = pl.DataFrame({"query": ["q", "p", "q"], "item": [1, 2, 3], "timestamp": [1, 2, 9]})
    assert order_rows(frame)["query"].to_list() == ["q", "q", "p"]


def test_order_rows_when_no_time_then_by_query():
    frame = pl.DataFrame({"query": [7, -3, 5, -3], "item": [1, 1, 1, 2]})
    assert order_rows(frame)["query"].to_list() == [-3, -3, 5, 7]
