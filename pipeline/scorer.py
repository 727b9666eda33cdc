"""A package at work: scores for rows, ranked lists for queries. Needs no training code."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from features.categories import count_unknown
from features.columns import ITEM, QUERY, RANK, SCORE
from features.errors import DataError
from features.table import order_rows
from pipeline.booster import Booster, load_model, predict
from pipeline.package import Package, load_package

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Scorer:
    """`Scorer.load(folder)`, then `.score(frame)` or `.rank(frame, top=10)`.

    Feature columns are found by name, in any order and among others; a missing or renamed one is refused. A category
    level that training never saw counts as "unknown", and is counted in `unknown_levels`.
    """

    package: Package
    booster: Booster = field(repr=False)
    threads: int = 1

    @classmethod
    def load(cls, folder: Path | str, *, threads: int = 1) -> Scorer:
        """Checks the package and loads its model. Raises PackageError."""
        package = load_package(Path(folder))
        return cls(package, load_model(package.model_text), threads)

    def score(self, frame: pl.DataFrame) -> Floats:
        """(N,) scores in the order of the rows of `frame`; higher ranks first, only differences within a query count.

        Category columns hold levels. Raises PackageError for missing columns, DataError for what no feature can be.
        """
        return self.score_features(self.package.schema.encode(frame))

    def score_features(self, frame: pl.DataFrame) -> Floats:
        """As `score`, for a frame whose category columns hold codes already."""
        return predict(self.booster, self.package.schema.select(frame), threads=self.threads)

    def rank(self, frame: pl.DataFrame, *, top: int | None = None) -> pl.DataFrame:
        """query, item, rank (1 = best), score: every query's items in order, the best `top` of each.

        Tied scores keep the fixed order of (query, item), whatever the order of the input.
        """
        missing = [name for name in (QUERY, ITEM) if name not in frame.columns]
        if missing:
            raise DataError(
                f"no column {' and '.join(missing)}",
                expected="query and item ids beside the features",
                fix="add them, or rename yours",
            )
        ordered = order_rows(frame)
        scored = ordered.select(QUERY, ITEM).with_columns(pl.Series(SCORE, self.score(ordered), dtype=pl.Float64))
        rank = pl.col(SCORE).rank("ordinal", descending=True).over(QUERY)
        ranked = scored.with_row_index("row").with_columns(rank.alias(RANK), first=pl.col("row").min().over(QUERY))
        best = ranked if top is None else ranked.filter(pl.col(RANK) <= top)
        return best.sort("first", RANK).select(QUERY, ITEM, RANK, SCORE)

    def unknown_levels(self, frame: pl.DataFrame) -> dict[str, int]:
        """How many rows of `frame` carry a level that training never saw, per category that has any."""
        encoded = self.package.schema.encode(frame)
        counts = {name: count_unknown(encoded[name]) for name in self.package.schema.categorical}
        return {name: count for name, count in counts.items() if count}
