"""Cheap rivals, so that no figure stands alone: a column, an expression, the best single feature, an earlier package.

Each gives scores (N,) float64, higher = better; a missing value ranks last.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from features.custom import evaluate_expression
from features.errors import PackageError
from pipeline.dataset import RankingDataset
from pipeline.metrics import Convention, ndcg_per_query
from pipeline.scorer import Scorer

Floats = npt.NDArray[np.float64]

SPREAD = 1e-12
"""A feature whose values move its ndcg by less than this says nothing."""


def random_scores(dataset: RankingDataset) -> Floats:
    """All equal: judged with ties averaged, this is the exact expectation of a random order, without a draw."""
    return np.zeros(dataset.rows)


def column_scores(values: pl.Series, *, descending: bool = True) -> Floats:
    """(N,) any numbers -> (N,) scores by dense rank, so that ties stay ties; null and NaN rank last."""
    numbers = values.cast(pl.Float64).fill_nan(None)
    return (numbers if descending else -numbers).rank("dense").cast(pl.Float64).fill_null(0.0).to_numpy()


def best_feature(valid: RankingDataset, k: int, convention: Convention) -> tuple[str, bool]:
    """The numeric feature that ranks the validation queries best by ndcg@k, and whether high values rank first."""
    found: tuple[float, str, bool] = (-1.0, "", True)
    for feature in valid.schema.features:
        if feature.dtype == "category":
            continue
        for descending in (True, False):
            scores = column_scores(valid.features[feature.name], descending=descending)
            values = ndcg_per_query(scores, valid.relevance, valid.sizes, k, convention=convention)
            mean = float(np.nanmean(values))
            if mean > found[0] + SPREAD:
                found = (mean, feature.name, descending)
    return found[1], found[2]


def expression_scores(dataset: RankingDataset, name: str, expression: str) -> Floats:
    """A column by its very name, or a SQL expression over features and fields as in `features.custom`.

    Raises ConfigError for an unknown column and for what gives no number per row.
    """
    frame = pl.concat([dataset.keys, dataset.features], how="horizontal")
    if expression in frame.columns and frame.schema[expression].is_numeric():
        return column_scores(frame[expression])
    return column_scores(evaluate_expression(f"baselines.{name}", expression, frame.get_column, frame.columns))


def package_scores(dataset: RankingDataset, folder: Path) -> Floats:
    """The scores of an earlier package on the same rows. Raises PackageError where its features are not all there."""
    return Scorer.load(folder).score_features(pl.concat([dataset.keys, dataset.features], how="horizontal"))


def named_scores(dataset: RankingDataset, name: str, what: str) -> Floats:
    """`what` of `[baselines] name = what`: the folder of a package, else a column or an expression."""
    folder = Path(what)
    if (folder / "manifest.json").is_file():
        try:
            return package_scores(dataset, folder)
        except PackageError as error:
            raise PackageError(f"baselines.{name}: {error.found}", expected=error.expected, fix=error.fix) from error
    return expression_scores(dataset, name, what)
