"""A log larger than memory, sorted in files, its queries dealt into blocks that follow each other as in a table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from features.columns import QUERY, SESSION, TIMESTAMP
from features.errors import ConfigError, DataError
from features.events import EventLog
from features.large_events import read_large_events
from features.log import Log, require_kinds
from features.queries import (
    COUNT,
    FIRST,
    LAST,
    Queries,
    name_by_table,
    name_sessions,
    name_user_days,
    queries_by_id,
    queries_by_table,
    query_spans,
)
from features.room import Kept, Room
from features.sources import estimate_rows
from features.spill import read_parts, read_slice, rewrite, write_piece
from pipeline.config import Config
from pipeline.log import read_files

Say = Callable[[str], None]

_BYTES_OF_EVENT: Final = 1_536
"""What an event of a log in memory takes at most on the way to a table."""
_BYTES_OF_ROW: Final = 4_096
"""What a row of a block takes at most; blocks may have half of what there is, the rest is for what goes on between."""
_BYTES_OF_PROGRAM: Final = 300 * 2**20
"""What the process takes before it has read a row."""
_FEWEST_ROWS: Final = 10_000


@dataclass(frozen=True)
class Dealt:
    """`events`: with the `query` that each belongs to; `times` of them, in microseconds. `spans` as by
    `features.queries.query_spans`; `bounds`: where among them each block begins, and the end.
    """

    config: Config
    read: EventLog
    log: Log
    room: Room
    events: pl.LazyFrame
    times: Kept[np.int64]
    spans: pl.DataFrame
    bounds: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.bounds) - 1

    def closed(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The queries whose attribution window has ended."""
        end = self.times.whole()[-1]
        length = pl.duration(microseconds=pl.lit(self.config.relevance.window).dt.total_microseconds())
        return frame.filter((pl.col(TIMESTAMP) + length).to_physical() <= end)

    def queries(self, number: int) -> Queries:
        """A block: its queries, closed or not, and all of their events."""
        spans = self.spans[self.bounds[number] : self.bounds[number + 1]]
        events, table = self._events(spans), self.log.queries
        if table is None or not _uses_table(self.config):
            return queries_by_id(events)
        own = table.join(spans.select(pl.col(QUERY).cast(table.schema[QUERY])), on=QUERY, how="semi")
        return (queries_by_table if self.config.queries.by == "table" else queries_by_id)(events, own)

    def _events(self, spans: pl.DataFrame) -> pl.DataFrame:
        """They lie between the first and the last of them in time."""
        edges = spans.select(pl.col(FIRST).min(), pl.col(LAST).max()).cast(pl.Int64).row(0)
        times = self.times.whole()
        start, stop = np.searchsorted(times, edges[0], "left"), np.searchsorted(times, edges[1], "right")
        own = spans.select(QUERY)
        parts = self.room.parts(int(stop - start)) if edges[0] is not None else [slice(0, 0)]
        return pl.concat(
            read_slice(self.events, start + where.start, start + where.stop).join(
                own, on=QUERY, how="semi", maintain_order="left"
            )
            for where in parts
        )


def room_for(config: Config, folder: Path) -> Room | None:
    """Where to work on the log that `[data]` names, with files in `folder`; None: it fits into memory,
    or is a ready-made table.

    Raises ConfigError for a limit that is too small for any work.
    """
    limit = config.memory.limit_bytes
    if not config.data.is_log or estimate_rows(str(config.data.events)) * _BYTES_OF_EVENT <= limit:
        return None
    rows = int((limit - _BYTES_OF_PROGRAM) / 2 / _BYTES_OF_ROW)
    if rows < _FEWEST_ROWS:
        least = _BYTES_OF_PROGRAM + 2 * _BYTES_OF_ROW * _FEWEST_ROWS
        raise ConfigError(
            f"memory.limit = {config.memory.limit}, in which no block of a log has room",
            expected=f"at least {-(-least // 2**20)}MiB, or a smaller log",
            fix="raise it",
        )
    return Room(folder, rows)


def deal_log(config: Config, room: Room, say: Say) -> Dealt:
    """Reads the log that `[data]` names. Raises DataError for a query that is larger than a block, and ConfigError for
    sessions in a column that `[data]` does not name.
    """
    say(f"The log needs more than memory.limit = {config.memory.limit}: worked in blocks of {room.rows} rows.")
    read, log = read_files(config, None, config.data.shown, partial(_read_large, room=room))
    require_kinds(log.events, _judging(config), role=_role(config))
    say(f"{read.kept} events are sorted.")
    events = _named(config, log, room)
    table = log.queries if _uses_table(config) else None
    parts = read_parts(events, room, [QUERY, TIMESTAMP])
    spans = query_spans(parts, table, all_of_table=config.queries.by == "table")
    physical = read_parts(events, room, [pl.col(TIMESTAMP).to_physical()])
    times = room.keep(part.to_series().to_numpy() for part in physical)
    return Dealt(config, read, log, room, events, times, spans, _bounds(config, spans, room))


def _read_large(source: str, *, room: Room, **options: Any) -> EventLog:
    return read_large_events(source, room, **options)


def _judging(config: Config) -> list[str]:
    """The kinds of events that the relevance names."""
    rule = config.relevance
    if rule.tiers is not None:
        return list(rule.tiers)
    return [rule.watch.event] if rule.watch is not None and rule.watch.event is not None else []


def _role(config: Config) -> str:
    return "relevance.watch" if config.relevance.watch is not None else "relevance.tiers"


def _uses_table(config: Config) -> bool:
    return config.queries.by in ("query", "table")


def _named(config: Config, log: Log, room: Room) -> pl.LazyFrame:
    """The events with their query."""
    rule, events = config.queries, log.events.lazy()
    if rule.by == "user_day":
        return rewrite(events, room, name_user_days)
    if rule.by == "session" and rule.column is None:
        named = name_sessions(read_parts(events, room), rule.gap)
        return pl.scan_ipc([write_piece(part, room) for part in named])
    if rule.by == "session":
        return _by_session_column(str(rule.column), events)
    table = log.queries
    if rule.by == "table" and table is not None:
        return rewrite(events, room, lambda part: name_by_table(part, table))
    _require(rule.by, QUERY, events)
    return events


def _by_session_column(column: str, events: pl.LazyFrame) -> pl.LazyFrame:
    if column != SESSION:
        raise ConfigError(
            f"queries.column = {column!r} with a log larger than memory.limit",
            expected="sessions in the column that data.columns calls session",
            fix=f"write data.columns = {{ session = {column!r} }} and queries.column = 'session'",
        )
    _require("session", SESSION, events)
    return events.with_columns(pl.col(SESSION).alias(QUERY))


def _require(rule: str, column: str, events: pl.LazyFrame) -> None:
    if column not in events.collect_schema():
        raise DataError(
            f"queries.by = {rule!r}, and the log has no {column!r}",
            expected="that column",
            fix="map it under data.columns",
        )


def _bounds(config: Config, spans: pl.DataFrame, room: Room) -> tuple[int, ...]:
    """Whole queries, at most `room.rows` events or candidates a block."""
    rows = spans[COUNT].to_numpy()
    if config.candidates.source == "sampled":
        rows = rows + config.candidates.negatives
    largest = int(rows.max(initial=0))
    if largest > room.rows:
        raise DataError(
            f"query {spans[QUERY][int(rows.argmax())]!r} has {largest} events or candidates",
            expected=f"at most {room.rows}, as many as memory.limit = {config.memory.limit} holds at a time",
            fix="raise memory.limit, or name the right query column in [data] columns",
        )
    bounds, until = [0], np.concatenate([[0], np.cumsum(rows)])
    while bounds[-1] < len(rows):
        bounds.append(int(np.searchsorted(until, until[bounds[-1]] + room.rows, side="right")) - 1)
    return tuple(bounds)
