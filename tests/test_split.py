"""Splits: whole queries, forward in time, with gaps; or by a hash that never changes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from features.errors import DataError
from features.spec import FeatureSpec
from features.table import Table
from pipeline.split import assign_by_hash, assign_by_time, split_table, time_borders

START = datetime(2026, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)


def times(days: list[float]) -> pl.Series:
    return pl.Series("timestamp", [START + day * DAY for day in days]).cast(pl.Datetime("us", "UTC"))


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.integers(0, 60), min_size=5, max_size=60),
    st.integers(1, 9),
    st.integers(1, 9),
    st.integers(0, 4),
)
def test_parts_follow_each_other_with_the_gap_between(days: list[int], valid: int, test: int, gap: int) -> None:
    stamps = times([float(day) for day in days])
    try:
        borders = time_borders(stamps, valid=valid * DAY, test=test * DAY, gap=gap * DAY)
    except DataError:
        return
    parts = assign_by_time(stamps, borders).to_list()
    at = {name: [t for t, part in zip(stamps, parts, strict=True) if part == name] for name in set(parts)}
    if "valid" in at:
        assert min(at["valid"]) - max(at["train"]) > gap * DAY
        assert min(at["test"]) - max(at["valid"]) > gap * DAY
    assert min(at["test"]) - max(at["train"]) > gap * DAY


def test_borders_are_as_the_docstring_draws_them() -> None:
    stamps = times([0, 3, 4, 5, 6, 7, 8, 9, 10])
    borders = time_borders(stamps, valid=2 * DAY, test=2 * DAY, gap=1 * DAY)
    assert (borders.test_from, borders.valid_from) == (START + 8 * DAY, START + 5 * DAY)
    parts = assign_by_time(stamps, borders).to_list()
    assert parts == ["train", "train", "gap", "valid", "valid", "gap", "test", "test", "test"]


def test_the_description_counts_the_queries_in_the_gaps() -> None:
    stamps = times([0, 3, 4, 5, 6, 7, 8, 9, 10])
    borders = time_borders(stamps, valid=2 * DAY, test=2 * DAY, gap=1 * DAY)
    assert borders.describe().endswith("(UTC), gaps of 1 day")
    assert borders.describe(stamps).endswith("(UTC), gaps of 1 day leave out 2 queries")


def test_shares_count_queries_from_the_end() -> None:
    stamps = times([float(day) for day in range(100)])
    borders = time_borders(stamps, valid=0.25, test=0.2, gap=timedelta(0))
    parts = assign_by_time(stamps, borders).value_counts().sort("part").rows()
    assert parts == [("test", 20), ("train", 60), ("valid", 20)]


def test_a_log_shorter_than_its_parts_is_refused() -> None:
    with pytest.raises(DataError, match="no query is left to train on"):
        time_borders(times([0, 1, 2]), valid=7 * DAY, test=7 * DAY, gap=timedelta(0))


def test_hash_splits_depend_on_the_id_alone() -> None:
    ids = pl.Series([f"q{i}" for i in range(2_000)])
    parts = assign_by_hash(ids, valid=0.2, test=0.3)
    assert parts.reverse().equals(assign_by_hash(ids.reverse(), valid=0.2, test=0.3))
    shares = {name: count / 2_000 for name, count in parts.value_counts().rows()}
    assert shares == pytest.approx({"train": 0.5, "valid": 0.2, "test": 0.3}, abs=0.04)


def test_a_query_is_never_cut() -> None:
    frame = pl.DataFrame({"query": [1, 1, 2, 2, 3], "item": range(5), "timestamp": times([0, 9, 3, 3, 10]), "x": 1.0})
    with pytest.raises(DataError, match="the valid part is empty"):
        split_table(Table(frame, (FeatureSpec("x"),)), by="auto", valid=2 * DAY, test=3 * DAY, gap=timedelta(0))
    tables, _ = split_table(Table(frame, (FeatureSpec("x"),)), by="auto", valid=5 * DAY, test=3 * DAY, gap=timedelta(0))
    assert {part: table.frame["query"].to_list() for part, table in tables.items()} == {
        "train": [1, 1],
        "valid": [2, 2],
        "test": [3],
        "gap": [],
    }


def test_time_without_timestamps_and_lengths_without_time_are_refused() -> None:
    table = Table(pl.DataFrame({"query": [1, 2], "item": [1, 2], "x": [1.0, 2.0]}), (FeatureSpec("x"),))
    with pytest.raises(DataError, match="no timestamp column"):
        split_table(table, by="time", valid=None, test=None, gap=timedelta(0))
    with pytest.raises(DataError, match="a part of 7 days, 0:00:00 where queries have no time"):
        split_table(table, by="auto", valid=7 * DAY, test=None, gap=timedelta(0))
