"""Whole queries into train, valid and test: by time with gaps, or, where there is no time, by a fixed hash.

    train            gap   valid            gap   test
    |----------------|.....|----------------|.....|----------------|
                           valid_from             test_from        last query

By time, a query belongs to test if `test_from <= timestamp`, to valid if `valid_from <= timestamp < test_from - gap`,
to train if `timestamp < valid_from - gap`, and otherwise to a gap, where it is left out and counted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import polars as pl

from features.columns import QUERY, TIMESTAMP
from features.errors import DataError
from features.hashing import hash_ids, unit_interval
from features.table import Table

DEFAULT_LENGTH = timedelta(days=7)
DEFAULT_SHARE = 0.15
_HASH_SEED = 20_261_130
"""Fixed for ever: the same query falls into the same part in every run, whatever its seed."""

Size = timedelta | float | None
"""A length of time, a share of the queries, or nothing."""


@dataclass(frozen=True)
class Borders:
    """Where the parts of a split in time begin (None: the part does not exist)."""

    valid_from: datetime
    test_from: datetime | None
    gap: timedelta

    @property
    def train_until(self) -> datetime:
        """Queries strictly before it are training queries; fitted things see events strictly before it."""
        return self.valid_from - self.gap

    def describe(self, times: pl.Series | None = None) -> str:
        """In words; with the (Q,) times of the queries, how many of them the gaps leave out."""
        parts = [f"train < {self.train_until:%Y-%m-%d %H:%M}", f"valid from {self.valid_from:%Y-%m-%d %H:%M}"]
        if self.test_from:
            parts.append(f"test from {self.test_from:%Y-%m-%d %H:%M}")
        length = str(self.gap).removesuffix(", 0:00:00") if self.gap else "no time"
        left_out = "" if times is None else f" leave out {int((assign_by_time(times, self) == 'gap').sum())} queries"
        return ", ".join(parts) + f" (UTC), gaps of {length}{left_out}"


@dataclass(frozen=True)
class Origin:
    """Where the parts come from: what a run says, keeps and compares with, long after their tables are gone.

    `split` describes the split, `notes` the data. `rivals`: ranker -> a column or expression beside the features.
    `definitions`: how the features are made from a log, with everything fitted, for the package; None where they came
    ready-made. `unseen_from`: queries from here on were in neither training nor validation. `rejected`: bad rows.
    `continuous`: relevance is no whole grade, and is cut into levels for LightGBM.
    """

    split: str
    notes: tuple[str, ...] = ()
    rivals: Mapping[str, str] = field(default_factory=dict)
    definitions: dict[str, Any] | None = None
    unseen_from: datetime | None = None
    rejected: pl.DataFrame | None = None
    continuous: bool = False


@dataclass(frozen=True)
class Parts:
    """The tables of the three parts."""

    train: Table
    valid: Table
    test: Table
    origin: Origin


def say_origin(origin: Origin, say: Callable[[str], None]) -> None:
    """What a run tells of where its parts come from."""
    for note in origin.notes:
        say(note)
    say(f"Split: {origin.split}.")


def time_borders(times: pl.Series, *, valid: Size, test: Size, gap: timedelta, with_test: bool = True) -> Borders:
    """Borders from the (Q,) query times. A share counts queries from the end. Raises DataError where train is empty."""
    end = times.max()
    if not isinstance(end, datetime):
        raise DataError(
            "no query is left to split by time",
            expected="queries with a timestamp, older than relevance.window at the end of the log",
            fix="shorten relevance.window, check the timestamps, or (for a ready-made table) set split.by = 'hash'",
        )
    test_from = _border(times, end, test) if with_test else None
    valid_end = test_from - gap if test_from else end
    earlier = times.filter(times < valid_end) if test_from else times
    borders = Borders(_border(earlier, valid_end, valid), test_from, gap)
    if not (times < borders.train_until).any():
        raise DataError(
            f"no query is left to train on: the queries span {times.min()!s} to {end}, and {borders.describe()}",
            expected="queries before the valid part",
            fix="shorten split.valid, split.test or split.gap, or bring a longer log",
        )
    return borders


def assign_by_time(times: pl.Series, borders: Borders) -> pl.Series:
    """(Q,) timestamps -> (Q,) "train", "valid", "test" or "gap"."""
    valid_end = borders.test_from - borders.gap if borders.test_from else None
    in_valid = times >= borders.valid_from if valid_end is None else (times >= borders.valid_from) & (times < valid_end)
    in_test = pl.repeat(False, len(times), eager=True) if borders.test_from is None else times >= borders.test_from
    names = np.select([in_test, in_valid, times < borders.train_until], ["test", "valid", "train"], "gap")
    return pl.Series("part", names, dtype=pl.String)


def assign_by_hash(queries: pl.Series, *, valid: Size, test: Size) -> pl.Series:
    """(Q,) query ids -> (Q,) "train", "valid" or "test", by a hash of the id alone."""
    valid_share, test_share = (_share(size) for size in (valid, test))
    place = unit_interval(hash_ids(queries, seed=_HASH_SEED))
    names = np.select([place < test_share, place < test_share + valid_share], ["test", "valid"], "train")
    return pl.Series("part", names, dtype=pl.String)


def split_table(
    table: Table, *, by: str, valid: Size, test: Size, gap: timedelta, with_test: bool = True
) -> tuple[dict[str, Table], str]:
    """The parts of a table and the description of the split; `by` is "auto", "time" or "hash".

    Raises DataError where a part comes out empty, or a split by time is asked for without a timestamp.
    """
    frame = table.frame
    timed = TIMESTAMP in frame.columns
    if by == "time" and not timed:
        raise DataError(
            "no timestamp column",
            expected="a time per query",
            fix="name it in [data] columns, or set split.by = 'hash'",
        )
    if timed and by != "hash":
        queries = frame.group_by(QUERY, maintain_order=True).agg(pl.col(TIMESTAMP).min())
        borders = time_borders(queries[TIMESTAMP], valid=valid, test=test, gap=gap, with_test=with_test)
        parts, described = assign_by_time(queries[TIMESTAMP], borders), borders.describe(queries[TIMESTAMP])
    else:
        queries = frame.select(pl.col(QUERY).unique(maintain_order=True))
        parts = assign_by_hash(queries[QUERY], valid=valid, test=test if with_test else 0.0)
        described = "by a fixed hash of the query, as it has no time"
    part_of = frame.select(QUERY).join(queries.with_columns(parts), on=QUERY, how="left", maintain_order="left")["part"]
    tables = {part: Table(frame.filter(part_of == part), table.features) for part in ("train", "valid", "test", "gap")}
    needed = ("train", "valid", "test") if with_test else ("train", "valid")
    for part in needed:
        if tables[part].frame.height == 0:
            raise DataError(
                f"the {part} part is empty ({queries.height} queries, {described})",
                expected="queries in every part",
                fix=f"change split.{'valid' if part == 'train' else part}, or bring more queries",
            )
    return tables, described


def _border(times: pl.Series, end: datetime, size: Size) -> datetime:
    if isinstance(size, float) and len(times):
        ordered = times.sort()
        border: datetime = ordered[max(0, min(len(ordered) - 1, round(len(ordered) * (1 - size))))]
        return border
    return end - (size if isinstance(size, timedelta) else DEFAULT_LENGTH)


def _share(size: Size) -> float:
    if isinstance(size, timedelta):
        raise DataError(
            f"a part of {size} where queries have no time",
            expected="a share of the queries, such as 0.15",
            fix="set split.valid and split.test to shares, or name the timestamp column in [data] columns",
        )
    return DEFAULT_SHARE if size is None else size
