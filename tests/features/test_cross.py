"""Pairs: users with categories, items with segments, devices and texts; formulas, and plain loops."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given, settings

from features.activity import PRIOR_WEIGHT, rated_kinds
from features.fitted import fit_features
from features.log import make_log
from features.table import build_table
from tests.features.factories import World, at, clean, worlds
from tests.features.oracles import field_of_event, seen_before
from tests.features.test_levels import levels_of_rows

ITEMS = pl.DataFrame({"item": [1, 2, 3], "topic": ["news", "news", "fun"]})
USERS = pl.DataFrame({"user": [1, 2, 3], "segment": ["new", "loyal", "loyal"]})


def event(item: int, hour: float, kind: str = "click", user: int | None = 1, **columns: object) -> dict[str, object]:
    return {"item": item, "hour": hour, "event": kind, "user": user, **columns}


def build(events, *, user=1, **tables):
    """The features of items 1..4 at hour 10."""
    queries = pl.DataFrame({"query": [1], "timestamp": [at(10)], "user": [user], "device": ["phone"]})
    candidates = pl.DataFrame({"query": [1] * 4, "item": range(1, 5)})
    log = make_log(clean(events), items=ITEMS, users=USERS, **tables)
    fitted = fit_features(log, queries, candidates, pool="shown", use=["cross.*"])
    return build_table(log, queries, candidates, fitted).frame.sort("item").to_dict(as_series=False)


def smooth(done: float, shown: float, prior: float) -> float:
    return (done + PRIOR_WEIGHT * prior) / (shown + PRIOR_WEIGHT)


SHOWN = [event(item, 1, "impression", user) for item in (1, 2, 3) for user in (1, 2)]


def test_user_with_category_when_rare_then_its_rate_is_near_that_of_the_category():
    rows = build([*SHOWN, event(1, 2), event(2, 2), event(3, 2, user=2)], shown="impression")
    of_news, of_fun = smooth(2, 4, 3 / 6), smooth(1, 2, 3 / 6)
    expected = [pytest.approx(rate) for rate in (smooth(2, 2, of_news), smooth(2, 2, of_news), smooth(0, 1, of_fun))]
    assert rows["cross.user_topic_click_rate"] == [*expected, None]


def test_user_with_category_when_values_are_logged_then_their_mean():
    watched = [event(1, 2, "watch", value=10.0), event(2, 2, "watch", value=20.0), event(3, 2, "watch", value=None)]
    rows = build([*watched, event(3, 3, "watch", user=2, value=99.0)])
    assert rows["cross.user_topic_watch_value_mean"] == [15.0, 15.0, None, None]


def test_item_with_segment_when_others_of_it_clicked_then_conditional_popularity():
    clicks = [event(1, 2, user=2), event(1, 3, user=3), event(2, 3, user=3), event(3, 2, user=1)]
    rows = build([*SHOWN, *clicks], user=3, shown="impression")
    assert rows["cross.user_segment_item_count"] == [2, 1, 0, 0]
    assert rows["cross.user_segment_item_share"] == [pytest.approx(2 / 3), pytest.approx(1 / 3), 0, 0]
    prior = [smooth(done, shown, 4 / 6) for done, shown in ((2, 2), (1, 2), (1, 2), (0, 0))]
    rates = [smooth(done, shown, prior[at]) for at, (done, shown) in enumerate(((2, 1), (1, 1), (0, 1), (0, 0)))]
    assert rows["cross.user_segment_item_click_rate"] == [pytest.approx(rate) for rate in rates]


@pytest.mark.parametrize("user", [None, 99])
def test_item_with_segment_when_the_user_is_nobody_or_unknown_then_missing(user):
    rows = build([*SHOWN, event(1, 2)], user=user, shown="impression")
    for name in ("count", "share", "click_rate"):
        assert rows[f"cross.user_segment_item_{name}"] == [None] * 4
    assert rows["cross.query_device_item_count"] == [0] * 4
    assert rows["cross.query_device_item_share"] == [None] * 4


def test_item_with_device_when_clicked_on_it_then_counted():
    queries = pl.DataFrame({"query": [7, 8], "device": ["phone", "desk"]})
    rows = build([event(1, 2, query=7), event(2, 2, query=7), event(1, 2, query=8), event(1, 2)], queries=queries)
    assert rows["cross.query_device_item_count"] == [1, 1, 0, 0]
    assert rows["cross.query_device_item_share"] == [1 / 2, 1 / 2, 0, 0]
    assert "cross.query_device_item_click_rate" not in rows


PAIRS = {"user_segment": "user.segment", "query_text": "query.text", "query_device": "query.device"}


@settings(deadline=None, max_examples=20)
@given(worlds())
def test_pairs_when_counted_by_a_plain_loop_then_the_same(world: World):
    fitted, log = world.fit(use=["cross.*"]), world.log()
    keys = ("item.category", *PAIRS.values())
    events = [row | {key: field_of_event(log, row, key) for key in keys} for row in log.events.to_dicts()]
    levels, done = levels_of_rows(world), fitted.description.interactions
    rated = rated_kinds(fitted.description)

    for row in world.table(fitted).frame.to_dicts():
        of_row = {**levels[row["query"], row["item"]], "item": row["item"], "user": row["user"]}

        def count(*scope, kinds=done, of_row=of_row, row=row):
            entity = {key: of_row[key] for key in scope}
            return len(list(seen_before(events, row["timestamp"], entity=entity, kinds=kinds, delay=log.delay)))

        def rate(kind, *scope, prior, count=count):
            return smooth(count(*scope, kinds=(kind,)), count(*scope, kinds=("impression",)), prior)

        for name, key in PAIRS.items():
            if f"cross.{name}_item_count" not in row:
                continue
            known = of_row[key] is not None
            assert row[f"cross.{name}_item_count"] == (count(key, "item") if known else None)
            every = count(key)
            assert row[f"cross.{name}_item_share"] == (pytest.approx(count(key, "item") / every) if every else None)
            for kind in rated:
                prior = rate(kind, "item", prior=fitted.rates[kind])
                expected = pytest.approx(rate(kind, key, "item", prior=prior)) if known else None
                assert row[f"cross.{name}_item_{kind}_rate"] == expected
        known = row["user"] is not None and of_row["item.category"] is not None
        for kind in rated:
            prior = rate(kind, "item.category", prior=fitted.rates[kind])
            expected = pytest.approx(rate(kind, "user", "item.category", prior=prior)) if known else None
            assert row[f"cross.user_category_{kind}_rate"] == expected
