"""No query sees its future: three properties that every registered feature has, without a test of its own.

A feature that is registered is in `World.fit`, and so in every table that is compared here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st
from hypothesis.errors import NoSuchExample

from features import registry
from features.columns import ITEM
from features.context import Context, Feature, numbers
from features.fitted import Fitted
from features.spec import FeatureSpec
from tests.features.factories import KINDS, World, at, events_frame, queries_frame, worlds

PROPERTY = settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.too_slow])
ABSURD = {"value": 1e9, "price": 1e9, "position": 1, "badge": "absurd", "labels": ["absurd"], "view": [1e9, -1e9]}


def rows_asked_at(world: World, fitted: Fitted, hour: float) -> pl.DataFrame:
    """The rows of the queries asked at an hour."""
    return world.table(fitted).frame.filter(pl.col("timestamp") == at(hour))


def hours_asked(world: World) -> list[float]:
    times = world.queries["timestamp"].unique().sort()
    return [(time - at(0)).total_seconds() / 3600 for time in times]


def survives_deleted_future(world: World) -> bool:
    """Whether queries look the same in a log that ends right before them."""
    fitted = world.fit()
    return all(
        rows_asked_at(world, fitted, hour).equals(rows_asked_at(without_future(world, hour), fitted, hour))
        for hour in hours_asked(world)
    )


def survives_poisoned_future(world: World) -> bool:
    """Whether queries look the same in a log where absurd things happen from their time on."""
    fitted = world.fit()
    return all(
        rows_asked_at(world, fitted, hour).equals(rows_asked_at(with_poison(world, hour), fitted, hour))
        for hour in hours_asked(world)
    )


def survives_shuffling(world: World, seed: int) -> bool:
    """Whether the order of any input changes what is learned, or any row; ties in time are part of that."""
    other = World(
        *(frame.sample(fraction=1, shuffle=True, seed=seed + number) for number, frame in enumerate(frames(world))),
        delay=world.delay,
    )
    fitted = world.fit()
    return other.fit() == fitted and other.table(fitted).frame.equals(world.table(fitted).frame)


def frames(world: World) -> tuple[pl.DataFrame, ...]:
    return world.events, world.items, world.users, world.queries, world.candidates


def without_future(world: World, hour: float) -> World:
    """One event of an item that nobody asks about is kept, so that the log is never empty."""
    kept = world.events.filter(pl.col("timestamp") < at(hour))
    return world.with_events(pl.concat([kept, events_frame([{"item": 99, "hour": 50, "event": "impression"}])]))


def with_poison(world: World, hour: float) -> World:
    poison = [
        {"item": item, "user": user, "query": query, "hour": hour + later, "event": kind, **ABSURD}
        for item in range(7)
        for user in range(3)
        for query, later, kind in [(0, 0, "purchase"), (1, 0, "impression"), (None, 1, "click")]
    ]
    return world.with_events(pl.concat([world.events, events_frame(poison)]))


@PROPERTY
@given(worlds())
def test_every_feature_when_the_future_is_deleted_then_unchanged(world):
    assert survives_deleted_future(world)


@PROPERTY
@given(worlds())
def test_every_feature_when_the_future_is_poisoned_then_unchanged(world):
    assert survives_poisoned_future(world)


@PROPERTY
@given(worlds(), st.integers(0, 1000))
def test_every_feature_when_all_input_is_shuffled_then_unchanged(world, seed):
    assert survives_shuffling(world, seed)


@PROPERTY
@given(worlds())
def test_fitted_when_the_future_of_the_last_query_is_poisoned_or_deleted_then_the_same(world):
    last = max(hours_asked(world))
    assert world.fit() == with_poison(world, last).fit() == without_future(world, last).fit()


@dataclass(frozen=True)
class Leak:
    """A feature that sees what it must not, and the property that says so."""

    build: Callable[[Context], pl.Series]
    survives: Callable[[World], bool]


def counts_the_whole_log(context: Context) -> pl.Series:
    totals = context.log.events.group_by(ITEM).len()
    return context.rows.select(ITEM).join(totals, on=ITEM, how="left", maintain_order="left")["len"].fill_null(0)


def counts_the_present(context: Context) -> pl.Series:
    """At or before, where it should be before."""
    events, rows = context.codes(ITEM)
    times = context.timeline.times()
    pairs = zip(rows, context.times, strict=True)
    return numbers(np.array([np.sum((events == code) & (times <= time)) for code, time in pairs], np.int64))


def values_of_poison(context: Context) -> pl.Series:
    """The largest value that the item ever had: blind to a deleted future that held no value."""
    best = context.log.events.group_by(ITEM).agg(pl.col("value").max())
    return context.rows.select(ITEM).join(best, on=ITEM, how="left", maintain_order="left")["value"]


def never_twice_the_same(context: Context) -> pl.Series:
    return numbers(np.random.default_rng().random(context.rows.height))


LEAKS = {
    "whole log": Leak(counts_the_whole_log, survives_deleted_future),
    "present": Leak(counts_the_present, survives_deleted_future),
    "whole log, poisoned": Leak(counts_the_whole_log, survives_poisoned_future),
    "present, poisoned": Leak(counts_the_present, survives_poisoned_future),
    "largest value": Leak(values_of_poison, survives_poisoned_future),
    "chance": Leak(never_twice_the_same, lambda world: survives_shuffling(world, seed=0)),
}


@pytest.mark.parametrize("name", LEAKS)
def test_suite_when_a_leaking_feature_is_planted_then_caught(name, monkeypatch):
    leak = LEAKS[name]
    planted = lambda _: iter([Feature(FeatureSpec("planted.leak"), leak.build)])  # noqa: E731
    monkeypatch.setitem(registry.FAMILIES, "planted", planted)
    monkeypatch.setattr("tests.features.factories.EVERYTHING", ("planted.*",))
    search = settings(
        max_examples=200, deadline=None, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
    )
    try:
        find(worlds(), lambda world: not leak.survives(world), settings=search)
    except NoSuchExample:
        pytest.fail("the properties do not see the leak")


def test_suite_when_read_then_covers_every_family_and_kind():
    names = EVERYTHING_AT_ONCE.fit().names
    assert {name.partition(".")[0] for name in names} == set(registry.FAMILIES)
    assert all(any(f"{kind}_count" in name for name in names) for kind in KINDS)
    assert len(names) > 90


EVERYTHING_AT_ONCE = World(
    events=events_frame(
        [{"item": 0, "user": 0, "hour": 1, "event": kind, "value": 1.0, "price": 1.0, "badge": "new"} for kind in KINDS]
    ),
    items=pl.DataFrame(
        {
            "item": [0, 1, 2],
            "category": ["a", "a", "b"],
            "title": ["red hat", "blue hat", "old hat"],
            "weight": [1.0, 2.0, 3.0],
            "created_at": [at(0), at(1), at(2)],
            "tags": [["red"], [], ["old"]],
            "look": [[1.0, 0.0], [0.6, 0.8], None],
        }
    ),
    users=pl.DataFrame({"user": [0], "points": [3], "tags": [["red"]], "look": [[0.0, 1.0]]}),
    queries=queries_frame([0]).with_columns(timestamp=pl.lit(at(5)), user=pl.lit(0, pl.Int64)),
    candidates=pl.DataFrame({"query": [0, 0], "item": [0, 1], "price": [1.0, 2.0], "badge": ["new", "new"]}),
)
