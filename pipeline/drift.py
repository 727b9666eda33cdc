"""How far columns have moved from where they were in training: histograms, and the population stability index.

The histograms are fitted on the training rows and shipped in the package. Some columns move by themselves (counts grow,
a day has one weekday), so what each moved from day to day while the run was judged is kept beside them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from features.categories import UNKNOWN
from features.columns import SCORE, TIMESTAMP
from features.spec import FeatureSpec
from pipeline.dataset import RankingDataset

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

BINS = 10
MOST_LEVELS = 50
"""Levels of a category with bins of their own; all others share one."""

PRIOR = 0.5
"""Rows per bin that are added, spread as in training: an empty bin is rare, not impossible, and moves little."""

FEWEST_QUERIES = 30
"""Rows of one query share a user and an hour: the index of fewer queries is mostly noise, and is not taken."""

HALF_DAY = 60
"""Minutes by which the first or last query of a day may miss its usual time before the log holds only part of it."""


@dataclass(frozen=True)
class Days:
    """The days (UTC) on which queries were asked, in order; one nameless day where queries have no time.

    `names` (D,), `of_row` (N,) the place of each row's day, `queries` (D,) how many queries each has, `whole` (D,)
    whether the log holds all of it: its first and its last day may begin late or end early.
    """

    names: tuple[date | None, ...]
    of_row: Ints
    queries: Ints
    whole: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, dataset: RankingDataset) -> Days:
        if TIMESTAMP not in dataset.keys.columns:
            return cls((None,), np.zeros(dataset.rows, np.int64), np.array([len(dataset.sizes)]), np.array([True]))
        times = dataset.keys[TIMESTAMP].gather(dataset.starts)
        days = times.dt.date()
        place = days.rank("dense").cast(pl.Int64).to_numpy() - 1
        minute = times.dt.hour().cast(pl.Int64).to_numpy() * 60 + times.dt.minute().to_numpy()
        return cls(
            tuple(days.unique().sort()), np.repeat(place, dataset.sizes), np.bincount(place), _whole(place, minute)
        )

    def of_query(self, dataset: RankingDataset) -> Ints:
        """(Q,) the place of each query's day."""
        return self.of_row[dataset.starts]

    @property
    def enough(self) -> npt.NDArray[np.bool_]:
        """(D,) whether a day can be judged: it is whole, and has queries enough."""
        return np.asarray(self.whole & (self.queries >= FEWEST_QUERIES))


@dataclass(frozen=True)
class Histogram:
    """Where a column lies. Bins: missing, unknown (of categories), then the levels or the ranges in order.

    `edges`: inner borders of the ranges of a number, value <= edge belongs to the lower; None for a category, whose
    bins are its first codes and one for the rest. `counts`: rows of the training part in each bin. `usual`: the largest
    index that one day of the test part had.
    """

    edges: tuple[float, ...] | None
    counts: tuple[int, ...]
    usual: float

    def bins(self, column: pl.Series) -> Ints:
        """(N,) the bin of each row."""
        return _bins(column, self.edges, len(self.counts))

    def index(self, counts: npt.ArrayLike) -> float:
        """Population stability index of (B,) counts against those of training."""
        return stability_index(np.asarray(self.counts), np.asarray(counts))

    def to_dict(self) -> dict[str, Any]:
        edges = None if self.edges is None else list(self.edges)
        return {"edges": edges, "counts": list(self.counts), "usual": self.usual}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Histogram:
        edges = None if data["edges"] is None else tuple(data["edges"])
        return cls(edges, tuple(data["counts"]), data["usual"])


def stability_index(expected: npt.ArrayLike, actual: npt.ArrayLike) -> float:
    """PSI: sum of (a - e) * ln(a / e) over bins, with a and e the shares of their rows; 0 for equal shares.

    By custom, below 0.1 is stable and above 0.2 has moved.
    """
    before, after = np.asarray(expected, np.float64) + PRIOR, np.asarray(actual, np.float64)
    e = before / before.sum()
    after = after + PRIOR * len(e) * e
    a = after / after.sum()
    return float(((a - e) * np.log(a / e)).sum())


def fit_histogram(column: pl.Series, spec: FeatureSpec) -> Histogram:
    """Ranges with equal numbers of training rows, or a bin per level; `usual` is 0 until it has been seen."""
    if spec.dtype == "category":
        return _counted(column, None, 2 + min(len(spec.categories or ()), MOST_LEVELS + 1))
    values = column.cast(pl.Float64).fill_nan(None).drop_nulls()
    borders = [values.quantile(share, "lower") for share in np.linspace(0, 1, BINS + 1)[:-1]]
    edges = tuple(sorted({float(border) for border in borders if border is not None}))
    return _counted(column, edges, 3 + len(edges))


def fit_reference(train: RankingDataset, test: RankingDataset, scores: Floats) -> dict[str, Any]:
    """The histogram of every feature over the training rows, and of the scores (N,) over the test rows.

    Training rows score otherwise than rows the model has not seen, so they say nothing of the scores to expect.
    """
    found = {}
    days = Days.of(test)
    for spec in train.schema.features:
        fitted = fit_histogram(train.features[spec.name], spec)
        found[spec.name] = _with_usual(fitted, test.features[spec.name], days)
    scored = pl.Series(SCORE, scores)
    score = _with_usual(fit_histogram(scored, FeatureSpec(SCORE)), scored, days)
    return {"features": {name: each.to_dict() for name, each in found.items()}, "score": score.to_dict()}


def daily_counts(fitted: Histogram, column: pl.Series, days: Days) -> Ints:
    """(D, B) rows of (N,) `column` in each bin on each day."""
    size = len(fitted.counts)
    places = days.of_row * size + fitted.bins(column)
    return np.bincount(places, minlength=size * len(days.names)).reshape(-1, size)


def shares(counts: npt.ArrayLike) -> tuple[float, float]:
    """Of (B,) counts, the shares of missing values and of levels that training never saw."""
    rows = np.asarray(counts)
    total = max(1, int(rows.sum()))
    return float(rows[0] / total), float(rows[1] / total)


def _whole(place: Ints, minute: Ints) -> npt.NDArray[np.bool_]:
    """(Q,) day and minute of the day of queries -> (D,) whether each day begins and ends as days of the log do."""
    first, last = np.full(place.max() + 1, 24 * 60), np.zeros(place.max() + 1, np.int64)
    np.minimum.at(first, place, minute)
    np.maximum.at(last, place, minute)
    whole = np.ones(len(first), np.bool_)
    if len(whole) > 2:
        whole[0] = first[0] <= np.median(first) + HALF_DAY
        whole[-1] = last[-1] >= np.median(last) - HALF_DAY
    return whole


def _counted(column: pl.Series, edges: tuple[float, ...] | None, size: int) -> Histogram:
    counts = np.bincount(_bins(column, edges, size), minlength=size)
    return Histogram(edges, tuple(int(count) for count in counts), 0.0)


def _bins(column: pl.Series, edges: tuple[float, ...] | None, size: int) -> Ints:
    if edges is None:
        codes = column.cast(pl.Int64).fill_null(-1).to_numpy()
        known = np.minimum(codes + 1, size - 1)
        return np.where(codes < 0, 0, np.where(codes == UNKNOWN, 1, known)).astype(np.int64)
    values = column.cast(pl.Float64).fill_nan(None)
    place = np.searchsorted(np.asarray(edges), values.fill_null(0.0).to_numpy(), side="left") + 2
    return np.where(values.is_null().to_numpy(), 0, place).astype(np.int64)


def _with_usual(fitted: Histogram, column: pl.Series, days: Days) -> Histogram:
    seen = [fitted.index(counts) for counts in daily_counts(fitted, column, days)[days.enough]]
    return Histogram(fitted.edges, fitted.counts, max(seen, default=0.0))
