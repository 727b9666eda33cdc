"""A package at work: scores for rows, ranked lists for queries. Needs no training code."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from numbers import Integral
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from features.categories import count_unknown
from features.columns import ITEM, QUERY, RANK, SCORE, TIMESTAMP
from features.errors import ConfigError, DataError
from features.table import order_rows
from pipeline.booster import Booster, load_model, predict
from pipeline.compiled import CompiledModel
from pipeline.dataset import FeatureSchema
from pipeline.package import Package, load_package
from pipeline.trees import parse_model

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Scorer:
    """`Scorer.load(folder)`, then `.score(frame)` or `.rank(frame, top=10)`.

    Feature columns are found by name, in any order and among others; a missing or renamed one is refused. A category
    level that training never saw counts as "unknown", and is counted in `unknown_levels`.
    """

    package: Package
    engine: Callable[[pl.DataFrame], Floats] = field(repr=False)
    """A frame with the features, categories as codes -> (N,) scores; refuses what `FeatureSchema.select` refuses."""

    @classmethod
    def load(cls, folder: Path | str, *, engine: Literal["lightgbm", "c"] = "lightgbm", threads: int = 1) -> Scorer:
        """Checks the package and loads its model. Raises PackageError, ConfigError for an unknown engine or no thread.

        `engine` "c" compiles the model here and now: the same scores several times faster, on one thread. Raises
        ExportError where there is no C compiler.
        """
        if engine not in ("lightgbm", "c"):
            raise ConfigError(
                f"engine {engine!r}", expected="lightgbm or c", fix="write engine='c' to compile the model"
            )
        _check_count("threads", threads)
        package = load_package(Path(folder))
        if engine == "c":
            return cls(package, compiled_engine(package.schema, CompiledModel.build(parse_model(package.model_text))))
        return cls(package, lightgbm_engine(package.schema, load_model(package.model_text), threads=threads))

    def score(self, frame: pl.DataFrame) -> Floats:
        """(N,) scores in the order of the rows of `frame`; higher ranks first, only differences within a query count.

        Category columns hold levels. Raises PackageError for missing columns, DataError for what no feature can be.
        """
        _check_frame(frame)
        return self.score_features(self.package.schema.encode(frame))

    def score_features(self, frame: pl.DataFrame) -> Floats:
        """As `score`, for a frame whose category columns hold codes already."""
        _check_frame(frame)
        return self.engine(frame)

    def rank(self, frame: pl.DataFrame, *, top: int | None = None) -> pl.DataFrame:
        """query, item, rank (1 = best), score: every query's items in order, the best `top` of each.

        Tied scores keep the fixed order of (query, item), whatever the order of the input. Raises ConfigError for a
        `top` below 1.
        """
        _check_frame(frame)
        if top is not None:
            _check_count("top", top)
        columns = frame.columns
        missing = [name for name in (QUERY, ITEM) if name not in columns]
        if missing:
            raise DataError(
                f"no column {' and '.join(missing)}",
                expected="query and item ids beside the features",
                fix="add them, or rename yours",
            )
        scores = self.score(frame)
        order = np.argsort(-scores)
        ranked = scores[order]
        if frame[QUERY].n_unique() == 1 and bool((ranked[1:] < ranked[:-1]).all()):
            return _best_of_one(frame, order[:top], ranked[:top])
        keys = [name for name in (QUERY, ITEM, TIMESTAMP) if name in columns]
        return _rank_queries(frame[keys].with_columns(pl.Series(SCORE, scores, dtype=pl.Float64)), top)

    def unknown_levels(self, frame: pl.DataFrame) -> dict[str, int]:
        """How many rows of `frame` carry a level that training never saw, per category that has any."""
        _check_frame(frame)
        encoded = self.package.schema.encode(frame)
        counts = {name: count_unknown(encoded[name]) for name in self.package.schema.categorical}
        return {name: count for name, count in counts.items() if count}


def lightgbm_engine(schema: FeatureSchema, booster: Booster, *, threads: int) -> Callable[[pl.DataFrame], Floats]:
    """LightGBM itself as the engine of a scorer."""
    return lambda frame: predict(booster, schema.select(frame), threads=threads)


def compiled_engine(schema: FeatureSchema, model: CompiledModel) -> Callable[[pl.DataFrame], Floats]:
    """The compiled form as the engine of a scorer.

    Where all types are right already, the matrix that it needs anyway is checked as a whole: column by column takes as
    long as all the rest of a request. Whatever is odd goes the long way, which refuses or casts it.
    """
    names = list(schema.names)
    types = [pl.Int32 if name in schema.categorical else pl.Float32 for name in names]

    def score(frame: pl.DataFrame) -> Floats:
        if set(names).issubset(frame.columns):
            chosen = frame[names]
            if chosen.dtypes == types and not np.isinf(rows := chosen.to_numpy(order="c")).any():
                return model.score(rows)
        return model.score_frame(schema.select(frame))

    return score


def _check_count(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
        raise ConfigError(
            f"{name} is {value!r}", expected="a whole number of at least 1", fix=f"set {name} to 1 or more"
        )


def _check_frame(frame: object) -> None:
    """A lazy frame would fail deep inside, at its first column."""
    if not isinstance(frame, pl.DataFrame):
        raise DataError(
            f"a {type(frame).__name__} to score",
            expected="a Polars DataFrame",
            fix="call collect() on a LazyFrame, or polars.from_pandas on a pandas frame",
        )


def _best_of_one(frame: pl.DataFrame, best: npt.NDArray[np.int64], scores: Floats) -> pl.DataFrame:
    """The rows `best` of a frame of one query, by the cheapest calls: a server asks for this all day.

    Polars takes indices of its own type as they are, and three times as long to turn others into it.
    """
    count = len(best)
    rank = pl.int_range(1, count + 1, dtype=pl.UInt32, eager=True).alias(RANK)
    items = frame[ITEM][best.astype(np.uint32)]
    return pl.DataFrame([frame[QUERY].head(count), items, rank, pl.Series(SCORE, scores)])


def _rank_queries(scored: pl.DataFrame, top: int | None) -> pl.DataFrame:
    """Any number of queries, scores tied or not. One query without ties, what a server asks for, needs none of this."""
    ordered = order_rows(scored)
    rank = pl.col(SCORE).rank("ordinal", descending=True).over(QUERY)
    ranked = ordered.with_row_index("row").with_columns(rank.alias(RANK), first=pl.col("row").min().over(QUERY))
    best = ranked if top is None else ranked.filter(pl.col(RANK) <= top)
    return best.sort("first", RANK).select(QUERY, ITEM, RANK, SCORE)
