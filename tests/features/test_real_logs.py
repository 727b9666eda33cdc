"""The whole way from three public logs to a table. Skipped where they are not at hand."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest

from features.candidates import pool_candidates, sampled_candidates
from features.catalogues import read_items
from features.events import EventLog, read_events
from features.fitted import fit_features
from features.log import make_log
from features.queries import queries_by_session, queries_by_user_day
from features.relevance import rating_relevance, tier_relevance
from features.table import build_table

DATA = Path(__file__).parents[3] / "shared" / "data"
pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason=f"needs the public logs in {DATA.name}, beside the checkout")

DESKDROP_COLUMNS = {"item": "contentId", "user": "personId", "event": "eventType", "session": "sessionId"}
TIERS = {"VIEW": 1, "LIKE": 2, "BOOKMARK": 3, "FOLLOW": 4, "COMMENT CREATED": 4}


@pytest.fixture(scope="module")
def deskdrop() -> EventLog:
    return read_events(DATA / "deskdrop" / "interactions.csv.gz", columns=DESKDROP_COLUMNS)


def test_deskdrop_when_read_then_sorted_deduplicated_and_counted(deskdrop):
    raw = pl.read_csv(DATA / "deskdrop" / "interactions.csv.gz")
    assert deskdrop.read == raw.height == 72_312
    assert deskdrop.events.height == raw.unique().height
    assert deskdrop.counts == {"duplicate": raw.height - raw.unique().height}
    assert deskdrop.events["timestamp"].is_sorted()
    assert not raw["timestamp"].is_sorted()
    assert deskdrop.events["item"].min() < 0


def test_deskdrop_when_sessions_are_queries_then_a_table_with_sampled_negatives(deskdrop):
    log = make_log(deskdrop.events)
    queries = queries_by_session(log.events)
    assert queries.frame.height == 28_740
    truth = tier_relevance(queries, TIERS)
    late = queries.frame.filter(pl.col("timestamp") > datetime(2017, 1, 15, tzinfo=UTC))
    found = sampled_candidates(log, late, truth.positives, negatives=50, seed=7)
    assert found.counts["queries_with_fewer_negatives"] == 0
    assert found.counts["unreachable_positives"] > 0
    fitted = fit_features(log, late, found.frame, pool="sampled")
    table = build_table(log, late, found.frame, fitted, relevance=truth.frame)
    sizes = table.frame.group_by("query").agg(pl.len(), (pl.col("relevance") > 0).sum().alias("positives"))
    assert (sizes["len"] - sizes["positives"] == 50).all()
    assert set(table.frame["relevance"].unique()) == {0.0, 1.0, 2.0, 3.0, 4.0}
    assert {"item.comment_created_count_7d", "cross.user_item_view_count"} <= set(table.feature_names)
    assert table.frame["item.view_count"].null_count() == 0


def test_movielens_when_user_days_are_queries_then_most_ratings_fall_on_the_first(tmp_path):
    ratings = DATA / "movielens" / "ratings.csv"
    log = read_events(ratings, columns={"item": "movieId", "user": "userId", "value": "rating"}, event="rating")
    movies = read_items(DATA / "movielens" / "movies.csv", columns={"item": "movieId"})
    assert (log.read, log.counts, movies.height) == (100_004, {}, 9_125)
    queries = queries_by_user_day(make_log(log.events, items=movies).events)
    days = queries.frame.sort("timestamp").with_columns(first=pl.col("query").first().over("user"))
    on_first = queries.events.join(days, on="query")["query"].is_in(days["first"].unique().implode()).mean()
    assert on_first == pytest.approx(0.57, abs=0.01)
    truth = rating_relevance(queries, grades={0.5: 0.0, 1.0: 0.0})
    assert truth.frame["relevance"].min() == 0.0
    assert truth.frame["relevance"].max() == 5.0
    assert truth.frame.height == 100_004


def test_otto_when_flattened_by_one_line_then_a_log(tmp_path):
    nested = pl.scan_ndjson(DATA / "otto" / "sessions.jsonl")
    log = read_events(
        nested.explode("events").unnest("events"), columns={"item": "aid", "timestamp": "ts", "event": "type"}
    )
    kinds = dict(log.events["event"].cast(pl.String).value_counts().iter_rows())
    assert kinds == {"clicks": 800, "carts": 52, "orders": 10}
    queries = queries_by_session(log.events)
    assert queries.frame.height == 20
    assert pool_candidates(make_log(log.events), queries.frame).frame.n_unique("query") < 20
