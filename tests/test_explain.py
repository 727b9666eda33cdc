"""Explanations: the parts sum to what they explain, and what ranks nothing counts for nothing."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from pipeline.booster import gain_importance, load_model, predict, train_booster
from pipeline.explain import dependence, explain_rows, rank_importance, summed, why_above
from pipeline.findings import spread
from tests.factories import dataset_of, ranking_frame


@pytest.fixture(scope="module")
def trained() -> tuple[object, object]:
    """A model of `a`, `b` and `of_query`, which is the same for all items of a query."""
    frame = ranking_frame(150).with_columns(of_query=(pl.col("query") % 5).cast(pl.Float64))
    dataset = dataset_of(frame)
    found = train_booster(
        dataset, dataset, params={"objective": "lambdarank", "num_threads": 1, "num_leaves": 7}, rounds=20, ks=[5]
    )
    return load_model(found.model_text), dataset


def test_shares_and_base_sum_to_the_score(trained: tuple[object, object]) -> None:
    booster, dataset = trained
    explained = explain_rows(booster, dataset)
    assert explained.shares.shape == (dataset.rows, 4)
    assert explained.scores == pytest.approx(predict(booster, dataset.features), abs=1e-9)


def test_why_above_sums_to_the_difference_of_the_scores(trained: tuple[object, object]) -> None:
    booster, dataset = trained
    explained = explain_rows(booster, dataset)
    scores = predict(booster, dataset.features)
    for upper, lower in ((0, 1), (5, 2), (7, 7)):
        parts = why_above(explained, upper, lower, dataset.features)
        lead = scores[upper] - scores[lower]
        assert sum(part.share for part in parts) == pytest.approx(lead, abs=1e-9)
        assert sum(part.share for part in summed(parts, 2)) == pytest.approx(lead, abs=1e-9)
        assert [abs(part.share) for part in parts] == sorted((abs(part.share) for part in parts), reverse=True)
    assert summed(parts, 2)[-1].feature == "2 other features"


def test_importance_is_of_what_moves_items_within_a_query(trained: tuple[object, object]) -> None:
    booster, dataset = trained
    found = rank_importance(booster, explain_rows(booster, dataset))
    order = [each.feature for each in found]
    assert set(order[:2]) == {"a", "b"}
    assert sum(each.gain for each in found) == pytest.approx(1.0)
    by_name = dict(zip(dataset.schema.names, gain_importance(booster), strict=True))
    assert max(by_name, key=by_name.get) in order[:2]


def test_dependence_rises_where_the_truth_does(trained: tuple[object, object]) -> None:
    booster, dataset = trained
    values, shares = dependence(explain_rows(booster, dataset), "a")
    assert np.corrcoef(values.to_numpy(), shares)[0, 1] > 0.7


def test_spread_keeps_whole_queries(trained: tuple[object, object]) -> None:
    _, dataset = trained
    few = spread(dataset, 80)
    assert (few.rows, len(few.sizes)) == (80, 10)
    assert spread(dataset, 10**6) is dataset
    assert len(spread(dataset, 1).sizes) == 1
