"""What is known of a query, and how an item compares with the others of its query.

Comparisons within the query exist where the candidates are what was shown: on sampled negatives they would describe
the sample.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import polars as pl

from features.columns import POPULARITY, TIMESTAMP
from features.context import Context, Feature, numbers
from features.description import Description
from features.fields import Read, field_features, read_number
from features.item import popularity
from features.spec import FeatureSpec


def query_features(log: Description) -> Iterator[Feature]:
    """`query.*`: hour and weekday (UTC), the fields of the query; candidates, ranks and z-scores in what was shown."""
    yield Feature(FeatureSpec("query.hour", missing="never; UTC, with minutes as a fraction"), _hour)
    yield Feature(FeatureSpec("query.weekday", missing="never; UTC, Monday = 1"), _weekday)
    yield from field_features("query", log.query_fields, Context.query_field)
    if log.pool != "shown":
        return
    yield Feature(FeatureSpec("query.candidates", missing="never"), _candidates)
    yield Feature(FeatureSpec(f"query.{POPULARITY}_rank", missing="never; 1 = least popular"), _popularity_rank)
    for name, read in _numbers(log).items():
        missing = f"no {name}"
        yield Feature(
            FeatureSpec(f"query.{name}_rank", missing=f"{missing}; 1 = lowest"), partial(_rank, read=read, name=name)
        )
        yield Feature(FeatureSpec(f"query.{name}_z", missing=missing), partial(_z_score, read=read, name=name))


def _numbers(log: Description) -> dict[str, Read]:
    """Number fields by name; one logged when the item was shown wins over the catalogue's."""
    items: dict[str, Read] = {field.name: Context.item_field for field in log.item_fields if field.kind == "number"}
    shown: dict[str, Read] = {field.name: Context.shown_field for field in log.shown_fields if field.kind == "number"}
    return items | shown


def _hour(context: Context) -> pl.Series:
    at = context.rows[TIMESTAMP].dt
    return (at.hour() + at.minute() / 60).cast(pl.Float32)


def _weekday(context: Context) -> pl.Series:
    return context.rows[TIMESTAMP].dt.weekday().cast(pl.Float32)


def _candidates(context: Context) -> pl.Series:
    sizes = context.sizes()
    return numbers(np.repeat(sizes, sizes))


def _popularity_rank(context: Context) -> pl.Series:
    return _rank_within(context, popularity(context))


def _rank(context: Context, read: Read, name: str) -> pl.Series:
    return _rank_within(context, read_number(context, read, name))


def _rank_within(context: Context, values: pl.Series) -> pl.Series:
    """The average rank within the query, from 1 for the lowest; null stays null and takes no rank."""
    frame = pl.DataFrame({"query": _query_numbers(context), "value": values})
    return frame.select(pl.col("value").rank("average").over("query").cast(pl.Float32)).to_series()


def _z_score(context: Context, read: Read, name: str) -> pl.Series:
    """(value - mean) / standard deviation of the query's known values (population); 0 where all are equal."""
    values = read_number(context, read, name).cast(pl.Float64)
    known = values.is_not_null().to_numpy()
    filled = values.fill_null(0.0).to_numpy()
    sizes = context.sizes()
    count = np.maximum(_sums(known.astype(np.float64), sizes), 1)
    centred = np.where(known, filled - np.repeat(_sums(filled, sizes) / count, sizes), 0.0)
    spread = np.repeat(np.sqrt(_sums(centred**2, sizes) / count), sizes)
    return numbers(np.divide(centred, spread, out=np.zeros_like(centred), where=spread > 0), known)


def _sums(
    values: np.ndarray[tuple[int], np.dtype[np.float64]], sizes: np.ndarray[tuple[int], np.dtype[np.int64]]
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """(N,) -> (Q,) sums per query, in the order of the rows."""
    return np.add.reduceat(values, np.cumsum(sizes) - sizes) if len(values) else np.zeros(0)


def _query_numbers(context: Context) -> pl.Series:
    sizes = context.sizes()
    return pl.Series(np.repeat(np.arange(len(sizes)), sizes))
