"""What the feature functions see: the rows to describe, the fields joined to them, and what happened before."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from threading import RLock
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

import numpy as np
import numpy.typing as npt
import polars as pl

from features.columns import ITEM, QUERY, TIMESTAMP, USER
from features.compiling import compiled
from features.description import Description
from features.errors import DataError
from features.event_fields import fields_of_events, fields_when_shown, plain_text
from features.log import Log, align_ids
from features.past import Past
from features.rows import OF_QUERY
from features.running import RunningLookup
from features.spec import FeatureSpec
from features.windows import NOBODY, Bools, History, Ints, Joined, Lookup, Timeline, join_as_of

MICROSECONDS_PER_DAY: Final = 86_400 * 10**6

P = ParamSpec("P")
T = TypeVar("T")
Scope = tuple[str, ...]
"""What an entity is: columns of events, or fields of their item, user, query or impression, as "item.category"."""
_SMALL: Final = 2**20
SHOWN: Final = "shown"
"""Stands for what was logged when the item was shown, as in "shown.badge"."""


@dataclass(frozen=True, slots=True)
class Feature:
    """A feature: what it says of itself, and how it is made.

    `build` returns one value per row: numbers (null where missing), or for a category the raw levels, which are
    encoded with the codes that the package keeps.
    """

    spec: FeatureSpec
    build: Callable[[Context], pl.Series]


def _alone(method: Callable[Concatenate[Context, P], T]) -> Callable[Concatenate[Context, P], T]:
    """What is made once and kept is made by one thread, and waited for by the others."""

    @wraps(method)
    def run(context: Context, /, *args: P.args, **kwargs: P.kwargs) -> T:
        with context._lock:
            return method(context, *args, **kwargs)

    return run


@dataclass(slots=True)
class Context:
    """The rows of a table before they have features.

    `rows`: `query`, `item`, `timestamp`, and where known `user`, `position`, the fields of queries and of what was
    shown; in the order of `features.table.order_rows`, so the rows of a query stand together. `rates`: what was
    learned in the training window, see `features.fitted`. `queries`: `query` and the lists and vectors of queries,
    which the rows leave out; needed by the features of such fields alone. `past`: of a log in files what all blocks of
    rows share; rows come in order of time then.
    """

    log: Log
    rows: pl.DataFrame
    description: Description
    rates: Mapping[str, float]
    queries: pl.DataFrame | None = None
    past: Past | None = None
    _timeline: Timeline | None = None
    _lookups: dict[Scope, Lookup] = field(default_factory=dict)
    _codes: dict[str, tuple[Ints, Ints]] = field(default_factory=dict)
    _columns: dict[str, pl.DataFrame | Joined] = field(default_factory=dict)
    _made: dict[str, Any] = field(default_factory=dict)
    _lock: RLock = field(default_factory=RLock)

    @property
    @_alone
    def timeline(self) -> Timeline:
        """The events of the log in order of arrival."""
        if self.past is not None:
            return self.past.timeline
        if self._timeline is None:
            self._timeline = Timeline(self.log.events, self.log.delay)
        return self._timeline

    @property
    def times(self) -> Ints:
        """(N,) the time of each row's query, in microseconds since 1970."""
        times: Ints = self.rows[TIMESTAMP].to_physical().to_numpy()
        return times

    @_alone
    def once(self, name: str, make: Callable[[], T]) -> T:
        """What `make` gives, made when it is first asked for by this name."""
        if name not in self._made:
            self._made[name] = make()
        made: T = self._made[name]
        return made

    def sizes(self) -> Ints:
        """(Q,) rows of each query, in the order of the rows."""
        return self.rows[QUERY].rle().struct.field("len").to_numpy().astype(np.int64)

    def item_field(self, name: str) -> pl.Series:
        """(N,) a field of the items, as of the query; null where the catalogue lacks the item."""
        return _column(self._joined(self.log.items, ITEM, "items"), name, "the items")

    def user_field(self, name: str) -> pl.Series:
        """(N,) a field of the users, as of the query; null where the user is unknown."""
        return _column(self._joined(self.log.users, USER, "users"), name, "the users")

    def query_field(self, name: str) -> pl.Series:
        """(N,) a field of the queries."""
        own = name + OF_QUERY if name + OF_QUERY in self.rows.columns else name
        return _column(self.rows, own, "the queries")

    def shown_field(self, name: str) -> pl.Series:
        """(N,) a field of what was shown."""
        return _column(self.rows, name, "the candidates")

    @_alone
    def lookup(self, *scope: str) -> Lookup:
        """What the row's entity did before the row's query; asked once per query where the query says who that is."""
        if scope not in self._lookups:
            ask, rows = self._history(scope)
            if all(key.partition(".")[0] in (USER, QUERY) for key in scope):
                sizes = self.sizes()
                heads = np.cumsum(sizes) - sizes
                self._lookups[scope] = ask(rows[heads], self.times[heads], repeats=sizes)
            else:
                self._lookups[scope] = ask(rows, self.times)
        return self._lookups[scope]

    def distinct(self, scope: Scope, other: str) -> Ints:
        """(N,) how many different values of the key `other` the events of the row's entity had before its query."""
        lookup = self.lookup(*scope)
        if isinstance(lookup, RunningLookup) and self.past is not None:
            return lookup.carry(("distinct", other), self.past.first_of_entity(scope, other).part, np.int32)
        keys = [self.event_values(key).alias(f"key {number}") for number, key in enumerate((*scope, other))]
        new = pl.DataFrame(keys).select(pl.struct(pl.all()).is_first_distinct() & pl.col(keys[-1].name).is_not_null())
        return lookup.summed(new.to_series().to_numpy())

    def event_values(self, key: str) -> pl.Series:
        """(E,) an id of the timeline's events, or a field as of the event: "item.category", "user.segment" ...

        Null where nothing is known. Texts of queries that differ in case and spaces alone are equal.
        """
        table, _, name = key.partition(".")
        values = (
            _ids(self._event_fields(table), name, len(self.timeline))
            if name
            else _ids(self.timeline.events, key, len(self.timeline))
        )
        return plain_text(values) if table == QUERY else values

    def row_values(self, key: str) -> pl.Series:
        """(N,) the same of the rows."""
        table, _, name = key.partition(".")
        if not name:
            return _ids(self.rows, key, self.rows.height)
        if table == QUERY:
            return plain_text(self.query_field(name))
        read = {ITEM: self.item_field, USER: self.user_field, SHOWN: self.shown_field}[table]
        return read(name)

    @_alone
    def codes(self, key: str) -> tuple[Ints, Ints]:
        """(E,) and (N,) codes of `event_values` and `row_values`: equal where these are, NOBODY where they are null."""
        if self.past is not None:
            return self.past.codes((key,)).astype(np.int64), self.past.encode((key,), [self.row_values(key)])
        if key not in self._codes:
            self._codes[key] = self._field_codes(key) or _codes(self.event_values(key), self.row_values(key))
        return self._codes[key]

    def _field_codes(self, key: str) -> tuple[Ints, Ints] | None:
        """The codes of a field that both get from a catalogue: of its rows, which are far fewer."""
        table, _, name = key.partition(".")
        if not name or table not in (ITEM, USER):
            return None
        self.row_values(key)
        events, rows = self._event_fields(table), self._columns[f"{table}s"]
        if not isinstance(events, Joined) or not isinstance(rows, Joined) or name not in events.columns:
            return None
        levels = _codes(events.table[name], rows.table[name])
        return _gather(levels[0], events.rows), _gather(levels[1], rows.rows)

    def entities(self, scope: Scope) -> tuple[Ints, Ints]:
        """(E,) and (N,) the code of the entity of each event and each row, NOBODY where a part of it is null."""
        if self.past is not None:
            return self.past.codes(scope).astype(np.int64), self._row_entities(self.past, scope)
        events, rows = self.codes(scope[0])
        for key in scope[1:]:
            more_events, more_rows = self.codes(key)
            width = 1 + max(_top(more_events), _top(more_rows))
            events, rows = _pair(events, more_events, width), _pair(rows, more_rows, width)
        if max(_top(events), _top(rows)) >= 2**62 // (len(self.timeline) + 1):
            return _codes(_nullable(events), _nullable(rows))
        return events, rows

    def _history(self, scope: Scope) -> tuple[Callable[..., Lookup], Ints]:
        if self.past is not None:
            return self.past.running(scope).follow, self._row_entities(self.past, scope)
        events, rows = self.entities(scope)
        return History(self.timeline, events).at, rows

    def _row_entities(self, past: Past, scope: Scope) -> Ints:
        return past.encode(scope, [self.row_values(key) for key in scope])

    @_alone
    def _event_fields(self, table: str) -> pl.DataFrame | Joined:
        if table not in self._columns:
            if table == SHOWN:
                pairs, _ = self.entities((QUERY, ITEM))
                self._columns[table] = fields_when_shown(self.timeline, pairs, self.log.shown)
            else:
                self._columns[table] = fields_of_events(self.log, self.timeline, table)
        return self._columns[table]

    @_alone
    def _joined(self, table: pl.DataFrame | None, key: str, name: str) -> pl.DataFrame | Joined:
        if name not in self._columns:
            if table is None:
                raise DataError(
                    f"no table of {name}", expected="the one that the features need", fix=f"give data.{name}"
                )
            asked = pl.DataFrame({key: _ids(self.rows, key, self.rows.height), TIMESTAMP: self.rows[TIMESTAMP]})
            known, asked = align_ids(table, asked, key)
            self._columns[name] = join_as_of(known, key, asked)
        return self._columns[name]


def numbers(values: npt.NDArray[np.generic], known: Bools | None = None) -> pl.Series:
    """(N,) numbers -> (N,) Float32, null where not `known`."""
    series = pl.Series(values.astype(np.float32, copy=False))
    return series if known is None or known.all() else series.set(pl.Series(~known), None)


def days(microseconds: Ints, known: Bools) -> pl.Series:
    """(N,) lengths of time in microseconds -> (N,) Float32 days, null where not `known`."""
    return numbers(microseconds / MICROSECONDS_PER_DAY, known)


def _column(table: pl.DataFrame | Joined, name: str, what: str) -> pl.Series:
    if name not in table.columns:
        raise DataError(
            f"{what} have no field {name!r}",
            expected="every field that the features were made from",
            fix="add the column",
        )
    return table[name]


def _ids(table: pl.DataFrame | Joined, name: str, height: int) -> pl.Series:
    """The ids of a column; where nobody wrote them down, all are unknown."""
    if name in table.columns:
        return table[name]
    return pl.repeat(None, height, dtype=pl.Int64, eager=True)


def _codes(events: pl.Series, rows: pl.Series) -> tuple[Ints, Ints]:
    """Codes from 0 for the values that occur, in no order that would matter; NOBODY for null."""
    if events.dtype != rows.dtype:
        events, rows = events.cast(pl.String), rows.cast(pl.String)
    if events.dtype == pl.String:
        own = pl.Categorical(pl.Categories.random())
        both = events.cast(own), rows.cast(own)  # the codes last as long as a column that has them
        return _plain_codes(both[0].to_physical()), _plain_codes(both[1].to_physical())
    if events.dtype.is_integer() and _are_small(events) and _are_small(rows):
        return _plain_codes(events), _plain_codes(rows)
    levels = pl.concat([events.alias("value"), rows.alias("value")]).unique().drop_nulls()
    table = levels.to_frame().with_row_index("code")
    return _find(events, table), _find(rows, table)


def _are_small(values: pl.Series) -> bool:
    """Whether whole numbers are fit to be codes themselves: that of a pair is a product of both."""
    low, high = values.min(), values.max()
    return low is None or (isinstance(low, int) and isinstance(high, int) and low >= 0 and high < _SMALL)


def _find(values: pl.Series, table: pl.DataFrame) -> Ints:
    return _plain_codes(
        values.alias("value").to_frame().join(table, on="value", how="left", maintain_order="left")["code"]
    )


def _plain_codes(codes: pl.Series) -> Ints:
    plain: Ints = codes.cast(pl.Int64).fill_null(NOBODY).to_numpy()
    return plain


def _gather(codes: Ints, rows: pl.Series) -> Ints:
    """The codes of some rows, NOBODY where there is no row."""
    return _plain_codes(pl.Series(codes).gather(rows))


def _nullable(codes: Ints) -> pl.Series:
    return pl.Series(codes).replace(NOBODY, None)


def _pair(first: Ints, second: Ints, width: int) -> Ints:
    pairs = np.empty(len(first), np.int64)
    _number_pairs(first, second, width, pairs)
    return pairs


@compiled
def _number_pairs(first: Ints, second: Ints, width: int, pairs: Ints) -> None:
    for place in range(len(first)):
        known = first[place] >= 0 and second[place] >= 0
        pairs[place] = first[place] * width + second[place] if known else NOBODY


def _top(codes: Ints) -> int:
    return int(codes.max(initial=0))
