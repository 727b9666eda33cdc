"""Answers about histories for questions that come block by block in order of time: each event is passed once in all.

What has been counted up to the end of a block is carried to the next, a number per entity, so that of the log only the
events between two blocks are in memory. The answers are those of `features.windows.Lookup`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final, NoReturn

import numpy as np
import numpy.typing as npt

from features.compiling import compiled
from features.durations import in_microseconds
from features.errors import DataError
from features.fixed import from_fixed
from features.room import Kept, Room
from features.windows import NOBODY, Bools, Floats, Ints, Kinds, Lookup, Timeline

Codes = npt.NDArray[np.int32]
Weights = Callable[[slice], npt.NDArray[Any]]
"""A range of the timeline -> the weight of each of its events."""
Numbers = npt.NDArray[Any]

FIRST_EVENT: Final = 0
LAST_EVENT: Final = -1


class LargeTimeline(Timeline):
    """A timeline whose arrays live in files: what wants all of the log at once is refused.

    `arrivals`, `times` (E,): in microseconds since 1970; `kind_numbers` (E,): of `kinds`; `values` (E,) in
    ten-thousandths and `valued` (E,), None where nothing has a value.
    """

    def __init__(
        self,
        room: Room,
        kinds: tuple[str, ...],
        arrivals: Kept[np.int64],
        times: Kept[np.int64],
        kind_numbers: Kept[np.uint16],
        values: tuple[Kept[np.int64], Kept[np.bool_]] | None,
    ) -> None:
        self.room = room
        self._names = kinds
        self._kept_arrivals, self._kept_times, self._kept_kinds = arrivals, times, kind_numbers
        self._kept_values = values

    def __len__(self) -> int:
        return len(self._kept_arrivals)

    def before(self, times: Ints) -> Ints:
        return np.searchsorted(self._kept_arrivals.whole(), times, side="left")

    def times(self) -> Ints:
        return self._kept_times.whole()

    def arrivals(self) -> Ints:
        return self._kept_arrivals.whole()

    def counts_before(self, place: int) -> dict[str, int]:
        """Kind -> how many of the first `place` events are of it."""
        counted = np.zeros(len(self._names), np.int64)
        for where in self.room.parts(place):
            counted += np.bincount(self._kept_kinds.part(where), minlength=len(self._names))
        return {kind: int(n) for kind, n in zip(self._names, counted, strict=True) if n}

    def of_kinds_in(self, kinds: Kinds, where: slice) -> Bools:
        """`of_kinds` of a range of the events."""
        wanted = np.array([kinds is None or kind in kinds for kind in self._names], np.bool_)
        return wanted[self._kept_kinds.part(where)]

    def values_in(self, where: slice) -> Ints:
        """`fixed_values` of a range of the events."""
        return np.zeros(_size(where), np.int64) if self._kept_values is None else self._kept_values[0].part(where)

    def has_value_in(self, where: slice) -> Bools:
        """`has_value` of a range of the events."""
        return np.zeros(_size(where), np.bool_) if self._kept_values is None else self._kept_values[1].part(where)

    def __getattr__(self, name: str) -> NoReturn:
        """What a timeline in memory has beside this."""
        refuse_whole()


class WholeLogError(DataError):
    """A feature that nobody has taught to work block by block."""


def refuse_whole() -> NoReturn:
    """Raises WholeLogError."""
    raise WholeLogError(
        "a feature looks at the whole log at once",
        expected="only such as can be made block by block, as the log is larger than memory.limit",
        fix="leave it out under features.drop, or raise the limit",
    )


@dataclass
class _Carried:
    """What was counted so far: a number per entity, and the places up to which events came in, and went out."""

    kept: Numbers
    come: int = 0
    gone: int = 0


@dataclass
class Running:
    """A history that is asked in order of time.

    `entities` (E,): the code of each event's entity, below `size`, or NOBODY.
    """

    timeline: LargeTimeline
    entities: Kept[np.int32]
    size: int
    carried: dict[Any, _Carried] = field(default_factory=dict)

    def follow(self, entities: Ints, times: Ints, repeats: Ints | None = None) -> RunningLookup:
        """As `History.at`, for times that ascend, from block to block too. `size` is the code of what has no events."""
        return RunningLookup(self, entities, times, repeats)

    def state(self, key: object, dtype: type[np.generic], start: int) -> _Carried:
        """What is carried under a key; the number of nobody stands last, before it that of what has no events."""
        if key not in self.carried:
            self.carried[key] = _Carried(np.full(self.size + 2, start, dtype))
        return self.carried[key]


class RunningLookup(Lookup):
    """A block of questions. Each is answered once, and its answer kept, as what is carried has gone on by then."""

    def __init__(self, running: Running, entities: Ints, times: Ints, repeats: Ints | None) -> None:
        self._running = running
        self._timeline = running.timeline
        self._repeats = repeats
        self.known: Bools = self._repeat(entities != NOBODY)
        self._asked = entities
        self._times = times
        self._ends = self._timeline.before(times)
        self._answers: dict[object, Numbers] = {}

    def __getattr__(self, name: str) -> NoReturn:
        """What a lookup in memory has beside this."""
        refuse_whole()

    def count(self, kinds: Kinds = None, window: timedelta | None = None) -> Ints:
        return self.carry(("count", kinds), lambda where: self._timeline.of_kinds_in(kinds, where), np.int32, window)

    def total(self, kinds: Kinds = None, window: timedelta | None = None) -> Floats:
        def values(where: slice) -> Ints:
            return self._timeline.values_in(where) * self._timeline.of_kinds_in(kinds, where)

        return from_fixed(self.carry(("total", kinds), values, np.int64, window))

    def valued(self, kinds: Kinds = None, window: timedelta | None = None) -> Ints:
        def has_value(where: slice) -> Bools:
            return self._timeline.has_value_in(where) & self._timeline.of_kinds_in(kinds, where)

        return self.carry(("valued", kinds), has_value, np.int32, window)

    def last_event(self, kinds: Kinds = None) -> Ints:
        return self.event(LAST_EVENT, kinds)

    def event(self, place: int, kinds: Kinds = None) -> Ints:
        if place not in (FIRST_EVENT, LAST_EVENT):
            refuse_whole()
        return self._once(("event", place, kinds), lambda key: self._event(key, place == FIRST_EVENT, kinds))

    def carry(self, key: object, weights: Weights, dtype: type[np.generic], window: timedelta | None = None) -> Ints:
        """The sum of `weights` in the window or in all of history, carried under `key`, which says what they are."""
        return self._once((key, window), lambda key: self._sum_on(key, weights, dtype, window))

    def _once(self, key: object, answer: Callable[[object], Numbers]) -> Ints:
        if key not in self._answers:
            self._answers[key] = answer(key)
        return self._repeat(self._answers[key])

    def _sum_on(self, key: object, weights: Weights, dtype: type[np.generic], window: timedelta | None) -> Numbers:
        state = self._running.state(key, dtype, 0)
        found = np.empty(len(self._asked), dtype)
        begins = np.zeros(0, np.int64)
        if not len(found):
            return found
        for entities, own in self._skipped(state.come, self._ends[0], weights):
            _add(entities, own, 1, state.kept)
        come = self._between(int(self._ends[0]), int(self._ends[-1]), weights)
        gone = self._between(0, 0, weights)
        if window is not None:
            begins = self._timeline.before(self._times - in_microseconds(window))
            for entities, own in self._skipped(state.gone, begins[0], weights):
                _add(entities, own, -1, state.kept)
            gone = self._between(int(begins[0]), int(begins[-1]), weights)
            state.gone = int(begins[-1])
        state.come = int(self._ends[-1])
        _sum_on(*come, self._ends, *gone, begins, self._asked, state.kept, found)
        return found

    def _event(self, key: object, first: bool, kinds: Kinds) -> Numbers:
        narrowest = np.int32 if len(self._timeline) < 2**31 else np.int64
        state = self._running.state(key, narrowest, NOBODY)
        found = np.empty(len(self._asked), np.int64)
        if not len(found):
            return found

        def chosen(where: slice) -> Bools:
            return self._timeline.of_kinds_in(kinds, where)

        nothing = found[:0]
        for entities, own in self._skipped(state.come, self._ends[0], chosen):
            _events_on(entities, own, state.come, nothing, nothing, first, state.kept, nothing)
            state.come += len(entities)
        entities, own = self._between(state.come, int(self._ends[-1]), chosen)
        _events_on(entities, own, state.come, self._ends, self._asked, first, state.kept, found)
        state.come = int(self._ends[-1])
        return found

    def _skipped(self, start: int, stop: int, weights: Weights) -> Iterator[tuple[Codes, Numbers]]:
        """The events between two blocks, part by part."""
        for where in self._timeline.room.parts(max(int(stop) - start, 0)):
            yield self._between(start + where.start, start + where.stop, weights)

    def _between(self, start: int, stop: int, weights: Weights) -> tuple[Codes, Numbers]:
        where = slice(start, max(start, stop))
        return self._running.entities.part(where), weights(where)


def mark_first(codes: Codes, seen: Bools) -> Bools:
    """(n,) whether each code is the first of its kind, NOBODY never is; marks what was `seen` (size + 1,)."""
    first = np.zeros(len(codes), np.bool_)
    _mark_first(codes, seen, first)
    return first


def _size(where: slice) -> int:
    size: int = where.stop - where.start
    return size


@compiled
def _mark_first(codes: Codes, seen: Bools, first: Bools) -> None:
    for event in range(len(codes)):
        code = codes[event]
        if code >= 0 and not seen[code]:
            seen[code] = first[event] = True


@compiled
def _add(entities: Codes, weights: Numbers, sign: int, kept: Numbers) -> None:
    for event in range(len(entities)):
        kept[entities[event]] += sign * weights[event]


@compiled
def _sum_on(
    entities: Codes,
    weights: Numbers,
    ends: Ints,
    gone_entities: Codes,
    gone_weights: Numbers,
    begins: Ints,
    asked: Ints,
    kept: Numbers,
    found: Numbers,
) -> None:
    """The events are those from the first of the `ends`, and from the first of the `begins`, if any, on."""
    come = gone = 0
    for question in range(len(asked)):
        while ends[0] + come < ends[question]:
            kept[entities[come]] += weights[come]
            come += 1
        if len(begins):
            while begins[0] + gone < begins[question]:
                kept[gone_entities[gone]] -= gone_weights[gone]
                gone += 1
        found[question] = kept[asked[question]]


@compiled
def _events_on(
    entities: Codes, chosen: Bools, start: int, ends: Ints, asked: Ints, first: bool, kept: Ints, found: Ints
) -> None:
    """The first or last row so far of each entity; the events are those from `start` on."""
    event = 0
    for question in range(len(asked) + 1):
        end = len(entities) if question == len(asked) else ends[question] - start
        while event < end:
            if chosen[event] and not (first and kept[entities[event]] >= 0):
                kept[entities[event]] = start + event
            event += 1
        if question < len(asked):
            found[question] = kept[asked[question]]
