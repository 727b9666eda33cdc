"""The only meaning of "before".

A query at time t knows the events that reached the store strictly before t: `timestamp + delay < t`. A window of
length w before t is [t - w, t), measured in the time of arrival: an event that arrives at exactly t - w is in it, one
at exactly t is not. Nothing else in this project compares the time of an event with that of a query.

How it is fast: events are put in order of arrival once, where the time of a query becomes a place. All that an entity
did before a place, or between two, is then answered for all questions in one pass over both (`features.sweeps`), or
from the events of each entity beside one another. All sums are of integers: their order cannot matter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt
import polars as pl
from polars import selectors

from features.columns import CREATED_AT, EVENT, ITEM, TIMESTAMP, VALID_FROM, VALUE, private
from features.durations import in_microseconds
from features.fixed import from_fixed, to_fixed
from features.log import event_kinds
from features.spill import Events
from features.sweeps import Sweep, places_before

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
T = TypeVar("T", bound=np.generic)
Bools = npt.NDArray[np.bool_]
Kinds = tuple[str, ...] | None
"""Kinds of events; None: all of them."""

NOBODY: Final = -1
"""The code of a missing entity, such as an anonymous user: it has no history, and no value."""
_ARRIVAL: Final = private("arrival")
_ROW: Final = private("row")
_FOUND: Final = private("found")


def _arrival(delay: Mapping[str, timedelta]) -> pl.Expr:
    late = {kind: in_microseconds(length) for kind, length in delay.items()}
    by_kind = pl.col(EVENT).cast(pl.String).replace_strict(late, default=0, return_dtype=pl.Int64)
    return (pl.col(TIMESTAMP) + pl.duration(microseconds=by_kind) if late else pl.col(TIMESTAMP)).alias(_ARRIVAL)


def _created(items: pl.DataFrame | None) -> Iterator[pl.DataFrame]:
    for column in (CREATED_AT, VALID_FROM):
        if items is not None and column in items.columns:
            yield items.select(ITEM, pl.col(column).alias(TIMESTAMP)).drop_nulls()


def as_of(table: pl.DataFrame, key: str, rows: pl.DataFrame) -> pl.DataFrame:
    """(N,) rows with `key` and `timestamp` -> (N,) the fields of `table` for each, null where it has no such row.

    In a table with `valid_from` it is the version in force at the time, one from that very moment included. Lists and
    vectors, which would fill the memory, are left out: see `rows_as_of`.
    """
    table = table.select(~selectors.nested())
    if VALID_FROM not in table.columns:
        found = rows.select(key).join(table, on=key, how="left", maintain_order="left", validate="m:1")
        return found.drop(key)
    asked = rows.select(key, TIMESTAMP).with_row_index(_ROW).sort(TIMESTAMP, _ROW)
    versions = table.sort(VALID_FROM)
    found = asked.join_asof(
        versions, left_on=TIMESTAMP, right_on=VALID_FROM, by=key, strategy="backward", check_sortedness=False
    )
    return found.sort(_ROW).drop(_ROW, key, TIMESTAMP, VALID_FROM, strict=False)


def begun_by(table: pl.DataFrame | None, last: datetime | None) -> pl.DataFrame | None:
    """The versions of a table that a query at `last` can know; a table without versions, and None, as they are."""
    if table is None or last is None or VALID_FROM not in table.columns:
        return table
    return table.filter(pl.col(VALID_FROM) <= last)


@dataclass(frozen=True, slots=True)
class Joined:
    """The fields of a table for N rows, each gathered when it is asked for: all at once would fill the memory.

    `rows` (N,): the row of the table that belongs to each, null where there is none.
    """

    table: pl.DataFrame
    rows: pl.Series

    @property
    def columns(self) -> list[str]:
        """The names of the fields."""
        return self.table.columns

    def __getitem__(self, name: str) -> pl.Series:
        """(N,) a field, null where there is no row."""
        return self.table[name].gather(self.rows)


def join_as_of(table: pl.DataFrame, key: str, rows: pl.DataFrame) -> Joined:
    """The same fields as `as_of`."""
    keys = [name for name in (key, VALID_FROM) if name in table.columns]
    found = as_of(table.select(keys).with_row_index(_FOUND), key, rows)[_FOUND]
    return Joined(table.select(~selectors.nested()).drop(key, VALID_FROM, strict=False), found)


def rows_as_of(table: pl.DataFrame, key: str, rows: pl.DataFrame) -> Ints:
    """(N,) rows as for `as_of` -> (N,) the rows of `table` that it would join to them, -1 where there is none."""
    joined: Ints = join_as_of(table, key, rows).rows.cast(pl.Int64).fill_null(-1).to_numpy()
    return joined


class ItemPool:
    """The items that exist at a time: seen in an event that arrived strictly before it, or created by then.

    `items` are ordered by when they came to exist, so that the pool at any time is a beginning of them. A catalogue
    that does not say when its items came (`created_at` or `valid_from`) adds none: it may hold tomorrow's.
    """

    def __init__(self, timeline: Timeline, items: pl.DataFrame | None) -> None:
        tick = pl.duration(microseconds=1)
        seen = timeline.events.select(ITEM, (pl.col(_ARRIVAL) + tick).alias(TIMESTAMP))
        sources = [seen, *_created(items)]
        self.frame: pl.DataFrame = pl.concat(sources).group_by(ITEM).agg(pl.col(TIMESTAMP).min()).sort(TIMESTAMP, ITEM)
        self.items: pl.Series = self.frame[ITEM]
        self._since: Ints = self.frame[TIMESTAMP].to_physical().to_numpy()

    def sizes(self, times: Ints) -> Ints:
        """(M,) times in microseconds since 1970 -> (M,) how many of the items exist at each."""
        return np.searchsorted(self._since, times, side="right")


def catalogue_timeline(pool: ItemPool, items: pl.DataFrame) -> tuple[Timeline, Ints, Ints]:
    """The rows of a catalogue as events: when each comes to exist, and when a later version takes its place.

    -> a timeline of the C changes, (C,) the row of `items` that changes, and (C,) 1 where it comes, -1 where it goes.
    A version comes at its `valid_from`, an item of a catalogue without versions as in the `pool`. All that a query
    knows of stands strictly before it: a row that comes at the very moment stands a tick earlier.
    """
    rows = items.with_row_index(_ROW)
    if VALID_FROM in items.columns:
        ordered = rows.sort(ITEM, VALID_FROM)
        comes = ordered.select(_ROW, pl.col(VALID_FROM).alias(TIMESTAMP))
        goes = ordered.select(_ROW, pl.col(VALID_FROM).shift(-1).over(ITEM).alias(TIMESTAMP))
    else:
        comes = rows.select(_ROW, ITEM).join(pool.frame, on=ITEM, how="inner").select(_ROW, TIMESTAMP)
        goes = comes.clear()
    signed = pl.concat([comes.with_columns(sign=pl.lit(1)), goes.with_columns(sign=pl.lit(-1))]).drop_nulls()
    tick = pl.duration(microseconds=1)
    changes = signed.with_columns(pl.col(TIMESTAMP) - tick, pl.lit(ITEM).alias(EVENT)).sort(TIMESTAMP, _ROW, "sign")
    return Timeline(changes, {}), changes[_ROW].to_numpy().astype(np.int64), changes["sign"].to_numpy().astype(np.int64)


class Timeline:
    """Events in the order in which they reached the store; ties in the order of the log.

    `events`: sorted as by `features.events.read_events`; a scan is read whole (`features.past` does without). `delay`:
    how late the events of a kind arrive.
    """

    def __init__(self, events: Events, delay: Mapping[str, timedelta]) -> None:
        late = events.lazy().with_columns(_arrival(delay)).collect()
        self.events: pl.DataFrame = late.sort(_ARRIVAL, maintain_order=True) if delay else late
        self._arrivals: Ints = self.events[_ARRIVAL].to_physical().to_numpy()
        self._kinds = pl.Enum(event_kinds(events))
        self._kind_numbers = self.events[EVENT].cast(self._kinds).to_physical().to_numpy()
        self._of_kinds: dict[Kinds, Bools] = {}

    def __len__(self) -> int:
        return len(self._arrivals)

    def before(self, times: Ints) -> Ints:
        """(M,) times in microseconds since 1970 -> (M,) how many events had arrived strictly before each."""
        return places_before(self._arrivals, times)

    def of_kinds(self, kinds: Kinds) -> Bools:
        """(N,) whether each event is of one of the kinds; a kind that the log does not hold has no events."""
        if kinds not in self._of_kinds:
            wanted = np.array([kinds is None or kind in kinds for kind in self._kinds.categories], np.bool_)
            self._of_kinds[kinds] = wanted[self._kind_numbers]
        return self._of_kinds[kinds]

    @cached_property
    def fixed_values(self) -> Ints:
        """(N,) the values in ten-thousandths, 0 where there is none."""
        return self._values().to_frame().select(to_fixed(pl.col(VALUE)).fill_null(0)).to_series().to_numpy()

    def has_value(self) -> Bools:
        """(N,) whether each event has a value."""
        return self._values().is_not_null().to_numpy()

    def _values(self) -> pl.Series:
        """A log without the column has no values."""
        if VALUE in self.events.columns:
            return self.events[VALUE]
        return pl.repeat(None, len(self), dtype=pl.Float64, eager=True).alias(VALUE)

    def times(self) -> Ints:
        """(N,) when each event happened, in microseconds since 1970."""
        return self.events[TIMESTAMP].to_physical().to_numpy()

    def arrivals(self) -> Ints:
        """(N,) when each event reached the store, in microseconds since 1970, ascending."""
        return self._arrivals


class History:
    """What each entity did, in order of arrival.

    `entities` (N,): the code of each event's entity, at least 0, or NOBODY. Codes times events must stay below 2^63.
    With `rows` (N,), rows of the timeline, an event may belong to no entity or to several, such as pairs of items.
    """

    def __init__(self, timeline: Timeline, entities: Ints, rows: Ints | None = None) -> None:
        order = None if rows is None else np.argsort(rows, kind="stable")
        self.timeline = timeline
        self.entities: Ints = entities if order is None else entities[order]
        """(N,) in order of arrival."""
        self.rows: Ints | None = None if rows is None else rows[order]
        """(N,) the row of the timeline of each, ascending; None: every row once."""

    def at(self, entities: Ints, times: Ints, repeats: Ints | None = None) -> Lookup:
        """Ask for (M,) entities, as codes, before (M,) times in microseconds since 1970.

        With `repeats` (M,) each answer is given that many times in a row: asked once for all rows of a query.
        """
        return Lookup(self, entities, times, repeats)

    def previous(self, back: int = 1) -> npt.NDArray[np.intp]:
        """(N,) for each event of the timeline the one `back` before it of the same entity, as a row; -1 for none."""
        entities, places = self._by_entity
        found = np.full(len(self.timeline), -1, np.intp)
        same = np.flatnonzero(entities[back:] == entities[:-back])
        found[places[same + back]] = places[same]
        return found

    def begin_of_run(self, begins: Bools) -> npt.NDArray[np.intp]:
        """(N,) for each event the last of its entity that `begins` (N,), at or before it, or its first; -1 for none."""
        entities, places = self._by_entity
        first = np.append(True, entities[1:] != entities[:-1])[: len(entities)]
        index = np.where(first | begins[places], np.arange(len(places)), 0)
        found = np.full(len(self.timeline), -1, np.intp)
        found[places] = places[np.maximum.accumulate(index)]
        return found

    @cached_property
    def _by_entity(self) -> tuple[Ints, Ints]:
        """Entities and rows of the timeline, sorted by both, without nobody's."""
        known = np.flatnonzero(self.entities != NOBODY)
        places = known if self.rows is None else self.rows[known]
        keys = self.entities[known] * (len(self.timeline) + 1) + places
        order = pl.Series(keys).arg_sort().to_numpy()
        return self.entities[known[order]], places[order]


class Lookup:
    """Answers for (entity, time) pairs, in the order of the pairs, (M,) each, or as long as the repeats sum to.

    Counts and sums are integers; where the entity is NOBODY they, like everything else, mean nothing: see `known`.
    """

    def __init__(self, history: History, entities: Ints, times: Ints, repeats: Ints | None) -> None:
        self.history = history
        """Whom it asks."""
        self._repeats = repeats
        self.known: Bools = self._repeat(entities != NOBODY)
        """Whether there is an entity to ask about."""
        ascend = bool((times[1:] >= times[:-1]).all())
        self._order = None if ascend else np.argsort(times, kind="stable")
        self._times = self._sort(times)
        self._asked = self._sort(entities)
        self._sweep = Sweep(history.entities, history.rows, self._asked)
        self._ends = history.timeline.before(self._times)
        self._begins: dict[timedelta, Ints] = {}
        self._counts: dict[tuple[Kinds, timedelta | None], Ints] = {}
        self._grouped: dict[Kinds, tuple[Ints, Ints]] = {}

    def count(self, kinds: Kinds = None, window: timedelta | None = None) -> Ints:
        """How many events of the kinds, in the window or in all of history; kept, as rates ask for it again."""
        if (kinds, window) not in self._counts:
            self._counts[kinds, window] = self._sums(self.history.timeline.of_kinds(kinds), window)
        return self._answer(self._counts[kinds, window])

    def total(self, kinds: Kinds = None, window: timedelta | None = None) -> Floats:
        """The sum of the values of the events, those without a value left out; 0.0 where there is none."""
        timeline = self.history.timeline
        values = timeline.fixed_values if kinds is None else timeline.fixed_values * timeline.of_kinds(kinds)
        return from_fixed(self._sum(values, window))

    def valued(self, kinds: Kinds = None, window: timedelta | None = None) -> Ints:
        """How many of the events have a value."""
        timeline = self.history.timeline
        return self._sum(timeline.has_value() & timeline.of_kinds(kinds), window)

    def summed(self, weights: Ints | Bools) -> Ints:
        """The sum of `weights` (N,), one per event of the timeline."""
        return self._sum(weights, None)

    def count_since(self, places: Ints, kinds: Kinds = None) -> Ints:
        """How many events of the kinds from a place of the timeline on; `places` (M,), one per pair."""
        return self._since(self.history.timeline.of_kinds(kinds), places)

    def summed_since(self, weights: Ints | Bools, places: Ints) -> Ints:
        """As `summed`, from a place of the timeline on; `places` (M,), one per pair."""
        return self._since(weights, places)

    def last_event(self, kinds: Kinds = None) -> Ints:
        """The row in the timeline of the last event of the kinds to have arrived; -1 where there is none."""
        return self._answer(self._sweep.last(self.history.timeline.of_kinds(kinds), self._ends))

    def first_event(self, kinds: Kinds = None) -> Ints:
        """The row in the timeline of the first event of the kinds to have arrived; -1 where there is none."""
        return self.event(0, kinds)

    def event(self, place: int, kinds: Kinds = None) -> Ints:
        """The row in the timeline of one event of the kinds; -1 where there is none.

        `place` counts as in a list, in order of arrival: 0 is the first, -1 the last, -2 the one before the last.
        """
        if kinds not in self._grouped:
            self._grouped[kinds] = self._sweep.grouped(self.history.timeline.of_kinds(kinds))
        counts = self._sweep.sums(self.history.timeline.of_kinds(kinds), None, self._ends)
        return self._answer(self._sweep.pick(self._grouped[kinds], counts, place))

    def _sum(self, weights: Ints | Bools, window: timedelta | None) -> Ints:
        return self._answer(self._sums(weights, window))

    def _sums(self, weights: Ints | Bools, window: timedelta | None) -> Ints:
        if window is not None and window not in self._begins:
            self._begins[window] = self.history.timeline.before(self._times - in_microseconds(window))
        begins = None if window is None else self._begins[window]
        return self._sweep.sums(weights, begins, self._ends)

    def _since(self, weights: Ints | Bools, places: Ints) -> Ints:
        """All before the query less all before the place, which the questions are put in the order of."""
        earlier = np.minimum(self._sort(places), self._ends)
        order = np.argsort(earlier, kind="stable")
        before = Sweep(self.history.entities, self.history.rows, self._asked[order])
        result = self._sweep.sums(weights, None, self._ends)
        result[order] -= before.sums(weights, None, earlier[order])
        return self._answer(result)

    def _sort(self, values: Ints) -> Ints:
        """Answers come in the order of the times; the questions, and what goes with each, need not."""
        return values if self._order is None else values[self._order]

    def _answer(self, values: Ints) -> Ints:
        if self._order is None:
            return self._repeat(values)
        result = np.empty_like(values)
        result[self._order] = values
        return self._repeat(result)

    def _repeat(self, values: npt.NDArray[T]) -> npt.NDArray[T]:
        return values if self._repeats is None else np.repeat(values, self._repeats)
