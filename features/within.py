"""Each candidate beside the others of its query: ranks, distances and shares of its numbers, shares of its categories.

Only in what was shown: sampled negatives would describe the sample. A field that was logged when the item was shown
wins over the catalogue's of the same name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from functools import partial
from typing import Final

import numpy as np
import polars as pl

from features.columns import POPULARITY
from features.context import Context, Feature, numbers
from features.description import Description, FieldKind
from features.fields import Read, read_number
from features.item import popularity
from features.ranks import average_ranks
from features.spec import FeatureSpec
from features.windows import Floats, Ints

Get = Callable[[Context], pl.Series]
Compare = Callable[[pl.Series, Ints], pl.Series]
"""(N,) Float32 values, null where missing, and (Q,) sizes of queries -> (N,) Float32."""

_RANKS_ASCEND: Final = "rank"
"""How the name of a channel's field ends in which 1 is the best."""


def within_features(log: Description) -> Iterator[Feature]:
    """`query.<number>_*` and `query.<category>_share`, with the places that recall channels gave."""
    yield from _comparisons(POPULARITY, popularity, "never")
    for name, read in _fields(log, "number").items():
        yield from _comparisons(name, partial(read_number, read=read, name=name), f"no {name}")
    for name, read in _fields(log, "category").items():
        spec = FeatureSpec(f"query.{name}_share", missing=f"no {name}")
        yield Feature(spec, partial(_level_share, read=read, name=name))
    for name in channels(log):
        spec = FeatureSpec(f"query.{name}_place", missing="the channel did not return it; 1 = its best")
        yield Feature(spec, partial(_place, name=name))


def channels(log: Description) -> tuple[str, ...]:
    """The number fields of what was shown that hold what a recall channel thought of the item."""
    shown = [field.name for field in log.shown_fields if field.kind == "number"]
    return tuple(name for name in shown if any(fnmatchcase(name, glob) for glob in log.options.channels))


def _comparisons(name: str, get: Get, missing: str) -> Iterator[Feature]:
    for suffix, compare in _COMPARE.items():
        spec = FeatureSpec(f"query.{name}_{suffix}", missing=f"{missing}{_NOTES.get(suffix, '')}")
        yield Feature(spec, partial(_compared, get=get, compare=compare))
    spec = FeatureSpec(f"query.{name}_share", missing="all are 0" if missing == "never" else f"{missing}, or all are 0")
    yield Feature(spec, partial(_compared, get=get, compare=_share))


def _compared(context: Context, get: Get, compare: Compare) -> pl.Series:
    return compare(get(context), context.sizes())


def _fields(log: Description, kind: FieldKind) -> dict[str, Read]:
    items: dict[str, Read] = {field.name: Context.item_field for field in log.item_fields if field.kind == kind}
    shown: dict[str, Read] = {field.name: Context.shown_field for field in log.shown_fields if field.kind == kind}
    return items | shown


def _z_score(values: pl.Series, sizes: Ints) -> pl.Series:
    """(value - mean) / standard deviation of the query's known values (population); 0 where all are equal."""
    known = values.is_not_null().to_numpy()
    filled = values.cast(pl.Float64).fill_null(0.0).to_numpy()
    count = np.maximum(_sums(known.astype(np.float64), sizes), 1)
    centred = np.where(known, filled - np.repeat(_sums(filled, sizes) / count, sizes), 0.0)
    spread = np.repeat(np.sqrt(_sums(centred**2, sizes) / count), sizes)
    return numbers(np.divide(centred, spread, out=np.zeros_like(centred), where=spread > 0), known)


def _share(values: pl.Series, sizes: Ints) -> pl.Series:
    """value / sum of the query's values, each by its size; null where all are 0."""
    filled = values.cast(pl.Float64).fill_null(0.0).to_numpy()
    total = np.repeat(_sums(np.abs(filled), sizes), sizes)
    known = values.is_not_null().to_numpy() & (total > 0)
    return numbers(np.divide(filled, total, out=np.zeros_like(filled), where=total > 0), known)


def _above_lowest(values: pl.Series, sizes: Ints) -> pl.Series:
    return _distance(values, sizes, lambda known, starts: np.minimum.reduceat(known, starts), np.inf)


def _below_highest(values: pl.Series, sizes: Ints) -> pl.Series:
    return 0.0 - _distance(values, sizes, lambda known, starts: np.maximum.reduceat(known, starts), -np.inf)


def _distance(values: pl.Series, sizes: Ints, extreme: Callable[[Floats, Ints], Floats], beyond: float) -> pl.Series:
    """value - the extreme of its query, for which missing values count as `beyond`."""
    known = values.is_not_null().to_numpy()
    filled = values.cast(pl.Float64).fill_null(beyond).to_numpy()
    if not len(filled):
        return numbers(filled)
    edges = np.repeat(extreme(filled, np.cumsum(sizes) - sizes), sizes)
    return numbers(np.subtract(filled, edges, out=np.zeros_like(filled), where=known), known)


def _from_median(values: pl.Series, sizes: Ints) -> pl.Series:
    frame = pl.DataFrame({"query": np.repeat(np.arange(len(sizes)), sizes), "value": values})
    return frame.select((pl.col("value") - pl.col("value").median().over("query")).cast(pl.Float32)).to_series()


_COMPARE: Final[dict[str, Compare]] = {
    "rank": average_ranks,
    "z": _z_score,
    "above_lowest": _above_lowest,
    "below_highest": _below_highest,
    "from_median": _from_median,
}
_NOTES: Final = {"rank": "; 1 = lowest"}


def _level_share(context: Context, read: Read, name: str) -> pl.Series:
    """The share of the query's candidates that have the same level."""
    sizes, levels = context.sizes(), read(context, name)
    codes = levels.to_frame("level").select(pl.col("level").rank("dense")).to_series().fill_null(0).to_numpy()
    query = np.repeat(np.arange(len(sizes)), sizes)
    keys = pl.DataFrame({"key": query * (int(codes.max(initial=0)) + 1) + codes})
    same = keys.select(pl.len().over("key")).to_series().to_numpy() / np.repeat(sizes, sizes)
    return numbers(same, levels.is_not_null().to_numpy())


def _place(context: Context, name: str) -> pl.Series:
    values = read_number(context, Context.shown_field, name)
    return average_ranks(values if name.endswith(_RANKS_ASCEND) else -values, context.sizes())


def _sums(values: Floats, sizes: Ints) -> Floats:
    """(N,) -> (Q,) sums per query, in the order of the rows."""
    return np.add.reduceat(values, np.cumsum(sizes) - sizes) if len(values) else np.zeros(0)
