"""What the user of a query did last, and in the session that is running: as of the query, one answer per query."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl

from features.columns import ITEM, USER
from features.context import Context
from features.durations import in_microseconds, parse_duration
from features.windows import Bools, Ints, T


def heads(context: Context) -> Ints:
    """(Q,) the first row of each query."""
    sizes = context.sizes()
    starts: Ints = np.cumsum(sizes) - sizes
    return starts


def query_numbers(context: Context) -> Ints:
    """(N,) the number of each row's query, from 0."""
    sizes = context.sizes()
    return np.repeat(np.arange(len(sizes)), sizes)


def spread(context: Context, values: npt.NDArray[T]) -> npt.NDArray[T]:
    """(Q,) one value per query -> (N,) the same for all of its rows."""
    return np.repeat(values, context.sizes())


def recent_events(context: Context) -> Ints:
    """(Q, n) the user's last interactions before the query, as rows of the timeline, the latest first; -1 for none.

    n is `description.options.recent`. Of several with one item only the latest stays.
    """
    return context.once("recent events", lambda: _recent_events(context))


def recent_items(context: Context) -> Ints:
    """(Q, n) the items of `recent_events`, as codes of `context.codes(ITEM)`; -1 for none."""
    events, _ = context.codes(ITEM)
    return at_events(events, recent_events(context))


def at_events(values: Ints, rows: Ints) -> Ints:
    """(E,) codes of events, and rows of the timeline -> the codes of these, -1 where the row is."""
    if not len(values):
        return np.full_like(rows, -1)
    return np.where(rows >= 0, values[rows], -1)


def first_of_session(context: Context) -> Ints:
    """(E,) the row of the event with which the session of each event began; -1 for events without a user.

    A session lasts until the user is silent for longer than `description.options.session_gap`.
    """
    return context.once("first of session", lambda: _first_of_session(context))


def running_session(context: Context) -> Ints:
    """(Q,) the row of the event with which the session that runs at the query began.

    The number of events where none runs: there is no user, or the last event to have arrived is too long ago.
    """
    return context.once("running session", lambda: _running_session(context))


def _recent_events(context: Context) -> Ints:
    lookup, first = context.lookup(USER), heads(context)
    kinds = context.description.interactions
    rows = np.stack(
        [lookup.event(-1 - back, kinds)[first] for back in range(context.description.options.recent)], axis=1
    )
    rows[~lookup.known[first]] = -1
    events, _ = context.codes(ITEM)
    items = at_events(events, rows)
    for back in range(1, rows.shape[1]):
        again = (items[:, :back] == items[:, back : back + 1]).any(axis=1)
        rows[again, back] = -1
    return rows


def _first_of_session(context: Context) -> Ints:
    times = context.timeline.times()
    history = context.lookup(USER).history
    before = history.previous()
    silent = times - times[before] > _gap(context) if len(times) else np.zeros(0, np.bool_)
    return history.begin_of_run(silent)


def _running_session(context: Context) -> Ints:
    lookup, first = context.lookup(USER), heads(context)
    last = np.where(lookup.known, lookup.last_event(), -1)[first]
    if not len(context.timeline):
        return np.zeros_like(last)
    runs: Bools = (last >= 0) & (context.times[first] - context.timeline.times()[last] <= _gap(context))
    return np.where(runs, first_of_session(context)[last], len(context.timeline))


def _gap(context: Context) -> int:
    return in_microseconds(parse_duration(context.description.options.session_gap))


def new_in_session(context: Context) -> Bools:
    """(E,) whether an event is the first of its session with its item."""
    items, _ = context.codes(ITEM)
    pairs = first_of_session(context) * (1 + items.max(initial=0)) + items
    first: Bools = pl.Series(pairs).is_first_distinct().to_numpy()
    return first
