"""The session in which a query is asked, as far as it has come: how long, how busy, and whether the item was in it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

import numpy as np
import polars as pl

from features.activity import slug
from features.columns import ITEM, USER
from features.context import Context, Feature, numbers
from features.description import Description
from features.sequences import first_of_session, heads, new_in_session, running_session, spread
from features.spec import FeatureSpec
from features.windows import Floats, Ints

_MICROSECONDS_PER_MINUTE: Final = 60 * 10**6


def session_features(log: Description) -> Iterator[Feature]:
    """`session.*`: of the user's running session its number, length, counts per kind, different items; of the item
    whether it was in it, per kind; per category field the share of the session's events with such items.

    A session ends where the user is silent for longer than `options.session_gap`. It runs if its last event is not
    longer ago than that; otherwise the query begins a new one, in which nothing has happened yet.
    """
    if not log.users:
        return
    no_session = "no user, or nothing in the session yet"
    yield Feature(FeatureSpec("session.number", missing="no user; 1 in the first session"), _number)
    yield Feature(FeatureSpec("session.events", missing="no user; 0 at its begin"), partial(_count, kinds=None))
    yield Feature(FeatureSpec("session.items", missing="no user; 0 at its begin"), _items)
    yield Feature(FeatureSpec("session.minutes", missing=f"{no_session}; since its first event"), _minutes)
    yield Feature(FeatureSpec("session.length_minutes", missing=f"{no_session}; first event to last"), _length)
    for kind in log.kinds if len(log.kinds) > 1 else ():
        spec = FeatureSpec(f"session.{slug(kind)}_count", missing="no user; 0 at its begin")
        yield Feature(spec, partial(_count, kinds=(kind,)))
    for kind in log.kinds:
        spec = FeatureSpec(f"session.item_{slug(kind)}", missing="no user; 1 where the item had one in it, else 0")
        yield Feature(spec, partial(_of_item, kind=kind))
    for field in log.item_fields:
        if field.kind == "category":
            missing = f"no user, no {field.name}, or no interaction in the session yet"
            spec = FeatureSpec(f"session.{field.name}_share", missing=missing)
            yield Feature(spec, partial(_share, name=field.name))


def _number(context: Context) -> pl.Series:
    """The sessions that began before the query, and one more where the query begins its own."""
    begins = first_of_session(context) == np.arange(len(context.timeline))
    lookup = context.lookup(USER)
    new = running_session(context) == len(context.timeline)
    return numbers(lookup.summed(begins) + spread(context, new), lookup.known)


def _count(context: Context, kinds: tuple[str, ...] | None) -> pl.Series:
    lookup = context.lookup(USER)
    return numbers(lookup.count_since(running_session(context), kinds), lookup.known)


def _items(context: Context) -> pl.Series:
    """Different items among the events of the session."""
    lookup = context.lookup(USER)
    return numbers(lookup.summed_since(new_in_session(context), running_session(context)), lookup.known)


def _minutes(context: Context) -> pl.Series:
    return _since_begin(context, context.times[heads(context)])


def _length(context: Context) -> pl.Series:
    last = context.lookup(USER).last_event()[heads(context)]
    times = context.timeline.times()
    return _since_begin(context, times[last] if len(times) else np.zeros_like(last))


def _since_begin(context: Context, until: Ints) -> pl.Series:
    """Minutes from the begin of the session to a time per query, (Q,) in microseconds."""
    begin, times = running_session(context), context.timeline.times()
    runs = begin < len(times)
    since = times[np.where(runs, begin, 0)] if len(times) else np.zeros_like(begin)
    minutes: Floats = (until - since) / _MICROSECONDS_PER_MINUTE
    return numbers(spread(context, minutes), spread(context, runs))


def _of_item(context: Context, kind: str) -> pl.Series:
    pair = context.lookup(USER, ITEM)
    return numbers(pair.last_event((kind,)) >= spread(context, running_session(context)), pair.known)


def _share(context: Context, name: str) -> pl.Series:
    """Of the interactions of the session, the share with items of the same category."""
    kinds, begin = context.description.interactions, running_session(context)
    every = context.lookup(USER).count_since(begin, kinds)
    same = context.lookup(USER, f"{ITEM}.{name}")
    count = same.count_since(spread(context, begin), kinds)
    return numbers(count / np.maximum(every, 1), same.known & (every > 0))
