"""Fixed-point numbers: money and seconds are summed as integers, so that the order of a sum cannot matter."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

FIXED_POINT: Final = 10_000
"""Steps in one: sums are of ten-thousandths, in Int64."""


def to_fixed(values: pl.Expr) -> pl.Expr:
    """Numbers -> Int64 in ten-thousandths, the nearest."""
    return (values * FIXED_POINT).round().cast(pl.Int64)


def from_fixed(values: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """(N,) ten-thousandths -> (N,) Float64, each the nearest to the true quotient."""
    return values / FIXED_POINT
