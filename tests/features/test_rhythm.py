"""Trends, silences, active days, who comes back, and in what company: as formulas and against plain loops."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise
from math import log1p
from statistics import fmean

import polars as pl
import pytest
from hypothesis import given, settings

from features.activity import PRIOR_WEIGHT
from features.description import Options
from features.fitted import fit_features
from features.log import make_log
from features.table import build_table
from tests.features.factories import World, at, clean, worlds
from tests.features.oracles import seen_before


def event(item: int, hour: float, kind: str = "click", user: int | None = 1) -> dict[str, object]:
    return {"item": item, "hour": hour, "event": kind, "user": user}


def build(events, items=(1,), *, hour=200, use=("item.*", "user.*", "cross.*"), **tables):
    """The features of items asked for at an hour by user 1, item by item."""
    queries = pl.DataFrame({"query": [1], "timestamp": [at(hour)], "user": [1]})
    candidates = pl.DataFrame({"query": [1] * len(items), "item": items})
    log = make_log(clean(events), **tables)
    fitted = fit_features(log, queries, candidates, pool="shown", use=use, options=Options(windows=("30h", "10h")))
    return {row["item"]: row for row in build_table(log, queries, candidates, fitted).frame.to_dicts()}


def test_trend_when_paces_differ_then_their_smoothed_ratio_and_1_where_nothing_happened():
    rows = build([event(1, hour) for hour in (171, 192, 195, 199)], [1, 2])
    assert rows[1]["item.click_trend_10h_30h"] == pytest.approx((3 + 1 / 3) / (1 / 3 * (4 + 1)))
    assert rows[2]["item.click_trend_10h_30h"] == 1.0
    quiet = build([event(1, hour) for hour in (171, 172, 173)])[1]
    assert quiet["item.click_trend_10h_30h"] == pytest.approx(1 / 3 / (1 / 3 * (3 + 1)))


def test_gaps_when_there_are_three_interactions_then_mean_last_and_overdue():
    shown = [event(1, 150, "impression")]
    row = build([*shown, *(event(1, hour) for hour in (104, 128, 140))], shown="impression")[1]
    assert row["item.mean_gap_days"] == pytest.approx((140 - 104) / 2 / 24)
    assert row["item.last_gap_days"] == pytest.approx((140 - 128) / 24)
    assert row["item.overdue"] == pytest.approx((200 - 140) / ((200 - 140) + (140 - 104) / 2))


def test_gaps_when_fewer_than_two_interactions_then_missing_and_when_all_at_once_then_0():
    rows = build([event(1, 104), event(2, 104), event(2, 104, "purchase")], [1, 2, 3])
    for name in ("mean_gap_days", "last_gap_days", "overdue"):
        assert (rows[1][f"item.{name}"], rows[3][f"item.{name}"]) == (None, None)
    assert [rows[2][f"item.{name}"] for name in ("mean_gap_days", "last_gap_days", "overdue")] == [0, 0, 1]


def test_gaps_when_a_kind_arrives_late_then_never_negative():
    events = [event(1, 100, "purchase"), event(1, 101), event(1, 102)]
    row = build(events, delay={"purchase": timedelta(hours=9)})[1]
    assert row["item.last_gap_days"] == pytest.approx((100 + 9 - 102) / 24)
    assert row["item.mean_gap_days"] == pytest.approx((100 + 9 - 101) / 2 / 24)


def test_active_days_when_counted_then_days_in_utc_with_an_interaction():
    events = [event(1, hour) for hour in (1, 23, 24, 49, 50)] + [event(1, 100, "impression")]
    rows = build(events, [1, 2], shown="impression")
    assert [rows[item]["item.active_days"] for item in (1, 2)] == [3, 0]
    assert rows[1]["item.interactions_per_active_day"] == pytest.approx(5 / 3)
    assert rows[2]["item.interactions_per_active_day"] is None


def test_return_when_users_come_back_on_another_day_then_their_share():
    twice_on_a_day = [event(1, 1, user=1), event(1, 2, user=1)]
    on_two_days = [event(1, 1, user=2), event(1, 30, user=2), event(1, 60, user=2)]
    rows = build([*twice_on_a_day, *on_two_days, event(1, 3, user=None), event(2, 60, user=1)], [1, 2, 3])
    assert [rows[item]["item.returning_user_share"] for item in (1, 2, 3)] == [1 / 2, 0, None]
    assert rows[1]["user.returning_item_share"] == 0.0


def test_company_when_items_were_popular_at_the_time_then_the_mean_of_what_they_had_by_then():
    others = [event(1, hour, user=2) for hour in (1, 2, 3)]
    own = [event(1, 4), event(2, 5)]
    rows = build([*others, *own, event(1, 6, user=3)], [1, 2])
    assert rows[1]["user.mean_item_popularity"] == pytest.approx((log1p(3) + log1p(0)) / 2, abs=1e-4)
    expected = log1p(5) - (log1p(3) + log1p(0)) / 2
    assert rows[1]["cross.user_item_popularity_gap"] == pytest.approx(expected, abs=1e-4)
    assert rows[1]["item.mean_user_activity"] == pytest.approx(fmean(map(log1p, (0, 1, 2, 0, 0))), abs=1e-4)


def test_shares_of_kinds_when_smoothed_then_from_the_share_in_the_log():
    rows = build([event(1, 1), event(1, 2), event(2, 3, "purchase"), event(1, 3, "purchase")], [1, 3])
    assert rows[3]["item.click_share"] == pytest.approx(2 / 4)
    assert rows[1]["item.click_share"] == pytest.approx((2 + PRIOR_WEIGHT * 2 / 4) / (3 + PRIOR_WEIGHT))
    assert "item.click_share" not in build([event(1, 1)])[1]


@settings(deadline=None, max_examples=25)
@given(worlds())
def test_rhythm_when_computed_by_a_plain_loop_then_the_same(world: World):
    fitted = world.fit(use=["item.*", "user.*"])
    log = world.log()
    events = log.events.to_dicts()
    late = log.delay.get
    for row in world.table(fitted).frame.to_dicts():
        for entity in ("item", "user"):
            if row[entity] is None:
                assert {row[f"user.{name}"] for name in ("active_days", "overdue", "mean_gap_days")} == {None}
                continue
            known = {"entity": {entity: row[entity]}, "delay": log.delay}
            done = list(seen_before(events, row["timestamp"], kinds=fitted.description.interactions, **known))
            arrivals = [seen["timestamp"] + late(seen["event"], timedelta(0)) for seen in done]
            gaps = [(after - before) / timedelta(days=1) for before, after in pairwise(arrivals)]
            since = [(row["timestamp"] - arrival) / timedelta(days=1) for arrival in arrivals]
            assert row[f"{entity}.mean_gap_days"] == (pytest.approx(fmean(gaps)) if gaps else None)
            assert row[f"{entity}.last_gap_days"] == (pytest.approx(gaps[-1]) if gaps else None)
            overdue = since[-1] / (since[-1] + fmean(gaps)) if gaps else None
            assert row[f"{entity}.overdue"] == (pytest.approx(overdue) if gaps else None)
            assert row[f"{entity}.active_days"] == len({seen["timestamp"].date() for seen in done})
            for kind in fitted.description.kinds:
                short, long = (
                    len(
                        list(
                            seen_before(events, row["timestamp"], kinds=(kind,), window=timedelta(hours=hours), **known)
                        )
                    )
                    for hours in (1, 3)
                )
                expected = pytest.approx((short + 1 / 3) / ((long + 1) / 3))
                assert row[f"{entity}.{kind}_trend_1h_3h"] == expected


@settings(deadline=None, max_examples=25)
@given(worlds())
def test_company_when_computed_by_a_plain_loop_then_the_same(world: World):
    fitted = world.fit(use=["item.mean_user_activity", "user.mean_item_popularity"])
    log = world.log()
    events = log.events.to_dicts()
    known = {"kinds": fitted.description.interactions, "delay": log.delay}

    def busy(seen, other):
        arrival = seen["timestamp"] + log.delay.get(seen["event"], timedelta(0))
        return log1p(len(list(seen_before(events, arrival, entity={other: seen[other]}, **known))))

    for row in world.table(fitted).frame.to_dicts():
        for entity, other, name in (("item", "user", "mean_user_activity"), ("user", "item", "mean_item_popularity")):
            done = list(seen_before(events, row["timestamp"], entity={entity: row[entity]}, **known))
            means = [busy(seen, other) for seen in done if seen[other] is not None]
            expected = pytest.approx(fmean(means), abs=1e-3) if means else None
            assert row[f"{entity}.{name}"] == expected
