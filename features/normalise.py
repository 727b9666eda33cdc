"""One form for ids and one for times, whatever a log was written in.

Ids become Int64 or String. Times become UTC datetimes in microseconds; a datetime without a zone is taken as UTC.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

import polars as pl

from features.errors import DataError

TIME: Final = pl.Datetime("us", "UTC")
PER_SECOND: Final = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
"""The units of integer timestamps."""

_EARLIEST: Final = int(datetime(1990, 1, 1, tzinfo=UTC).timestamp())
_LATEST: Final = int(datetime(2100, 1, 1, tzinfo=UTC).timestamp())
_WITH_ZONE: Final = r":\d{2}.*(?:[Zz]|[+-]\d{2}(?::?\d{2})?)$"
_NAIVE_FORMATS: Final = ("%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%d %H:%M", "%Y-%m-%d")
_NUMBER: Final = r"^-?\d+(?:\.\d*)?$"


def normalise_ids(ids: pl.Series, *, what: str) -> pl.Series:
    """(N,) ids -> (N,) Int64, or String where some are text (or beyond int64); an empty string becomes null.

    Strings that all read as plain integers (no leading zero, no plus) become Int64. `what` names the column in
    messages. Raises DataError for floats, which cannot tell 16777216 from 16777217 (float32), and for nested types.
    """
    if isinstance(ids.dtype, pl.Categorical | pl.Enum):
        ids = ids.cast(pl.String)
    if ids.dtype == pl.Null or ids.dtype.is_integer():
        numbers = ids.cast(pl.Int64, strict=False)
        return numbers if numbers.null_count() == ids.null_count() else ids.cast(pl.String)
    if ids.dtype == pl.String:
        return _integers_where_all_are(ids.set(ids == "", None))
    raise DataError(
        f"{what} is of type {ids.dtype}",
        expected="ids that are integers or strings",
        fix="cast them where the log is written (pandas: astype('Int64'), which keeps missing values)",
    )


def normalise_times(times: pl.Series, *, unit: str | None, what: str) -> tuple[pl.Series, pl.Series]:
    """(N,) timestamps -> (N,) UTC datetimes in microseconds, and (N,) whether they lie outside 1990..2100.

    Takes datetimes of any unit and zone, dates, ISO 8601 strings, and numbers since 1970 in `unit` (one of s, ms, us,
    ns; None: inferred, as the four ranges do not overlap). Unreadable times are null. Raises DataError where most lie
    outside 1990..2100 (naming the unit that would fit), where only some strings have a zone, and for other types.
    """
    if isinstance(times.dtype, pl.Datetime) or times.dtype == pl.Date:
        return _from_datetimes(times, what)
    if times.dtype == pl.String:
        if not times.drop_nulls().str.contains(_NUMBER).all():
            return _from_datetimes(_parse(times, what), what)
        times = times.cast(pl.Float64 if times.str.contains(".", literal=True).any() else pl.Int64, strict=False)
    if times.dtype.is_numeric() or times.dtype == pl.Null:
        return _from_numbers(times, unit, what)
    raise DataError(
        f"{what} is of type {times.dtype}", expected="datetimes, ISO 8601 strings or numbers", fix="convert the column"
    )


def infer_unit(times: pl.Series) -> str | None:
    """The unit in which most of these numbers since 1970 lie in 1990..2100; None for none, or for other things."""
    if times.dtype == pl.String and times.drop_nulls().str.contains(_NUMBER).all():
        times = times.cast(pl.Float64, strict=False)
    return _likely_unit(_wide(times)) if times.dtype.is_numeric() else None


def _integers_where_all_are(ids: pl.Series) -> pl.Series:
    if not ids.drop_nulls().str.contains(r"^(?:0|-?[1-9]\d{0,18})$").all():
        return ids
    numbers = ids.cast(pl.Int64, strict=False)
    return numbers if numbers.null_count() == ids.null_count() else ids


def _from_datetimes(times: pl.Series, what: str) -> tuple[pl.Series, pl.Series]:
    dtype = times.dtype
    if isinstance(dtype, pl.Datetime) and dtype.time_zone is not None:
        utc = times.dt.convert_time_zone("UTC").cast(TIME)
    else:
        utc = times.cast(pl.Datetime("us")).dt.replace_time_zone("UTC")
    outside = _outside(utc.to_physical(), "us")
    if _most(outside, times):
        stored = times.to_physical() if isinstance(dtype, pl.Datetime) else utc.to_physical()
        likely = _likely_unit(stored)
        fix = f"keep them as numbers: they look like {likely}" if likely else "check the column"
        raise _out_of_range(
            what, f"datetimes like {utc.drop_nulls().head(1).dt.strftime('%Y-%m-%d %H:%M:%S').item()}", fix
        )
    return utc, outside


def _from_numbers(times: pl.Series, unit: str | None, what: str) -> tuple[pl.Series, pl.Series]:
    if unit is not None and unit not in PER_SECOND:
        raise DataError(
            f"the time unit {unit!r}", expected=f"one of {', '.join(PER_SECOND)}", fix="declare one of these"
        )
    times = _wide(times)
    likely = _likely_unit(times)
    used = unit or likely or "s"
    outside = _outside(times, used)
    if _most(outside, times):
        declared = f"declared as {unit}" if unit else "in no unit that fits"
        fix = f"they look like {likely}: declare that as the time unit" if likely else "check the column and its unit"
        raise _out_of_range(what, f"numbers like {times.drop_nulls()[0]}, {declared}", fix)
    return _microseconds(times.set(outside, None), used).cast(TIME), outside


def _wide(times: pl.Series) -> pl.Series:
    """Numbers of any width as Int64, or Float64 where there are fractions; null where they are none."""
    fractions = times.dtype.is_float() or (isinstance(times.dtype, pl.Decimal) and times.dtype.scale > 0)
    wide = times.cast(pl.Float64 if fractions else pl.Int64, strict=False)
    return wide.set(~wide.is_finite(), None)


def _microseconds(times: pl.Series, unit: str) -> pl.Series:
    per_second = PER_SECOND[unit]
    if times.dtype.is_float():
        return (times * (10**6 / per_second)).round().cast(pl.Int64)
    return times // (per_second // 10**6) if per_second > 10**6 else times * (10**6 // per_second)


def _outside(numbers: pl.Series, unit: str) -> pl.Series:
    per_second = PER_SECOND[unit]
    within = numbers.is_between(_EARLIEST * per_second, _LATEST * per_second, closed="left")
    return ~within.fill_null(True)


def _most(outside: pl.Series, times: pl.Series) -> bool:
    return 2 * int(outside.sum()) > len(times) - times.null_count()


def _likely_unit(numbers: pl.Series) -> str | None:
    """The unit in which most of the numbers lie in 1990..2100, if any."""
    known = numbers.drop_nulls()
    fitting = {unit: len(known) - int(_outside(known, unit).sum()) for unit in PER_SECOND}
    best = max(fitting, key=lambda unit: fitting[unit])
    return best if 2 * fitting[best] > len(known) else None


def _out_of_range(what: str, found: str, fix: str) -> DataError:
    return DataError(f"{what} holds {found}", expected="times between 1990 and 2100", fix=fix)


def _parse(strings: pl.Series, what: str) -> pl.Series:
    """ISO 8601 strings -> datetimes, with a zone where they all have one; what cannot be read becomes null."""
    text = strings.str.strip_chars().str.replace("T", " ", literal=True)
    with_zone = int(text.str.contains(_WITH_ZONE).sum())
    without = int(text.str.contains(r"^\d{4}-\d").sum()) - with_zone
    if with_zone and without:
        raise DataError(
            f"{what} holds {with_zone} times with a zone and {without} without",
            expected="one kind",
            fix="give them all a zone where the log is written",
        )
    formats = ("%Y-%m-%d %H:%M:%S%.f%#z", "%Y-%m-%d %H:%M%#z") if with_zone else _NAIVE_FORMATS
    parsed = pl.select(
        pl.coalesce(pl.lit(text).str.to_datetime(form, time_unit="us", strict=False) for form in formats)
    )
    return parsed.to_series()
