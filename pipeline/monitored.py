"""What `monitor` found, as a person reads it on a terminal or in a pipe."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.box import SIMPLE_HEAD
from rich.table import Table

from pipeline.monitor import Drift, Monitored, alarm_sentences, largest, moved_most, remarks
from pipeline.printout import NO_VALUE
from pipeline.reductions import Interval
from pipeline.replay import Difference

MOST = 15
"""Features shown on a terminal; all stand in monitor.json and in the report."""


def monitor_tables(found: Monitored) -> Iterator[Table]:
    """ndcg day by day, where relevance is known; then the columns that moved most against their levels."""
    if found.quality:
        table = Table(box=SIMPLE_HEAD, pad_edge=False)
        for title in ("day", "queries", f"{found.metric} of the package's order [95 %]", "of the served order [95 %]"):
            table.add_column(title, justify="left" if title == "day" else "right", no_wrap=True)
        for each in found.quality:
            table.add_row(str(each.day or "all"), str(each.queries), measured(each.model), measured(each.served))
        yield table
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("feature or score")
    for title in ("largest PSI", "on", "alarm above", "missing", "in training", "unseen levels"):
        table.add_column(title, justify="right", no_wrap=True)
    for drift in moved_most(found)[:MOST]:
        table.add_row(*_cells(drift, found))
    yield table


def monitor_lines(found: Monitored) -> Iterator[str]:
    """What the figures are held against, what is worth a look, and each alarm, or that there is none."""
    if found.expected.mean is not None:
        yield f"{found.metric} was {measured(found.expected)} on the package's own test queries."
    yield "PSI: how far a column lies from where it lay in training; its alarm starts higher where it always moved."
    yield from remarks(found)
    alarms = alarm_sentences(found)
    yield from (f"ALARM: {sentence}" for sentence in alarms)
    if not alarms:
        yield "No alarm: nothing lies beyond its level."


def difference_table(found: Sequence[Difference]) -> Table:
    """Features that were not served as the log says: how often, by how much, and on which side they are missing."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("feature")
    for title in ("rows that differ", "largest difference", "missing when served", "missing when rebuilt"):
        table.add_column(title, justify="right", no_wrap=True)
    for each in found:
        largest = NO_VALUE if each.largest is None else f"{each.largest:.4g}"
        table.add_row(each.name, f"{each.differ:.1%}", largest, f"{each.unlogged:.1%}", f"{each.unbuilt:.1%}")
    return table


def measured(value: Interval | None) -> str:
    """A mean with its interval."""
    if value is None or value.mean is None:
        return NO_VALUE
    return f"{value.mean:.4f} [{value.low:.3f}, {value.high:.3f}]"


def _cells(each: Drift, found: Monitored) -> list[str]:
    top = largest(each)
    day = found.days[each.index.index(top)] if top else None
    missing, unknown = max(each.missing, default=0.0), max(each.unknown, default=0.0)
    shares = [f"{share:.1%}" for share in (missing, each.missing_before, unknown)]
    return [each.name, f"{top:.3f}", str(day or NO_VALUE), f"{each.level:.3f}", *shares]
