"""Cheap rivals: the exact expectation of a random order, columns with missing values, expressions, the best feature."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from features.errors import ConfigError, PackageError
from pipeline.baselines import best_feature, column_scores, expression_scores, named_scores, random_scores
from pipeline.metrics import Convention, ndcg_per_query
from pipeline.results import RANDOM, judge
from tests.factories import dataset_of, ranking_frame


def test_random_is_the_mean_over_many_shuffles() -> None:
    dataset = dataset_of(ranking_frame(5, 6))
    convention = Convention.named("lightgbm")
    exact = judge(dataset, {RANDOM: random_scores(dataset)}, [3], convention, 7).values[RANDOM][0]
    rng = np.random.default_rng(0)
    drawn = [
        ndcg_per_query(rng.random(dataset.rows), dataset.relevance, dataset.sizes, 3, convention=convention)
        for _ in range(20_000)
    ]
    assert np.mean(drawn, axis=0) == pytest.approx(exact, abs=0.01)


def test_missing_values_rank_last_in_both_directions() -> None:
    values = pl.Series([2.0, None, float("nan"), -5.0, 2.0])
    assert column_scores(values).tolist() == [2.0, 0.0, 0.0, 1.0, 2.0]
    assert column_scores(values, descending=False).tolist() == [1.0, 0.0, 0.0, 2.0, 1.0]


def test_the_best_feature_is_found_with_its_direction() -> None:
    frame = ranking_frame(80).with_columns(a=-pl.col("a") - pl.col("b"))
    assert best_feature(dataset_of(frame), 5, Convention()) == ("a", False)


def test_expressions_read_features_and_fields_with_dots_as_underscores() -> None:
    frame = ranking_frame(10).rename({"a": "item.age_days"})
    dataset = dataset_of(frame)
    by_expression = expression_scores(dataset, "newest", "-item_age_days")
    assert np.array_equal(by_expression, column_scores(-dataset.features["item.age_days"]))


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("agee", "names the column 'agee'"),
        ("sum(a)", "mixes rows"),
        ("a +", "cannot be read"),
        ("7", "names no column"),
    ],
)
def test_expressions_that_give_no_number_per_row_are_refused(expression: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        expression_scores(dataset_of(ranking_frame(10)), "rival", expression)


def test_a_package_that_does_not_fit_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "old"
    folder.mkdir()
    (folder / "manifest.json").write_text("{}")
    with pytest.raises(PackageError, match=r"baselines\.earlier"):
        named_scores(dataset_of(ranking_frame(10)), "earlier", str(folder))
