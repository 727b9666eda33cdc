"""Signs that the tables of items and users know what happened after the queries that they describe."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from features.columns import CREATED_AT, EVENT, ITEM, QUERY, TIMESTAMP, USER, VALID_FROM
from features.log import Log
from pipeline.leaks import Leak

YOUNGER: Final = 0.001
"""Share of rows above which sources younger than their query are spoken of."""
AT_THE_MOMENT: Final = 0.02
KNOWS_LATER: Final = 0.5
"""Rank correlation of a column with what happened later, what happened before being equal."""
FEWEST: Final = 30
"""Entities that a correlation needs."""
DRIFTED: Final = 0.1
STRADDLING: Final = 0.001


@dataclass(frozen=True)
class Asked:
    """The rows that are judged: `query`, `item`, `timestamp`, where known `user`, and the `part` they are in."""

    rows: pl.DataFrame

    def of(self, key: str) -> pl.DataFrame:
        """The distinct (key, timestamp) pairs, without null."""
        return self.rows.select(key, TIMESTAMP).drop_nulls().unique()


def leaks_in_log(log: Log, asked: Asked) -> Iterator[Leak]:
    """What items and users know too early, and which queries reach over the borders of their part."""
    events = log.events.lazy()
    for key, table in ((ITEM, log.items), (USER, log.users)):
        if table is None or key not in asked.rows.columns:
            continue
        if VALID_FROM in table.columns:
            yield from _versions(table, asked, key)
        else:
            yield from _younger(table, asked, key)
            yield from _knowing(events, table, key)
    if log.items is not None and log.shown is not None and VALID_FROM not in log.items.columns:
        yield from _rewritten(events.filter(pl.col(EVENT) == log.shown), log.items)
    yield from _straddling(events, asked)


def _younger(table: pl.DataFrame, asked: Asked, key: str) -> Iterator[Leak]:
    """Times in a catalogue after the query that they describe: it was written later, and so perhaps all of it."""
    for name, dtype in table.schema.items():
        if not isinstance(dtype, pl.Datetime):
            continue
        rows = (
            asked.of(key).join(table.select(key, pl.col(name).alias("known")), on=key, how="inner").drop_nulls("known")
        )
        late = int((rows["known"] > rows[TIMESTAMP]).sum())
        if late > YOUNGER * rows.height:
            meaning = "it was created later" if name == CREATED_AT else "the table was written later"
            share = f"{late / rows.height:.1%} of {rows.height} ({key}, query time) pairs"
            found = f"{share} have it after the query: {meaning}"
            yield Leak(f"{key}.{name}", found, _versioned(key, name))


def _versions(table: pl.DataFrame, asked: Asked, key: str) -> Iterator[Leak]:
    """Versions that came after all queries of their entity, and versions that begin in the very moment of one."""
    pairs = asked.of(key)
    first = table.group_by(key).agg(pl.col(VALID_FROM).min())
    known = pairs.join(first, on=key, how="inner")
    late = int((known[VALID_FROM] > known[TIMESTAMP]).sum())
    if late > YOUNGER * known.height:
        found = f"{late / known.height:.1%} of {known.height} ({key}, query time) pairs lie before the first version"
        yield Leak(
            f"{key}.{VALID_FROM}",
            found,
            "give each entity a version from when it came to exist; their fields are missing",
        )
    begins = table.select(key, pl.col(VALID_FROM).alias(TIMESTAMP)).unique()
    moment = pairs.join(begins, on=[key, TIMESTAMP], how="semi").height
    if moment > AT_THE_MOMENT * pairs.height:
        found = (
            f"{moment / pairs.height:.1%} of {pairs.height} ({key}, query time) pairs meet a version that begins then"
        )
        yield Leak(f"{key}.{VALID_FROM}", found, "was it written by the event itself? then begin it a moment later")


def _knowing(events: pl.LazyFrame, table: pl.DataFrame, key: str) -> Iterator[Leak]:
    """Numbers of a table without versions that go with what happened later more than what came before explains."""
    numbers = [name for name, dtype in table.schema.items() if dtype.is_numeric() and name != key]
    if not numbers or key not in events.collect_schema():
        return
    later = pl.col(TIMESTAMP) >= pl.col(TIMESTAMP).median()
    halves = events.drop_nulls(key).select(key, pl.col(EVENT).cast(pl.String), later.alias("later"))
    counts = halves.group_by(key, EVENT).agg(
        pl.col("later").sum().alias("after"), (~pl.col("later")).sum().alias("before")
    )
    of_kinds = counts.collect()
    for kind in (None, *sorted(of_kinds[EVENT].unique())):
        chosen = of_kinds if kind is None else of_kinds.filter(pl.col(EVENT) == kind)
        both = table.join(chosen.group_by(key).agg(pl.col("after", "before").sum()), on=key, how="inner")
        both = both.filter(pl.col("before") > 0)
        for name in list(numbers):
            known = both.select(name, "before", "after").cast(pl.Float64).drop_nulls().drop_nans()
            if known.height < FEWEST:
                continue
            after, before, both_times, rest = _correlations(known)
            if rest >= KNOWS_LATER:
                numbers.remove(name)
                what = "events" if kind is None else f"{kind} events"
                found = (
                    f"goes with the {what} after the middle of the log ({after:+.2f}) as with those before "
                    f"({before:+.2f}); what is left after these explain each other ({both_times:+.2f}) is {rest:+.2f}"
                )
                yield Leak(f"{key}.{name}", found, _versioned(key, name))


def _correlations(known: pl.DataFrame) -> tuple[float, float, float, float]:
    """Rank correlations of the column with after and before, of these, and of the column with after given before."""
    ranks = known.select(pl.all().rank("average")).to_numpy().T
    if np.any(ranks.std(axis=1) == 0):
        return 0.0, 0.0, 0.0, 0.0
    matrix = np.corrcoef(ranks)
    before, after, both = matrix[0, 1], matrix[0, 2], matrix[1, 2]
    left = (1 - before**2) * (1 - both**2)
    rest = (after - before * both) / np.sqrt(left) if left > 1e-12 else 0.0
    return float(after), float(before), float(both), float(rest)


def _rewritten(shown: pl.LazyFrame, items: pl.DataFrame) -> Iterator[Leak]:
    """Columns of the catalogue that equal what was shown last, and not what was shown first."""
    logged = shown.collect_schema()
    for name in items.columns:
        if name in (ITEM, QUERY, TIMESTAMP) or name not in logged or items.schema[name].is_nested():
            continue
        known = shown.select(ITEM, TIMESTAMP, name).drop_nulls()
        in_order = pl.col(name).sort_by(TIMESTAMP, name)
        ends = (
            known.group_by(ITEM).agg(in_order.first().alias("first"), in_order.last().alias("last"), pl.len()).collect()
        )
        both = ends.filter(pl.col("len") > 1).join(items.select(ITEM, pl.col(name).alias("now")), on=ITEM, how="inner")
        if both.height < FEWEST or both.schema["now"].is_numeric() != both.schema["first"].is_numeric():
            continue
        then, late = (float((both[end] == both["now"]).mean() or 0.0) for end in ("first", "last"))  # type: ignore[arg-type]
        if late - then >= DRIFTED:
            found = (
                f"equals what was shown last for {late:.0%} of the items, and what was shown first for {then:.0%}: it "
                "changed after the queries"
            )
            yield Leak(f"{ITEM}.{name}", found, _versioned(ITEM, name))


def _straddling(events: pl.LazyFrame, asked: Asked) -> Iterator[Leak]:
    """Queries with events at a time at which the next part has begun."""
    if QUERY not in events.collect_schema():
        return
    parts = asked.rows.group_by("part").agg(pl.col(TIMESTAMP).min()).sort(TIMESTAMP)
    last = events.drop_nulls(QUERY).group_by(QUERY).agg(pl.col(TIMESTAMP).max().alias("last")).collect()
    ended = asked.rows.select(QUERY, "part").unique().join(last, on=QUERY, how="inner")
    for part, follows, begin in zip(parts["part"], parts["part"][1:], parts[TIMESTAMP][1:], strict=False):
        own = ended.filter(pl.col("part") == part)
        over = int((own["last"] >= begin).sum())
        if over > STRADDLING * own.height:
            found = f"{over} of {own.height} queries of {part} have events after {follows} has begun"
            yield Leak(
                "split",
                found,
                "set split.gap and relevance.window so that the outcome of a query ends before the next part",
            )


def _versioned(key: str, name: str) -> str:
    return f'give data.{key}s a column valid_from, with a row per version; or features.drop = ["*{name}*"]'
