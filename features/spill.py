"""Tables larger than memory, as files in order: sorted run by run as they are read, then merged range by range."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from features.errors import DataError
from features.room import Ints, Room

Events = pl.DataFrame | pl.LazyFrame
"""Rows in memory, or a scan of files that hold more than memory does: `lazy` and `collect_schema` serve both."""

_SAMPLED: Final = 1_024
"""Times of which the borders between the pieces of a merge are taken, per run."""
_OVERFULL: Final = 8
"""A piece of so many times the rows it should have is refused: it would not fit."""


@dataclass(frozen=True, slots=True)
class Run:
    """A file of rows sorted by one column, and some of that column's values, evenly chosen."""

    path: Path
    empty: pl.DataFrame
    some: Ints


def write_run(frame: pl.DataFrame, by: str, room: Room) -> Run:
    """The rows sorted by the column `by`, a time without nulls; equal ones keep their order."""
    ordered = frame.sort(by, maintain_order=True)
    keys = ordered[by].to_physical().to_numpy()
    path = room.new_path("run.arrow")
    ordered.write_ipc(path)
    return Run(path, ordered.clear(), keys[:: max(1, len(keys) // _SAMPLED)].copy())


def merge_runs(
    runs: list[Run], by: str, room: Room, finish: Callable[[list[pl.DataFrame]], pl.DataFrame]
) -> pl.LazyFrame:
    """One table of all runs: `finish` makes each of its pieces of the rows that the runs have for a range of `by`.

    The rows of a piece come in the order of the runs, equal values of `by` always in one piece; there may be none, and
    then one run is given without its rows. Removes the runs.
    Raises DataError where more rows than fit share one value.
    """
    rows = sum(_height(run.path) for run in runs)
    borders = _borders([run.some for run in runs], -(-rows // room.rows))
    cuts = [_cuts(run, by, borders) for run in runs]
    pieces = []
    for number in range(len(borders) + 1):
        bounds = [(cut[number], cut[number + 1]) for cut in cuts]
        _check_fits(sum(end - start for start, end in bounds), room)
        found = [_slice(run.path, *bound) for run, bound in zip(runs, bounds, strict=True) if bound[0] < bound[1]]
        pieces.append(write_piece(finish(found or [runs[0].empty]), room))
    for run in runs:
        run.path.unlink()
    return pl.scan_ipc(pieces)


def write_piece(frame: pl.DataFrame, room: Room) -> Path:
    """A file of the rows, for `scan_ipc`."""
    path = room.new_path("piece.arrow")
    frame.write_ipc(path)
    return path


def rewrite(table: pl.LazyFrame, room: Room, change: Callable[[pl.DataFrame], pl.DataFrame]) -> pl.LazyFrame:
    """The table part by part, in order, as `change` makes it."""
    return pl.scan_ipc([write_piece(change(part), room) for part in read_parts(table, room)])


def read_parts(table: Events, room: Room, columns: Iterable[str | pl.Expr] | None = None) -> Iterator[pl.DataFrame]:
    """The rows in order, all `columns` or these, a part at a time; at least one part."""
    chosen = [pl.all()] if columns is None else list(columns)
    for where in room.parts(count_rows(table)):
        yield (
            read_slice(table, where.start, where.stop).select(chosen)
            if columns is None
            else (table.lazy().slice(where.start, where.stop - where.start).select(chosen).collect())
        )


def read_slice(table: Events, start: int, stop: int) -> pl.DataFrame:
    """The rows from `start` until before `stop`."""
    return table.lazy().slice(start, stop - start).collect()


def count_rows(table: Events) -> int:
    """How many rows there are."""
    return table.height if isinstance(table, pl.DataFrame) else int(table.select(pl.len()).collect().item())


def _borders(samples: list[Ints], pieces: int) -> Ints:
    """Ascending values, each the first of a piece but the first one."""
    some: Ints = np.sort(np.concatenate(samples))
    borders: Ints = np.unique(some[len(some) * np.arange(1, pieces) // pieces])
    return borders


def _cuts(run: Run, by: str, borders: Ints) -> Ints:
    """Where in the run each piece begins, and the end."""
    keys = pl.read_ipc(run.path, columns=[by])[by].to_physical().to_numpy()
    return np.concatenate([[0], np.searchsorted(keys, borders, side="left"), [len(keys)]])


def _slice(path: Path, start: int, stop: int) -> pl.DataFrame:
    return pl.scan_ipc(path).slice(start, stop - start).collect()


def _height(path: Path) -> int:
    return int(pl.scan_ipc(path).select(pl.len()).collect().item())


def _check_fits(rows: int, room: Room) -> None:
    if rows > _OVERFULL * room.rows:
        raise DataError(
            f"{rows} events share one time",
            expected=f"at most {_OVERFULL * room.rows} under this memory.limit",
            fix="raise memory.limit, or log times more finely",
        )
