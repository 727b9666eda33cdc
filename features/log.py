"""A log with its catalogues, made to fit together: the same type of id everywhere, kinds of events that exist."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta

import polars as pl

from features.columns import EVENT, ITEM, QUERY, USER
from features.errors import DataError
from features.names import listed, nearest
from features.spill import Events


@dataclass(frozen=True, slots=True)
class Log:
    """Everything that is known: `events` as in `features.events.EventLog`, `items`, `users` and `queries` as in
    `features.catalogues` (None: not given), `shown` the kind of event that says what was shown (None: nothing does),
    `delay` how late the events of a kind reach the store (a kind that is not in it: at once).
    """

    events: Events
    items: pl.DataFrame | None = None
    users: pl.DataFrame | None = None
    queries: pl.DataFrame | None = None
    shown: str | None = None
    delay: Mapping[str, timedelta] = field(default_factory=dict)

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of events in the log, sorted."""
        return event_kinds(self.events)


def make_log(
    events: Events,
    *,
    items: pl.DataFrame | None = None,
    users: pl.DataFrame | None = None,
    queries: pl.DataFrame | None = None,
    shown: str | None = None,
    delay: timedelta | Mapping[str, timedelta] | None = None,
    strict: bool = True,
) -> Log:
    """Bring a log and its catalogues together; an id that is text in one table becomes text in all.

    Raises DataError where `shown`, or a kind that `delay` names, does not occur in the log; unless `strict`, a kind
    that was named for another log may be missing in this one.
    """
    given = {"items": items, "users": users, "queries": queries}
    aligned, tables = _align_ids(events, {name: table for name, table in given.items() if table is not None})
    if shown is not None and strict:
        require_kinds(aligned, [shown], role="data.shown")
    if isinstance(delay, Mapping):
        if strict:
            require_kinds(aligned, delay, role="delay")
        delays = dict(delay)
    else:
        delays = dict.fromkeys(event_kinds(aligned), delay) if delay else {}
    return Log(aligned, **tables, shown=shown, delay=delays)


def count_unmatched(log: Log) -> dict[str, int]:
    """How many items and users of the events have no row in their catalogue; a log without one counts nothing.

    Raises DataError where none has: then the two spell their ids differently.
    """
    pairs = [(ITEM, "items_not_in_the_catalogue", log.items), (USER, "users_not_in_the_table", log.users)]
    return {
        what: _count_unmatched(log.events, table, name)
        for name, what, table in pairs
        if table is not None and name in log.events.collect_schema()
    }


def _count_unmatched(events: Events, table: pl.DataFrame, name: str) -> int:
    held = distinct(events, name).to_frame().sort(name)
    unmatched = held.join(table.select(name).unique(), on=name, how="anti").height
    if unmatched == held.height > 0:
        raise DataError(
            f"none of the {held.height} {name}s of the log has a row in data.{name}s "
            f"({listed(held[name], most=3)} against {listed(table[name].unique().sort(), most=3)})",
            expected="ids that are spelled alike in both",
            fix="mend the ids where the files are written, or leave the table out",
        )
    return unmatched


def event_kinds(events: Events) -> tuple[str, ...]:
    """The kinds that occur, sorted."""
    return tuple(sorted(distinct(events, EVENT).cast(pl.String)))


def distinct(events: Events, name: str) -> pl.Series:
    """The values of a column, each once, without null, in no order."""
    values = pl.col(name).unique()
    if isinstance(events, pl.DataFrame):
        return events.select(values).to_series().drop_nulls()
    return events.select(values).collect(engine="streaming").to_series().drop_nulls()


def require_kinds(events: Events, kinds: Iterable[str], *, role: str) -> None:
    """Raise DataError for the first of `kinds` that does not occur; `role` is where the user named it."""
    present = event_kinds(events)
    for kind in kinds:
        if kind not in present:
            near = nearest(kind, present)
            raise DataError(
                f"{role} names the event kind {kind!r}, of which the log holds none",
                expected=f"one of {listed(present, most=20)}",
                fix=f"did you mean {near!r}?" if near else "name a kind that occurs",
            )


def align_ids(left: pl.DataFrame, right: pl.DataFrame, name: str) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The two frames with column `name` of one type: text in both where it is text in either."""
    if left.schema[name] == right.schema[name]:
        return left, right
    return left.with_columns(pl.col(name).cast(pl.String)), right.with_columns(pl.col(name).cast(pl.String))


def _align_ids(events: Events, tables: dict[str, pl.DataFrame]) -> tuple[Events, dict[str, pl.DataFrame]]:
    own = events.collect_schema()
    for name in (ITEM, USER, QUERY):
        types = {own[name]} if name in own else set()
        types |= {table.schema[name] for table in tables.values() if name in table.columns}
        if len(types) > 1:
            text = pl.col(name).cast(pl.String)
            events = events.with_columns(text) if name in own else events
            tables = {
                key: table.with_columns(text) if name in table.columns else table for key, table in tables.items()
            }
    return events, tables
