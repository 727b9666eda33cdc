"""What is known of items, users and queries: tables with one row per id, or per id and `valid_from`."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from features.columns import CREATED_AT, ITEM, QUERY, TIMESTAMP, USER, VALID_FROM
from features.errors import DataError
from features.events import rename_columns, require_columns, stack_tables
from features.names import listed
from features.normalise import normalise_ids, normalise_times
from features.sources import Sources, read_tables

_TIMES = (TIMESTAMP, VALID_FROM, CREATED_AT)


def read_items(
    sources: Sources, *, columns: Mapping[str, str] | None = None, time_unit: str | None = None
) -> pl.DataFrame:
    """The items, sorted: `item`, `created_at` (UTC) where known, `valid_from` where versioned, and their fields.

    `columns` maps our names to theirs. Raises DataError for a missing column, a null id, a time that cannot be read,
    and duplicates: of an item, or of an item and `valid_from` in a versioned table.
    """
    return _read_catalogue(sources, (ITEM, CREATED_AT, VALID_FROM), dict(columns or {}), time_unit)


def read_users(
    sources: Sources, *, columns: Mapping[str, str] | None = None, time_unit: str | None = None
) -> pl.DataFrame:
    """The users, sorted: `user`, `valid_from` where versioned, and their fields. As `read_items`."""
    return _read_catalogue(sources, (USER, VALID_FROM), dict(columns or {}), time_unit)


def read_queries(
    sources: Sources, *, columns: Mapping[str, str] | None = None, time_unit: str | None = None
) -> pl.DataFrame:
    """The queries, sorted: `query`, where known `user` (null: anonymous) and `timestamp`, and their fields."""
    return _read_catalogue(sources, (QUERY, USER, TIMESTAMP), dict(columns or {}), time_unit)


def _read_catalogue(
    sources: Sources, ours: tuple[str, ...], mapping: Mapping[str, str], time_unit: str | None
) -> pl.DataFrame:
    """`ours` starts with the id that names a row. The mapping serves all tables: what it names need not be here."""
    own = {name: theirs for name, theirs in mapping.items() if name in ours}
    ids = [own.get(name, name) for name in ours if name not in _TIMES]
    parts = []
    for name, table in read_tables(sources, text=ids):
        present = {key: theirs for key, theirs in own.items() if theirs in table.columns}
        require_columns(name, table, present, ours[:1])
        parts.append(_typed(name, rename_columns(table, present, ours), ours, time_unit))
    stacked = stack_tables(parts)
    keys = [ours[0], *(name for name in (VALID_FROM,) if name in stacked.columns)]
    _check_unique(stacked, keys)
    return stacked.sort(keys)


def _typed(name: str, table: pl.DataFrame, ours: tuple[str, ...], time_unit: str | None) -> pl.DataFrame:
    columns = []
    for column in table:
        what = f"{column.name} in {name}"
        if column.name in _TIMES and column.name in ours:
            times, outside = normalise_times(column, unit=time_unit, what=what)
            if outside.any() or times.null_count() > column.null_count():
                raise DataError(
                    f"{what} holds times that cannot be read, or lie outside 1990..2100",
                    expected="times that can, or nulls",
                    fix="mend the table",
                )
            columns.append(times.alias(column.name))
        elif column.name in ours:
            columns.append(normalise_ids(column, what=what))
        elif column.dtype in (pl.Categorical, pl.Enum):
            columns.append(column.cast(pl.String))
        elif isinstance(column.dtype, pl.Datetime) or column.dtype == pl.Date:
            columns.append(normalise_times(column, unit=None, what=what)[0].alias(column.name))
    return table.with_columns(columns)


def _check_unique(table: pl.DataFrame, keys: list[str]) -> None:
    what = " and ".join(keys)
    nulls = table.filter(pl.any_horizontal(pl.col(keys).is_null())).height
    if nulls:
        raise DataError(f"{nulls} rows without {what}", expected="an id in every row", fix="drop or complete them")
    repeated = table.filter(pl.struct(keys).is_duplicated())
    if not repeated.is_empty():
        some = listed(repeated[keys[0]].unique().sort())
        raise DataError(
            f"{repeated.height} rows share their {what} ({some})",
            expected=f"one row per {what}",
            fix="keep one of them, or add valid_from where they are versions",
        )
