"""What a feature should be, in plain loops over plain rows: slow, and obviously right."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

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
