"""Is a difference between two rankers more than chance? Paired tests over queries, clustered by user.

Queries of one user resemble each other, so users are the units: tested one by one as if they were independent, twenty
users of fifty queries give a false alarm in three of four comparisons of a ranker with itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import polars as pl
from scipy import stats

from pipeline.reductions import Interval, paired_interval

Floats = npt.NDArray[np.float64]

LEVEL = 0.05
POWER = 0.8
TIE = 1e-9
"""Values of one query that differ by less are a tie."""

EXACT_UNITS = 12
"""With so few units all sign changes are tried; with more, `DRAWS` of them are drawn."""

DRAWS = 10_000
MOST_UNITS = 1_000
"""More units than this are swapped in so many random blocks: as valid, and as sharp."""


@dataclass(frozen=True)
class Paired:
    """The differences b - a of one metric: over queries that have a value in both, summed by unit (user, or query).

    `sums` and `counts` are (U,): the differences of a unit's queries, and how many these are.
    """

    sums: Floats
    counts: Floats
    wins: int
    ties: int
    losses: int

    @property
    def units(self) -> int:
        return len(self.sums)

    @property
    def mean(self) -> float | None:
        """Mean difference over queries."""
        return float(self.sums.sum() / self.counts.sum()) if self.units else None

    @property
    def standard_error(self) -> float | None:
        """Of the mean, from the spread between units: a ratio estimator (Cochran 1977, 6.4); None below two units."""
        if self.units < 2 or self.mean is None:
            return None
        residuals = self.sums - self.mean * self.counts
        variance = self.units / (self.units - 1) * float((residuals**2).sum())
        return float(np.sqrt(variance) / self.counts.sum())

    @property
    def is_too_few(self) -> bool:
        """Whether no outcome could be significant: even if all units agreed, sign changes give 2 / 2^units."""
        return 2.0 ** (1 - self.units) > LEVEL


@dataclass(frozen=True)
class Contrast:
    """A difference b - a with its interval and the p values of three tests (None: too few units to tell).

    `smallest` is the difference that so many units would have shown with a power of 80 %.
    """

    difference: Interval
    units: int
    wins: int
    ties: int
    losses: int
    p_t: float | None
    p_wilcoxon: float | None
    p_random: float | None
    smallest: float | None


def pair(a: Floats, b: Floats, users: pl.Series | None) -> Paired:
    """(Q,) values of the same queries in the same order, NaN where none is; without a user a query stands alone."""
    known = ~(np.isnan(a) | np.isnan(b))
    differences = (b - a)[known]
    unit = _units(users, known)
    sums = np.bincount(unit, differences) if len(unit) else np.empty(0)
    won, lost = int((differences > TIE).sum()), int((differences < -TIE).sum())
    ties = len(differences) - won - lost
    return Paired(sums.astype(np.float64), np.bincount(unit).astype(np.float64), won, ties, lost)


def contrast(a: Floats, b: Floats, users: pl.Series | None, *, seed: int) -> Contrast:
    """All that can be said of b - a. The mean and its interval are over queries, the spread is between users.

    One unit alone has no interval.
    """
    paired = pair(a, b, users)
    difference = paired_interval(b, a, clusters=users, level=1 - LEVEL, seed=seed)
    if paired.units < 2:
        difference = replace(difference, low=None, high=None)
    known = not paired.is_too_few
    return Contrast(
        difference,
        paired.units,
        paired.wins,
        paired.ties,
        paired.losses,
        p_t=t_test(paired) if known else None,
        p_wilcoxon=wilcoxon_test(paired) if known else None,
        p_random=randomisation_test(paired, seed=seed) if known else None,
        smallest=smallest_effect(paired),
    )


def t_test(paired: Paired) -> float:
    """Two-sided p of the mean difference; with one query per unit, Student's paired t-test."""
    if not paired.sums.any():
        return 1.0
    if not paired.standard_error:
        return 0.0
    return float(2 * stats.t.sf(abs(paired.mean or 0.0) / paired.standard_error, paired.units - 1))


def wilcoxon_test(paired: Paired) -> float:
    """Two-sided p of the signed-rank test on the mean difference of each unit; units without one are left out."""
    means = paired.sums / paired.counts
    means = np.where(np.abs(means) < TIE, 0.0, means)
    if not means.any():
        return 1.0
    return float(stats.wilcoxon(means, zero_method="wilcox", method="auto").pvalue)


def randomisation_test(paired: Paired, *, seed: int) -> float:
    """Two-sided p: how often swapping a and b in whole units at random moves the mean as far (Fisher 1935).

    Exact up to `EXACT_UNITS` units; else from `DRAWS` draws, the observed outcome counted as one of them.
    """
    moved = paired.sums[paired.sums != 0]
    observed = abs(moved.sum()) - TIE
    if not len(moved):
        return 1.0
    if len(moved) <= EXACT_UNITS:
        signs = 1 - 2 * (np.arange(2 ** len(moved))[:, None] >> np.arange(len(moved)) & 1)
        return float((np.abs(signs @ moved) >= observed).mean())
    rng = np.random.default_rng(seed)
    if len(moved) > MOST_UNITS:
        moved = np.bincount(rng.permutation(len(moved)) % MOST_UNITS, moved)
    signs = rng.integers(0, 2, (DRAWS, len(moved)), dtype=np.int8)
    extreme = int((np.abs(2 * (signs @ moved) - moved.sum()) >= observed).sum())
    return (extreme + 1) / (DRAWS + 1)


def smallest_effect(paired: Paired) -> float | None:
    """The mean difference that a test at level 5 % finds in 80 % of such comparisons; None below two units."""
    error, freedom = paired.standard_error, paired.units - 1
    if error is None:
        return None
    return float(error * (stats.t.ppf(1 - LEVEL / 2, freedom) + stats.t.ppf(POWER, freedom)))


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """p values corrected for their number (Holm 1979), in the order given; None stays None and does not count."""
    known = [i for i, p in enumerate(p_values) if p is not None]
    order = sorted(known, key=lambda i: p_values[i] or 0.0)
    corrected: list[float | None] = [None] * len(p_values)
    largest = 0.0
    for place, i in enumerate(order):
        largest = max(largest, min(1.0, (len(order) - place) * (p_values[i] or 0.0)))
        corrected[i] = largest
    return corrected


def _units(users: pl.Series | None, known: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """(n,) dense codes from 0 of the unit of each query that counts; a null user is a unit of its own."""
    if users is None:
        return np.arange(int(known.sum()))
    codes = users.rank("dense").cast(pl.Int64).fill_null(pl.Series(-np.arange(len(users), dtype=np.int64))).to_numpy()
    return np.unique(codes[known], return_inverse=True)[1].astype(np.int64)
