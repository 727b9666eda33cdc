"""Groups of queries: every query in one of them, and what each of them is worth."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from pipeline.reductions import bootstrap_interval
from pipeline.strata import by_activity, by_column, by_relevant, group_intervals

NAN = float("nan")
USERS = pl.Series(["u", "v", "v", None, None, "w"])


@pytest.mark.parametrize(
    "strata",
    [
        by_relevant(np.array([0, 1, 5, 19, 20, 7])),
        by_activity(USERS),
        by_column(pl.DataFrame({"x": ["a", None, "b", "a", "b", "b"]}), np.arange(6), "x"),
        by_column(pl.DataFrame({"x": [0, 1, 2, 3, 4, None]}), np.arange(6), "x"),
        by_column(pl.DataFrame({"x": np.arange(40.0)}), np.arange(40), "x"),
    ],
)
def test_every_query_is_in_one_group(strata):
    masks = np.stack([mask for _, mask in strata])
    assert (masks.sum(axis=0) == 1).all()
    assert masks.any(axis=1).all()


def test_twenty_relevant_items_are_in_the_high_group():
    strata = by_relevant([4, 5, 19, 20, 0])
    found = list(group_intervals([0.1, 0.2, 0.3, 0.4, NAN], strata))
    assert [(one.name, one.queries, one.interval.n) for one in found] == [
        ("below 5", 2, 1),
        ("5-19", 2, 2),
        ("20 or more", 1, 1),
    ]
    assert found[2].interval.mean == 0.4


def test_empty_groups_by_relevant_items_are_shown():
    found = list(group_intervals([0.5], by_relevant([7])))
    assert [one.queries for one in found] == [0, 1, 0]
    assert found[0].interval.mean is None


def test_borders_are_ours_to_choose():
    assert by_relevant([0, 1, 2, 9], borders=(1, 2)).groups == ("below 1", "1", "2 or more")


@pytest.mark.parametrize(
    ("relevant", "borders", "message"),
    [
        ([1, 2], (20, 5), r"borders are \[20, 5\]; expected numbers above 0 that ascend"),
        ([1, 2], (0, 5), r"borders are \[0, 5\]"),
        ([1, NAN], (5, 20), r"relevant\[1\] is nan"),
        ([-1, 2], (5, 20), r"relevant\[0\] is -1"),
    ],
)
def test_groups_by_relevant_items_are_refused_where_they_cannot_be(relevant, borders, message):
    with pytest.raises(ValueError, match=message):
        by_relevant(relevant, borders)


def test_a_user_without_a_name_is_anonymous():
    assert by_activity(USERS).groups == ("1", "2-4", "anonymous")


def test_users_are_the_units_of_an_interval_and_one_alone_has_none():
    values, users = np.linspace(0.1, 0.8, 8), pl.Series([*"aabbccdd"])
    strata = by_relevant([1, 1, 6, 6, 6, 6, 6, 6])
    alone, several, none = group_intervals(values, strata, users=users, seed=3)
    assert (alone.interval.low, alone.interval.high, alone.interval.mean) == (None, None, pytest.approx(0.15))
    assert several.interval == bootstrap_interval(values[2:], clusters=users[2:], seed=3)
    assert none.queries == 0


def test_there_is_one_value_per_query():
    with pytest.raises(ValueError, match="3 values and 1 queries"):
        list(group_intervals([1, 2, 3], by_relevant([1])))
