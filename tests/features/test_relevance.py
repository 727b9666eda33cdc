"""From interactions to one relevance per pair."""

from __future__ import annotations

import json
from datetime import timedelta

import polars as pl
import pytest

from features.errors import DataError
from features.queries import queries_by_id, queries_by_table
from features.relevance import (
    WatchTargets,
    item_targets,
    median_targets,
    rating_relevance,
    tier_relevance,
    watch_relevance,
)
from tests.features.factories import at, clean

TIERS = {"purchase": 3, "click": 1}


def event(query: int, item: int, hour: float, kind: str, value: float | None = None) -> dict[str, object]:
    return {"query": query, "item": item, "hour": hour, "event": kind, "value": value}


def grades(relevance) -> dict[tuple[object, object], float]:
    return {(query, item): grade for query, item, grade in relevance.frame.iter_rows()}


def test_tiers_when_several_events_then_the_strongest_once():
    rows = [event(1, 1, 0, "impression"), event(1, 1, 1, "purchase"), event(1, 1, 2, "click"), event(1, 2, 1, "click")]
    relevance = tier_relevance(queries_by_id(clean(rows)), TIERS)
    assert grades(relevance) == {(1, 1): 3.0, (1, 2): 1.0}
    assert relevance.frame["relevance"].dtype == pl.Float64
    assert relevance.positives.rows() == [(1, 1), (1, 2)]


def test_tiers_when_outside_the_window_then_they_do_not_count_but_are_counted():
    rows = [event(1, 0, 0, "impression"), event(1, 1, 2, "click"), event(1, 2, 2.1, "click")]
    relevance = tier_relevance(queries_by_id(clean(rows)), {"click": 1}, window=timedelta(hours=2))
    assert grades(relevance) == {(1, 1): 1.0}
    assert relevance.counts["events_after_window"] == 1


def test_tiers_when_before_the_query_then_history_not_truth():
    table = pl.DataFrame({"query": [1], "timestamp": [at(5)]})
    rows = [event(1, 1, 4, "click"), event(1, 2, 5, "click"), event(1, 3, 6, "click")]
    relevance = tier_relevance(queries_by_table(clean(rows), table), {"click": 1})
    assert grades(relevance) == {(1, 2): 1.0, (1, 3): 1.0}
    assert relevance.counts["events_before_query"] == 1


def test_window_when_it_reaches_past_the_end_of_the_log_then_the_query_is_open():
    rows = [event(1, 1, 0, "click"), event(2, 1, 3, "click"), event(3, 1, 4, "click"), event(4, 1, 6, "click")]
    relevance = tier_relevance(queries_by_id(clean(rows)), {"click": 1}, window=timedelta(hours=3))
    assert relevance.open_queries.to_list() == [3, 4]
    assert relevance.counts["open_queries"] == 2
    assert tier_relevance(queries_by_id(clean(rows)), {"click": 1}).open_queries.is_empty()


def test_tiers_when_a_kind_does_not_occur_then_the_nearest_is_named():
    with pytest.raises(DataError, match=r"relevance.tiers names the event kind 'clck'.*did you mean 'click'\?"):
        tier_relevance(queries_by_id(clean([event(1, 1, 0, "click")])), {"clck": 1})


def test_rules_when_made_for_another_log_then_a_kind_may_be_missing():
    queries = queries_by_id(clean([event(1, 1, 0, "click")]))
    assert grades(tier_relevance(queries, {"click": 1, "purchase": 3}, strict=False)) == {(1, 1): 1}
    assert grades(watch_relevance(queries, 100.0, kind="watch", strict=False)) == {}


def test_watch_when_several_plays_then_summed_first_and_at_most_one():
    plays = [event(1, 1, 0, "watch", 30.0), event(1, 1, 1, "watch", 40.0), event(1, 2, 0, "watch", 500.0)]
    relevance = watch_relevance(queries_by_id(clean(plays)), 100.0, kind="watch")
    assert grades(relevance) == {(1, 1): (30 + 40) / 100, (1, 2): 1.0}


def test_watch_when_seconds_are_summed_then_exact_in_any_order():
    plays = [event(1, 1, hour, "watch", value) for hour, value in enumerate([0.1, 0.2, 0.3, 1e6, 0.4])]
    relevance = watch_relevance(queries_by_id(clean(plays)), 2e6)
    assert grades(relevance) == {(1, 1): 1_000_001 / 2e6}


def test_watch_when_the_target_is_the_duration_then_items_without_one_get_the_median():
    plays = [event(1, item, 0, "watch", 30.0) for item in (1, 2, 3)]
    targets = item_targets(pl.DataFrame({"item": [1, 2, 4], "duration": [60, None, 20]}), "duration")
    relevance = watch_relevance(queries_by_id(clean(plays)), targets, kind="watch")
    assert grades(relevance) == {(1, 1): 30 / 60, (1, 2): 30 / ((60 + 20) / 2), (1, 3): 30 / ((60 + 20) / 2)}
    assert relevance.counts["watched_without_target"] == 2


def test_watch_when_the_target_is_the_median_then_of_the_training_window_alone():
    plays = [event(query, 1, query, "watch", float(10 * query)) for query in (1, 2, 3, 9)]
    targets = median_targets(queries_by_id(clean(plays)), until=at(9), kind="watch")
    assert targets.frame.rows() == [(1, 20.0)]
    assert targets.default == 20.0


def test_watch_when_a_play_has_no_seconds_then_counted():
    plays = [event(1, 1, 0, "watch"), event(1, 1, 1, "watch", 5.0)]
    relevance = watch_relevance(
        queries_by_id(clean(plays)), WatchTargets(pl.DataFrame({"item": [1], "target": [10.0]}), 1.0), kind="watch"
    )
    assert grades(relevance) == {(1, 1): 0.5}
    assert relevance.counts["events_without_value"] == 1


def test_watch_when_no_target_is_known_then_refused():
    with pytest.raises(DataError, match="no 'duration' of the items above 0; expected some"):
        item_targets(pl.DataFrame({"item": [1], "duration": [0]}), "duration")
    with pytest.raises(DataError, match="the items have no column 'length'"):
        item_targets(pl.DataFrame({"item": [1]}), "length")


def test_ratings_when_mapped_then_the_highest_and_unnamed_ones_stay():
    rows = [
        event(1, 1, 0, "rate", 2.5),
        event(1, 1, 1, "rate", 4.0),
        event(1, 2, 0, "rate", 1.0),
        event(1, 3, 0, "rate"),
    ]
    relevance = rating_relevance(queries_by_id(clean(rows)), grades={1.0: 0.0})
    assert grades(relevance) == {(1, 1): 4.0, (1, 2): 0.0}
    assert relevance.positives.rows() == [(1, 1)]


def test_ratings_when_the_column_is_missing_or_text_then_refused():
    queries = queries_by_id(clean([event(1, 1, 0, "rate", 1.0)]))
    with pytest.raises(DataError, match="column 'stars' is missing"):
        rating_relevance(queries, column="stars")
    with pytest.raises(DataError, match="column 'badge' is text"):
        rating_relevance(queries, column="badge")


def test_targets_when_kept_as_json_then_the_same():
    targets = item_targets(pl.DataFrame({"item": ["a", "b"], "duration": [0.1, 1e300]}), "duration")
    again = WatchTargets.from_dict(json.loads(json.dumps(targets.to_dict())))
    assert again.frame.equals(targets.frame)
    assert again.default == targets.default
