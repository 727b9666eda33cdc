"""What a feature should be, in plain loops over plain rows: slow, and obviously right."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from features.log import Log

Row = Mapping[str, Any]


def seen_before(
    rows: Iterable[Row],
    time: datetime,
    *,
    entity: Mapping[str, object],
    kinds: Sequence[str] | None = None,
    window: timedelta | None = None,
    delay: Mapping[str, timedelta] | None = None,
) -> Iterator[Row]:
    """The events of an entity that a query at `time` knows, in the order of their arrival."""
    late = delay or {}

    def arrival(row: Row) -> datetime:
        return row["timestamp"] + late.get(row["event"], timedelta(0))

    for row in sorted(rows, key=arrival):
        if not arrival(row) < time:
            continue
        if window is not None and arrival(row) < time - window:
            continue
        if kinds is not None and row["event"] not in kinds:
            continue
        if all(row[name] is not None and row[name] == value for name, value in entity.items()):
            yield row


def average_rank(values: Sequence[float | None]) -> list[float | None]:
    """Average ranks from 1 for the lowest; None takes no rank."""
    known = [value for value in values if value is not None]
    return [
        None
        if value is None
        else 1 + sum(other < value for other in known) + (sum(other == value for other in known) - 1) / 2
        for value in values
    ]


def field_of_event(log: Log, event: Row, key: str) -> object:
    """A field as of an event: "item.category", "user.segment", "query.text" or "shown.badge"."""
    table, name = key.split(".")
    if table == "shown":
        return event[name] if event[name] is not None else _worn_in_query(log, event, name)
    catalogue = {"item": log.items, "user": log.users, "query": log.queries}[table]
    rows = [row for row in catalogue.to_dicts() if event[table] is not None and row[table] == event[table]]
    since = "timestamp" if table == "query" else "valid_from"
    valid = [row for row in rows if since not in row or row[since] <= event["timestamp"]]
    value = max(valid, key=lambda row: row.get(since, 0))[name] if valid else None
    return " ".join(value.lower().split()) if table == "query" and value is not None else value


def _worn_in_query(log: Log, event: Row, name: str) -> object:
    late = log.delay.get(event["event"], timedelta(0))
    same = {"query": event["query"], "item": event["item"]}
    tick = timedelta(microseconds=1)
    known = list(
        seen_before(
            log.events.to_dicts(),
            event["timestamp"] + late + tick,
            entity=same,
            kinds=[log.shown] if log.shown else [],
            delay=log.delay,
        )
    )
    return known[-1][name] if known else None
