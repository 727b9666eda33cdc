"""What a log offers to features: its kinds of events, and the fields of items, users, queries and what was shown.

A description is plain data. It is taken once, where the features are fitted, and kept in the package, so that the same
names mean the same columns ever after.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

import polars as pl

from features import columns
from features.events import is_list
from features.log import Log
from features.nested import is_vector, size_of_vectors
from features.spill import Events

FieldKind = Literal["number", "category", "text", "time", "list", "vector"]
Pool = Literal["shown", "sampled"]

_NOT_FIELDS: Final = {
    columns.QUERY,
    columns.ITEM,
    columns.USER,
    columns.SESSION,
    columns.TIMESTAMP,
    columns.VALID_FROM,
    columns.POSITION,
    columns.RANDOMISED,
    columns.RELEVANCE,
}
"""Ids and times; what is not known when ranking (the position, whether the order was random); the truth."""
_MANY_LEVELS: Final = 10_000
_FEW_LEVELS: Final = 50
_WORDS_OF_TEXT: Final = 1.5


@dataclass(frozen=True, slots=True)
class Field:
    """A column of the user's: a string column may be both a category and a text. `size` is that of a vector."""

    name: str
    kind: FieldKind
    size: int = 0


@dataclass(frozen=True, slots=True)
class Options:
    """What a config may say of the features: the rolling `windows` to count in, the `zone` of hours and weekdays (a
    name such as Europe/Lisbon), the silence that ends a session (`session_gap`), how many `recent` items of a user
    are looked at, and which number fields of what was shown are scores or ranks of recall `channels` (names or globs;
    where a name ends in rank, 1 is the best).
    """

    windows: tuple[str, ...] = ("7d", "30d")
    zone: str = "UTC"
    session_gap: str = "30m"
    recent: int = 10
    channels: tuple[str, ...] = ("*score", "*rank")


@dataclass(frozen=True, slots=True)
class Description:
    """`kinds` of events, those of them that carry a value (`valued`), the `shown` kind, whether events know their
    `users`, the fields of each table, where the candidates come from (`pool`), and the `options` of the config.
    """

    kinds: tuple[str, ...]
    valued: tuple[str, ...] = ()
    shown: str | None = None
    users: bool = False
    item_fields: tuple[Field, ...] = ()
    user_fields: tuple[Field, ...] = ()
    query_fields: tuple[Field, ...] = ()
    shown_fields: tuple[Field, ...] = ()
    pool: Pool = "shown"
    options: Options = Options()

    @property
    def interactions(self) -> tuple[str, ...]:
        """The kinds in which a user did something: all but being shown, unless there is no other."""
        return tuple(kind for kind in self.kinds if kind != self.shown) or self.kinds

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Description:
        """The inverse of `to_dict`."""
        values = dict(data)
        for name in ("item_fields", "user_fields", "query_fields", "shown_fields"):
            values[name] = tuple(Field(**field) for field in values[name])
        for name in ("kinds", "valued"):
            values[name] = tuple(values[name])
        lists = {name: tuple(values["options"][name]) for name in ("windows", "channels")}
        values["options"] = Options(**{**values["options"], **lists})
        return cls(**values)


NO_OPTIONS: Final = Options()
"""What holds where a config says nothing."""


def describe(
    log: Log,
    queries: Events,
    candidates: Events,
    *,
    pool: Pool,
    options: Options = NO_OPTIONS,
    exclude: Collection[str] = (),
) -> Description:
    """The description of a log, its queries (`query`, fields) and their candidates (`query`, `item`, shown fields).

    `exclude` names columns of events that are no shown fields, such as the one that the relevance is read from.
    """
    return Description(
        kinds=log.kinds,
        valued=_valued(log.events),
        shown=log.shown,
        users=columns.USER in log.events.collect_schema(),
        item_fields=_fields(log.items),
        user_fields=_fields(log.users),
        query_fields=_fields(queries),
        shown_fields=_fields(candidates.drop(exclude, strict=False)),
        pool=pool,
        options=options,
    )


def _valued(events: Events) -> tuple[str, ...]:
    if columns.VALUE not in events.collect_schema():
        return ()
    with_value = events.lazy().filter(pl.col(columns.VALUE).is_not_null()).select(pl.col(columns.EVENT).unique())
    return tuple(sorted(with_value.collect(engine="streaming").to_series().cast(pl.String)))


def _fields(table: Events | None) -> tuple[Field, ...]:
    if table is None:
        return ()
    names = [name for name in table.collect_schema() if name not in _NOT_FIELDS]
    return tuple(field for name in names for field in _fields_of(table.lazy().select(name).collect().to_series()))


def _fields_of(column: pl.Series) -> Iterator[Field]:
    if is_vector(column.dtype):
        size = size_of_vectors(column)
        yield from [] if size is None else [Field(column.name, "vector", size)]
    elif is_list(column.dtype):
        yield Field(column.name, "list")
    else:
        yield from (Field(column.name, kind) for kind in _kinds_of(column))


def _kinds_of(column: pl.Series) -> Iterator[FieldKind]:
    if column.dtype.is_numeric() or column.dtype == pl.Boolean:
        yield "number"
    elif isinstance(column.dtype, pl.Datetime):
        yield "time"
    elif column.dtype in (pl.String, pl.Categorical, pl.Enum):
        levels = column.drop_nulls().cast(pl.String).unique()
        words = levels.str.split(" ").list.len().mean()
        wordy = isinstance(words, float) and words >= _WORDS_OF_TEXT
        few = 2 * len(levels) <= len(column) or (not wordy and len(levels) <= _FEW_LEVELS)
        if few and 0 < len(levels) <= _MANY_LEVELS:
            yield "category"
        if wordy:
            yield "text"
