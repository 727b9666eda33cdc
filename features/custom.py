"""Features and baselines written as SQL expressions over columns. Polars evaluates them; no Python ever does.

A column is named as it is, or with its dots as underscores: `item.price` is item_price, or "item.price" in quotes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final

import numpy as np
import polars as pl

from features.errors import ConfigError
from features.names import listed, nearest

_PROBED: Final = 16
_LAST_BITS: Final = 1e-12


def parse_expression(name: str, text: str) -> pl.Expr:
    """The expression `text` of the custom feature or baseline `name`; ConfigError for no SQL, or no column in it."""
    try:
        expression = pl.sql_expr(text)
    except pl.exceptions.PolarsError as error:
        raise _refused(name, text, f"cannot be read ({str(error).splitlines()[0]})") from error
    if not expression.meta.root_names():
        raise _refused(name, text, "names no column")
    return expression


def column_names(expression: pl.Expr) -> list[str]:
    """The columns that an expression reads, each once, as it spells them."""
    return list(dict.fromkeys(expression.meta.root_names()))


def find_column(name: str, known: Collection[str], *, what: str) -> str:
    """The known column that an expression means by `name`; ConfigError, naming the nearest, where there is none."""
    if name in known:
        return name
    by_underscores = {column.replace(".", "_"): column for column in known}
    if name in by_underscores:
        return by_underscores[name]
    near = nearest(name, by_underscores)
    raise ConfigError(
        f"{what} names the column {name!r}, which does not exist",
        expected=f"a feature or field, such as {listed(known)}",
        fix=f"did you mean {near!r}?" if near else "correct it",
    )


def evaluate_expression(name: str, text: str, read: Callable[[str], pl.Series], known: Collection[str]) -> pl.Series:
    """(N,) Float32 values of an expression; null where it is null, NaN or infinite.

    `known` are the columns that there are, `read` fetches one of them. Raises ConfigError as `parse_expression`, for
    an unknown column, and where the expression does not fit its columns, gives no numbers, or mixes rows: an aggregate
    could see the future.
    """
    expression = parse_expression(name, text).alias(name)
    spelled = {spelling: find_column(spelling, known, what=repr(name)) for spelling in column_names(expression)}
    frame = pl.DataFrame([read(column).alias(spelling) for spelling, column in spelled.items()])
    try:
        values = frame.select(expression).to_series()
        mixes = len(values) != frame.height or _mixes_rows(frame, expression)
    except pl.exceptions.PolarsError as error:
        raise _refused(name, text, f"does not fit its columns ({str(error).splitlines()[0]})") from error
    if mixes:
        raise _refused(name, text, "mixes rows")
    if not (values.dtype.is_numeric() or values.dtype in (pl.Boolean, pl.Null)):
        raise _refused(name, text, f"gives {values.dtype}")
    single = values.cast(pl.Float32)
    return single.set(~single.is_finite(), None)


def _mixes_rows(frame: pl.DataFrame, expression: pl.Expr) -> bool:
    """Whether some rows have another value among others than alone. A few different rows tell.

    Polars divides a column otherwise than a single value: what differs in the last bits is the same.
    """
    some = pl.concat([frame.head(_PROBED), frame.unique(maintain_order=True).head(_PROBED)])
    if not some.height:
        return False
    alone = [some[row : row + 1].select(expression) for row in range(some.height)]
    one, other = pl.concat(alone, how="vertical_relaxed").to_series(), some.select(expression).to_series()
    if len(one) != len(other) or not one.is_null().equals(other.is_null()):
        return True
    if not one.dtype.is_numeric():
        return not one.equals(other)
    first, second = one.cast(pl.Float64).to_numpy(), other.cast(pl.Float64).to_numpy()
    return not np.allclose(first, second, rtol=_LAST_BITS, atol=0.0, equal_nan=True)


def check_expressions(expressions: Mapping[str, str]) -> None:
    """Raise ConfigError for the first expression that cannot be used, as far as the text alone tells."""
    for name, text in expressions.items():
        parse_expression(name, text)


def _refused(name: str, text: str, why: str) -> ConfigError:
    return ConfigError(
        f"{name} = {text!r} {why}",
        expected="a SQL expression that makes one number of the columns of one row, as in 1 - price / list_price",
        fix="correct it",
    )
