"""One row per (query, item), grouped by query, in an order that the labels cannot influence."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from features.columns import ITEM, QUERY, RELEVANCE, TIMESTAMP
from features.hashing import hash_pairs
from features.spec import FeatureSpec


@dataclass(frozen=True, slots=True)
class Table:
    """The rows that compete, query by query, and what each feature column means.

    `frame` is in the order of `order_rows` and holds `query`, `item`, a column per feature (Float32, categories Int32
    codes), and where known `timestamp` (of the query, UTC), `user`, `position` and `relevance` (Float64, never null;
    absent when scoring). Further columns are fields: kept for baselines and strata, never fed to a model.
    """

    frame: pl.DataFrame
    features: tuple[FeatureSpec, ...]

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the feature columns, in the order of `features`."""
        return tuple(spec.name for spec in self.features)

    @property
    def labelled(self) -> bool:
        """Whether the rows carry a relevance."""
        return RELEVANCE in self.frame.columns


def order_rows(frame: pl.DataFrame) -> pl.DataFrame:
    """The same rows: queries by (timestamp, query), or by query where there is no time; within one by hash, then item.

    The hash is `features.hashing.hash_pairs(query, item)`, so neither the input order nor the labels can be read from
    the row order. Rows of a query that differ in time stay together, at the earliest of them. The position in the
    result depends on the ids alone where (query, item) is unique.
    """
    hashes = pl.Series("hash", hash_pairs(frame[QUERY], frame[ITEM]))
    keys = [pl.col(QUERY), hashes, pl.col(ITEM)]
    if TIMESTAMP in frame.columns:
        keys.insert(0, pl.col(TIMESTAMP).min().over(QUERY))
    return frame.sort(keys, maintain_order=True)
