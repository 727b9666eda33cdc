"""Rows in an order that nobody's labels can influence, and tables built from a log."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from features.errors import DataError
from features.fitted import Fitted
from features.rows import join_rows
from features.table import Table, build_table, order_rows
from tests.features.factories import at, queries_frame
from tests.features.test_time import EVERYTHING_AT_ONCE

PAIRS = st.lists(st.tuples(st.integers(-(2**62), 2**62), st.integers(0, 5)), min_size=1, max_size=40, unique=True)
LOG = EVERYTHING_AT_ONCE.log()


@settings(deadline=None, max_examples=50)
@given(PAIRS, st.randoms())
def test_order_rows_when_shuffled_then_same_rows(pairs, random):
    frame = pl.DataFrame(pairs, schema={"query": pl.Int64, "item": pl.Int64}, orient="row")
    shuffled = list(pairs)
    random.shuffle(shuffled)
    again = pl.DataFrame(shuffled, schema=frame.schema, orient="row")
    assert order_rows(frame).equals(order_rows(again))


def test_order_rows_when_sorted_by_label_then_label_does_not_matter():
    frame = pl.DataFrame({"query": [1] * 6, "item": list("abcdef"), "relevance": [5.0, 4.0, 3.0, 2.0, 1.0, 0.0]})
    best_first, worst_first = frame.sort("relevance", descending=True), frame.sort("relevance")
    assert order_rows(best_first).equals(order_rows(worst_first))
    assert order_rows(frame)["relevance"].to_list() != sorted(frame["relevance"], reverse=True)


def test_order_rows_when_query_spans_times_then_stays_together_at_its_earliest():
    frame = pl.DataFrame({"query": ["q", "p", "q"], "item": [1, 2, 3], "timestamp": [1, 2, 9]})
    assert order_rows(frame)["query"].to_list() == ["q", "q", "p"]


def test_order_rows_when_no_time_then_by_query():
    frame = pl.DataFrame({"query": [7, -3, 5, -3], "item": [1, 1, 1, 2]})
    assert order_rows(frame)["query"].to_list() == [-3, -3, 5, 7]


def queries(**columns: object) -> pl.DataFrame:
    return pl.DataFrame({"query": [2, 1], "timestamp": [at(5), at(5)], "user": [0, None], **columns})


def candidates(**columns: object) -> pl.DataFrame:
    return pl.DataFrame({"query": [1, 2, 1, 3], "item": [5, 5, 6, 5], **columns})


def test_rows_when_joined_then_one_per_candidate_of_a_known_query():
    relevance = pl.DataFrame({"query": [1, 2], "item": [6, 99], "relevance": [2.0, 1.0]})
    rows = join_rows(LOG, queries(text=["a", "b"]), candidates(price=[1, 2, 3, 4]), relevance)
    assert rows.sort("query", "item").rows(named=True) == [
        {"query": 1, "item": 5, "price": 1, "timestamp": at(5), "user": None, "text": "b", "relevance": 0.0},
        {"query": 1, "item": 6, "price": 3, "timestamp": at(5), "user": None, "text": "b", "relevance": 2.0},
        {"query": 2, "item": 5, "price": 2, "timestamp": at(5), "user": 0, "text": "a", "relevance": 0.0},
    ]
    assert rows["query"].rle().len() == 2


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 10**6))
def test_rows_when_relevance_changes_then_the_order_does_not(seed):
    pairs = pl.DataFrame({"query": [1] * 8, "item": range(8)})
    asked = pl.DataFrame({"query": [1], "timestamp": [at(5)]})
    grades = pl.Series("relevance", range(8), dtype=pl.Float64).sample(fraction=1, shuffle=True, seed=seed)
    mixed = pairs.with_columns(grades).sort("relevance")
    rows = join_rows(LOG, asked, mixed.drop("relevance"), mixed)
    assert rows["item"].to_list() == join_rows(LOG, asked, pairs)["item"].to_list()


def test_rows_when_ids_of_a_request_are_text_then_as_in_the_log():
    asked = pl.DataFrame({"query": ["r1"], "timestamp": [at(5)], "user": ["0"]})
    rows = join_rows(LOG, asked, pl.DataFrame({"query": ["r1", "r1"], "item": ["0", "1"]}))
    assert rows["item"].dtype == LOG.events["item"].dtype
    assert sorted(rows["item"]) == [0, 1]
    assert rows["user"].to_list() == [0, 0]


def test_rows_when_an_id_is_none_that_the_log_could_hold_then_kept_as_given_and_without_history():
    world = EVERYTHING_AT_ONCE
    given = pl.DataFrame(
        {"query": ["r"] * 4, "item": ["0", "007", "zz", "qq"], "price": [1.0] * 4, "badge": ["new"] * 4}
    )
    own = pl.DataFrame({"query": ["r"], "timestamp": [at(5)], "user": ["nobody"]})
    asked = own.hstack(queries_frame([0]).drop("query"))
    rows = {row["item"]: row for row in build_table(world.log(), asked, given, world.fit()).frame.to_dicts()}
    assert rows.keys() == {"0", "007", "zz", "qq"}
    assert rows["0"]["item.event_count"] > 0
    assert rows["0"]["item.weight"] == 1.0
    for unknown in ("007", "zz", "qq"):
        assert (rows[unknown]["item.event_count"], rows[unknown]["item.weight"]) == (0, None)
        assert (rows[unknown]["user"], rows[unknown]["user.event_count"]) == ("nobody", 0)


OURS = {"relevance": 9.0, "judged": False, "popularity": -1.0, "item": 9, "position": 9}


@pytest.mark.parametrize("name", OURS)
def test_table_when_a_field_is_called_like_a_column_of_ours_then_ours_stands(name):
    world = EVERYTHING_AT_ONCE
    truth = world.candidates.select("query", "item", relevance=pl.int_range(pl.len()).cast(pl.Float64))
    fitted = world.fit()
    plain = build_table(world.log(), world.queries, world.candidates, fitted, relevance=truth).frame
    namesake = pl.lit(OURS[name]).alias(name)
    queries, candidates = world.queries.with_columns(namesake), world.candidates
    if name not in ("item", "position"):
        candidates = candidates.with_columns(namesake)
    table = build_table(world.log(), queries, candidates, fitted, relevance=truth).frame
    assert table.select(plain.columns).equals(plain)
    assert not {"judged", "position"} & set(table.columns)


def test_table_when_neither_log_nor_requests_know_users_or_values_then_all_are_unknown():
    world = EVERYTHING_AT_ONCE
    anonymous = replace(world, events=world.events.drop("user", "value"), queries=world.queries.drop("user"))
    frame = anonymous.table(world.fit()).frame
    assert frame.height > 0
    assert (
        frame.select(pl.col("^user.*$", "^cross.user.*$").is_null().all()).row(0)
        == (True,) * frame.select(pl.col("^user.*$", "^cross.user.*$")).width
    )
    assert frame["item.user_count"].to_list() == [0] * frame.height
    assert frame["item.purchase_value_sum"].to_list() == [0] * frame.height
    assert frame["item.purchase_value_mean"].null_count() == frame.height


@pytest.mark.parametrize(
    ("asked", "offered", "message"),
    [
        (queries().drop("timestamp"), candidates(), "queries without a timestamp"),
        (queries(timestamp=[at(1), None]), candidates(), "queries without a timestamp"),
        (pl.concat([queries(), queries()]), candidates(), "a query stands twice in the queries"),
        (queries(), pl.concat([candidates(), candidates()]), "3 candidates are in their query twice"),
    ],
)
def test_rows_when_the_input_would_multiply_or_lose_them_then_refused(asked, offered, message):
    with pytest.raises(DataError, match=message):
        join_rows(LOG, asked, offered)


def test_table_when_built_for_requests_then_unlabelled_and_the_same_features():
    fitted = EVERYTHING_AT_ONCE.fit()
    table = EVERYTHING_AT_ONCE.table(fitted)
    labels = EVERYTHING_AT_ONCE.candidates.select("query", "item", relevance=pl.lit(1.0))
    world = EVERYTHING_AT_ONCE
    labelled = build_table(world.log(), world.queries, world.candidates, fitted, relevance=labels)
    assert (table.labelled, labelled.labelled) == (False, True)
    assert labelled.frame.select(table.frame.columns).equals(table.frame)
    assert {"popularity", "text", "device", "price", "badge"} <= set(table.frame.columns)
    assert isinstance(table, Table)


def test_table_when_a_field_of_training_is_gone_then_named():
    fitted: Fitted = EVERYTHING_AT_ONCE.fit()
    world = EVERYTHING_AT_ONCE
    with pytest.raises(DataError, match="the candidates have no field 'badge'; expected every field"):
        build_table(world.log(), world.queries, world.candidates.drop("badge"), fitted)
    without_weight = replace(world, items=world.items.drop("weight"))
    with pytest.raises(DataError, match="the items have no field 'weight'"):
        without_weight.table(fitted)
    undated = replace(world, users=world.users.with_columns(points=pl.lit("many")))
    with pytest.raises(DataError, match="field 'points' is of type String; expected numbers"):
        undated.table(fitted)


def test_table_when_nothing_is_asked_then_empty_but_whole():
    world = EVERYTHING_AT_ONCE
    fitted = world.fit()
    table = build_table(world.log(), world.queries.clear(), world.candidates.clear(), fitted)
    assert table.frame.height == 0
    assert set(table.feature_names) <= set(table.frame.columns)
