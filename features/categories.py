"""Categories as integer codes that never change: fitted on the training window, frozen, kept in the package.

Code 0 is "unknown" (a level that training never saw), codes 1, 2, ... are the levels in sorted order, and a missing
value stays null. LightGBM sends null, and a code that training never held, the same way at every split.
"""

from __future__ import annotations

from functools import lru_cache

import polars as pl

UNKNOWN = 0
SHORT = 2000
"""Rows up to which looking levels up one by one is faster than a join: the candidates of a request."""


def fit_categories(values: pl.Series) -> tuple[str, ...]:
    """The levels of a column of strings, integers or booleans, sorted as text; nulls are no level."""
    return tuple(values.drop_nulls().cast(pl.String).unique().sort().to_list())


def encode_categories(values: pl.Series, levels: tuple[str, ...]) -> pl.Series:
    """(N,) values -> (N,) Int32 codes: null stays null, a level outside `levels` becomes `UNKNOWN`."""
    if len(values) <= SHORT:
        known = _codes_by_level(levels)
        texts = values if values.dtype == pl.String else values.cast(pl.String)
        return pl.Series(values.name, [known.get(text, UNKNOWN) for text in texts.to_list()], pl.Int32)
    codes = pl.DataFrame(
        {"level": list(levels), "code": range(1, len(levels) + 1)}, schema={"level": pl.String, "code": pl.Int32}
    )
    text = values.cast(pl.String).alias("level").to_frame()
    found = text.join(codes, on="level", how="left", maintain_order="left")["code"]
    return (
        pl.select(pl.when(text["level"].is_null()).then(None).otherwise(found.fill_null(UNKNOWN)))
        .to_series()
        .cast(pl.Int32)
        .alias(values.name)
    )


@lru_cache(maxsize=256)
def _codes_by_level(levels: tuple[str, ...]) -> dict[str | None, int | None]:
    return {None: None, **{level: code for code, level in enumerate(levels, start=1)}}


def count_unknown(codes: pl.Series) -> int:
    """How many rows carry a level that training never saw."""
    return int((codes == UNKNOWN).sum())
