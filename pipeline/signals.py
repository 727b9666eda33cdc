"""What one column says by itself: how well it ranks alone, and how far it repeats the order that was shown."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from features.columns import POSITION, RANDOMISED
from pipeline.baselines import column_scores
from pipeline.dataset import RankingDataset
from pipeline.metrics import Convention, ndcg_per_query

Floats = npt.NDArray[np.float64]

MOST_ROWS: Final = 400_000
"""A column shows what it is on this many rows."""
FEWEST_LISTS: Final = 10
"""A few short lists stand in the order of some column by chance."""


def sample(dataset: RankingDataset) -> RankingDataset:
    """The dataset, or evenly spread queries of it of about `MOST_ROWS` rows."""
    stride = -(-dataset.rows // MOST_ROWS)
    return dataset if stride <= 1 else dataset.keep(np.arange(len(dataset.sizes)) % stride == 0)


def rank_alone(dataset: RankingDataset, values: pl.Series, k: int, convention: Convention) -> float:
    """Mean ndcg@k of ranking by (N,) numbers, falling or rising, whichever is better; missing values come last."""
    means = []
    for descending in (True, False):
        scores = column_scores(values, descending=descending)
        per_query = ndcg_per_query(scores, dataset.relevance, dataset.sizes, k, convention=convention)
        means.append(float(np.nanmean(per_query)) if not np.isnan(per_query).all() else 0.0)
    return max(means)


def lift(value: float, floor: float) -> float:
    """How much of the way from a random order's ndcg (`floor`) to the ideal a value is."""
    return (value - floor) / (1 - floor) if floor < 1 else 0.0


def as_numbers(dataset: RankingDataset, fitted_on: RankingDataset) -> Iterator[tuple[str, pl.Series]]:
    """(N,) numbers per feature; a category level counts as the mean relevance that it has in `fitted_on`."""
    for spec in dataset.schema.features:
        values = dataset.features[spec.name]
        yield spec.name, _level_means(values, fitted_on, spec.name) if spec.dtype == "category" else values


def agreement(dataset: RankingDataset, values: pl.Series) -> float:
    """Mean rank correlation of (N,) numbers with the position in the shown list, over queries where both vary.

    1: rises down the list; -1: falls. Rows without a value or a position, and lists in random order, are left out; 0.0
    where fewer than `FEWEST_LISTS` queries are left.
    """
    keys = dataset.keys
    if POSITION not in keys.columns:
        return 0.0
    query = np.repeat(np.arange(len(dataset.sizes)), dataset.sizes)
    frame = pl.DataFrame({"query": query, "value": values.cast(pl.Float64).fill_nan(None), "place": keys[POSITION]})
    if RANDOMISED in keys.columns:
        frame = frame.filter(~keys[RANDOMISED].cast(pl.Boolean).fill_null(False))
    ranked = frame.drop_nulls().with_columns(pl.col("value", "place").rank("average").over("query"))
    found = ranked.group_by("query").agg(
        pl.corr("value", "place").alias("r"), pl.col("value").n_unique().alias("levels"), pl.len()
    )
    telling = found.filter((pl.col("levels") > 1) & (pl.col("len") > 2))["r"].drop_nulls().drop_nans()
    return float(telling.mean()) if len(telling) >= FEWEST_LISTS else 0.0  # type: ignore[arg-type]


def source_of(name: str, fields: Collection[str]) -> str:
    """The field that a feature is made of, by its name: the longest of `fields` that stands in it as a word; else the
    name itself.
    """
    words = f"_{name.partition('.')[2].replace('.', '_')}_"
    held = [field for field in fields if f"_{field.replace('.', '_')}_" in words]
    return max(held, key=len, default=name)


def by_source(names: Collection[str], fields: Collection[str]) -> Mapping[str, list[str]]:
    """The names by the field that they are made of, in their order."""
    found: dict[str, list[str]] = {}
    for name in names:
        found.setdefault(source_of(name, fields), []).append(name)
    return found


def _level_means(codes: pl.Series, fitted_on: RankingDataset, name: str) -> pl.Series:
    learned = pl.DataFrame({"code": fitted_on.features[name], "mean": fitted_on.relevance})
    means = learned.drop_nulls("code").group_by("code").agg(pl.col("mean").mean())
    return codes.alias("code").to_frame().join(means, on="code", how="left", maintain_order="left")["mean"]
