"""The event contract: read a log, split good rows from bad, count every rule that was broken.

Required columns are `item`, `timestamp` and `event`; `user`, `query`, `session`, `value` and `position` are known by
name, and every other column of scalars or lists is a field: logged with the event, of use where the event says what was
shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

import polars as pl

from features.columns import EVENT, ITEM, POSITION, PRIVATE, QUERY, RULE, SESSION, TIMESTAMP, USER, VALUE
from features.errors import DataError
from features.fixed import FIXED_POINT
from features.names import listed, nearest
from features.normalise import normalise_ids, normalise_times
from features.sources import Sources, read_tables
from features.spill import Events

RULES: Final = {
    "null_item": "the item is missing",
    "null_timestamp": "the time is missing or cannot be read",
    "timestamp_out_of_range": "the time lies outside 1990..2100",
    "null_event": "the kind of event is missing",
    "value_not_finite": "the value is NaN or infinite (write null where there is none)",
    "value_negative": "the value is below 0",
    "value_too_large": "the value is above 10^12, of which ten-thousandths cannot be summed",
    "position_below_1": "the position is below 1, or not whole",
    "position_too_large": "the position is above 2^31 - 1",
    "duplicate": "the same row stands in the log already, and is kept once",
    "repeated": "the same user, or query, did the same to the same item just before",
}
"""Every rule, in the order of checking: a row is counted under the first that it breaks."""
_SURPLUS: Final = ("duplicate", "repeated")
"""What breaks these is no fault of the log, and does not count against `max_rejected`."""

_IDS: Final = (QUERY, USER, ITEM, SESSION)
_REQUIRED: Final = (ITEM, TIMESTAMP, EVENT)
_OURS: Final = (TIMESTAMP, QUERY, USER, ITEM, EVENT, POSITION, VALUE, SESSION)
_MAX_VALUE: Final = 10**12
_MAX_SUM: Final = 2**63 // FIXED_POINT
"""Sums of values are Int64 in ten-thousandths."""
_MAX_POSITION: Final = 2**31 - 1
_SOURCE: Final = "source"
_ROW: Final = "row"


@dataclass(frozen=True, slots=True)
class EventLog:
    """What a log holds.

    `events`: the good rows, sorted on all columns, time first, so that no order of input can matter. Columns: `item`
    (Int64 or String), `timestamp` (UTC, microseconds), `event` (Enum of the kinds found, sorted), where logged `query`,
    `user`, `session` (ids, may be null), `position` (Int32, 1 = top), `value` (Float64), and the fields.
    `rejected`: `rule`, `source`, `row` (from 0 in its source) and the row as it was read, as text, a field of such a
    name with `_field` after it; duplicates as they were understood. `counts`: rows per rule, without zeros. `read`:
    rows in all.
    """

    events: Events
    rejected: pl.DataFrame
    counts: Mapping[str, int]
    read: int

    @property
    def kept(self) -> int:
        """How many rows are good."""
        return self.read - sum(self.counts.values())

    @property
    def fields(self) -> tuple[str, ...]:
        """The columns that are not ours."""
        return tuple(name for name in self.events.collect_schema() if name not in _OURS)


def read_events(
    sources: Sources,
    *,
    columns: Mapping[str, str] | None = None,
    time_unit: str | None = None,
    event: str | None = None,
    max_rejected: float = 0.01,
    merge: timedelta | None = None,
) -> EventLog:
    """Read and validate a log.

    `columns` maps our names to theirs. `time_unit` is that of integer times (None: inferred). `event` is the kind of
    all rows of a log that has no such column. An event less than `merge` after one of the same query, user, item and
    kind (a double click, a burst of a robot) is left out; None keeps all. Raises DataError for a missing column, a
    column of a wrong type, a log without (good) rows, and a share of rejected rows above `max_rejected`, not counting
    duplicates and repetitions.
    """
    mapping = dict(columns or {})
    parts = [
        validate_rows(name, project_columns(name, table, mapping, event), time_unit)
        for name, table in read_tables(sources, text=id_columns(mapping))
    ]
    good = stack_events([part.good for part in parts])
    check_sum(sum_values(good))
    read = sum(part.good.height + part.bad.height for part in parts)
    surplus = Surplus(merge)
    events = surplus.taken_out(sort_events(good))
    return finish_log(events, [*(part.bad for part in parts), *surplus.found], read, max_rejected)


def id_columns(mapping: Mapping[str, str]) -> list[str]:
    """What a log calls its ids."""
    return [mapping.get(name, name) for name in _IDS]


def finish_log(events: Events, rejected: list[pl.DataFrame], read: int, max_rejected: float) -> EventLog:
    """The log, unless too much of it was rejected."""
    bad = pl.concat(rejected, how="diagonal")
    counts = {rule: n for rule in RULES if (n := int((bad[RULE] == rule).sum()))}
    _check_rejected(counts, read, max_rejected)
    return EventLog(events, bad, counts, read)


@dataclass(frozen=True, slots=True)
class _Part:
    good: pl.DataFrame
    bad: pl.DataFrame


def require_columns(name: str, table: pl.DataFrame, mapping: Mapping[str, str], required: tuple[str, ...]) -> None:
    """Raise DataError for the first column that is required, or mapped, and not there."""
    for ours in (*required, *(ours for ours in mapping if ours not in required)):
        theirs = mapping.get(ours, ours)
        if theirs not in table.columns:
            near = nearest(theirs, table.columns)
            hint = f'{ours} = "{near or "..."}"'
            raise DataError(
                f"{name} has no column {theirs!r}",
                expected=f"it among {listed(table.columns, most=20)}",
                fix=f"map it under columns, as in {{ {hint} }}",
            )


def is_scalar(dtype: pl.DataType) -> bool:
    """Whether a column of this type can be a field: numbers, text, booleans and times."""
    return not (dtype.is_nested() or dtype in (pl.Binary, pl.Object, pl.Null, pl.Duration, pl.Time))


def is_list(dtype: pl.DataType) -> bool:
    """Whether a column of this type can be a field of lists, or of vectors: numbers, text or booleans in each cell."""
    if not isinstance(dtype, pl.List | pl.Array):
        return False
    inner = dtype.inner
    return inner == pl.Null or (isinstance(inner, pl.DataType) and is_scalar(inner) and not inner.is_temporal())


def rename_columns(table: pl.DataFrame, mapping: Mapping[str, str], ours: tuple[str, ...]) -> pl.DataFrame:
    """Our columns under our names, then every other column of scalars or lists under its own.

    A mapped name wins over a namesake. Lists hold Int64, Float64, String or Boolean; fixed-size arrays, which are
    vectors, become lists of Float64.
    """
    known = {name: mapping.get(name, name) for name in ours if mapping.get(name, name) in table.columns}
    taken = {*known, *known.values(), *ours}
    usable = (name for name, dtype in table.schema.items() if is_scalar(dtype) or is_list(dtype))
    others = [name for name in usable if name not in taken]
    reserved = [name for name in others if name.startswith(PRIVATE)]
    if reserved:
        raise DataError(
            f"a column is called {reserved[0]!r}",
            expected=f"names that do not begin with {PRIVATE}",
            fix="rename it, or map it under columns",
        )
    plain = (_plain(name, table.schema[name]) for name in others)
    return table.select(*(pl.col(theirs).alias(name) for name, theirs in known.items()), *plain)


def _plain(name: str, dtype: pl.DataType) -> pl.Expr:
    """Lists of one of four types, in which they can be sorted and compared."""
    if not isinstance(dtype, pl.List | pl.Array):
        return pl.col(name)
    if dtype.inner.is_float() or (isinstance(dtype, pl.Array) and dtype.inner.is_numeric()):
        return pl.col(name).cast(pl.List(pl.Float64))
    if dtype.inner.is_integer() or dtype.inner == pl.Boolean:
        return pl.col(name).cast(pl.List(pl.Int64 if dtype.inner.is_integer() else pl.Boolean))
    return pl.col(name).cast(pl.List(pl.String))


def project_columns(name: str, table: pl.DataFrame, mapping: Mapping[str, str], event: str | None) -> pl.DataFrame:
    """Our columns under our names, and the fields. Raises DataError as `read_events` does."""
    if table.is_empty():
        raise DataError(
            f"{name} holds no rows", expected="at least one event", fix="check the path, or how it was made"
        )
    if event is not None and EVENT not in mapping:
        table = table.with_columns(pl.lit(event).alias(EVENT))
    require_columns(name, table, mapping, _REQUIRED)
    return rename_columns(table, mapping, _OURS)


def validate_rows(name: str, raw: pl.DataFrame, time_unit: str | None, first: int = 0) -> _Part:
    """The rows of one source from its row `first` on, in our types, and those that break a rule, as text."""
    times, outside = normalise_times(raw[TIMESTAMP], unit=time_unit, what=f"{TIMESTAMP} in {name}")
    typed = raw.with_columns(times.alias(TIMESTAMP), *_typed_columns(name, raw))
    broken = _first_broken(typed, outside)
    is_bad = broken.is_not_null()
    bad = raw.filter(is_bad)
    places = (is_bad.arg_true().cast(pl.Int64) + first).alias(_ROW)
    why = [broken.filter(is_bad).alias(RULE), pl.repeat(name, bad.height, eager=True).alias(_SOURCE), places]
    return _Part(typed.filter(~is_bad), _as_text(bad).select(*why, pl.all()))


def _as_text(rows: pl.DataFrame) -> pl.DataFrame:
    """Rejected rows; what we say of them stands under the plain names."""
    return rows.select(
        _text(column).alias(f"{column.name}_field" if column.name in (RULE, _SOURCE, _ROW) else column.name)
        for column in rows
    )


def _text(column: pl.Series) -> pl.Series:
    if not is_list(column.dtype):
        return column.cast(pl.String, strict=False)
    values = pl.col(column.name).list.eval(pl.element().cast(pl.String)).list.join(", ", ignore_nulls=True)
    return column.to_frame().select(pl.format("[{}]", values)).to_series()


def _typed_columns(name: str, raw: pl.DataFrame) -> Iterator[pl.Series]:
    for column in raw:
        what = f"{column.name} in {name}"
        if column.name in _IDS:
            yield normalise_ids(column, what=what)
        elif column.name == EVENT:
            if not is_scalar(column.dtype):
                raise DataError(f"{what} is of type {column.dtype}", expected="text", fix="map another column")
            yield column.cast(pl.String)
        elif column.dtype in (pl.Categorical, pl.Enum):
            yield column.cast(pl.String)
        elif column.name in (VALUE, POSITION):
            yield _number(column, what)


def _number(column: pl.Series, what: str) -> pl.Series:
    if not (column.dtype.is_numeric() or column.dtype in (pl.Null, pl.Boolean)):
        raise DataError(
            f"{what} is of type {column.dtype}", expected="numbers", fix="convert it, or map another column"
        )
    return column.cast(pl.Float64)


def _first_broken(typed: pl.DataFrame, outside: pl.Series) -> pl.Series:
    """(N,) the first rule that each row breaks, null for good rows."""
    value = pl.col(VALUE) if VALUE in typed.columns else pl.lit(None, pl.Float64)
    position = pl.col(POSITION) if POSITION in typed.columns else pl.lit(None, pl.Float64)
    whole = position.is_finite() & (position >= 1) & (position == position.floor())
    breaks: dict[str, pl.Expr] = {
        "null_item": pl.col(ITEM).is_null(),
        "timestamp_out_of_range": pl.lit(outside),
        "null_timestamp": pl.col(TIMESTAMP).is_null() & ~pl.lit(outside),
        "null_event": pl.col(EVENT).is_null(),
        "value_not_finite": ~value.is_finite(),
        "value_negative": value < 0,
        "value_too_large": value > _MAX_VALUE,
        "position_below_1": ~whole,
        "position_too_large": position > _MAX_POSITION,
    }
    rules = [pl.when(condition).then(pl.lit(rule)) for rule, condition in breaks.items()]
    return typed.select(pl.coalesce(rules).alias(RULE)).to_series()


def stack_events(tables: list[pl.DataFrame], kinds: pl.Enum | None = None) -> pl.DataFrame:
    """All good rows, kinds of events as an Enum: of `kinds`, or of those found."""
    stacked = stack_tables(align_tables(tables))
    casts = [pl.col(EVENT).cast(kinds or pl.Enum(stacked[EVENT].unique().sort()))]
    if POSITION in stacked.columns:
        casts.append(pl.col(POSITION).cast(pl.Int32))
    return stacked.with_columns(casts)


def align_tables(tables: list[pl.DataFrame]) -> list[pl.DataFrame]:
    """The tables with ids as text where any of them has text."""
    for name in _IDS:
        dtypes = {table.schema[name] for table in tables if name in table.columns}
        if len(dtypes) > 1:
            tables = [
                table.with_columns(pl.col(name).cast(pl.String)) if name in table.columns else table for table in tables
            ]
    return tables


def stack_tables(tables: list[pl.DataFrame]) -> pl.DataFrame:
    """The rows of all tables; DataError where a column is of types that have nothing in common."""
    try:
        return pl.concat(tables, how="diagonal_relaxed")
    except pl.exceptions.PolarsError as error:
        types = {name: {str(t.schema[name]) for t in tables if name in t.columns} for t in tables for name in t.columns}
        differ = [f"{name} ({', '.join(sorted(found))})" for name, found in types.items() if len(found) > 1]
        raise DataError(
            f"the files disagree about the type of {listed(differ)}",
            expected="one type in all files",
            fix="write them alike",
        ) from error


def sum_values(events: pl.DataFrame) -> float:
    """The sum of all values, 0.0 without any."""
    return float(events[VALUE].sum()) if VALUE in events.columns else 0.0


def check_sum(total: float) -> None:
    """Raises DataError where sums of ten-thousandths could overflow."""
    if total >= _MAX_SUM:
        raise DataError(
            f"the values of the log sum to {total:.3g}",
            expected=f"less than {_MAX_SUM:.3g}, so that every sum of ten-thousandths is exact",
            fix="count in a larger unit, such as thousands",
        )


@dataclass(slots=True)
class Surplus:
    """Takes the surplus out of sorted events, piece by piece in order of time: duplicates, and what is to be merged.

    `found`: what was taken out, as rejected rows.
    """

    merge: timedelta | None
    found: list[pl.DataFrame] = field(default_factory=list)
    _before: pl.DataFrame | None = None

    def taken_out(self, events: pl.DataFrame) -> pl.DataFrame:
        """Equal rows are neighbours."""
        same = events.select(pl.all_horizontal(pl.all().eq_missing(pl.all().shift(1)))).to_series()
        once = self._split("duplicate", events, same)
        return once if self.merge is None else self._split("repeated", once, self._repeated(once, self.merge))

    def _repeated(self, events: pl.DataFrame, merge: timedelta) -> pl.Series:
        """Which events follow one of their kind within the time; of an unknown user outside of queries none does."""
        by = [name for name in (QUERY, USER, ITEM, EVENT) if name in events.columns]
        known = pl.any_horizontal(pl.lit(False), *(pl.col(name).is_not_null() for name in by if name in (QUERY, USER)))
        last = [] if self._before is None else [self._before]
        both = pl.concat([*last, events.select(*by, TIMESTAMP)])
        silence = pl.col(TIMESTAMP) - pl.col(TIMESTAMP).shift(1).over(by)
        repeated = both.select((silence < merge).fill_null(False) & known).to_series().tail(events.height)
        self._before = both.filter(pl.col(TIMESTAMP) > pl.col(TIMESTAMP).max() - merge)
        return repeated

    def _split(self, rule: str, events: pl.DataFrame, surplus: pl.Series) -> pl.DataFrame:
        self.found.append(_as_text(events.filter(surplus)).select(pl.lit(rule).alias(RULE), pl.all()))
        return events.filter(~surplus)


def sort_events(events: pl.DataFrame) -> pl.DataFrame:
    """Our columns first, and sorted by all of them: time first."""
    ours = [name for name in _OURS if name in events.columns]
    order = [*ours, *sorted(set(events.columns) - set(ours))]
    return events.select(order).sort(order)


def _check_rejected(counts: Mapping[str, int], read: int, max_rejected: float) -> None:
    bad = sum(n for rule, n in counts.items() if rule not in _SURPLUS)
    if bad <= max_rejected * read and bad < read:
        return
    worst = max((rule for rule in counts if rule not in _SURPLUS), key=lambda rule: counts[rule])
    raise DataError(
        f"{bad} of {read} events rejected ({listed(f'{rule} {n}' for rule, n in counts.items())})",
        expected=f"at most {max_rejected:.2%} bad rows, and some good ones",
        fix=f"mend the log (most often {RULES[worst]}), or raise data.max_rejected",
    )
