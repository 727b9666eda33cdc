"""Ranks within a query against Polars' own."""

from __future__ import annotations

import numpy as np
import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from features.ranks import average_ranks

VALUES = st.none() | st.sampled_from([-2.5, -0.0, 0.0, 1.0, 7.0, 1e30])


@settings(deadline=None, max_examples=60)
@given(st.lists(st.lists(VALUES, min_size=1, max_size=8), max_size=5), st.booleans())
def test_ranks_when_computed_then_those_of_polars(queries, is_long):
    many = [query * 20 if is_long else query for query in queries]
    frame = pl.DataFrame(
        {"query": [q for q, query in enumerate(many) for _ in query], "value": [v for query in many for v in query]},
        schema={"query": pl.Int64, "value": pl.Float32},
    )
    sizes = np.array([len(query) for query in many], np.int64)
    expected = frame.select(pl.col("value").rank("average").over("query").cast(pl.Float32)).to_series()
    assert average_ranks(frame["value"], sizes).to_list() == expected.to_list()
