"""The request itself: when it was asked on the clock of its place, what it said, and how its candidates compare."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

import numpy as np
import polars as pl

from features.columns import TIMESTAMP
from features.context import Context, Feature, numbers
from features.description import Description
from features.fields import field_features
from features.spec import FeatureSpec
from features.within import within_features

_FRIDAY: Final = 5


def query_features(log: Description) -> Iterator[Feature]:
    """`query.*`: the local time, the fields of the query; how many candidates were shown, and how they compare."""
    for name, (read, meaning) in _CLOCK.items():
        spec = FeatureSpec(f"query.{name}", missing=f"never; in {log.options.zone}, {meaning}")
        yield Feature(spec, partial(_local, read=read))
    yield from field_features("query", log.query_fields, Context.query_field)
    if log.pool == "shown":
        yield Feature(FeatureSpec("query.candidates", missing="never"), _candidates)
        yield from within_features(log)


_CLOCK: Final[dict[str, tuple[Callable[[pl.Expr], pl.Expr], str]]] = {
    "hour": (lambda at: at.dt.hour() + at.dt.minute() / 60, "with minutes as a fraction"),
    "weekday": (lambda at: at.dt.weekday(), "Monday = 1"),
    "weekend": (lambda at: at.dt.weekday() > _FRIDAY, "1 on Saturday and Sunday"),
    "day": (lambda at: at.dt.day(), "the day of the month"),
    "month": (lambda at: at.dt.month(), "January = 1"),
}


def _local(context: Context, read: Callable[[pl.Expr], pl.Expr]) -> pl.Series:
    """What the clock and the calendar say where the queries are asked."""
    at = pl.col(TIMESTAMP).dt.convert_time_zone(context.description.options.zone)
    return context.rows.select(read(at).cast(pl.Float32)).to_series()


def _candidates(context: Context) -> pl.Series:
    sizes = context.sizes()
    return numbers(np.repeat(sizes, sizes))
