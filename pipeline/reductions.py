"""From one value per query to a number that can be reported: means, intervals, counts.

NaN means "this query has no value" (a query without a relevant item, say) and is left out everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl
from scipy.special import ndtr, stdtrit

from pipeline.metrics import Convention, gain_values
from pipeline.metrics.arrays import as_relevance, as_starts, check_relevance
from pipeline.metrics.measures import rank_lists

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

MIN_RELEVANT = 3
"""A query with fewer relevant items is thin: its value hangs on one or two of them."""

BLOCKS = 10_000
"""More units than this are summed in so many random blocks before they are resampled: the spread is the same."""

DRAWS_AT_ONCE = 1_000_000


@dataclass(frozen=True)
class Interval:
    """A mean with its confidence interval over n queries that have a value; all None where n is 0."""

    mean: float | None
    low: float | None
    high: float | None
    n: int

    @property
    def width(self) -> float | None:
        return None if self.low is None or self.high is None else self.high - self.low


def mean(values: npt.ArrayLike, weights: npt.ArrayLike | None = None) -> float | None:
    """Mean, or weighted mean, of the values that are not NaN; None where nothing is left.

    Raises ValueError for weights of another length, negative, or not finite.
    """
    known, weight = _evaluable(values, weights)
    total = float(weight.sum())
    return float((known * weight).sum() / total) if total > 0 else None


def bootstrap_interval(
    values: npt.ArrayLike,
    *,
    clusters: npt.ArrayLike | pl.Series | None = None,
    weights: npt.ArrayLike | None = None,
    repetitions: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> Interval:
    """Mean of the values that are not NaN, with a percentile bootstrap interval (Efron 1979).

    The interval is expanded as Hesterberg 2015 does, so that it holds its level for few queries or clusters too.
    Queries are drawn with replacement; with `clusters` (one id per query, such as its user) whole clusters are,
    which is right where queries of one user resemble each other. A null cluster is a cluster of its own.
    The result depends on the values and the seed, not on their order.
    """
    if not isinstance(repetitions, int) or repetitions < 1:
        raise ValueError(f"repetitions is {repetitions!r}; expected a whole number of at least 1")
    if not 0 < level <= 1:
        raise ValueError(f"level is {level}; expected a share above 0, at most 1")
    known, weight = _evaluable(values, weights)
    if not known.size or weight.sum() <= 0:
        return Interval(None, None, None, 0)
    codes = None if clusters is None else _cluster_codes(clusters, values)
    sums, totals = _units(known * weight, weight, codes)
    drawn = _resampled_means(*_blocks(sums, totals, seed), repetitions, seed)
    tail = _expanded_tail(level, len(sums))
    low, high = np.quantile(drawn, [tail, 1 - tail])
    return Interval(float(sums.sum() / totals.sum()), float(low), float(high), len(known))


def paired_interval(
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    *,
    clusters: npt.ArrayLike | pl.Series | None = None,
    weights: npt.ArrayLike | None = None,
    repetitions: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> Interval:
    """Mean of a - b over the queries that have a value in both, with its interval as in `bootstrap_interval`.

    a and b hold the same queries in the same order.
    """
    first, second = np.asarray(a, np.float64), np.asarray(b, np.float64)
    if first.shape != second.shape:
        raise ValueError(f"a has {first.size} queries and b {second.size}; a pair needs the same queries in both")
    return bootstrap_interval(
        first - second, clusters=clusters, weights=weights, repetitions=repetitions, level=level, seed=seed
    )


def composite(values: Mapping[str, npt.ArrayLike], weights: Mapping[str, float]) -> Floats:
    """Weighted sum of metrics by name, such as 0.7 ndcg@10 + 0.2 diversity@10 + 0.1 coverage@10.

    Values are numbers, or (Q,) per query; a number counts alike for every query, and NaN makes the sum NaN.
    """
    unknown = [name for name in weights if name not in values]
    if unknown or not weights:
        raise ValueError(f"no metric {', '.join(unknown) or 'is weighted'}; there are {', '.join(values)}")
    parts = [weight * np.asarray(values[name], np.float64) for name, weight in weights.items()]
    total: Floats = np.sum(np.broadcast_arrays(*parts), axis=0)
    return total


def share_of_ties(scores: npt.ArrayLike, groups: npt.ArrayLike, k: int | None = None) -> float:
    """Share of the first k places of all queries whose score another item of the query has too."""
    lists = rank_lists(scores, groups, k, ties="average")
    cut = lists.cut
    query = np.repeat(np.arange(len(lists.sizes)), lists.sizes)
    start = lists.starts[query]
    block = start + lists.ends - 1
    tied = np.bincount(block)[block] > 1
    return float(tied[np.arange(len(block)) - start < cut].mean())


def count_empty(relevance: npt.ArrayLike, groups: npt.ArrayLike, *, gain: str | tuple[float, ...] = "exp2") -> int:
    """Queries without any item of positive gain."""
    return int((relevant_per_query(relevance, groups, gain=gain) == 0).sum())


def count_thin(
    relevance: npt.ArrayLike,
    groups: npt.ArrayLike,
    *,
    gain: str | tuple[float, ...] = "exp2",
    min_relevant: int = MIN_RELEVANT,
) -> int:
    """Queries with fewer than `min_relevant` items of positive gain, the empty ones among them."""
    return int((relevant_per_query(relevance, groups, gain=gain) < min_relevant).sum())


def count_trivial(relevance: npt.ArrayLike, groups: npt.ArrayLike, *, gain: str | tuple[float, ...] = "exp2") -> int:
    """Queries whose items all have the same positive gain: they score 1 whatever the ranker does."""
    return int(trivial_queries(relevance, groups, gain=gain).sum())


def trivial_queries(
    relevance: npt.ArrayLike, groups: npt.ArrayLike, *, gain: str | tuple[float, ...] = "exp2"
) -> npt.NDArray[np.bool_]:
    """(Q,) whether all items of a query have the same positive gain."""
    gains, starts = _gains(relevance, groups, gain)
    lowest, highest = np.minimum.reduceat(gains, starts), np.maximum.reduceat(gains, starts)
    trivial: npt.NDArray[np.bool_] = (lowest == highest) & (highest > 0)
    return trivial


def relevant_per_query(
    relevance: npt.ArrayLike, groups: npt.ArrayLike, *, gain: str | tuple[float, ...] = "exp2"
) -> Ints:
    """(Q,) numbers of items with a positive gain."""
    gains, starts = _gains(relevance, groups, gain)
    return np.add.reduceat((gains > 0).astype(np.int64), starts)


def _gains(relevance: npt.ArrayLike, groups: npt.ArrayLike, gain: str | tuple[float, ...]) -> tuple[Floats, Ints]:
    convention = Convention(gain=gain, negative="zero")
    values = as_relevance(relevance)
    check_relevance(values, convention)
    return gain_values(convention, values), as_starts(groups, len(values))[:-1]


def _evaluable(values: npt.ArrayLike, weights: npt.ArrayLike | None) -> tuple[Floats, Floats]:
    every = np.asarray(values, np.float64)
    if np.isinf(every).any():
        index = int(np.isinf(every).argmax())
        raise ValueError(f"values[{index}] is {every[index]}; expected a finite number, or NaN for none")
    known = ~np.isnan(every)
    if weights is None:
        return every[known], np.ones(int(known.sum()))
    weight = np.asarray(weights, np.float64)
    if weight.shape != every.shape:
        raise ValueError(f"there are {every.size} values and {weight.size} weights")
    if not (np.isfinite(weight) & (weight >= 0)).all():
        index = int(np.argmin(np.isfinite(weight) & (weight >= 0)))
        raise ValueError(f"weights[{index}] is {weight[index]}; expected a finite number of at least 0")
    return every[known], weight[known]


def _cluster_codes(clusters: npt.ArrayLike | pl.Series, values: npt.ArrayLike) -> Ints:
    """(n,) integer codes of the clusters of the evaluable queries."""
    ids = clusters if isinstance(clusters, pl.Series) else pl.Series(np.asarray(clusters))
    known = ~np.isnan(np.asarray(values, np.float64))
    if len(ids) != len(known):
        raise ValueError(f"there are {len(known)} values and {len(ids)} clusters")
    codes = ids.rank("dense").cast(pl.Int64)
    alone = pl.Series(-np.arange(len(ids), dtype=np.int64))
    return codes.fill_null(alone).to_numpy()[known]


def _units(sums: Floats, totals: Floats, codes: Ints | None) -> tuple[Floats, Floats]:
    """What is drawn: (U,) sums and (U,) weights of queries or clusters, in an order that the input cannot influence."""
    if codes is not None:
        _, unit = np.unique(codes, return_inverse=True)
        order = np.lexsort((totals, sums, unit))
        sums, totals = _sum_by(unit[order], sums[order]), _sum_by(unit[order], totals[order])
    order = np.lexsort((totals, sums))
    return sums[order], totals[order]


def _blocks(sums: Floats, totals: Floats, seed: int) -> tuple[Floats, Floats]:
    if len(sums) <= BLOCKS:
        return sums, totals
    block = np.random.default_rng(seed).permutation(len(sums)) % BLOCKS
    return _sum_by(block, sums), _sum_by(block, totals)


def _sum_by(unit: Ints, column: Floats) -> Floats:
    return np.bincount(unit, column).astype(np.float64, copy=False)


def _expanded_tail(level: float, units: int) -> float:
    """The share of resampled means to cut off at each end: less than (1 - level) / 2 where the units are few."""
    if units < 2:
        return 0.0
    reach = math.sqrt(units / (units - 1)) * stdtrit(units - 1, (1 + level) / 2)
    return float(ndtr(-reach))


def _resampled_means(sums: Floats, totals: Floats, repetitions: int, seed: int) -> Floats:
    """(repetitions,) means of as many units as there are, drawn with replacement."""
    rng = np.random.default_rng(seed)
    units = len(sums)
    step = max(1, DRAWS_AT_ONCE // units)
    means = np.empty(repetitions)
    for start in range(0, repetitions, step):
        drawn = rng.integers(0, units, (min(step, repetitions - start), units))
        weight = totals[drawn].sum(axis=1)
        means[start : start + len(drawn)] = sums[drawn].sum(axis=1) / np.where(weight > 0, weight, np.nan)
    return means[~np.isnan(means)]
