"""The user's own columns: numbers and their logarithms, categories as codes, ages of times, words counted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from glob import escape
from typing import Final

import polars as pl

from features.columns import CREATED_AT
from features.context import MICROSECONDS_PER_DAY, Context, Feature
from features.description import Field
from features.errors import DataError
from features.events import is_scalar
from features.normalise import TIME
from features.spec import FeatureSpec
from features.terms import words

Read = Callable[[Context, str], pl.Series]

_EXACT_IN_FLOAT32: Final = 2**24


def field_features(prefix: str, fields: Sequence[Field], read: Read) -> Iterator[Feature]:
    """What each field says by itself, lists and vectors apart; `read` fetches its values, (N,), row by row."""
    for field in fields:
        if field.kind == "number":
            yield Feature(_spec(f"{prefix}.{field.name}"), partial(read_number, read=read, name=field.name))
            yield Feature(_spec(f"{prefix}.{field.name}_log"), partial(_logarithm, read=read, name=field.name))
        elif field.kind == "category":
            spec = FeatureSpec(f"{prefix}.{field.name}", dtype="category", missing="not given")
            yield Feature(spec, partial(_category, read=read, name=field.name))
        elif field.kind == "time":
            name = "age_days" if field.name == CREATED_AT else f"{field.name}_age_days"
            yield Feature(
                FeatureSpec(f"{prefix}.{name}", missing="not given, or later than the query"),
                partial(_age, read=read, name=field.name),
            )
        elif field.kind == "text":
            spec = FeatureSpec(f"{prefix}.{field.name}_words", missing="not given")
            yield Feature(spec, partial(_words, read=read, name=field.name))


def read_number(context: Context, read: Read, name: str) -> pl.Series:
    """(N,) a number field as Float32, null where it is missing, NaN or infinite.

    Raises DataError for text, and for integers beyond 2^24, of which Float32 cannot tell neighbours apart.
    """
    values = read(context, name)
    if values.null_count() == len(values):
        return pl.repeat(None, len(values), dtype=pl.Float32, eager=True)
    if values.dtype.is_integer() and _beyond(values):
        raise DataError(
            f"field {name!r} holds integers beyond 2^24",
            expected="numbers that Float32 keeps apart",
            fix=f'put "*{escape(name)}*" under features.drop, or write it as text where it is an id',
        )
    if not (values.dtype.is_numeric() or values.dtype in (pl.Boolean, pl.Null)):
        raise DataError(f"field {name!r} is of type {values.dtype}", expected="numbers", fix="keep its type as it was")
    single = values.cast(pl.Float32)
    return single.set(~single.is_finite(), None)


def _logarithm(context: Context, read: Read, name: str) -> pl.Series:
    """sign(x) * ln(1 + |x|): for expressions and models that are no trees, to which it is the number itself."""
    values = read_number(context, read, name).cast(pl.Float64)
    return (values.sign() * values.abs().log1p()).cast(pl.Float32)


def _words(context: Context, read: Read, name: str) -> pl.Series:
    values = read(context, name).cast(pl.String).to_frame("text")
    return values.select(words(pl.col("text")).list.len().cast(pl.Float32)).to_series()


def _category(context: Context, read: Read, name: str) -> pl.Series:
    levels = read(context, name)
    if not is_scalar(levels.dtype) and levels.dtype != pl.Null:
        raise DataError(f"field {name!r} is of type {levels.dtype}", expected="levels", fix="keep its type as it was")
    return levels


def _age(context: Context, read: Read, name: str) -> pl.Series:
    """Days from the time in the field to the query."""
    since = read(context, name)
    if not isinstance(since.dtype, pl.Datetime):
        raise DataError(f"field {name!r} is of type {since.dtype}", expected="times", fix="keep its type as it was")
    since = since.cast(TIME).to_physical()
    age = (pl.Series(context.times) - since) / MICROSECONDS_PER_DAY
    return age.set(age < 0, None).cast(pl.Float32)


def _beyond(values: pl.Series) -> bool:
    low, high = values.min(), values.max()
    return any(isinstance(edge, int) and abs(edge) > _EXACT_IN_FLOAT32 for edge in (low, high))


def _spec(name: str) -> FeatureSpec:
    return FeatureSpec(name, missing="not given")
