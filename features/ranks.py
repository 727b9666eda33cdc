"""Ranks within each query, in one pass over queries that are mostly short."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from features.compiling import compiled

Ints = npt.NDArray[np.int64]
Singles = npt.NDArray[np.float32]

_SHORT: Final = 64
"""Up to so many values each is compared with all others; longer queries are sorted."""


def average_ranks(values: pl.Series, sizes: Ints) -> pl.Series:
    """(N,) numbers as Float32, null where missing, and (Q,) sizes of queries -> (N,) Float32 ranks within the query.

    From 1 for the lowest; equal numbers share the mean of their ranks; null stays null and takes no rank.
    """
    ranks = np.empty(len(values), np.float32)
    _rank(values.cast(pl.Float32).fill_null(np.nan).to_numpy(), sizes, ranks)
    return pl.Series(ranks).fill_nan(None)


@compiled
def _rank(values: Singles, sizes: Ints, ranks: Singles) -> None:
    """NaN is missing. The mean rank of equal values is halfway between those below and those not above, from 1."""
    start = 0
    for size in sizes:
        own = values[start : start + size]
        ordered = own if size <= _SHORT else np.sort(own[~np.isnan(own)])
        for place in range(size):
            value = own[place]
            below = not_above = 0
            if np.isnan(value):
                ranks[start + place] = np.nan
                continue
            if size <= _SHORT:
                for other in own:
                    below += other < value
                    not_above += other <= value
            else:
                below = np.searchsorted(ordered, value)
                not_above = np.searchsorted(ordered, value, side="right")
            ranks[start + place] = (below + not_above + 1) / 2
        start += size
