"""Categories as integer codes that never change: fitted on the training window, frozen, kept in the package.

Code 0 is "unknown" (a level that training never saw), codes 1, 2, ... are the levels in sorted order, and a missing
value stays null. LightGBM sends null, and a code that training never held, the same way at every split.
"""

from __future__ import annotations

import polars as pl

UNKNOWN = 0


def fit_categories(values: pl.Series) -> tuple[str, ...]:
    """The levels of a column of strings, integers or booleans, sorted as text; nulls are no level."""
    return tuple(values.drop_nulls().cast(pl.String).unique().sort().to_list())


def encode_categories(values: pl.Series, levels: tuple[str, ...]) -> pl.Series:
    """(N,) values -> (N,) Int32 codes: null stays null, a level outside `levels` becomes `UNKNOWN`."""
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


def count_unknown(codes: pl.Series) -> int:
    """How many rows carry a level that training never saw."""
    return int((codes == UNKNOWN).sum())
