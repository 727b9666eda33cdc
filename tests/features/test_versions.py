"""Items and users in versions: every feature knows the version in force, and none that comes later."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from features.catalogues import read_items
from features.errors import DataError
from features.fitted import fit_features
from features.log import make_log
from features.table import build_table
from tests.features.factories import World, at, clean, worlds
from tests.features.test_time import (
    hours_asked,
    rows_asked_at,
    survives_deleted_future,
    survives_poisoned_future,
    survives_shuffling,
)

PROPERTY = settings(deadline=None, max_examples=4, suppress_health_check=[HealthCheck.too_slow])
LAST = 200
"""The hour of a version that is later than all queries."""


@st.composite
def versioned_worlds(draw: st.DrawFn) -> World:
    """Worlds whose items change, often at the very hour of a query or an event, and once after all of them."""
    world = draw(worlds())
    changes = draw(st.lists(st.tuples(st.integers(0, 5), st.integers(-1, 12)), max_size=12, unique=True))
    plain = world.items.drop("created_at")
    first = plain.with_columns(valid_from=pl.lit(at(-60)))
    later = [
        plain.filter(pl.col("item") == item).with_columns(
            valid_from=pl.lit(at(hour)),
            category=pl.lit(("shoes", "hats", None)[(item + hour) % 3]),
            title=pl.lit(("red shoes", "new hat", None, "straw straw")[(item * hour) % 4]),
            weight=pl.lit(float(hour)),
        )
        for item, hour in [*changes, (0, LAST)]
    ]
    kept = draw(st.sets(st.integers(0, 5), min_size=3))
    return replace(world, items=pl.concat([first.filter(pl.col("item").is_in(kept)), *later], how="vertical_relaxed"))


def tables_until(world: World, hour: float, change: Any) -> World:
    """The world with the versions that begin after an hour changed."""

    def changed(table: pl.DataFrame) -> pl.DataFrame:
        later = pl.col("valid_from") > at(hour)
        return pl.concat([table.filter(~later), change(table.filter(later))])

    return replace(world, items=changed(world.items), users=changed(world.users))


def absurd(table: pl.DataFrame) -> pl.DataFrame:
    return table.with_columns(
        pl.lit("absurd absurd").alias(name) if dtype == pl.String else pl.lit(1e6, dtype).alias(name)
        for name, dtype in table.schema.items()
        if name not in ("item", "user") and (dtype == pl.String or dtype.is_numeric())
    )


@PROPERTY
@given(versioned_worlds())
def test_every_feature_when_later_versions_are_deleted_or_poisoned_then_unchanged(world):
    fitted = world.fit()
    for hour in hours_asked(world):
        rows = rows_asked_at(world, fitted, hour)
        for change in (pl.DataFrame.clear, absurd):
            assert rows.equals(rows_asked_at(tables_until(world, hour, change), fitted, hour))


@PROPERTY
@given(versioned_worlds())
def test_fitted_when_versions_after_the_last_query_are_deleted_or_poisoned_then_the_same(world):
    last = max(hours_asked(world))
    for change in (pl.DataFrame.clear, absurd):
        assert tables_until(world, last, change).fit() == world.fit()


@PROPERTY
@given(versioned_worlds())
def test_every_feature_of_versions_when_the_future_is_deleted_or_poisoned_then_unchanged(world):
    assert survives_deleted_future(world)
    assert survives_poisoned_future(world)


@PROPERTY
@given(versioned_worlds(), st.integers(0, 1000))
def test_every_feature_of_versions_when_all_input_is_shuffled_then_unchanged(world, seed):
    assert survives_shuffling(world, seed)


def in_force(versions: list[dict[str, Any]], item: int, time: datetime) -> dict[str, Any]:
    """The version of an item at a time: the latest that has begun, one at that very moment included."""
    begun = [row for row in versions if row["item"] == item and row["valid_from"] <= time]
    return max(begun, key=lambda row: row["valid_from"], default={})


@settings(deadline=None, max_examples=25)
@given(versioned_worlds())
def test_fields_of_rows_and_of_events_when_in_versions_then_as_a_plain_loop_says(world):
    log = replace(world, delay=None).log()
    versions, events = world.items.to_dicts(), log.events.to_dicts()
    fitted = replace(world, delay=None).fit(use=["item.weight*", "item.c*", "cross.*share*"], custom={})
    share = "cross.user_item_category_click_share"
    share = share if share in fitted.names else "cross.user_category_click_share"
    for row in build_table(log, *asked(world), fitted).frame.to_dicts():
        now = in_force(versions, row["item"], row["timestamp"])
        assert row["item.weight"] == now.get("weight")
        if "item.category" in fitted.levels:
            level = now.get("category")
            assert row["item.category"] == (None if level is None else fitted.levels["item.category"].index(level) + 1)
        if share in fitted.names:
            clicks = [
                in_force(versions, event["item"], event["timestamp"]).get("category")
                for event in events
                if event["event"] == "click" and event["user"] == row["user"] and event["timestamp"] < row["timestamp"]
            ]
            known = row["user"] is not None and now.get("category") is not None and clicks
            expected = clicks.count(now["category"]) / len(clicks) if known else None
            assert row[share] == (None if expected is None else pytest.approx(expected))


def asked(world: World) -> tuple[pl.DataFrame, pl.DataFrame]:
    return world.queries, world.candidates


def test_version_when_it_begins_at_the_query_then_in_force_and_an_event_keeps_its_own():
    items = pl.DataFrame(
        {
            "item": [1, 1, 1, 2],
            "valid_from": [at(0), at(4), at(6), at(0)],
            "brand": ["a", "b", "c", "a"],
            "price": [10, 20, 30, 10],
        }
    )
    clicks = [{"item": 1, "user": 1, "hour": hour, "event": "click"} for hour in (1, 4, 5)]
    queries = pl.DataFrame({"query": [1, 2, 3], "timestamp": [at(4), at(6), at(5.9)], "user": [1, 1, 1]})
    pairs = pl.DataFrame({"query": [1, 2, 3, 3], "item": [1, 1, 1, 2]})
    log = make_log(clean(clicks), items=read_items(items.sample(fraction=1, shuffle=True, seed=1)))
    table = build_table(log, queries, pairs, fit_features(log, queries, pairs, pool="shown")).frame
    rows = {(row["query"], row["item"]): row for row in table.to_dicts()}
    assert [rows[query, 1]["item.price"] for query in (1, 2, 3)] == [20, 30, 20]
    shares = [rows[key]["cross.user_brand_click_share"] for key in ((1, 1), (2, 1), (3, 1), (3, 2))]
    assert shares == [0, 0, pytest.approx(2 / 3), pytest.approx(1 / 3)]


def test_versions_when_two_begin_at_once_then_refused():
    items = pl.DataFrame({"item": [1, 1], "valid_from": [at(0), at(0)], "brand": ["a", "b"]})
    with pytest.raises(DataError, match="2 rows share their item and valid_from"):
        read_items(items)
