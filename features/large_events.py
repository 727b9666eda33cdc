"""A log larger than memory: read in parts, and sorted in files."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import polars as pl

from features.columns import EVENT, TIMESTAMP
from features.events import (
    EventLog,
    Surplus,
    align_tables,
    check_sum,
    finish_log,
    id_columns,
    project_columns,
    sort_events,
    stack_events,
    stack_tables,
    sum_values,
    validate_rows,
)
from features.normalise import infer_unit
from features.room import Room
from features.sources import Part, read_column, read_in_parts
from features.spill import Run, merge_runs, write_run


def read_large_events(
    source: str | Path,
    room: Room,
    *,
    columns: Mapping[str, str] | None = None,
    time_unit: str | None = None,
    event: str | None = None,
    max_rejected: float = 0.01,
    merge: timedelta | None = None,
) -> EventLog:
    """As `features.events.read_events`, with some parts of the log in memory: `events` is a scan of files in `room`.

    Two things are asked of a part of a Parquet file alone: whether most of its times are out of range, and whether
    times that are text agree about having a zone.
    """
    mapping = dict(columns or {})
    runs, bad, kinds, read, total = [], [], set[str](), 0, 0.0
    for part in read_in_parts(source, text=id_columns(mapping), rows=room.rows):
        projected = project_columns(part.path.name, part.table, mapping, event)
        if part.first == 0:
            unit = time_unit or _unit_of_file(part, mapping.get(TIMESTAMP, TIMESTAMP))
        found = validate_rows(part.path.name, projected, unit, part.first)
        runs.append(write_run(found.good, TIMESTAMP, room))
        bad.append(found.bad)
        kinds |= set(found.good[EVENT].unique())
        read, total = read + projected.height, total + sum_values(found.good)
    check_sum(total)
    surplus = Surplus(merge)
    events = _merge(runs, pl.Enum(sorted(kinds)), room, surplus)
    return finish_log(events, [*bad, *surplus.found], read, max_rejected)


def _unit_of_file(part: Part, column: str) -> str | None:
    """The unit of times that are numbers, of which no part of a file may say another than the whole."""
    if not part.is_cut or part.table.schema[column].is_temporal():
        return None
    return infer_unit(read_column(part.path, column))


def _merge(runs: list[Run], kinds: pl.Enum, room: Room, surplus: Surplus) -> pl.LazyFrame:
    """All events in order, without the surplus; equal rows share a time, and so a piece."""
    columns = stack_tables(align_tables([run.empty for run in runs]))

    def finish(found: list[pl.DataFrame]) -> pl.DataFrame:
        return surplus.taken_out(sort_events(stack_events([columns, *found], kinds)))

    return merge_runs(runs, TIMESTAMP, room, finish)
