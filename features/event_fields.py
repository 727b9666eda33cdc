"""What is known of the item, the user and the query of each event, and of how it was shown: as of the event."""

from __future__ import annotations

import polars as pl

from features.columns import ITEM, QUERY, TIMESTAMP, USER, private
from features.log import Log
from features.windows import NOBODY, History, Ints, Joined, Timeline, join_as_of

_ASKED = private("asked")


def fields_of_events(log: Log, timeline: Timeline, key: str) -> pl.DataFrame | Joined:
    """(E,) the fields that the catalogue of `key` (item, user or query) holds for each event, null where it has no row.

    Of a versioned table it is the version in force at the time of the event; an event that is older than its query
    knows nothing of it. Without a catalogue there are no columns.
    """
    return fields_of(log, timeline.events, key)


def fields_of(log: Log, events: pl.DataFrame, key: str) -> pl.DataFrame | Joined:
    """The same of some events."""
    catalogue = {ITEM: log.items, USER: log.users, QUERY: log.queries}[key]
    if catalogue is None or key not in events.columns:
        return pl.DataFrame()
    if key != QUERY:
        return join_as_of(catalogue, key, events)
    found = join_as_of(catalogue.rename({TIMESTAMP: _ASKED}, strict=False), QUERY, events)
    if _ASKED not in found.columns:
        return found
    too_early = (events[TIMESTAMP] < found[_ASKED]).fill_null(False)
    return Joined(found.table.drop(_ASKED), found.rows.set(too_early, None))


def fields_when_shown(timeline: Timeline, pairs: Ints, shown: str | None) -> pl.DataFrame:
    """(E,) what is logged with each event, else with the last impression of its item in its query to have arrived by
    then: the badge that a clicked item wore.

    `pairs` (E,): codes of query and item.
    """
    events = timeline.events
    if shown is None:
        return events
    by_then = History(timeline, pairs).at(pairs, timeline.arrivals() + 1).last_event((shown,))
    rows = pl.Series(by_then).set(pl.Series((by_then < 0) | (pairs == NOBODY)), None)
    return events.select(pl.coalesce(name, pl.col(name).gather(rows)) for name in events.columns)


def plain_text(values: pl.Series) -> pl.Series:
    """Text in lower case, with single spaces; anything else as it is."""
    if values.dtype != pl.String:
        return values
    return values.str.to_lowercase().str.strip_chars().str.replace_all(r"\s+", " ")
