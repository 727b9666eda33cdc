"""The request itself: when it was asked on the clock of its place, what it said, and how its candidates compare."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final
from zoneinfo import available_timezones

import numpy as np
import polars as pl

from features.columns import TIMESTAMP
from features.context import Context, Feature, numbers
from features.description import Description
from features.fields import field_features
from features.spec import FeatureSpec
from features.within import within_features

_FRIDAY: Final = 5
_ZONES: Final = ("zone", "time_zone", "timezone")
"""Fields of a query that say on which clock it was asked."""


def query_features(log: Description) -> Iterator[Feature]:
    """`query.*`: the local time, the fields of the query; how many candidates were shown, and how they compare."""
    zone = next((field for field in _ZONES if any(each.name == field for each in log.query_fields)), None)
    where = log.options.zone if zone is None else f"the query's {zone}, else {log.options.zone}"
    for name, (read, meaning) in _CLOCK.items():
        spec = FeatureSpec(f"query.{name}", missing=f"never; in {where}, {meaning}")
        yield Feature(spec, partial(_local, read=read, zone=zone))
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


def _local(context: Context, read: Callable[[pl.Expr], pl.Expr], zone: str | None) -> pl.Series:
    """What the clock and the calendar say where each query is asked; names that are no zones count as none."""
    usual = context.description.options.zone
    if zone is None:
        return context.rows.select(_in_zone(read, usual)).to_series()
    asked = context.query_field(zone).cast(pl.String)
    places = sorted(set(asked.drop_nulls().unique()) & available_timezones())
    own = [pl.when(pl.lit(asked) == place).then(_in_zone(read, place)) for place in places]
    return context.rows.select(pl.coalesce(*own, _in_zone(read, usual))).to_series()


def _in_zone(read: Callable[[pl.Expr], pl.Expr], zone: str) -> pl.Expr:
    return read(pl.col(TIMESTAMP).dt.convert_time_zone(zone)).cast(pl.Float32)


def _candidates(context: Context) -> pl.Series:
    sizes = context.sizes()
    return numbers(np.repeat(sizes, sizes))
