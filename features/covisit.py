"""Co-visitation: how often those who met the user's last items met the candidate soon before or after.

A visit is an interaction of a user with another item than that of their interaction before. Two items make a pair when
one is visited at most `REACH` visits of the same user after the other; the pair is known from when the later visit is.
So pairs are events of their own, and are counted as of the query like all others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
import polars as pl

from features.columns import ITEM, USER
from features.context import Context, Feature, numbers
from features.description import Description
from features.sequences import heads, query_numbers, recent_events, recent_items, running_session
from features.spec import FeatureSpec
from features.windows import NOBODY, Bools, Floats, History, Ints, Timeline

REACH: Final = 5
"""Visits of one user between which pairs are made."""
_AT_ONCE: Final = 2**21
"""Pairs asked for at once: bounds the memory, and changes nothing else."""


def covisit_features(log: Description) -> Iterator[Feature]:
    """`covisit.*`: pairs of the candidate with the user's last items, and with those of them in the running session.

    The strength of a pair is its count / sqrt(visits of the one * visits of the other), the cosine of item-to-item
    filtering (Linden, Smith, York 2003): its sum over the last items, and the largest. `user_last` is how many of the
    visits of the user's last item made a pair with the candidate.
    """
    if not log.users:
        return
    for scope, history in (("user", "before"), ("session", "in the session yet")):
        missing = f"no user, or no interaction {history}"
        yield Feature(FeatureSpec(f"covisit.{scope}_sum", missing=missing), partial(_score, name=f"{scope}_sum"))
        yield Feature(FeatureSpec(f"covisit.{scope}_max", missing=missing), partial(_score, name=f"{scope}_max"))
    spec = FeatureSpec("covisit.user_last", missing="no user, or no interaction before")
    yield Feature(spec, partial(_score, name="user_last"))


def _score(context: Context, name: str) -> pl.Series:
    return context.once("covisit", lambda: _scores(context))[name]


def _scores(context: Context) -> Mapping[str, pl.Series]:
    """All of them at once: to find the pairs is most of the work."""
    recent, query = recent_events(context), query_numbers(context)
    scopes = {"user": recent >= 0, "session": recent >= running_session(context)[:, None]}
    parts: dict[str, list[pl.Series]] = {}
    strengths = _Strengths.of(context)
    step = max(1, _AT_ONCE // recent.shape[1])
    for start in range(0, max(1, len(query)), step):
        rows = np.arange(start, min(start + step, len(query)))
        counts, strength = strengths.ask(rows, query[rows])
        found = _by_scope(strength, {scope: chosen[query[rows]] for scope, chosen in scopes.items()})
        last = counts[:, 0] / np.maximum(strengths.recent_visits[query[rows], 0], 1)
        found["user_last"] = numbers(last, scopes["user"][query[rows], 0])
        for name, values in found.items():
            parts.setdefault(name, []).append(values)
    return {name: pl.concat(values) for name, values in parts.items()}


def _by_scope(strength: Floats, scopes: Mapping[str, Bools]) -> dict[str, pl.Series]:
    """(M, n) strengths, and which of the n items are in a scope -> their sum and the largest, (M,) each."""
    found = {}
    for scope, chosen in scopes.items():
        inside = np.where(chosen, strength, 0.0)
        known: Bools = np.any(chosen, axis=1)
        found[f"{scope}_sum"] = numbers(inside.sum(axis=1), known)
        found[f"{scope}_max"] = numbers(inside.max(axis=1), known)
    return found


@dataclass(frozen=True, slots=True)
class _Strengths:
    """Asks for the pairs of rows. `items` (N,) and `times` (N,) of the rows, `visits` (N,) of their items so far;
    `recent` (Q, n) the last items of each query's user, `recent_visits` (Q, n) theirs. Items are codes.
    """

    pairs: _Pairs
    items: Ints
    times: Ints
    visits: Floats
    recent: Ints
    recent_visits: Floats

    @classmethod
    def of(cls, context: Context) -> _Strengths:
        events, rows = context.codes(ITEM)
        users, _ = context.codes(USER)
        timeline, recent = context.timeline, recent_items(context)
        done = timeline.of_kinds(context.description.interactions)
        visits = _visits(timeline, np.where(done, users, NOBODY), events)
        of_items = History(timeline, np.where(visits != NOBODY, events, NOBODY))
        asked = np.repeat(context.times[heads(context)], recent.shape[1])
        return cls(
            pairs=_Pairs.of(timeline, visits, events, 1 + max(_top(events), _top(rows))),
            items=rows,
            times=context.times,
            visits=of_items.at(rows, context.times).count().astype(np.float64),
            recent=recent,
            recent_visits=of_items.at(recent.ravel(), asked).count().reshape(recent.shape).astype(np.float64),
        )

    def ask(self, rows: Ints, queries: Ints) -> tuple[Ints, Floats]:
        """(M,) rows and their queries -> (M, n) counts and strengths of the pairs of the row's item with the last."""
        recent = self.recent[queries]
        own, times = (np.broadcast_to(values[rows, None], recent.shape) for values in (self.items, self.times))
        counts = self.pairs.count(own, recent, times)
        both = np.sqrt(self.visits[rows, None] * self.recent_visits[queries])
        return counts, counts / np.maximum(both, 1)


@dataclass(frozen=True, slots=True)
class _Pairs:
    """`history` of each pair: smaller item * width + larger item."""

    history: History
    width: int

    @classmethod
    def of(cls, timeline: Timeline, visits: Ints, items: Ints, width: int) -> _Pairs:
        """`visits` (E,): the user whose visit an event is, else NOBODY; `items` (E,) codes below `width`."""
        history = History(timeline, visits)
        pairs, rows = [], []
        for back in range(1, REACH + 1):
            before = history.previous(back)
            later = np.flatnonzero(before >= 0)
            later = later[items[before[later]] != items[later]]
            pairs.append(_pair(items[before[later]], items[later], width))
            rows.append(later)
        return cls(History(timeline, np.concatenate(pairs), np.concatenate(rows)), width)

    def count(self, first: Ints, second: Ints, times: Ints) -> Ints:
        """(M, n) items, NOBODY for none, and times -> how often each two had been a pair by then."""
        pairs = _pair(first, second, self.width)
        counts: Ints = self.history.at(pairs.ravel(), times.ravel()).count().reshape(pairs.shape)
        return counts


def _visits(timeline: Timeline, users: Ints, items: Ints) -> Ints:
    """(E,) users whose interactions events are, NOBODY for others -> the same for those that are visits."""
    before = History(timeline, users).previous()
    return np.where((before >= 0) & (items[before] == items), NOBODY, users) if len(items) else users


def _pair(first: Ints, second: Ints, width: int) -> Ints:
    """The code of two items, whichever comes first; NOBODY where one is."""
    smaller = np.minimum(first, second)
    return np.where(smaller == NOBODY, NOBODY, smaller * width + np.maximum(first, second))


def _top(codes: Ints) -> int:
    return int(codes.max(initial=0))
