"""What a query is: a logged request, a session, a day of a user, or a row of a table."""

from __future__ import annotations

from collections.abc import Mapping
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
    _require(events, USER, "queries.by = 'session' with a gap")
    return _collect(events.with_columns(_session_ids(events, gap)))


def queries_by_user_day(events: pl.DataFrame) -> Queries:
    """All events of a user on one day (UTC) are a query, named user@2016-01-31."""
    _require(events, USER, "queries.by = 'user_day'")
    day = pl.col(TIMESTAMP).dt.strftime("%Y-%m-%d")
    return _collect(events.with_columns(_named(day)))


def queries_by_table(events: pl.DataFrame, table: pl.DataFrame) -> Queries:
    """The rows of `table` are the queries, whether or not they have events.

    Events belong to the query that they name; in a log without `query`, to the latest query of their user that is not
    later than they are.
    """
    if QUERY in events.columns:
        events, table = align_ids(events, table, QUERY)
    else:
        events = _latest_of_user(events, table)
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


def _session_ids(events: pl.DataFrame, gap: timedelta) -> pl.Expr:
    """user@start, the start to the microsecond."""
    ordered = events.select(USER, TIMESTAMP).with_row_index("row").sort(USER, TIMESTAMP, "row")
    begins = (pl.col(USER) != pl.col(USER).shift(1)) | (pl.col(TIMESTAMP).diff() > gap)
    starts = ordered.with_columns(
        pl.when(begins.fill_null(True)).then(pl.col(TIMESTAMP)).forward_fill().alias(TIMESTAMP)
    ).sort("row")
    return _named(pl.lit(starts[TIMESTAMP].dt.strftime("%Y-%m-%dT%H:%M:%S%.6f")))


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
