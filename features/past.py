"""A log larger than memory, coded once for all blocks of rows: what `features.context.Context` asks in its place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt
import polars as pl

from features.columns import EVENT, ITEM, QUERY, TIMESTAMP, USER, VALUE, private
from features.event_fields import fields_of, plain_text
from features.fixed import to_fixed
from features.log import Log, event_kinds
from features.room import Ints, Kept, Room
from features.running import LargeTimeline, Running, mark_first, refuse_whole
from features.spill import Events, merge_runs, read_parts, write_run
from features.windows import NOBODY, ItemPool, Timeline

T = TypeVar("T")
Codes = npt.NDArray[np.int32]
Scope = tuple[str, ...]

_ARRIVAL: Final = private("arrival")
_VALUED: Final = private("valued")
_CODE: Final = "code"
_LEVEL: Final = "level"


@dataclass(frozen=True, slots=True)
class _Coded:
    """(E,) codes of the events, and what they stand for: levels with their codes, or pairs in ascending order."""

    codes: Kept[np.int32]
    levels: pl.DataFrame | Kept[np.int64]

    @property
    def size(self) -> int:
        return len(self.levels)


class Past:
    """`log`: its events in files. All that is kept lives in the folder of `room`.

    Blocks of rows are to come in order of time; `restart` begins anew.
    """

    def __init__(self, log: Log, room: Room) -> None:
        self.log = log
        self._room = room
        self._events = _by_arrival(log, room)
        self._known = set(log.events.collect_schema())
        self.timeline = _timeline(self._events, log, room)
        self._coded: dict[Scope, _Coded] = {}
        self._firsts: dict[Scope, Kept[np.bool_]] = {}
        self._running: dict[Scope, Running] = {}
        self._made: dict[str, Any] = {}

    def once(self, name: str, make: Callable[[], T]) -> T:
        """What `make` gives, made when the first block asks for it by this name."""
        if name not in self._made:
            self._made[name] = make()
        made: T = self._made[name]
        return made

    def restart(self) -> None:
        """The next block may be earlier than the last."""
        self._running.clear()

    def kinds_before(self, place: int) -> pl.DataFrame:
        """Of the first `place` events one of each kind, with a value and without."""
        known = self._events.lazy().head(place)
        of_value = pl.col(VALUE).is_not_null() if VALUE in self._known else pl.lit(False)
        some = known.group_by(EVENT, of_value.alias(_VALUED)).agg(
            pl.col(name).first() for name in (VALUE, USER) if name in self._known
        )
        return some.drop(_VALUED).collect(engine="streaming")

    def running(self, scope: Scope) -> Running:
        """The histories of the entities of a scope."""
        if scope not in self._running:
            coded = self._code(scope)
            self._running[scope] = Running(self.timeline, coded.codes, coded.size)
        return self._running[scope]

    def codes(self, scope: Scope) -> Codes:
        """(E,) the code of the entity of each event, NOBODY where a part of it is null; mapped from a file."""
        return self._code(scope).codes.whole()

    def encode(self, scope: Scope, values: Sequence[pl.Series]) -> Ints:
        """Per key of the scope (N,) values of rows -> (N,) codes: those of the events; one that no event has for all
        others, NOBODY where one of the values is null.
        """
        codes = _look_up(self._code(scope[:1]), values[0])
        for number in range(1, len(scope)):
            second = _look_up(self._code(scope[number : number + 1]), values[number])
            codes = self._encode_pairs(scope[: number + 1], codes, second)
        return codes

    def first_of_entity(self, scope: Scope, other: str) -> Kept[np.bool_]:
        """(E,) whether an event is the first of its entity with its value of `other`, which is known."""
        pair = (*scope, other)
        if pair not in self._firsts:
            coded = self._code(pair)
            seen = np.zeros(coded.size + 1, np.bool_)
            parts = (coded.codes.part(where) for where in self._room.parts(len(coded.codes)))
            self._firsts[pair] = self._room.keep(mark_first(codes, seen) for codes in parts)
        return self._firsts[pair]

    def _code(self, scope: Scope) -> _Coded:
        if scope not in self._coded:
            self._coded[scope] = self._code_values(scope[0]) if len(scope) == 1 else self._code_pairs(scope)
        return self._coded[scope]

    def _code_values(self, key: str) -> _Coded:
        distinct = pl.concat(values.unique() for values in self._values(key)).unique().drop_nulls()
        levels = distinct.alias(_LEVEL).to_frame().with_row_index(_CODE).with_columns(pl.col(_CODE).cast(pl.Int32))
        return _Coded(self._room.keep(_join(values, levels) for values in self._values(key)), levels)

    def _code_pairs(self, scope: Scope) -> _Coded:
        """Of the entities of all keys but the last, and the values of the last."""
        parts = list(self._room.parts(len(self.timeline)))
        pairs = self._room.distinct(_known(self._pairs(scope, where)) for where in parts)
        levels = pairs.whole()

        def codes() -> Iterator[Codes]:
            for where in parts:
                some, places = np.unique(self._pairs(scope, where), return_inverse=True)
                found = np.where(some == NOBODY, NOBODY, np.searchsorted(levels, some))
                yield found.astype(np.int32)[places]

        return _Coded(self._room.keep(codes()), pairs)

    def _pairs(self, scope: Scope, where: slice) -> Ints:
        first, second = self._code(scope[:-1]), self._code(scope[-1:])
        return _pair(first.codes.part(where), second.codes.part(where), second.size)

    def _encode_pairs(self, scope: Scope, first: Ints, second: Ints) -> Ints:
        one, other, coded = self._code(scope[:-1]), self._code(scope[-1:]), self._code(scope)
        asked, places = np.unique(_pair(first, second, other.size), return_inverse=True)
        levels: Ints = coded.levels.whole() if isinstance(coded.levels, Kept) else refuse_whole()
        at = np.searchsorted(levels, asked)
        held = levels[np.minimum(at, max(len(levels) - 1, 0))] == asked if len(levels) else np.zeros(len(asked), bool)
        codes = np.where(asked == NOBODY, NOBODY, np.where(held, at, coded.size))[places]
        strange = (codes != NOBODY) & ((first == one.size) | (second == other.size))
        return np.where(strange, coded.size, codes)

    def _values(self, key: str) -> Iterator[pl.Series]:
        """Part by part `Context.event_values`."""
        table, _, name = key.partition(".")
        if name and table not in (ITEM, USER, QUERY):
            refuse_whole()
        columns = [column for column in dict.fromkeys((table, TIMESTAMP)) if column in self._known]
        for part in read_parts(self._events, self._room, columns):
            fields = fields_of(self.log, part, table) if name else part
            column = name or key
            values = (
                fields[column]
                if column in fields.columns
                else pl.Series([None], dtype=pl.Int64).new_from_index(0, part.height)
            )
            yield plain_text(values) if name and table == QUERY else values


def known_items(log: Log) -> ItemPool:
    """`features.candidates.item_pool` of a log in files: the first event of each kind of an item tells."""
    first = log.events.lazy().group_by(ITEM, EVENT).agg(pl.col(TIMESTAMP).min()).collect(engine="streaming")
    return ItemPool(Timeline(first.sort(TIMESTAMP, ITEM, EVENT), log.delay), log.items)


def _by_arrival(log: Log, room: Room) -> Events:
    if not log.delay:
        return log.events
    runs = [write_run(Timeline(part, log.delay).events, _ARRIVAL, room) for part in read_parts(log.events, room)]
    return merge_runs(runs, _ARRIVAL, room, lambda found: pl.concat(found).sort(_ARRIVAL, maintain_order=True))


def _timeline(events: Events, log: Log, room: Room) -> LargeTimeline:
    names = event_kinds(log.events)
    at = pl.col(TIMESTAMP).to_physical()
    kind = pl.col(EVENT).cast(pl.Enum(names)).to_physical().cast(pl.UInt16)
    times = _keep(events, room, at)
    arrivals = _keep(events, room, pl.col(_ARRIVAL).to_physical()) if log.delay else times
    valued = None
    if VALUE in log.events.collect_schema():
        fixed = to_fixed(pl.col(VALUE)).fill_null(0)
        valued = _keep(events, room, fixed), _keep(events, room, pl.col(VALUE).is_not_null())
    return LargeTimeline(room, names, arrivals, times, _keep(events, room, kind), valued)


def _keep(events: Events, room: Room, value: pl.Expr) -> Kept[Any]:
    return room.keep(part.to_series().to_numpy() for part in read_parts(events, room, [value]))


def _look_up(coded: _Coded, values: pl.Series) -> Ints:
    """(N,) codes; the number of levels for a value that is none of them, NOBODY for null."""
    levels = coded.levels
    if not isinstance(levels, pl.DataFrame):
        raise TypeError("a scope of one key has levels")
    if values.dtype != levels.schema[_LEVEL]:
        values, levels = values.cast(pl.String), levels.with_columns(pl.col(_LEVEL).cast(pl.String))
    codes = _join(values, levels).astype(np.int64)
    return np.where((codes == NOBODY) & values.is_not_null().to_numpy(), coded.size, codes)


def _join(values: pl.Series, levels: pl.DataFrame) -> Codes:
    """(N,) codes of the levels, NOBODY where a value is none of them, or null."""
    found = values.alias(_LEVEL).to_frame().join(levels, on=_LEVEL, how="left", maintain_order="left")[_CODE]
    codes: Codes = found.fill_null(NOBODY).to_numpy()
    return codes


def _pair(first: npt.NDArray[np.integer], second: npt.NDArray[np.integer], width: int) -> Ints:
    pairs = first.astype(np.int64) * (width + 1) + second
    return np.where((first == NOBODY) | (second == NOBODY), NOBODY, pairs)


def _known(pairs: Ints) -> Ints:
    return np.unique(pairs[pairs != NOBODY])
