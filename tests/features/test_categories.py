"""Codes of categories: the few rows of a request and the many of a table are encoded alike."""

from __future__ import annotations

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from features import categories
from features.categories import UNKNOWN, encode_categories, fit_categories

texts = st.lists(st.none() | st.sampled_from(["a", "b", "c", "A", "", " a", "ü"]), max_size=30)


@settings(deadline=None)
@given(texts, st.sets(st.sampled_from(["a", "b", "", "ü"])))
def test_short_and_long_columns_get_the_codes_of_a_plain_loop(values: list[str | None], known: set[str]) -> None:
    levels = tuple(sorted(known))
    column = pl.Series("x", values, pl.String)
    wanted = [None if v is None else levels.index(v) + 1 if v in known else UNKNOWN for v in values]
    assert encode_categories(column, levels).equals(pl.Series("x", wanted, pl.Int32), check_names=True, null_equal=True)
    repeated = categories.SHORT // max(1, len(values)) + 1
    long = pl.Series("x", values * repeated, pl.String)
    expected = pl.Series("x", wanted * repeated, pl.Int32)
    assert encode_categories(long, levels).equals(expected, check_names=True, null_equal=True)


def test_numbers_and_booleans_are_levels_by_their_text() -> None:
    assert encode_categories(pl.Series([10, 9, None]), fit_categories(pl.Series([9, 10]))).to_list() == [1, 2, None]
    assert encode_categories(pl.Series([True, False]), fit_categories(pl.Series([True, False]))).to_list() == [2, 1]
    assert encode_categories(pl.Series(["b", "z"], dtype=pl.Categorical), ("a", "b")).to_list() == [2, UNKNOWN]
