"""What holds of every counting feature, whoever it counts: never below zero, never 0/0, sums and means that agree.

A feature takes part by its name, so a new scope is tested by being registered.
"""

from __future__ import annotations

import re
from dataclasses import replace

import polars as pl
import pytest
from hypothesis import given, settings

from tests.features.factories import World, events_frame, worlds
from tests.features.test_time import EVERYTHING_AT_ONCE

FAMILIES = ["item.*", "user.*", "cross.*", "field.*"]
BY_ITEM_FIELD = re.compile(r"^(?!user\.).*category|share_of|field\.item_")
COUNTED = re.compile(r"^(item|user|cross|field)\..*_(count|sum)(_\d+[hd])?$|\.active_days$")


def counting(world: World) -> pl.DataFrame:
    return world.table(world.fit(use=FAMILIES, custom={})).frame


def names(frame: pl.DataFrame, pattern: str) -> list[str]:
    return [name for name in frame.columns if re.search(pattern, name)]


@settings(deadline=None, max_examples=20)
@given(worlds())
def test_counts_when_windows_grow_then_never_fewer_and_never_below_zero(world: World):
    frame = counting(world)
    for name in names(frame, r"_(count|value_sum)$"):
        for short, long in ((f"{name}_1h", f"{name}_3h"), (f"{name}_3h", name)):
            if short in frame.columns:
                assert (frame[short] >= 0).all(), short
                assert (frame[short] <= frame[long]).all(), short


@settings(deadline=None, max_examples=20)
@given(worlds())
def test_counts_when_kinds_are_added_up_then_all_events(world: World):
    fitted = world.fit(use=FAMILIES, custom={})
    frame = world.table(fitted).frame
    for name in names(frame, r"\.event_count"):
        parts = [name.replace(".event_", f".{kind}_") for kind in fitted.description.kinds]
        assert frame[name].equals(frame.select(pl.sum_horizontal(parts, ignore_nulls=False)).to_series()), name


@settings(deadline=None, max_examples=20)
@given(worlds())
def test_values_when_there_are_none_then_sum_0_and_mean_missing_and_else_neither(world: World):
    frame = counting(world)
    for mean in names(frame, r"^(item|user|field)\..*_value_mean$"):
        total = frame[mean.replace("_mean", "_sum")]
        assert (total.filter(frame[mean].is_null()).drop_nulls() == 0).all(), mean
        assert (frame[mean].is_not_null() <= total.is_not_null()).all(), mean


@settings(deadline=None, max_examples=20)
@given(worlds())
def test_shares_and_rates_when_anything_happens_then_within_their_bounds(world: World):
    frame = counting(world)
    for name in names(frame, r"_share$|\.overdue$"):
        assert frame[name].drop_nulls().is_between(0, 1).all(), name
    for name in names(frame, r"_rate(_\d+h)?$"):
        assert (frame[name].drop_nulls() >= 0).all(), name
    for name in names(frame, r"_trend_1h_3h$"):
        assert frame[name].drop_nulls().is_between(0, 3.0001).all(), name


def nothing_happened(world: World) -> World:
    """The same questions, of a log in which only an unrelated item was shown to nobody, out of any query."""
    return world.with_events(events_frame([{"item": 99, "hour": 0.5, "event": "impression", "value": 1.0}]))


def test_everything_when_users_and_items_are_cold_then_zero_prior_or_missing():
    fitted = EVERYTHING_AT_ONCE.fit(use=FAMILIES, custom={})
    frame = nothing_happened(EVERYTHING_AT_ONCE).table(fitted).frame
    assert frame.height == EVERYTHING_AT_ONCE.candidates.height
    counts = [name for name in fitted.names if COUNTED.search(name)]
    assert len(counts) > 80
    for name in counts:
        assert set(frame[name].drop_nulls()) <= {0.0}, name
    for name in names(frame, r"^(item|user|field)\.[^.]*_rate(_\d+h)?$|_item_\w+_rate$|user_category_\w+_rate$"):
        kind = next(kind for kind in fitted.rates if f"{kind}_rate" in name)
        assert frame[name].drop_nulls().to_list() == pytest.approx([fitted.rates[kind]] * frame[name].count()), name
    for name in names(frame, r"_trend_"):
        assert set(frame[name].drop_nulls()) <= {1.0}, name
    for name in names(frame, r"_value_mean$|gap_days$|overdue$|days_since|returning|share_of|user_category_\w+_share$"):
        assert frame[name].null_count() == frame.height, name


def test_everything_when_an_item_is_not_in_the_catalogue_then_its_row_stays_and_its_own_history_counts():
    absent = replace(EVERYTHING_AT_ONCE, items=EVERYTHING_AT_ONCE.items.filter(pl.col("item") != 0))
    fitted = EVERYTHING_AT_ONCE.fit(use=FAMILIES, custom={})
    with_row, without_row = (
        world.table(fitted).frame.filter(pl.col("item") == 0) for world in (EVERYTHING_AT_ONCE, absent)
    )
    assert without_row.height == 1
    of_field = [name for name in fitted.names if BY_ITEM_FIELD.search(name)]
    assert all(without_row[name].null_count() == 1 for name in of_field)
    of_item = re.compile("title|weight|age|user.category")
    own = [name for name in fitted.names if name not in of_field and not of_item.search(name)]
    assert len(own) > 60
    assert without_row.select(own).equals(with_row.select(own))


@pytest.mark.parametrize("events", [[], [{"item": 0, "user": 0, "hour": 1, "event": "click", "value": None}]])
def test_rates_when_there_are_no_impressions_or_no_values_then_still_numbers(events):
    fitted = EVERYTHING_AT_ONCE.fit(use=FAMILIES, custom={})
    world = EVERYTHING_AT_ONCE.with_events(events_frame([*events, {"item": 99, "hour": 9, "event": "impression"}]))
    frame = world.table(fitted).frame
    for name in names(frame, r"_rate"):
        values = frame[name].drop_nulls()
        assert values.is_finite().all(), name
        assert name.startswith("field.") or "above" in name or len(values), name
