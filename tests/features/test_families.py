"""What each family says, as formulas and against plain loops."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings

from features.activity import PRIOR_WEIGHT
from features.description import Options
from features.errors import DataError
from features.fitted import fit_features
from features.log import make_log
from features.table import build_table
from tests.features.factories import World, at, clean, worlds
from tests.features.oracles import seen_before


def build(events, candidates, *, queries=None, pool="shown", windows=("2h",), gap="30m", recent=10, **tables):
    """The features of candidates (query, item, fields) of queries asked at hour 10 by user 1, item by item."""
    frame = pl.DataFrame(candidates)
    if queries is None:
        queries = frame.select("query").unique().with_columns(timestamp=pl.lit(at(10)), user=pl.lit(1, pl.Int64))
    log = make_log(clean(events), **tables)
    options = Options(windows=windows, session_gap=gap, recent=recent)
    fitted = fit_features(log, queries, frame, pool=pool, options=options, use=["*"])
    table = build_table(log, queries, frame, fitted)
    return {row["item"]: row for row in table.frame.sort("item").to_dicts()}


def event(item: int, hour: float, kind: str = "click", **columns: object) -> dict[str, object]:
    return {"item": item, "hour": hour, "event": kind, "user": 1, **columns}


ONE_QUERY = {"query": [1, 1, 1], "item": [1, 2, 3]}
LOG = [
    event(1, 1),
    event(1, 8),
    event(1, 9.5),
    event(1, 10),
    event(2, 3, user=2),
    event(1, 2, "impression"),
    event(2, 2, "impression"),
    event(2, 8, "impression"),
    event(1, 9, "purchase", value=3.5),
    event(2, 9, "purchase", value=None),
]


def test_counts_when_in_a_window_then_from_its_first_moment_to_strictly_before_the_query():
    rows = build(LOG, ONE_QUERY, shown="impression")
    assert [rows[item]["item.click_count"] for item in (1, 2, 3)] == [3, 1, 0]
    assert [rows[item]["item.click_count_2h"] for item in (1, 2, 3)] == [2, 0, 0]
    assert [rows[item]["item.event_count"] for item in (1, 2, 3)] == [5, 4, 0]
    assert [rows[item]["item.user_count"] for item in (1, 2, 3)] == [1, 2, 0]
    assert [rows[item]["item.popularity"] for item in (1, 2, 3)] == [4, 2, 0]
    assert [rows[item]["popularity"] for item in (1, 2, 3)] == [4, 2, 0]


def test_counts_when_clicks_at_1_2_2_3_then_each_query_counts_the_strictly_earlier():
    clicks = [event(1, 1), event(1, 2), event(1, 2, user=2), event(1, 3)]
    hours = {0: 1, 1: 2, 2: 2, 3: 3}
    queries = pl.DataFrame({"query": list(hours), "timestamp": [at(hour) for hour in hours.values()]})
    log = make_log(clean(clicks))
    candidates = pl.DataFrame({"query": list(hours), "item": [1] * 4})
    fitted = fit_features(log, queries, candidates, pool="shown", use=["item.click_count_7d"])
    found = build_table(log, queries, candidates, fitted).frame.sort("query")["item.click_count_7d"]
    assert found.to_list() == [0, 1, 1, 3]


def test_counts_when_events_arrive_late_then_seen_late():
    delayed = build(LOG, ONE_QUERY, delay={"click": timedelta(hours=1)})
    assert delayed[1]["item.click_count"] == 2
    assert delayed[1]["item.impression_count"] == 1


def test_rates_when_smoothed_then_from_the_global_rate_and_never_a_division_by_zero():
    rows = build(LOG, ONE_QUERY, shown="impression")
    prior = 4 / 3
    assert rows[1]["item.click_rate"] == pytest.approx((3 + PRIOR_WEIGHT * prior) / (1 + PRIOR_WEIGHT))
    assert rows[2]["item.click_rate"] == pytest.approx((1 + PRIOR_WEIGHT * prior) / (2 + PRIOR_WEIGHT))
    assert rows[3]["item.click_rate"] == pytest.approx(prior)
    assert rows[2]["item.click_rate_2h"] == pytest.approx(PRIOR_WEIGHT * prior / (1 + PRIOR_WEIGHT))
    assert "item.impression_rate" not in rows[1]


def test_values_when_there_are_none_then_the_sum_is_0_and_the_mean_is_missing():
    rows = build(LOG, ONE_QUERY)
    assert [rows[item]["item.purchase_value_sum"] for item in (1, 2, 3)] == [3.5, 0, 0]
    assert [rows[item]["item.purchase_value_mean"] for item in (1, 2, 3)] == [3.5, None, None]
    assert "item.click_value_mean" not in rows[1]


def test_recency_when_nothing_happened_then_missing():
    rows = build(LOG, ONE_QUERY)
    assert rows[1]["item.days_since_click"] == pytest.approx(0.5 / 24)
    assert rows[2]["item.days_since_last"] == pytest.approx(1 / 24)
    assert rows[1]["item.days_since_first"] == pytest.approx(9 / 24)
    assert rows[3]["item.days_since_last"] is None
    assert rows[3]["item.days_since_click"] is None


def test_user_when_anonymous_then_missing_and_when_new_then_zero():
    queries = pl.DataFrame({"query": [1, 2, 3], "timestamp": [at(10)] * 3, "user": [1, None, 99]})
    rows = build(LOG, {"query": [1, 2, 3], "item": [1, 2, 3]}, queries=queries)
    assert [rows[item]["user.click_count"] for item in (1, 2, 3)] == [3, None, 0]
    assert [rows[item]["user.days_since_last"] for item in (1, 2, 3)] == [pytest.approx(0.5 / 24), None, None]
    assert [rows[item]["user.item_count"] for item in (1, 2, 3)] == [2, None, 0]
    assert [rows[item]["cross.user_item_click_count"] for item in (1, 2, 3)] == [3, None, 0]


def test_user_when_their_items_have_categories_then_how_many_different_ones():
    events = [event(1, 1), event(2, 2), event(4, 3), event(5, 3), event(99, 4), event(3, 5, user=2), event(3, 10)]
    rows = build(events, ONE_QUERY, items=ITEMS)
    assert rows[1]["user.kind of_count"] == len({"hat", "shoe"})


def test_user_when_the_log_has_no_users_then_no_such_features():
    events = [{"item": 1, "hour": 1, "event": "click"}]
    log = make_log(clean(events).drop("user"))
    queries = pl.DataFrame({"query": [1], "timestamp": [at(10)]})
    fitted = fit_features(log, queries, pl.DataFrame({"query": [1], "item": [1]}), pool="shown", use=["*", "user.*"])
    assert not [name for name in fitted.names if name.startswith(("user.", "cross."))]


def test_features_when_all_events_come_after_the_last_query_then_nothing_is_known():
    rows = build([event(1, hour) for hour in (10, 11, 12)], ONE_QUERY)
    assert {row["item.popularity"] for row in rows.values()} == {0}
    assert {row["item.days_since_last"] for row in rows.values()} == {None}
    assert {row["cross.user_item_days_since_last"] for row in rows.values()} == {None}
    assert "item.click_count" not in rows[1]


def test_features_when_the_window_is_longer_than_the_log_then_all_of_history():
    rows = build(LOG, ONE_QUERY, windows=("900d",))
    assert all(row["item.click_count_900d"] == row["item.click_count"] for row in rows.values())


def test_features_when_there_is_one_kind_of_event_then_no_rates_and_no_repetition():
    names = build([event(1, 1), event(2, 2)], ONE_QUERY, shown="click")[1]
    assert "item.event_count" not in names
    assert "item.click_rate" not in names
    assert names["item.popularity"] == names["item.click_count"] == 1


ITEMS = pl.DataFrame(
    {
        "item": [1, 2, 3, 4, 5, 6],
        "kind of": ["hat", "hat", "shoe", "shoe", None, "hat"],
        "created_at": [at(-14), at(4), at(12), None, at(0), at(0)],
        "stars": [4, None, 2, 4, 1, 1],
        "sale": [True, False, None, True, True, False],
    }
)


def test_item_fields_when_joined_then_numbers_codes_and_ages():
    rows = build(LOG, {"query": [1] * 5, "item": [1, 2, 3, 4, 99]}, items=ITEMS)
    assert [rows[item]["item.stars"] for item in (1, 2, 3, 4, 99)] == [4, None, 2, 4, None]
    assert [rows[item]["item.sale"] for item in (1, 2, 3, 4, 99)] == [1, 0, None, 1, None]
    assert [rows[item]["item.kind of"] for item in (1, 2, 3, 4, 99)] == [1, 1, 2, 2, None]
    ages = [rows[item]["item.age_days"] for item in (1, 2, 3, 4, 99)]
    assert ages == [1.0, pytest.approx(0.25), None, None, None]


def test_item_fields_when_a_level_is_new_after_training_then_unknown():
    log = make_log(clean(LOG), items=ITEMS)
    queries = pl.DataFrame({"query": [1], "timestamp": [at(10)]})
    fitted = fit_features(log, queries, pl.DataFrame({"query": [1, 1], "item": [1, 2]}), pool="shown", use=["item.*"])
    later = build_table(log, queries, pl.DataFrame({"query": [1], "item": [3]}), fitted)
    assert fitted.levels == {"item.kind of": ("hat",)}
    assert later.frame["item.kind of"].to_list() == [0]
    assert later.frame["item.kind of"].dtype == pl.Int32
    spec = next(spec for spec in later.features if spec.name == "item.kind of")
    assert (spec.dtype, spec.categories) == ("category", ("hat",))


def test_fields_when_versioned_then_as_of_the_query():
    users = pl.DataFrame({"user": [1, 1], "valid_from": [at(0), at(10)], "points": [5, 7]})
    queries = pl.DataFrame({"query": [1, 2], "timestamp": [at(9), at(10)], "user": [1, 1]})
    rows = build(LOG, {"query": [1, 2], "item": [1, 2]}, queries=queries, users=users)
    assert [rows[item]["user.points"] for item in (1, 2)] == [5, 7]


def test_fields_when_integers_beyond_float32_then_refused_with_the_way_out():
    items = pl.DataFrame({"item": [1, 2], "seller": [2**24 + 1, 1]})
    with pytest.raises(DataError, match=r"'seller' holds integers beyond 2\^24; .*\"\*seller\*\" under features.drop"):
        build(LOG, ONE_QUERY, items=items)


def test_fields_when_called_like_a_feature_then_renamed():
    items = pl.DataFrame({"item": [1, 2], "click_count": [70, 80]})
    rows = build(LOG, ONE_QUERY, items=items)
    assert (rows[1]["item.click_count"], rows[1]["item.click_count_field"]) == (3, 70)


def test_cross_when_items_share_a_category_then_shares_of_the_user():
    rows = build(LOG, {"query": [1] * 3, "item": [2, 3, 5]}, items=ITEMS)
    assert rows[2]["cross.user_kind of_click_share"] == 1.0
    assert rows[3]["cross.user_kind of_click_share"] == 0.0
    assert rows[5]["cross.user_kind of_click_share"] is None
    assert [rows[item]["cross.user_last_kind of_same"] for item in (2, 3, 5)] == [1, 0, None]


def test_query_when_asked_then_how_many_candidates():
    assert build(LOG, ONE_QUERY)[1]["query.candidates"] == 3


def test_shown_when_logged_then_kept_and_the_position_never():
    fields = {"position": [1, 2, 3], "score": [0.5, None, 0.25], "relevance": [9.0, 9.0, 9.0]}
    rows = build(LOG, ONE_QUERY | fields)
    assert [rows[item]["shown.score"] for item in (1, 2, 3)] == [0.5, None, 0.25]
    assert not [name for name in rows[1] if "position" in name and "." in name]
    assert not [name for name in rows[1] if "relevance" in name]


@pytest.mark.parametrize("empty", [pl.Null, pl.String, pl.Int64])
def test_fields_when_a_number_is_given_for_no_row_then_missing_whatever_its_type(empty):
    items = pl.DataFrame({"item": [1, 2, 3], "stars": [1, 2, 3]})
    queries, pairs = pl.DataFrame({"query": [1], "timestamp": [at(10)]}), pl.DataFrame(ONE_QUERY)
    fitted = fit_features(make_log(clean(LOG), items=items), queries, pairs, pool="shown")
    log = make_log(clean(LOG), items=items.with_columns(stars=pl.lit(None, empty)))
    assert build_table(log, queries, pairs, fitted).frame["item.stars"].null_count() == 3


def test_kinds_when_first_seen_after_the_last_query_then_without_features():
    queries, pairs = pl.DataFrame({"query": [1], "timestamp": [at(10)]}), pl.DataFrame(ONE_QUERY)
    later = [event(1, 10, "refund", value=1.0), event(1, 11, "click", value=2.0)]
    fits = [
        fit_features(make_log(clean(events), shown="impression"), queries, pairs, pool="shown")
        for events in (LOG, LOG + later)
    ]
    assert fits[0] == fits[1]
    assert "item.click_count" in fits[0].names


def test_shown_when_a_field_is_the_truth_itself_then_no_feature_reads_it():
    candidates = pl.DataFrame(ONE_QUERY | {"clicked": [1, 0, 0], "price": [1.0, 2.0, 3.0]})
    queries = pl.DataFrame({"query": [1], "timestamp": [at(10)]})
    log = make_log(clean(LOG))
    names = [fit_features(log, queries, candidates, pool="shown", exclude=hidden).names for hidden in ((), ["clicked"])]
    told = set(names[0]) - set(names[1])
    assert {"shown.clicked", "query.clicked_rank"} < told == {name for name in names[0] if "clicked" in name}


def test_shown_when_a_number_is_nan_or_infinite_then_missing():
    rows = build(LOG, ONE_QUERY | {"score": [float("nan"), float("inf"), 1.0]})
    assert [rows[item]["shown.score"] for item in (1, 2, 3)] == [None, None, 1.0]


def test_query_fields_when_named_like_a_candidate_field_then_both_are_kept_apart():
    queries = pl.DataFrame({"query": [1], "timestamp": [at(10)], "user": [1], "score": [7.0]})
    rows = build(LOG, ONE_QUERY | {"score": [0.5, 0.5, 0.25]}, queries=queries)
    assert (rows[1]["query.score"], rows[1]["shown.score"]) == (7.0, 0.5)


@settings(deadline=None, max_examples=40)
@given(worlds())
def test_activity_when_counted_by_a_plain_loop_then_the_same(world: World):
    log, fitted = world.log(), world.fit()
    table = world.table(fitted)
    events = log.events.to_dicts()
    for row in table.frame.to_dicts():
        for kind in fitted.description.kinds:
            for window, suffix in ((None, ""), (timedelta(hours=3), "_3h")):
                known = {"kinds": (kind,), "window": window, "delay": log.delay}
                of_item = list(seen_before(events, row["timestamp"], entity={"item": row["item"]}, **known))
                assert row[f"item.{kind}_count{suffix}"] == len(of_item)
                of_user = list(seen_before(events, row["timestamp"], entity={"user": row["user"]}, **known))
                expected = None if row["user"] is None else len(of_user)
                assert row[f"user.{kind}_count{suffix}"] == expected
            both = {"user": row["user"], "item": row["item"]}
            of_pair = list(seen_before(events, row["timestamp"], entity=both, kinds=(kind,), delay=log.delay))
            assert row[f"cross.user_item_{kind}_count"] == (None if row["user"] is None else len(of_pair))


@settings(deadline=None, max_examples=20)
@given(worlds())
def test_features_when_built_then_of_the_promised_types_and_never_nan(world: World):
    table = world.table(world.fit())
    for spec in table.features:
        column = table.frame[spec.name]
        assert column.dtype == (pl.Int32 if spec.dtype == "category" else pl.Float32), spec.name
        assert spec.missing
        if spec.dtype == "float32":
            assert np.isfinite(column.drop_nulls().to_numpy()).all(), spec.name
        if spec.missing.startswith("never"):
            assert column.null_count() == 0, spec.name


@settings(deadline=None, max_examples=20)
@given(worlds())
def test_features_when_other_candidates_come_and_go_then_only_comparisons_change(world: World):
    fitted = world.fit()
    alone = replace(world, candidates=world.candidates.unique("query", keep="first", maintain_order=True))
    names = [spec.name for spec in world.table(fitted).features if not spec.name.startswith("query.")]
    few, many = alone.table(fitted).frame, world.table(fitted).frame
    same = many.join(few.select("query", "item"), on=["query", "item"], how="semi", maintain_order="left")
    assert same.select(names).equals(few.select(names))
