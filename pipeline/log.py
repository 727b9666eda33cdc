"""A raw log on its way to tables: events -> queries -> relevance -> candidates -> features, split in time.

What is learned on the way (category codes, rates, watch-time medians) is learned before `Borders.train_until`, and goes
into the package, from which the same steps make the same features of another log.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import polars as pl

from features.candidates import Candidates, pool_candidates, sampled_candidates, shown_candidates
from features.catalogues import read_items, read_queries, read_users
from features.columns import EVENT, ITEM, POPULARITY, POSITION, QUERY, RELEVANCE, SESSION, TIMESTAMP, USER, VALUE
from features.errors import DataError
from features.events import EventLog, read_events
from features.fitted import Fitted, fit_features
from features.log import Log, count_unmatched, make_log
from features.queries import Queries, queries_by_id, queries_by_session, queries_by_table, queries_by_user_day
from features.registry import STANDARD
from features.relevance import (
    Relevance,
    WatchTargets,
    item_targets,
    median_targets,
    rating_relevance,
    tier_relevance,
    watch_relevance,
)
from features.table import Table, build_table
from features.windows import ItemPool
from pipeline.config import Config
from pipeline.readymade import present_columns, read_rows
from pipeline.split import Borders, Origin, Parts, assign_by_time, time_borders

_EVENT_COLUMNS = (QUERY, ITEM, USER, TIMESTAMP, EVENT, VALUE, POSITION, SESSION)
SHOWN_ORDER = f"-{POSITION}"


@dataclass(frozen=True)
class Asked:
    """A log with its queries, before anything is learned from it."""

    events: EventLog
    log: Log
    queries: Queries
    unmatched: Mapping[str, int]


def load_parts(config: Config) -> Parts:
    """The train, valid and test tables of the log that `[data]` names. Raises DataError or ConfigError."""
    asked = read_log(config)
    closed = _closed_queries(config, asked.queries)
    borders = time_borders(closed[TIMESTAMP], valid=config.split.valid, test=config.split.test, gap=config.split_gap)
    targets = fit_targets(config, asked.log, lambda: _medians(config, asked.queries, borders))
    relevance = judge_events(config, asked.queries, targets)
    candidates = find_candidates(config, asked.log, asked.queries, closed, relevance)
    fitted = _fit(config, asked.log, closed, candidates, borders)
    table = build_table(asked.log, closed, candidates.frame, fitted, relevance=relevance.frame)
    part = assign_by_time(table.frame[TIMESTAMP], borders)
    tables = {name: Table(table.frame.filter(part == name), table.features) for name in ("train", "valid", "test")}
    check_parts({name: table.frame.height for name, table in tables.items()}, borders)
    origin = Origin(
        split=borders.describe(closed[TIMESTAMP]),
        notes=(*_notes(asked, closed, relevance, candidates), *pool_note(config)),
        rivals=rivals_in(table.frame.columns),
        definitions=definitions_of(fitted, targets),
        unseen_from=borders.test_from,
        rejected=asked.events.rejected,
        continuous=is_continuous(config, fractions=has_fractions(relevance)),
    )
    return Parts(**tables, origin=origin)


def read_log(config: Config, events: Path | None = None) -> Asked:
    """The log, its catalogues and its queries, as the config says.

    `events` takes the place of `data.events`, and need not hold every kind of event that the config names.
    """
    read, log = read_files(config, events, config.data.shown)
    return Asked(read, log, _queries(config, log), count_unmatched(log))


def read_files(
    config: Config, events: Path | None, shown: str | None, read_log: Callable[..., EventLog] = read_events
) -> tuple[EventLog, Log]:
    """The log and its catalogues; `events` and `shown` take the place of what `[data]` says."""
    data = config.data
    own = {ours: theirs for ours, theirs in data.columns.items() if ours in _EVENT_COLUMNS}
    read = read_log(
        str(events or data.events),
        columns=own,
        time_unit=data.time_unit,
        event=data.event,
        max_rejected=data.max_rejected,
        merge=data.merge,
    )
    tables = {
        name: reader(path, columns=data.columns, time_unit=data.time_unit)
        for name, reader in (("items", read_items), ("users", read_users), ("queries", read_queries))
        if (path := getattr(data, name)) is not None
    }
    return read, make_log(read.events, **tables, shown=shown, delay=data.delay, strict=events is None)


def fit_targets(config: Config, log: Log, medians: Callable[[], WatchTargets]) -> float | WatchTargets | None:
    """What counts as watched to the end: seconds, or per item, from the catalogue or `medians` of the training part."""
    watch = config.relevance.watch
    if watch is None or isinstance(watch.target, float):
        return None if watch is None else float(watch.target)
    if watch.target == "median":
        return medians()
    if log.items is None:
        raise DataError(
            f"relevance.watch.target = {watch.target!r} without a catalogue",
            expected="data.items with that column",
            fix="name the catalogue, or set target to seconds or 'median'",
        )
    return item_targets(log.items, watch.target)


def _medians(config: Config, queries: Queries, borders: Borders) -> WatchTargets:
    kind = config.relevance.watch.event if config.relevance.watch else None
    return median_targets(queries, until=borders.train_until, kind=kind, window=config.relevance.window)


def judge_events(
    config: Config, queries: Queries, targets: float | WatchTargets | None, *, strict: bool = True
) -> Relevance:
    """The relevance that `[relevance]` finds in the events of each query; `strict`: every kind it names must occur."""
    rule = config.relevance
    if rule.tiers is not None:
        return tier_relevance(queries, rule.tiers, window=rule.window, strict=strict)
    if rule.watch is not None and targets is not None:
        return watch_relevance(queries, targets, kind=rule.watch.event, window=rule.window, strict=strict)
    grades = {float(rating): grade for rating, grade in rule.map.items()} if rule.map else None
    return rating_relevance(queries, column=rule.column or VALUE, grades=grades, window=rule.window)


def find_candidates(
    config: Config,
    log: Log,
    queries: Queries,
    asked: pl.DataFrame,
    relevance: Relevance,
    *,
    pool: ItemPool | None = None,
    strict: bool = True,
) -> Candidates:
    """What competes in the queries of `asked`: what was shown, or positives and negatives of one pool.

    `pool` (None: found in the log) and `strict` as in `features.candidates`.
    """
    positives = relevance.positives.join(asked.select(QUERY), on=QUERY, how="semi")
    if config.candidates.source == "shown" and log.shown is not None:
        return shown_candidates(Queries(asked, queries.events, queries.counts), log.shown, positives, strict=strict)
    count = config.candidates.negatives
    return sampled_candidates(log, asked, positives, negatives=count, seed=config.seed, pool=pool)


def table_from_log(
    config: Config, definitions: Mapping[str, Any], events: Path | None, since: datetime | None
) -> tuple[Table, tuple[str, ...]]:
    """The labelled table of a log, by a package's own definitions: its queries from `since` on, the rest is history.

    Beside it notes on what was read and left out. Raises DataError where no query is left.
    """
    asked = read_log(config, events)
    closed = _closed_queries(config, asked.queries)
    fresh = closed if since is None else closed.filter(pl.col(TIMESTAMP) >= since)
    if fresh.height == 0:
        raise DataError(
            f"none of the {closed.height} queries in {events} is later than {since}, up to which the model was trained",
            expected="later queries to judge it by",
            fix="bring a longer log; what came before serves as history",
        )
    relevance = judge_events(config, asked.queries, _targets_from_dict(definitions["targets"]), strict=False)
    candidates = find_candidates(config, asked.log, asked.queries, fresh, relevance)
    table = build_table(
        asked.log, fresh, candidates.frame, Fitted.from_dict(definitions["features"]), relevance=relevance.frame
    )
    return table, _notes(asked, fresh, relevance, candidates, earlier=closed.height - fresh.height)


def table_of_requests(config: Config, definitions: Mapping[str, Any], events: Path, requests: Path) -> Table:
    """Unlabelled rows to rank, a row a candidate: query, timestamp, item, and where known user, position and fields.

    Without an item column, every item that exists at the time of a query competes.
    """
    rows, log = read_requests(config, events, requests)
    return table_of_rows(log, rows, Fitted.from_dict(definitions["features"]))


def read_requests(
    config: Config, events: Path, requests: Path, required: tuple[str, ...] = (QUERY, TIMESTAMP)
) -> tuple[pl.DataFrame, Log]:
    """The rows of requests, each with the `required` columns, and the log of what came before them."""
    mapped = present_columns(requests, config.data.columns)
    rows = read_rows(requests, mapped, required=required, time_unit=config.data.time_unit)
    return rows, read_files(config, events, shown=config.data.shown)[1]


def table_of_rows(log: Log, rows: pl.DataFrame, fitted: Fitted) -> Table:
    """As `table_of_requests`, of rows that have been read."""
    shown = [field.name for field in fitted.description.shown_fields]
    of_item = [name for name in (ITEM, POSITION, *shown) if name in rows.columns]
    queries = rows.drop(of_item).unique(QUERY, keep="first", maintain_order=True)
    _check_agreement(rows)
    given = ITEM in rows.columns
    candidates = rows.select(QUERY, *of_item) if given else pool_candidates(log, queries).frame
    return build_table(log, queries, candidates, fitted)


def _check_agreement(rows: pl.DataFrame) -> None:
    """Raises DataError where rows of one query name several users or times: which were meant?"""
    for name in (USER, TIMESTAMP):
        if name not in rows.columns:
            continue
        pairs = rows.select(QUERY, name).unique()
        several = pairs.filter(pl.col(QUERY).is_duplicated())[QUERY].unique().sort()
        if len(several):
            raise DataError(
                f"{len(several)} queries have rows of more than one {name}, the first {several[0]!r}",
                expected=f"one {name} in all rows of a query",
                fix="give each request a query id of its own",
            )


def _queries(config: Config, log: Log) -> Queries:
    rule, events = config.queries, log.events.lazy().collect()
    if rule.by == "session":
        return queries_by_session(events, gap=None if rule.column else rule.gap, column=rule.column or SESSION)
    if rule.by == "user_day":
        return queries_by_user_day(events)
    if rule.by == "table":
        if log.queries is None:
            raise DataError("queries.by = 'table' without data.queries", expected="that table", fix="name it in [data]")
        return queries_by_table(events, log.queries)
    return queries_by_id(events, log.queries)


def _closed_queries(config: Config, queries: Queries) -> pl.DataFrame:
    """The queries whose attribution window has ended: the truth of the others is not known yet."""
    end = queries.events[TIMESTAMP].max()
    return queries.frame.filter(pl.col(TIMESTAMP) + config.relevance.window <= end)


def _fit(config: Config, log: Log, asked: pl.DataFrame, candidates: Candidates, borders: Borders) -> Fitted:
    training = asked.filter(pl.col(TIMESTAMP) < borders.train_until)
    known = candidates.frame.join(training.select(QUERY), on=QUERY, how="semi", maintain_order="left")
    return fit_features(log, training, known, **fit_options(config))


def fit_options(config: Config) -> dict[str, Any]:
    """What the config says of the features, as `features.fitted.fit_features` takes it."""
    chosen = config.features
    return {
        "pool": config.candidates.source,
        "use": (*(STANDARD if chosen.use is None else chosen.use), *(f"!{name}" for name in chosen.drop)),
        "custom": chosen.custom,
        "options": chosen.options,
        "exclude": [config.relevance.column] if config.relevance.column else (),
    }


def rivals_in(columns: Collection[str]) -> dict[str, str]:
    """The rivals that rank by what stands beside the features: what was popular, and the order that was shown."""
    offered = {"popularity": (POPULARITY, POPULARITY), "shown": (POSITION, SHOWN_ORDER)}
    return {name: order for name, (column, order) in offered.items() if column in columns}


def check_parts(heights: Mapping[str, int], borders: Borders) -> None:
    """Raises DataError for a part without rows."""
    for name, height in heights.items():
        if height == 0:
            raise DataError(
                f"no query with candidates in the {name} part ({borders.describe()})",
                expected="some in every part",
                fix="change [split], or check what was shown in that time",
            )


def notes_on(events: EventLog, counts: Mapping[str, int], judged: int, candidates: int) -> tuple[str, ...]:
    """Counts in words; what did not occur is not mentioned."""
    rules = ", ".join(f"{count} {rule}" for rule, count in events.counts.items())
    found = [f"{events.read} events read, {events.kept} kept" + (f" (left out: {rules})" if rules else "")]
    shown = [f"{count} {name.replace('_', ' ')}" for name, count in counts.items() if count]
    found.append(f"{judged} queries, {candidates} candidates" + (f"; {', '.join(shown)}" if shown else ""))
    return tuple(found)


def _notes(
    asked: Asked, judged: pl.DataFrame, relevance: Relevance, candidates: Candidates, *, earlier: int = 0
) -> tuple[str, ...]:
    """`earlier` queries than those `judged` are history."""
    counts = {
        **asked.unmatched,
        **asked.queries.counts,
        **relevance.counts,
        **candidates.counts,
        "open_queries": asked.queries.frame.height - judged.height - earlier,
        "earlier_queries": earlier,
    }
    return notes_on(asked.events, counts, judged.height, candidates.frame.height)


def has_fractions(relevance: Relevance) -> bool:
    """Whether some relevance is no whole grade."""
    return (relevance.frame[RELEVANCE] % 1 != 0).any()


def is_continuous(config: Config, *, fractions: bool) -> bool:
    """Whether relevance is cut into levels for LightGBM."""
    return config.relevance.watch is not None or config.relevance.levels is not None or fractions


def pool_note(config: Config) -> tuple[str, ...]:
    """What a reader of the figures must know of the candidates."""
    if config.candidates.source == "shown":
        return ()
    count = config.candidates.negatives
    return (f"Candidates are sampled ({count} negatives a query): compare figures only among rankers of this run.",)


def definitions_of(fitted: Fitted, targets: float | WatchTargets | None) -> dict[str, Any]:
    """All that the package keeps to make the same features and relevance of another log."""
    plain = targets.to_dict() if isinstance(targets, WatchTargets) else targets
    return {"features": fitted.to_dict(), "targets": plain}


def _targets_from_dict(data: Any) -> float | WatchTargets | None:
    if not isinstance(data, Mapping):
        return None if data is None else float(data)
    return WatchTargets.from_dict(data)
