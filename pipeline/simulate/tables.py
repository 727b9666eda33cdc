"""The files of a simulated world: their columns and types, and how numbers become ids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt
import polars as pl

from features import columns as c
from pipeline.simulate.draws import Bools, Draws, Floats, Ints
from pipeline.simulate.world import DEVICES, START, Visitors, Visits, segment

TEXT: Final = "text"
DEVICE: Final = "device"
PRICE: Final = "price"
UPSTREAM_SCORE: Final = "upstream_score"
CATEGORY: Final = "category"
BRAND: Final = "brand"
TITLE: Final = "title"
TOPIC: Final = "topic"
CREATOR: Final = "creator"
DURATION: Final = "duration"
SEGMENT: Final = "segment"
SIGNUP: Final = "signup"
PROPENSITY: Final = "propensity"

TIME: Final = pl.Datetime("us", "UTC")

_LOG: Final = {c.QUERY: pl.Int64, c.USER: pl.Int64, c.ITEM: pl.Int64, c.TIMESTAMP: pl.Int64, c.EVENT: pl.Int8}
_LOG_FIELDS: Final = {c.POSITION: pl.Int32, c.VALUE: pl.Int32, PRICE: pl.Int32, UPSTREAM_SCORE: pl.Float32}
_LOG_ORDER: Final = (c.TIMESTAMP, c.QUERY, c.EVENT, c.POSITION, c.ITEM)
"""No two rows of a log are equal in all of these, so its order does not depend on how it was made."""


@dataclass(frozen=True, slots=True)
class Block:
    """Some queries in time order, in numbers: `queries`, their `truth`, and their part of the log."""

    queries: pl.DataFrame
    log: pl.DataFrame
    truth: pl.DataFrame


class World(Protocol):
    """A shop or a video feed. Numbers index `items`, `users` and `events`, which are in the order of happening."""

    @property
    def queries(self) -> int: ...
    @property
    def events(self) -> Sequence[str]: ...
    @property
    def items(self) -> pl.DataFrame: ...
    @property
    def users(self) -> pl.DataFrame: ...
    def block(self, number: Ints) -> Block: ...


@dataclass(frozen=True, slots=True)
class Shown:
    """The shown lists of some queries: `item` and `shown` are (B, S), the list going as far as `shown` is true."""

    visits: Visits
    item: Ints
    shown: Bools

    @property
    def keys(self) -> tuple[Ints, Ints]:
        """What the randomness of a shown item hangs on: query and item."""
        return self.visits.number[:, None], self.item

    def rows(self, kind: int, where: Bools, second: Ints, **fields: npt.NDArray[Any]) -> pl.DataFrame:
        """Log rows of one kind for the places `where` (B, S). `second` and `fields` broadcast; others are null."""
        row, place = np.nonzero(where)
        values = {c.TIMESTAMP: second, **fields}
        frame = pl.DataFrame(
            {
                c.QUERY: self.visits.number[row],
                c.USER: self.visits.user[row],
                c.ITEM: self.item[row, place],
                **{name: np.broadcast_to(array, where.shape)[row, place] for name, array in values.items()},
            },
        )
        missing = [pl.lit(None).alias(name) for name in _LOG_FIELDS if name not in fields]
        filled = frame.with_columns(pl.lit(kind).alias(c.EVENT), *missing)
        return filled.select(pl.col(name).cast(dtype) for name, dtype in (_LOG | _LOG_FIELDS).items())

    def truth(self, relevance: Floats, examination: Floats) -> pl.DataFrame:
        """True relevance (B, S) and examination probability (S,) of what was shown, in shown order."""
        row, place = np.nonzero(self.shown)
        return pl.DataFrame(
            {
                c.QUERY: self.visits.number[row],
                c.ITEM: self.item[row, place],
                c.RELEVANCE: relevance[row, place].astype(np.float32),
                PROPENSITY: examination[place].astype(np.float32),
            }
        )


def query_table(visits: Visits, randomised: Bools, **fields: pl.Series) -> pl.DataFrame:
    return pl.DataFrame(
        {
            c.QUERY: visits.number,
            c.USER: visits.user,
            c.TIMESTAMP: visits.second,
            **fields,
            DEVICE: words(DEVICES, visits.device),
            c.RANDOMISED: randomised,
        }
    )


def user_table(draws: Draws, visitors: Visitors, segments: Sequence[str]) -> pl.DataFrame:
    number = np.arange(len(visitors.signup))
    return pl.DataFrame(
        {
            c.USER: [f"u{user:05d}" for user in number],
            SEGMENT: words(segments, segment(draws, number)),
            SIGNUP: to_time(pl.Series(visitors.signup)),
        }
    )


def sort_log(log: pl.DataFrame) -> pl.DataFrame:
    return log.sort(_LOG_ORDER)


@dataclass(frozen=True, slots=True)
class Names:
    """Turns the numbers of a block into ids, times and event kinds."""

    items: pl.Series
    users: pl.Series
    events: pl.Series

    @classmethod
    def of(cls, world: World) -> Names:
        return cls(world.items[c.ITEM], world.users[c.USER], pl.Series(world.events))

    def decode(self, numbers: pl.DataFrame) -> pl.DataFrame:
        """A frame of numbers -> the same rows as they are written."""
        forms = {
            c.ITEM: lambda column: _look_up(column, self.items),
            c.USER: lambda column: _look_up(column, self.users),
            c.EVENT: lambda column: _look_up(column, self.events),
            c.TIMESTAMP: to_time,
        }
        return numbers.with_columns(form(numbers[name]) for name, form in forms.items() if name in numbers.columns)


def words(levels: Sequence[str], which: Ints) -> pl.Series:
    """(N,) numbers -> (N,) words, null where the number is negative."""
    return _look_up(pl.Series(which), pl.Series(levels))


def _look_up(numbers: pl.Series, ids: pl.Series) -> pl.Series:
    return ids.gather(numbers.set(numbers < 0, None)).alias(numbers.name)


def to_time(seconds: pl.Series) -> pl.Series:
    """Seconds since the start of the world -> UTC datetimes in microseconds."""
    start = int(START.timestamp())
    return ((seconds.cast(pl.Int64) + start) * 1_000_000).cast(TIME)
