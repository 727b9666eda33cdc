"""One form for ids and times, or one sentence that says why not."""

from __future__ import annotations

from datetime import UTC, date, datetime

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from features.errors import DataError
from features.normalise import PER_SECOND, normalise_ids, normalise_times

NEW_YEAR = datetime(2024, 1, 1, tzinfo=UTC)
SECONDS = 1_704_067_200
"""NEW_YEAR since 1970."""


def times_of(values: object, unit: str | None = None, dtype: pl.DataType | None = None) -> list[datetime | None]:
    series = values if isinstance(values, pl.Series) else pl.Series(values, dtype=dtype)
    times, _ = normalise_times(series, unit=unit, what="timestamp")
    assert times.dtype == pl.Datetime("us", "UTC")
    return times.to_list()


def test_ids_when_integers_of_any_width_then_int64():
    for dtype in (pl.Int8, pl.UInt32, pl.Int64):
        assert normalise_ids(pl.Series([1, None, 5], dtype=dtype), what="item").dtype == pl.Int64


def test_ids_when_beyond_int64_then_text_that_stays_distinct():
    ids = normalise_ids(pl.Series([2**64 - 1, 2**64 - 2], dtype=pl.UInt64), what="item")
    assert ids.to_list() == [str(2**64 - 1), str(2**64 - 2)]


def test_ids_when_text_reads_as_integers_then_int64():
    assert normalise_ids(pl.Series(["-1", str(2**62 + 1), None, ""]), what="item").to_list() == [
        -1,
        2**62 + 1,
        None,
        None,
    ]


@pytest.mark.parametrize("text", ["007", "+1", "1.0", " 1", "x", "-0", str(2**63)])
def test_ids_when_any_text_is_no_plain_integer_then_all_stay_text(text):
    assert normalise_ids(pl.Series(["1", text]), what="item").to_list() == ["1", text]


def test_ids_when_categorical_then_text():
    assert normalise_ids(pl.Series(["b", "a"], dtype=pl.Enum(["b", "a"])), what="item").to_list() == ["b", "a"]


@pytest.mark.parametrize("dtype", [pl.Float32, pl.Float64, pl.Boolean, pl.List(pl.Int64)])
def test_ids_when_floats_or_worse_then_refused(dtype):
    values = [[1]] if dtype == pl.List(pl.Int64) else [1]
    with pytest.raises(DataError, match=r"query in log.csv is of type .*; expected ids that are integers or strings"):
        normalise_ids(pl.Series(values, dtype=dtype, strict=False), what="query in log.csv")


@settings(deadline=None, max_examples=60)
@given(st.datetimes(datetime(1990, 1, 1), datetime(2099, 12, 31)), st.sampled_from(sorted(PER_SECOND)))
def test_times_when_integers_of_any_unit_then_inferred(moment, unit):
    microseconds = (moment - datetime(1970, 1, 1)) // datetime.resolution
    number = microseconds * PER_SECOND[unit] // 10**6
    step = max(1, 10**6 // PER_SECOND[unit])
    expected = moment.replace(microsecond=moment.microsecond // step * step, tzinfo=UTC)
    assert times_of([number]) == [expected]
    assert times_of([number], unit) == [expected]


WIDE = (pl.Int32, pl.UInt32, pl.Int64, pl.UInt64, pl.Int128)


@pytest.mark.parametrize("dtype", [*WIDE, pl.Decimal(20, 0), pl.Decimal(20, 3)])
@pytest.mark.parametrize("unit", ["s", None])
def test_times_when_numbers_of_any_width_then_the_same(dtype, unit):
    times, outside = normalise_times(pl.Series([1_700_000_000, None]).cast(dtype), unit=unit, what="t")
    assert times.to_list() == [datetime.fromtimestamp(1_700_000_000, UTC), None]
    assert not outside.any()


@pytest.mark.parametrize("dtype", [pl.Int8, pl.Int16, pl.UInt8, pl.UInt16])
def test_times_when_too_narrow_for_a_time_then_out_of_range(dtype):
    with pytest.raises(DataError, match="holds numbers like 7"):
        normalise_times(pl.Series([7], dtype=dtype), unit=None, what="t")


def test_times_when_before_the_year_1_then_out_of_range():
    with pytest.raises(DataError, match="holds datetimes like -0001"):
        normalise_times(pl.Series(["-0001-01-01"]), unit=None, what="t")


def test_times_when_in_any_zone_or_form_then_utc():
    berlin = pl.Series([datetime(2024, 1, 1, 1)]).dt.replace_time_zone("Europe/Berlin")
    for series in (
        berlin,
        berlin.cast(pl.Datetime("ns", "Europe/Berlin")),
        pl.Series([datetime(2024, 1, 1)]),
        pl.Series([date(2024, 1, 1)]),
        pl.Series(["2024-01-01T00:00:00Z"]),
        pl.Series(["2024-01-01 01:00:00.000+01:00"]),
        pl.Series(["2024-01-01"]),
        pl.Series(["2024-01-01 00:00"]),
        pl.Series([str(SECONDS)]),
        pl.Series([f"{SECONDS}.0"]),
        pl.Series([float(SECONDS)]),
    ):
        assert times_of(series) == [NEW_YEAR]


def test_times_when_fractions_of_seconds_then_to_the_microsecond():
    assert times_of([SECONDS + 0.25]) == [NEW_YEAR.replace(microsecond=250_000)]


def test_times_when_unreadable_then_null():
    assert times_of(["2024-01-01", "yesterday", None]) == [NEW_YEAR, None, None]
    assert times_of([float("nan"), float(SECONDS)]) == [None, NEW_YEAR]


def test_times_when_a_few_lie_outside_then_marked():
    times, outside = normalise_times(pl.Series([SECONDS, SECONDS, 0, None]), unit=None, what="timestamp")
    assert times.to_list() == [NEW_YEAR, NEW_YEAR, None, None]
    assert outside.to_list() == [False, False, True, False]


def test_times_when_unit_is_declared_wrong_then_the_likely_one_is_named():
    with pytest.raises(DataError, match="declared as s; expected times between 1990 and 2100; they look like us"):
        times_of([SECONDS * 10**6], "s")


def test_times_when_seconds_were_read_as_microseconds_then_said():
    with pytest.raises(DataError, match=r"datetimes like 1970-01-01 .*; keep them as numbers: they look like s"):
        times_of(pl.Series([SECONDS]).cast(pl.Datetime("us")))


def test_times_when_units_are_mixed_then_refused():
    with pytest.raises(DataError, match="in no unit that fits"):
        times_of([SECONDS, SECONDS * 1000, 5])


def test_times_when_some_strings_have_a_zone_then_refused():
    with pytest.raises(DataError, match="1 times with a zone and 2 without; expected one kind"):
        times_of(["2024-01-01T00:00:00Z", "2024-01-01T00:00:00", "2024-01-01"])


@pytest.mark.parametrize("values", [[True], [[1]]])
def test_times_when_of_another_type_then_refused(values):
    with pytest.raises(DataError, match="timestamp is of type"):
        times_of(values)


def test_times_when_the_unit_is_unknown_then_refused():
    with pytest.raises(DataError, match="the time unit 'h'; expected one of s, ms, us, ns"):
        times_of([SECONDS], "h")


def test_times_when_empty_or_all_null_then_the_same():
    assert times_of([], dtype=pl.Int64) == []
    assert times_of([None, None]) == [None, None]
