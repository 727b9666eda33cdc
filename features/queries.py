"""What a query is: a logged request, a session, a day of a user, or a row of a table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

import polars as pl

from features.columns import QUERY, QUERY_ORDER, SESSION, TIMESTAMP, USER, private
from features.errors import DataError
from features.log import align_ids
from features.normalise import normalise_ids

_ASKED: Final = private("asked")
_SEVERAL: Final = private("several")
_EVER: Final = private("ever")
_OF_TABLE: Final = private("of_table")
_ROW: Final = private("row")
_BEGAN: Final = private("began")
FIRST, LAST, COUNT = private("first"), private("last"), private("count")
"""Columns of `query_spans`."""


@dataclass(frozen=True, slots=True)
class Queries:
    """The queries of a log and the events of each.

    `frame`: `query`, `timestamp` (UTC; of its earliest event, unless a table says otherwise), `user` where logged
    (null: nobody knew by then), and the fields of the table, one row per query, ordered by (timestamp, query).
    `events`: all events of the log, in its order, with the `query` that each belongs to, null for none. `counts`: what
    was left out, and why.
    """

    frame: pl.DataFrame
    events: pl.DataFrame
    counts: Mapping[str, int]


def queries_by_id(events: pl.DataFrame, table: pl.DataFrame | None = None) -> Queries:
    """Events with one value of `query` are a query; `table` adds its fields, and its `user` and `timestamp` win."""
    _require(events, QUERY, "queries.by = 'query'")
    return _collect(events, table)


def queries_by_session(events: pl.DataFrame, *, gap: timedelta | None = None, column: str = SESSION) -> Queries:
    """Sessions: those that the log names in `column`, or, with a `gap`, of each user until a longer silence.

    A silence of exactly `gap` does not end a session. Events without a user have no session where a gap makes it.
    """
    if gap is None:
        _require(events, column, "queries.by = 'session' without a gap")
        named = normalise_ids(events[column], what=f"{column} of the log")
        return _collect(events.with_columns(named.alias(QUERY)))
    return _collect(next(name_sessions([events], gap)))


def name_sessions(parts: Iterable[pl.DataFrame], gap: timedelta) -> Iterator[pl.DataFrame]:
    """The parts of a log, which follow each other in time, with `query`: the session of each event, user@start.

    The start is written to the microsecond. A session may go on in the next part.
    """
    before: pl.DataFrame | None = None
    for part in parts:
        _require(part, USER, "queries.by = 'session' with a gap")
        own = part.select(USER, TIMESTAMP).with_row_index(_ROW).with_columns(pl.col(_ROW).cast(pl.Int64))
        known = own.with_columns(pl.lit(None, own.schema[TIMESTAMP]).alias(_BEGAN))
        ordered = (known if before is None else pl.concat([before, known])).sort(USER, TIMESTAMP, _ROW)
        begins = (pl.col(USER) != pl.col(USER).shift(1)) | (pl.col(TIMESTAMP).diff() > gap)
        starts = pl.when(begins.fill_null(True)).then(pl.col(TIMESTAMP))
        began = ordered.with_columns(pl.coalesce(_BEGAN, starts).forward_fill().alias(_BEGAN))
        before = began.group_by(USER, maintain_order=True).last().with_columns(pl.lit(-1, pl.Int64).alias(_ROW))
        before = before.select(known.columns)
        times = began.filter(pl.col(_ROW) >= 0).sort(_ROW)[_BEGAN]
        yield part.with_columns(_named(pl.lit(times.dt.strftime("%Y-%m-%dT%H:%M:%S%.6f"))))


def queries_by_user_day(events: pl.DataFrame) -> Queries:
    """All events of a user on one day (UTC) are a query, named user@2016-01-31."""
    return _collect(name_user_days(events))


def name_user_days(events: pl.DataFrame) -> pl.DataFrame:
    """A log, or a part of it, with `query`: the user and the day of each event."""
    _require(events, USER, "queries.by = 'user_day'")
    day = pl.col(TIMESTAMP).dt.strftime("%Y-%m-%d")
    return events.with_columns(_named(day))


def queries_by_table(events: pl.DataFrame, table: pl.DataFrame) -> Queries:
    """The rows of `table` are the queries, whether or not they have events.

    Events belong to the query that they name; in a log without `query`, to the latest query of their user that is not
    later than they are.
    """
    events, table = align_ids(name_by_table(events, table), table, QUERY)
    found = _collect(events, table)
    missing = table.join(found.frame.select(QUERY), on=QUERY, how="anti", maintain_order="left")
    without_time = missing.height if TIMESTAMP not in table.columns else missing[TIMESTAMP].null_count()
    if without_time:
        raise DataError(
            f"{without_time} queries of the table have neither events nor a timestamp",
            expected="a time for every query",
            fix="add a timestamp column to the table, or drop them",
        )
    frame = pl.concat([found.frame, missing], how="diagonal_relaxed")
    known = frame.join(table.select(QUERY), on=QUERY, how="semi", maintain_order="left").sort(QUERY_ORDER)
    counts = {**found.counts, "queries_not_in_the_table": frame.height - known.height}
    return Queries(known, _only_of(events, known), counts)


def name_by_table(events: pl.DataFrame, table: pl.DataFrame) -> pl.DataFrame:
    """A log, or a part of it, with the `query` that it names, or else the latest of the user by then."""
    return events if QUERY in events.columns else _latest_of_user(events, table)


def query_spans(parts: Iterable[pl.DataFrame], table: pl.DataFrame | None, *, all_of_table: bool) -> pl.DataFrame:
    """One row per query of the parts of a log: `query`, the `timestamp` that `Queries.frame` gives it, the times of its
    FIRST and LAST event (null for none), and how many there are (COUNT); ordered by (timestamp, query).

    `all_of_table`: with the queries of `table` that have no events.
    """
    at = pl.col(TIMESTAMP)
    spans = [
        part.filter(pl.col(QUERY).is_not_null())
        .group_by(QUERY)
        .agg(at.min().alias(FIRST), at.max().alias(LAST), pl.len().cast(pl.Int64).alias(COUNT))
        for part in parts
    ]
    merged = pl.concat(spans).group_by(QUERY).agg(pl.col(FIRST).min(), pl.col(LAST).max(), pl.col(COUNT).sum())
    frame = merged.with_columns(pl.col(FIRST).alias(TIMESTAMP))
    if table is not None:
        asked = table.select(name for name in (QUERY, TIMESTAMP) if name in table.columns)
        frame, _ = _join_table(frame, asked)
        if all_of_table:
            frame, asked = align_ids(frame, asked, QUERY)
            missing = asked.join(frame.select(QUERY), on=QUERY, how="anti").with_columns(pl.lit(0).alias(COUNT))
            frame = pl.concat([frame, missing], how="diagonal_relaxed")
    return frame.sort(QUERY_ORDER)


def _require(events: pl.DataFrame, column: str, rule: str) -> None:
    if column not in events.columns:
        raise DataError(
            f"{rule}, and the log has no {column!r}", expected="that column", fix="map it under data.columns"
        )


def _collect(events: pl.DataFrame, table: pl.DataFrame | None = None) -> Queries:
    """One row per query; events are sorted by time, and a group keeps that order."""
    own = events.filter(pl.col(QUERY).is_not_null())
    frame = own.group_by(QUERY).agg(pl.col(TIMESTAMP).min())
    counts = {"events_without_query": events.height - own.height}
    if table is not None:
        frame, counts["queries_without_row_in_table"] = _join_table(frame, table)
    if USER in events.columns:
        frame, found = _join_users(frame, own)
        counts |= found
    return Queries(frame.sort(QUERY_ORDER), events, counts)


def _join_users(frame: pl.DataFrame, own: pl.DataFrame) -> tuple[pl.DataFrame, dict[str, int]]:
    """The first user whom an event of the query names by the query's time; whom the table names wins.

    A name that comes later is not used: where people log in to buy, having one would tell what was bought.
    """
    times, own = align_ids(frame.select(QUERY, pl.col(TIMESTAMP).alias(_ASKED)), own, QUERY)
    named = own.select(QUERY, TIMESTAMP, USER).join(times, on=QUERY, maintain_order="left")
    in_time = pl.col(USER).filter(pl.col(TIMESTAMP) <= pl.col(_ASKED)).drop_nulls()
    users = named.group_by(QUERY, maintain_order=True).agg(
        in_time.first(),
        (pl.col(USER).min() != pl.col(USER).max()).alias(_SEVERAL),
        pl.col(USER).is_not_null().any().alias(_EVER),
    )
    joined, _ = _join_table(users.select(QUERY, USER), frame)
    counts = {
        "queries_of_several_users": int(users[_SEVERAL].sum()),
        "queries_whose_user_came_too_late": int((joined[USER].is_null() & users[_EVER]).sum()),
    }
    return joined, counts


def _join_table(frame: pl.DataFrame, table: pl.DataFrame) -> tuple[pl.DataFrame, int]:
    """The fields of the table beside each query; where both know a user or a time, the table wins."""
    frame, table = align_ids(frame, table, QUERY)
    for name in set(frame.columns) & set(table.columns) & {USER}:
        frame, table = align_ids(frame, table, name)
    both = frame.join(table, on=QUERY, how="left", maintain_order="left", suffix=_OF_TABLE, validate="1:1")
    twice = [name for name in frame.columns if name + _OF_TABLE in both.columns]
    merged = both.with_columns(pl.coalesce(name + _OF_TABLE, name).alias(name) for name in twice)
    unknown = frame.join(table, on=QUERY, how="anti").height
    return merged.drop(name + _OF_TABLE for name in twice), unknown


def _named(suffix: pl.Expr) -> pl.Expr:
    return pl.concat_str(pl.col(USER).cast(pl.String), suffix, separator="@").alias(QUERY)


def _latest_of_user(events: pl.DataFrame, table: pl.DataFrame) -> pl.DataFrame:
    _require(events, USER, "queries.by = 'table' and no query column")
    for name in (USER, TIMESTAMP):
        _require(table, name, "queries.by = 'table' and no query column")
    events, table = align_ids(events, table, USER)
    asked = table.select(QUERY, USER, TIMESTAMP).drop_nulls().sort(TIMESTAMP, QUERY)
    numbered = events.select(USER, TIMESTAMP).with_row_index("row").drop_nulls()
    found = numbered.join_asof(asked, on=TIMESTAMP, by=USER, strategy="backward", check_sortedness=False)
    queries = events.select(pl.int_range(pl.len(), dtype=pl.UInt32).alias("row")).join(
        found.select("row", QUERY), on="row", how="left", maintain_order="left"
    )
    return events.with_columns(queries[QUERY])


def _only_of(events: pl.DataFrame, frame: pl.DataFrame) -> pl.DataFrame:
    """The events, the query null where it is none of the frame's."""
    events, frame = align_ids(events, frame, QUERY)
    known = events[QUERY].is_in(frame[QUERY].implode())
    return events.with_columns(pl.when(known).then(pl.col(QUERY)).alias(QUERY))
