"""Queries in groups: each query in exactly one group of each kind, so that the groups sum to all queries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import polars as pl

from features.columns import ITEM, POSITION, QUERY, RELEVANCE, SCORE, TIMESTAMP, USER
from features.errors import ConfigError
from pipeline.reductions import Interval, bootstrap_interval

RELEVANT_BORDERS = (5, 20)

MOST_LEVELS = 12
"""A column of more values is cut at its quartiles if it holds numbers, and says nothing of a query otherwise."""

FEW = 30
"""A group of fewer queries is flagged: its interval is wide, and rests on few."""

ABSENT = "(not known)"
_OURS = (QUERY, ITEM, USER, TIMESTAMP, POSITION, RELEVANCE)


@dataclass(frozen=True)
class Strata:
    """`of_query` (Q,) is the group of each query; `groups` the groups in their order."""

    name: str
    groups: tuple[str, ...]
    of_query: npt.NDArray[np.str_]

    def __iter__(self) -> Iterator[tuple[str, npt.NDArray[np.bool_]]]:
        """Each group with the mask (Q,) of its queries."""
        return ((group, self.of_query == group) for group in self.groups)


@dataclass(frozen=True)
class Stratum:
    """Some of the queries: how many there are, and the mean of those that have a value, with its interval."""

    name: str
    queries: int
    interval: Interval


def by_relevant(relevant: npt.ArrayLike, borders: Sequence[int] = RELEVANT_BORDERS) -> Strata:
    """By the (Q,) number of relevant items: [0, 5), [5, 20), [20, ...); a border belongs to the group above it.

    All groups are there, empty ones too. Raises ValueError for borders that do not ascend, and for what is no number
    of items.
    """
    if not all(low < high for low, high in pairwise([0, *borders])):
        raise ValueError(f"borders are {list(borders)}; expected numbers above 0 that ascend")
    counts = np.asarray(relevant)
    strange = ~(counts >= 0)
    if strange.any():
        index = int(strange.argmax())
        raise ValueError(f"relevant[{index}] is {counts[index]}; expected a number of items")
    return _cut("relevant items", counts, borders)


def by_activity(users: pl.Series) -> Strata:
    """By how many of these queries their (Q,) user has; without a user they are anonymous."""
    counts = pl.DataFrame({USER: users}).select(pl.len().over(USER)).to_series().to_numpy()
    cut = _cut("queries of the user", counts, (1, 2, 5, 20))
    names = np.where(users.is_null().to_numpy(), "anonymous", cut.of_query)
    groups = (*cut.groups, "anonymous")
    return Strata(cut.name, tuple(group for group in groups if (names == group).any()), names)


def by_column(rows: pl.DataFrame, starts: npt.NDArray[np.int64], column: str) -> Strata:
    """By a column of the rows that has one value per query. Raises ConfigError where it has not, or too many."""
    if column not in rows.columns:
        offered = [name for name in rows.columns if is_of_query(rows, starts, name)]
        raise ConfigError(
            f"no column {column} to group queries by",
            expected=f"one of {', '.join(offered) or 'none, as no column has one value per query'}",
            fix="name one of these",
        )
    if not is_of_query(rows, starts, column):
        raise ConfigError(
            f"column {column} does not group queries",
            expected=f"one value per query, and numbers or at most {MOST_LEVELS} levels",
            fix="name another column",
        )
    values = rows[column].gather(starts)
    if values.n_unique() > MOST_LEVELS:
        return _quartiles(column, values)
    names = values.cast(pl.String).fill_null(ABSENT).to_numpy().astype(str)
    order = values.unique().sort(nulls_last=True).cast(pl.String).fill_null(ABSENT)
    return Strata(column, tuple(order), names)


def columns_of_queries(rows: pl.DataFrame, starts: npt.NDArray[np.int64]) -> list[str]:
    """The columns that `by_column` takes and that tell at least two groups apart."""
    names = [name for name in rows.columns if name not in _OURS and not name.startswith(f"{SCORE}.")]
    return [name for name in names if is_of_query(rows, starts, name) and rows[name].n_unique() > 1]


def is_of_query(rows: pl.DataFrame, starts: npt.NDArray[np.int64], column: str) -> bool:
    """Whether a column has one value per query, and a few levels or an order."""
    values = rows[column]
    if values.dtype.is_nested() or column in _OURS:
        return False
    sizes = np.diff(np.append(starts, rows.height))
    repeated = values.gather(np.repeat(starts, sizes))
    if not values.eq_missing(repeated).all():
        return False
    return bool(values.dtype.is_numeric()) or values.n_unique() <= MOST_LEVELS


def group_intervals(
    values: npt.ArrayLike, strata: Strata, *, users: pl.Series | None = None, seed: int = 0
) -> Iterator[Stratum]:
    """The mean of the (Q,) values in each group, NaN left out, with an interval over users where (Q,) users are given.

    A group of one user alone has no interval. Raises ValueError where values and queries differ in number.
    """
    every = np.asarray(values, np.float64)
    if every.shape != strata.of_query.shape:
        raise ValueError(f"there are {every.size} values and {strata.of_query.size} queries in groups")
    for name, mask in strata:
        inside = None if users is None else users.filter(pl.Series(mask))
        found = bootstrap_interval(every[mask], clusters=inside, seed=seed)
        if inside is not None and inside.n_unique() == 1 and not inside.null_count():
            found = replace(found, low=None, high=None)
        yield Stratum(name, int(mask.sum()), found)


def _quartiles(name: str, values: pl.Series) -> Strata:
    numbers = values.cast(pl.Float64).fill_nan(None)
    borders = np.unique([float(numbers.quantile(q, "higher") or 0.0) for q in (0.25, 0.5, 0.75)])
    place = np.searchsorted(borders, numbers.fill_null(0.0).to_numpy(), side="right")
    texts = [f"below {borders[0]:g}", *(f"from {low:g}" for low in borders)]
    named = np.where(numbers.is_null().to_numpy(), ABSENT, np.array(texts)[place])
    return Strata(name, tuple(text for text in (*texts, ABSENT) if (named == text).any()), named)


def _cut(name: str, counts: npt.NDArray[np.int64], borders: Sequence[int]) -> Strata:
    """Groups of whole numbers: below the first border, between borders, and from the last one on."""
    ends = [border - 1 for border in borders[1:]]
    texts = [f"{low}" if low == high else f"{low}-{high}" for low, high in zip(borders, ends, strict=False)]
    texts = [f"below {borders[0]}", *texts, f"{borders[-1]} or more"]
    return Strata(name, tuple(texts), np.array(texts)[np.searchsorted(np.asarray(borders), counts, side="right")])
