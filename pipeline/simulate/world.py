"""What a shop and a video feed have in common: visitors, a growing catalogue, and lists that are seen from the top."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from features.errors import ConfigError
from pipeline.simulate.draws import Bools, Draws, Floats, Ints

Number = TypeVar("Number", np.int64, np.float64)

HOUR = 3_600
DAY = 24 * HOUR
START = datetime(2025, 3, 3, tzinfo=UTC)
"""A Monday at midnight. Second 0 of every world."""

SHOWN_MIN, SHOWN_MAX = 8, 12
"""Lengths of the shown lists, all equally likely."""
NOBODY = -1
"""The user of an anonymous query."""
SEGMENTS = 3
ANONYMOUS_SHARE = 0.22
RANDOMISED_SHARE = 0.1
DEVICES = ("desktop", "mobile", "tablet")
MOBILE = DEVICES.index("mobile")

_WEEKEND_DAYS = 5
_EVENING_HOUR = 17


@dataclass(frozen=True, slots=True)
class Settings:
    """How large a world is, and how its lists are made and seen. Raises ConfigError for what cannot be simulated.

    `events` is the size of the log, met within a few per cent. `bias` is the b of the examination probability
    1 / position^b (0: everything is examined). `policy` is the strength of the logging policy: 0 shows by stale
    popularity and noise, 1 by true utility. Queries are spread over `days`; the log runs on until the last purchase.
    """

    events: int
    seed: int = 7
    bias: float = 1.0
    policy: float = 0.2
    days: int = 49

    def __post_init__(self) -> None:
        _check("events", self.events, 1_000, 1_000_000_000)
        _check("seed", self.seed, 0, 2**63 - 1)
        _check("bias", self.bias, 0, 10)
        _check("policy", self.policy, 0, 1)
        _check("days", self.days, 1, 3_650)

    def queries(self, actions_per_look: float) -> int:
        """How many queries make `events`, where an examined item draws that many events beside its impression."""
        shown = (SHOWN_MIN + SHOWN_MAX) / 2
        looks = float(examination(self.bias)[: round(shown)].sum())
        return max(1, round(self.events / (shown + actions_per_look * looks)))


def _check(name: str, value: float, low: float, high: float) -> None:
    if not (math.isfinite(value) and low <= value <= high):
        raise ConfigError(
            f"{name} = {value}",
            expected=f"a number from {low} to {high}",
            fix=f"choose another {name} for the simulator",
        )


@dataclass(frozen=True, slots=True)
class Visits:
    """Who makes the queries, and when, (B,) arrays. The anonymous have tastes too: the log just does not know whose."""

    number: Ints
    second: Ints
    visitor: Ints
    anonymous: Bools
    device: Ints

    @property
    def user(self) -> Ints:
        return np.where(self.anonymous, NOBODY, self.visitor)

    @property
    def weekend(self) -> Bools:
        return self.second // DAY % 7 >= _WEEKEND_DAYS

    @property
    def evening(self) -> Bools:
        return self.second % DAY // HOUR >= _EVENING_HOUR


@dataclass(frozen=True, slots=True)
class Visitors:
    """Those who come. Numbered by signup (seconds, negative before the log starts); the early ones come most often."""

    signup: Ints
    queries: int
    days: int

    @classmethod
    def create(cls, draws: Draws, queries: int, days: int) -> Visitors:
        number = max(20, queries // 30)
        before = round(0.6 * number)
        place = np.arange(number) + draws.uniform("signup", np.arange(number))
        old = (place / before - 1.0) * 365 * DAY
        new = (place - before) / (number - before) * days * DAY
        return cls(np.where(np.arange(number) < before, old, new).astype(np.int64), queries, days)

    def visits(self, draws: Draws, number: Ints) -> Visits:
        """The queries `number` of 0 .. queries - 1, in time order; each visitor has signed up by then."""
        second = self._seconds(draws, number)
        known = np.searchsorted(self.signup, second, side="right")
        visitor = (known * draws.uniform("visitor", number) ** 2).astype(np.int64)
        device = np.where(
            draws.chance(0.7, "usual device", number),
            draws.below(len(DEVICES), "device", visitor),
            draws.below(len(DEVICES), "other device", number),
        )
        return Visits(number, second, visitor, draws.chance(ANONYMOUS_SHARE, "anonymous", number), device)

    def _seconds(self, draws: Draws, number: Ints) -> Ints:
        """Ascending with the number; busier in the evening and at weekends, quiet at night."""
        hour = np.arange(24 * self.days)
        of_day, weekend = hour % 24, hour // 24 % 7 >= _WEEKEND_DAYS
        busy = 1.0 + 0.8 * ((of_day >= _EVENING_HOUR) & (of_day < 23)) - 0.8 * (of_day < 6) + 0.3 * weekend
        share = np.concatenate([[0.0], np.cumsum(busy)]) / busy.sum()
        quantile = (number + draws.uniform("time", number)) / self.queries
        return (np.interp(quantile, share, np.arange(len(share))) * HOUR).astype(np.int64)


def segment(draws: Draws, visitor: Ints) -> Ints:
    """What kind of person a visitor is, 0 .. SEGMENTS - 1."""
    return draws.below(SEGMENTS, "segment", visitor)


@dataclass(frozen=True, slots=True)
class Catalogue:
    """Items in groups of equal size, each ordered by release, so that what exists at a time is a prefix of its group.

    An item is a number, its group is `number // per_group`. `created` are seconds, negative before the log starts.
    """

    created: Ints
    per_group: int

    @classmethod
    def create(cls, draws: Draws, groups: int, per_group: int, *, ready: int, past_days: int, days: int) -> Catalogue:
        """The first `ready` items of each group were released over `past_days` before; the rest arrive evenly."""
        rank = np.arange(per_group) + draws.uniform(
            "release", np.arange(groups)[:, None], np.arange(per_group)[None, :]
        )
        old = (rank / ready - 1.0) * past_days * DAY
        new = (rank - ready) / max(1, per_group - ready) * days * DAY
        return cls(np.where(np.arange(per_group) < ready, old, new).astype(np.int64).ravel(), per_group)

    def __len__(self) -> int:
        return len(self.created)

    def released(self, group: Ints, second: Ints) -> Ints:
        """How many items of a group are out at a second."""
        horizon = 2 * 3_650 * DAY  # wider than any world, so that groups do not mix
        keys = self.created + np.arange(len(self)) // self.per_group * horizon
        return np.searchsorted(keys, second + group * horizon, side="right") - group * self.per_group

    def draw(self, group: Ints, second: Ints, part: Ints, parts: Ints, uniform: Floats) -> Ints:
        """One of part `part` of `parts` of the released items. Parts are disjoint: no query holds an item twice."""
        out = self.released(group, second)
        low, high = out * part // parts, out * (part + 1) // parts
        return group * self.per_group + low + (uniform * (high - low)).astype(np.int64)

    def names(self) -> list[str]:
        """Item ids, numbered by release over the whole catalogue."""
        rank = np.empty(len(self), np.int64)
        rank[np.argsort(self.created, kind="stable")] = np.arange(len(self))
        return [f"i{number:05d}" for number in rank]


@dataclass(frozen=True, slots=True)
class Lists:
    """What is shown, from the top: `slot` (B, SHOWN_MAX) are columns of the pool, valid where `shown` is true."""

    slot: Ints
    shown: Bools
    randomised: Bools

    @classmethod
    def arrange(cls, draws: Draws, number: Ints, score: Floats) -> Lists:
        """The best of the pool (B, M) by score, best first; in some of the queries the same items in random order."""
        place = np.arange(SHOWN_MAX)[None, :]
        length = SHOWN_MIN + draws.below(SHOWN_MAX - SHOWN_MIN + 1, "length", number)
        randomised = draws.chance(RANDOMISED_SHARE, "randomised", number)
        shown = place < length[:, None]
        best = np.argsort(-score, axis=1, kind="stable")[:, :SHOWN_MAX]
        shuffled = np.where(shown, draws.uniform("shuffle", number[:, None], best), 1.0 + place)
        order = np.argsort(np.where(randomised[:, None], shuffled, place), axis=1, kind="stable")
        return cls(np.take_along_axis(best, order, axis=1), shown, randomised)

    def of(self, pool: npt.NDArray[Number]) -> npt.NDArray[Number]:
        """(B, M) values of the pool -> (B, SHOWN_MAX) values in shown order."""
        return np.take_along_axis(pool, self.slot, axis=1)


def examination(bias: float) -> Floats:
    """(SHOWN_MAX,) probability that a position is looked at, 1 / position^bias."""
    return np.arange(1, SHOWN_MAX + 1, dtype=np.float64) ** -bias


def policy_score(draws: Draws, number: Ints, item: Ints, utility: Floats, popularity: Floats, policy: float) -> Floats:
    """What the logging policy thinks of the pool (B, M), in whole tenths: true utility, stale popularity, noise."""
    noise = draws.bell("policy", number[:, None], item)
    return np.rint(10.0 * (policy * utility + (1.0 - policy) * (0.3 * popularity + noise))) / 10.0


def sigmoid(x: Floats) -> Floats:
    return np.asarray(1.0 / (1.0 + np.exp(-x)))
