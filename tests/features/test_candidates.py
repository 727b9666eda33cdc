"""One pool for positives and negatives."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from features import candidates as module
from features.candidates import pool_candidates, sampled_candidates, shown_candidates
from features.errors import DataError
from features.fitted import fit_features
from features.log import make_log
from features.queries import queries_by_session
from features.relevance import tier_relevance
from features.table import build_table
from pipeline.metrics import ndcg_per_query
from tests.features.factories import at, clean, logged_queries

PAIRS = {"query": pl.Int64, "item": pl.Int64}


def shown(query: int, item: int, position: int, hour: float = 1, **fields: object) -> dict[str, object]:
    return {"query": query, "item": item, "hour": hour, "event": "impression", "position": position, **fields}


def test_shown_when_an_item_appears_twice_then_its_first_impression():
    rows = [shown(1, 7, 4, 2, price=9.0), shown(1, 7, 2, 1, price=5.0), shown(1, 8, 1, 1, price=6.0)]
    rows.append({"query": 1, "item": 9, "hour": 3, "event": "click"})
    positives = pl.DataFrame({"query": [1, 1], "item": [7, 9]})
    found = shown_candidates(logged_queries(rows), "impression", positives)
    assert found.frame.sort("item").rows() == [(1, 7, 2, 5.0), (1, 8, 1, 6.0)]
    assert found.frame.columns == ["query", "item", "position", "price"]
    assert found.counts == {"repeated_impressions": 1, "queries_without_candidates": 0, "unreachable_positives": 1}


def test_shown_when_a_query_saw_nothing_then_counted():
    rows = [shown(1, 7, 1), {"query": 2, "item": 7, "hour": 1, "event": "click"}]
    assert shown_candidates(logged_queries(rows), "impression").counts["queries_without_candidates"] == 1


def test_shown_when_the_kind_does_not_occur_then_refused():
    with pytest.raises(DataError, match=r"data.shown names the event kind 'view'"):
        shown_candidates(logged_queries([shown(1, 7, 1)]), "view")


@st.composite
def samplings(draw):
    """A log of items seen hour by hour, queries, and positives of which some are not seen yet."""
    seen = draw(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 9)), min_size=1, max_size=40))
    queries = draw(st.lists(st.integers(0, 10), min_size=1, max_size=4))
    chosen = draw(st.sets(st.tuples(st.integers(0, len(queries) - 1), st.integers(0, 30)), max_size=8))
    negatives = draw(st.integers(0, 12))
    log = make_log(clean([{"item": item, "hour": hour, "event": "click"} for item, hour in seen]))
    asked = pl.DataFrame({"query": range(len(queries)), "timestamp": [at(hour) for hour in queries]})
    return seen, log, asked, pl.DataFrame(sorted(chosen), schema=PAIRS, orient="row"), negatives


@settings(deadline=None, max_examples=80)
@given(samplings(), st.integers(0, 5), st.sampled_from([1, 8, 10**6]))
def test_sampled_when_drawn_then_right_in_number_pool_and_kind(sampling, seed, small):
    seen, log, asked, positives, negatives = sampling
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_SMALL", small)
        found = sampled_candidates(log, asked, positives, negatives=negatives, seed=seed)
    unreachable = fewer = 0
    for query, time in asked.iter_rows():
        pool = {item for item, hour in seen if at(hour) < time}
        wanted = set(positives.filter(pl.col("query") == query)["item"])
        items = found.frame.filter(pl.col("query") == query)["item"].to_list()
        assert len(items) == len(set(items))
        assert set(items) <= pool
        assert wanted & pool <= set(items)
        assert len(items) == len(wanted & pool) + min(negatives, len(pool - wanted))
        unreachable += len(wanted - pool)
        fewer += len(pool - wanted) < negatives
    assert found.counts["unreachable_positives"] == unreachable
    assert found.counts["queries_with_fewer_negatives"] == fewer


@settings(deadline=None, max_examples=40)
@given(samplings(), st.integers(0, 99))
def test_sampled_when_the_input_is_shuffled_or_cut_in_chunks_then_the_same_draw(sampling, seed):
    _, log, asked, positives, negatives = sampling
    first = sampled_candidates(log, asked, positives, negatives=negatives, seed=3).frame.sort("query", "item")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_CHUNK", 1)
        mixed = [frame.sample(fraction=1, shuffle=True, seed=seed) for frame in (asked, positives)]
        second = sampled_candidates(log, *mixed, negatives=negatives, seed=3).frame.sort("query", "item")
    assert first.equals(second)


def test_sampled_when_user_has_5_of_8_items_and_asks_for_4_then_3_true_negatives():
    log = make_log(clean([{"item": item, "hour": 0, "event": "click"} for item in range(8)]))
    asked = pl.DataFrame({"query": [1], "timestamp": [at(1)]})
    positives = pl.DataFrame({"query": [1] * 5, "item": range(5)})
    found = sampled_candidates(log, asked, positives, negatives=4)
    assert sorted(found.frame["item"]) == list(range(8))
    assert found.counts["queries_with_fewer_negatives"] == 1


@pytest.mark.parametrize("small", [1, 10**6])
def test_sampled_when_many_queries_then_every_item_as_often(small, monkeypatch):
    """30 draws of 100 items for 2000 queries: each count is binomial, six standard deviations are never reached."""
    monkeypatch.setattr(module, "_SMALL", small)
    log = make_log(clean([{"item": item, "hour": 0, "event": "click"} for item in range(100)]))
    asked = pl.DataFrame({"query": range(2000), "timestamp": [at(1)] * 2000})
    found = sampled_candidates(log, asked, pl.DataFrame(schema=PAIRS), negatives=30, seed=1)
    counts = np.bincount(found.frame["item"].to_numpy(), minlength=100)
    assert np.abs(counts - 2000 * 0.3).max() < 6 * np.sqrt(2000 * 0.3 * 0.7)


def test_sampled_when_another_seed_then_another_sample():
    log = make_log(clean([{"item": item, "hour": 0, "event": "click"} for item in range(100)]))
    asked = pl.DataFrame({"query": [1], "timestamp": [at(1)]})
    draws = [
        sampled_candidates(log, asked, pl.DataFrame(schema=PAIRS), negatives=5, seed=seed).frame for seed in (0, 1)
    ]
    assert not draws[0].equals(draws[1])


def test_pool_when_asked_then_all_that_exists_strictly_before():
    log = make_log(clean([{"item": item, "hour": item, "event": "click"} for item in (1, 2, 3)]))
    asked = pl.DataFrame({"query": ["a", "b"], "timestamp": [at(3), at(1)]})
    found = pool_candidates(log, asked)
    assert sorted(found.frame.rows()) == [("a", 1), ("a", 2)]
    assert found.counts["queries_without_candidates"] == 1


def growing_shop():
    """A catalogue that grows all the time, of which users click anything that exists, in sessions."""
    rng = np.random.default_rng(5)
    born = np.sort(rng.uniform(0, 400, 1500))
    hours = np.sort(rng.uniform(20, 400, 3000))
    items = (rng.random(3000) * np.searchsorted(born, hours)).astype(int)
    events = [
        {"item": int(item), "user": int(user), "hour": float(hour), "event": "click"}
        for item, hour, user in zip(items, hours, rng.integers(0, 200, 3000), strict=True)
    ]
    return clean(events), pl.DataFrame({"item": range(1500), "created_at": [at(float(hour)) for hour in born]})


def flag_against_random(table: pl.DataFrame) -> np.ndarray:
    """Per query NDCG@10 of "has no history" alone, less that of no score at all."""
    groups = table["query"].rle().struct.field("len").to_numpy()
    relevance = table["relevance"].to_numpy()
    flag = (table["item.click_count"] == 0).to_numpy().astype(float)
    by_flag, by_chance = (ndcg_per_query(scores, relevance, groups, 10) for scores in (flag, np.zeros_like(flag)))
    difference = by_flag - by_chance
    return difference[~np.isnan(difference)]


@pytest.mark.parametrize("with_catalogue", [True, False])
def test_no_history_flag_when_alone_on_sampled_candidates_then_ranks_like_random(with_catalogue):
    events, items = growing_shop()
    log = make_log(events, items=items if with_catalogue else None)
    queries = queries_by_session(log.events, gap=timedelta(hours=8))
    truth = tier_relevance(queries, {"click": 1})
    found = sampled_candidates(log, queries.frame, truth.positives, negatives=20)
    fitted = fit_features(log, queries.frame, found.frame, pool="sampled", use=["item.click_count"])
    table = build_table(log, queries.frame, found.frame, fitted, relevance=truth.frame).frame
    difference = flag_against_random(table)
    assert len(difference) > 500
    assert abs(difference.mean()) <= 3 * difference.std() / np.sqrt(len(difference))
    if with_catalogue:
        two_pools = table.filter((pl.col("relevance") > 0) | (pl.col("item.click_count") > 0))
        assert flag_against_random(two_pools).mean() > 0.1, "this test could not see two pools"
    else:
        assert found.counts["unreachable_positives"] > 500
