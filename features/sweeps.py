"""Sums over what each entity did between two places of a log, for many questions at once: nothing is sorted for it.

The questions stand in the order of the log, as the events do. One pass answers them all: a sum per entity is kept, to
which each event is added as its place comes in, and from which it is taken as its place leaves the window.
NumPy has no such pass, so the loops are compiled.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from features.compiling import compiled

Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]

_NONE: Final = -1
"""The code of no entity; what an index holds where it holds nothing."""
_GOLDEN: Final = 0x9E3779B97F4A7C15
_FEW: Final = 8
"""Where there are this many times fewer questions than events, those of entities that nobody asks for are left out."""
_STEPS: Final = 32


def places_before(arrivals: Ints, times: Ints) -> Ints:
    """(E,) ascending, (M,) -> (M,) how many of the arrivals are below each time; fast where the times ascend."""
    places = np.empty(len(times), _narrowest(len(arrivals)))
    _before(arrivals, times, places)
    return places


class Sweep:
    """Questions to the events of a log.

    `entities` (E,): the code of each event's entity, at least 0, or -1 for none; `rows` (E,): the place of each in the
    log, ascending (None: 0, 1, ...). `asked` (M,): whom each question is about; -1 has no events.
    """

    def __init__(self, entities: Ints, rows: Ints | None, asked: Ints) -> None:
        self._entities, self._asked, self._size = _number(entities, asked)
        self._rows = rows
        if _FEW * len(asked) < len(entities):
            wanted = np.zeros(self._size + 2, np.bool_)
            wanted[self._asked] = True
            kept = np.flatnonzero(wanted[self._entities])
            self._entities, self._rows = self._entities[kept], kept if rows is None else rows[kept]

    def sums(self, weights: Ints | Bools, begins: Ints | None, ends: Ints) -> Ints:
        """(M,) sums of the weights, one per place of the log, from `begins` (None: the first) to below `ends`.

        Both (M,) places, ascending. Bools are counted.
        """
        own = weights if self._rows is None else weights[self._rows]
        found = np.empty(len(self._asked), _narrowest(len(own)) if own.dtype == np.bool_ else np.int64)
        if begins is None:
            _sums(self._entities, own, self._asked, self._own(ends), found, self._size)
        else:
            _window_sums(self._entities, own, self._asked, self._own(begins), self._own(ends), found, self._size)
        return found

    def last(self, chosen: Bools, ends: Ints) -> Ints:
        """(M,) the place of the last event of each entity that is `chosen` (a flag per place of the log), -1 for none.

        `ends` (M,) as for `sums`.
        """
        own = chosen if self._rows is None else chosen[self._rows]
        found = np.empty(len(self._asked), _narrowest(len(own)))
        _last(self._entities, own, self._asked, self._own(ends), found, self._size)
        return found if self._rows is None else np.append(self._rows, _NONE)[found]

    def grouped(self, chosen: Bools) -> tuple[Ints, Ints]:
        """Where in what follows the events of each entity of `asked` begin; and the places of the `chosen` events (one
        flag per place of the log) by entity, in order.
        """
        own = np.flatnonzero(chosen if self._rows is None else chosen[self._rows])
        starts, places = np.zeros(self._size + 2, np.int64), np.empty(len(own), np.int64)
        _group(self._entities, own, starts, places)
        return starts, places if self._rows is None else self._rows[places]

    def pick(self, grouped: tuple[Ints, Ints], counts: Ints, number: int) -> Ints:
        """(M,) the place of one of the first `counts` (M,) events of each entity, counted as in a list; -1 for none."""
        found = np.empty(len(counts), np.int64)
        _pick(*grouped, self._asked, counts, number, found)
        return found

    def _own(self, places: Ints) -> Ints:
        return places if self._rows is None else places_before(self._rows, places)


def _number(entities: Ints, asked: Ints) -> tuple[Codes, Codes, int]:
    """Codes, equal where the entities are, and how many: -1 for events that nobody asks for; the last asks for none."""
    top = max(int(entities.max(initial=0)), int(asked.max(initial=0)))
    if top <= len(entities) + len(asked):
        return entities.astype(np.int32), np.where(asked < 0, top + 1, asked).astype(np.int32), top + 1
    slots = np.full(1 << (2 * len(asked)).bit_length(), _NONE, np.int32)
    distinct = np.empty(len(asked), np.int64)
    codes, found = np.empty(len(asked), np.int32), np.empty(len(entities), np.int32)
    size = _number_values(asked, slots, distinct, codes)
    _find_values(entities, slots, distinct, found)
    codes[codes < 0] = size
    return found, codes, size


def _narrowest(top: int) -> type[np.integer[Any]]:
    return np.int32 if top < 2**31 else np.int64


@compiled
def _before(arrivals: Ints, times: Ints, places: Ints) -> None:
    place = 0
    for number in range(len(times)):
        time = times[number]
        if place > 0 and arrivals[place - 1] >= time:
            place = np.searchsorted(arrivals[:place], time)
        steps = 0
        while place < len(arrivals) and arrivals[place] < time:
            place += 1
            steps += 1
            if steps == _STEPS:
                place += np.searchsorted(arrivals[place:], time)
        places[number] = place


@compiled
def _sums(entities: Codes, weights: Ints | Bools, asked: Codes, ends: Ints, found: Ints, size: int) -> None:
    kept = np.zeros(size + 2, found.dtype)
    event = 0
    for question in range(len(asked)):
        while event < ends[question]:
            kept[entities[event]] += weights[event]
            event += 1
        found[question] = kept[asked[question]]


@compiled
def _window_sums(
    entities: Codes, weights: Ints | Bools, asked: Codes, begins: Ints, ends: Ints, found: Ints, size: int
) -> None:
    kept = np.zeros(size + 2, found.dtype)
    event = gone = 0
    for question in range(len(asked)):
        while event < ends[question]:
            kept[entities[event]] += weights[event]
            event += 1
        while gone < begins[question]:
            kept[entities[gone]] -= weights[gone]
            gone += 1
        found[question] = kept[asked[question]]


@compiled
def _last(entities: Codes, chosen: Bools, asked: Codes, ends: Ints, found: Ints, size: int) -> None:
    kept = np.full(size + 2, _NONE, found.dtype)
    event = 0
    for question in range(len(asked)):
        while event < ends[question]:
            if chosen[event]:
                kept[entities[event]] = event
            event += 1
        found[question] = kept[asked[question]]


@compiled
def _group(entities: Codes, chosen: Ints, starts: Ints, places: Ints) -> None:
    """A counting sort; those of nobody come last."""
    sizes = np.zeros(len(starts), np.int64)
    for event in chosen:
        sizes[entities[event]] += 1
    total = 0
    for entity in range(len(starts)):
        starts[entity] = total
        total += sizes[entity]
    following = starts.copy()
    for event in chosen:
        entity = entities[event]
        places[following[entity]] = event
        following[entity] += 1


@compiled
def _pick(starts: Ints, places: Ints, asked: Codes, counts: Ints, number: int, found: Ints) -> None:
    for question in range(len(asked)):
        count = counts[question]
        at = count + number if number < 0 else number
        found[question] = places[starts[asked[question]] + at] if 0 <= at < count else _NONE


@compiled
def _number_values(values: Ints, slots: Codes, distinct: Ints, codes: Codes) -> int:
    """Codes by first occurrence, kept in `slots`, an open hash table of codes; returns how many there are."""
    count = 0
    last = np.uint64(len(slots) - 1)
    shift = np.uint64(64 - round(np.log2(len(slots))))
    for place in range(len(values)):
        value = values[place]
        code = np.int32(_NONE)
        if value >= 0:
            slot = (np.uint64(value) * np.uint64(_GOLDEN)) >> shift
            while slots[slot] != _NONE and distinct[slots[slot]] != value:
                slot = (slot + np.uint64(1)) & last
            code = slots[slot]
            if code == _NONE:
                code = np.int32(count)
                slots[slot] = code
                distinct[count] = value
                count += 1
        codes[place] = code
    return count


@compiled
def _find_values(values: Ints, slots: Codes, distinct: Ints, codes: Codes) -> None:
    """The codes that `_number_values` gave."""
    last = np.uint64(len(slots) - 1)
    shift = np.uint64(64 - round(np.log2(len(slots))))
    for place in range(len(values)):
        value = values[place]
        code = np.int32(_NONE)
        if value >= 0:
            slot = (np.uint64(value) * np.uint64(_GOLDEN)) >> shift
            while slots[slot] != _NONE and distinct[slots[slot]] != value:
                slot = (slot + np.uint64(1)) & last
            code = slots[slot]
        codes[place] = code
