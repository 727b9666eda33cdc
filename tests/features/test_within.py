"""The request by itself, and its candidates beside each other: formulas, and nothing where candidates are sampled."""

from __future__ import annotations

from math import log1p
from statistics import fmean, median, pstdev

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from features.description import Options
from features.fitted import fit_features
from features.log import make_log
from features.table import build_table
from tests.features.factories import at, clean
from tests.features.oracles import average_rank

EVENTS = [{"item": 2, "hour": 1, "event": "click"}, {"item": 1, "hour": 2, "event": "click"}]


def build(candidates, *, hours=10, pool="shown", items=None, options=Options()):  # noqa: B008
    """Rows by item of queries asked at `hours`."""
    frame = pl.DataFrame(candidates)
    queries = frame.select("query").unique().with_columns(timestamp=pl.lit(at(hours)))
    log = make_log(clean(EVENTS), items=items)
    fitted = fit_features(log, queries, frame, pool=pool, options=options)
    rows = build_table(log, queries, frame, fitted).frame.sort("item").to_dicts()
    return {row["item"]: row for row in rows}


def expected(prices: list[float | None]) -> dict[str, list[float | None]]:
    known = [price for price in prices if price is not None]
    total, spread = sum(abs(price) for price in known), pstdev(known) if known else 0
    formulas = {
        "z": lambda price: (price - fmean(known)) / spread if len(set(known)) > 1 else 0.0,
        "above_lowest": lambda price: price - min(known),
        "below_highest": lambda price: max(known) - price,
        "from_median": lambda price: price - median(known),
        "share": lambda price: price / total if total else None,
    }
    found = {
        name: [None if price is None else formula(price) for price in prices] for name, formula in formulas.items()
    }
    return found | {"rank": average_rank(prices)}


@settings(deadline=None, max_examples=25)
@given(st.lists(st.none() | st.sampled_from([-2.0, 0.0, 1.0, 1.5, 40.0]), min_size=1, max_size=6))
def test_numbers_when_beside_each_other_then_as_the_formulas_say(prices):
    count = len(prices)
    candidates = {"query": [1] * count + [2], "item": range(count + 1), "price": [*prices, 8.0]}
    rows = build(pl.DataFrame(candidates, schema_overrides={"price": pl.Float64}))
    for name, values in expected(prices).items():
        found = [rows[item][f"query.price_{name}"] for item in range(count)]
        assert found == [value if value is None else pytest.approx(value, abs=1e-6) for value in values], name
    alone = rows[count]
    assert (alone["query.price_z"], alone["query.price_rank"], alone["query.price_share"]) == (0.0, 1.0, 1.0)


def test_numbers_when_all_equal_then_zero_and_not_noise():
    rows = build({"query": [1] * 7, "item": range(7), "price": [0.1] * 7})
    assert {row["query.price_z"] for row in rows.values()} == {0.0}


def test_numbers_when_shown_and_in_the_catalogue_then_what_was_shown_is_compared():
    items = pl.DataFrame({"item": [1, 2], "price": [9.0, 1.0], "weight": [3.0, 4.0]})
    rows = build({"query": [1, 1], "item": [1, 2], "price": [2.0, 5.0]}, items=items)
    assert [rows[item]["query.price_rank"] for item in (1, 2)] == [1, 2]
    assert [rows[item]["query.weight_rank"] for item in (1, 2)] == [1, 2]
    assert [rows[item]["item.price"] for item in (1, 2)] == [9.0, 1.0]


def test_logarithm_when_negative_then_signed():
    rows = build({"query": [1] * 3, "item": [1, 2, 3], "price": [-3.0, 0.0, None]})
    assert [rows[item]["shown.price_log"] for item in (1, 2, 3)] == [pytest.approx(-log1p(3.0)), 0.0, None]


def test_popularity_when_compared_then_like_any_number():
    rows = build({"query": [1] * 3, "item": [1, 2, 3]})
    assert [rows[item]["query.popularity_rank"] for item in (1, 2, 3)] == [2.5, 2.5, 1]
    assert [rows[item]["query.popularity_share"] for item in (1, 2, 3)] == [0.5, 0.5, 0]


def test_categories_when_shared_then_the_part_of_the_candidates_that_have_them():
    items = pl.DataFrame({"item": range(5), "brand": ["a", "a", "b", None, None]})
    rows = build({"query": [1] * 4 + [2], "item": [0, 1, 2, 3, 4]}, items=items)
    assert [rows[item]["query.brand_share"] for item in range(5)] == [2 / 4, 2 / 4, 1 / 4, None, None]


def test_channels_when_one_did_not_return_the_item_then_missing_and_counted():
    scores = {"bm25_score": [0.5, 2.0, None], "vector_rank": [2, None, 1], "price": [1.0, 2.0, 3.0]}
    rows = build({"query": [1] * 3, "item": [1, 2, 3], **scores})
    assert [rows[item]["query.bm25_score_place"] for item in (1, 2, 3)] == [2, 1, None]
    assert [rows[item]["query.vector_rank_place"] for item in (1, 2, 3)] == [2, None, 1]
    assert [rows[item]["shown.channels"] for item in (1, 2, 3)] == [2, 1, 1]
    assert [rows[item]["shown.bm25_score"] for item in (1, 2, 3)] == [0.5, 2.0, None]
    assert "query.price_place" not in rows[1]
    named = build({"query": [1] * 3, "item": [1, 2, 3], **scores}, options=Options(channels=("price",)))
    assert [named[item]["query.price_place"] for item in (1, 2, 3)] == [3, 2, 1]
    assert "shown.channels" not in named[1]


def test_candidates_when_sampled_then_nothing_is_compared():
    items = pl.DataFrame({"item": [1, 2], "brand": ["a", "a"], "price": [1, 2]})
    rows = build({"query": [1, 1], "item": [1, 2]}, items=items, pool="sampled")
    found = {name for name in rows[1] if name.startswith("query.")}
    assert found == {"query.hour", "query.weekday", "query.weekend", "query.day", "query.month"}


@pytest.mark.parametrize(
    ("zone", "hours", "clock"),
    [
        ("UTC", 10.5, {"hour": 10.5, "weekday": 1, "weekend": 0, "day": 1, "month": 1}),
        ("America/New_York", 2, {"hour": 21, "weekday": 7, "weekend": 1, "day": 31, "month": 12}),
        ("Asia/Kolkata", 20, {"hour": 1.5, "weekday": 2, "weekend": 0, "day": 2, "month": 1}),
        ("Europe/Lisbon", 24 * 182 + 12, {"hour": 13, "weekday": 1, "weekend": 0, "day": 1, "month": 7}),
    ],
)
def test_clock_when_asked_somewhere_then_the_local_time(zone, hours, clock):
    rows = build({"query": [1], "item": [1]}, hours=hours, options=Options(zone=zone))
    assert {name: rows[1][f"query.{name}"] for name in clock} == clock


def test_clock_when_the_query_names_its_zone_then_the_time_there():
    zones = ["Asia/Kolkata", "Europe/Lisbon", "Atlantis/Poseidonis", None]
    queries = pl.DataFrame({"query": range(4), "timestamp": [at(20)] * 4, "zone": zones})
    pairs, log = pl.DataFrame({"query": range(4), "item": [1] * 4}), make_log(clean(EVENTS))
    fitted = fit_features(log, queries, pairs, pool="shown", options=Options(zone="America/New_York"))
    rows = build_table(log, queries, pairs, fitted).frame.sort("query")
    assert rows["query.hour"].to_list() == [1.5, 20, 15, 15]
    assert rows["query.day"].to_list() == [2, 1, 1, 1]
