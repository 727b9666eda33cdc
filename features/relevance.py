"""From interactions to one relevance per (query, item): tiers, watch-time, ratings.

An event counts for its query from the query's time until the end of the attribution window, both included. What came
earlier may be seen by a feature, and is never part of the truth.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import numpy as np
import polars as pl

from features.columns import EVENT, ITEM, QUERY, RELEVANCE, TIMESTAMP, VALUE, private
from features.errors import DataError
from features.fixed import from_fixed, to_fixed
from features.log import require_kinds
from features.queries import Queries
from features.windows import Floats

_ASKED: Final = private("asked")
_TARGET: Final = "target"


@dataclass(frozen=True, slots=True)
class Relevance:
    """The truth, as far as the log tells it.

    `frame`: `query`, `item`, `relevance` (Float64, at least 0), one row per pair that an event judged, ordered by
    (query, item); pairs that are not in it have relevance 0. `open_queries`: ids of the queries younger than the
    window at the end of the log, whose truth is not complete. `counts`: events left out, and why.
    """

    frame: pl.DataFrame
    open_queries: pl.Series
    counts: Mapping[str, int]

    @property
    def positives(self) -> pl.DataFrame:
        """The pairs (`query`, `item`) of relevance above 0."""
        return self.frame.filter(pl.col(RELEVANCE) > 0).select(QUERY, ITEM)


@dataclass(frozen=True, slots=True)
class WatchTargets:
    """How long an item must be watched to be fully relevant: `frame` with `item` and `target` (seconds, above 0), and
    the `default` of items that are not in it.
    """

    frame: pl.DataFrame
    default: float

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types, for the package."""
        return {"items": self.frame[ITEM].to_list(), "targets": self.frame[_TARGET].to_list(), "default": self.default}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> WatchTargets:
        """The inverse of `to_dict`."""
        targets = pl.Series(_TARGET, data["targets"], dtype=pl.Float64)
        return cls(pl.DataFrame([pl.Series(ITEM, data["items"]), targets]), data["default"])


def tier_relevance(
    queries: Queries, tiers: Mapping[str, float], *, window: timedelta | None = None, strict: bool = True
) -> Relevance:
    """The tier of the strongest event of an item in its query; kinds without a tier do not judge.

    `window` None: every event that names the query counts. Raises DataError for a kind that does not occur in the log,
    unless the tiers were made for another log (not `strict`): nothing of that kind has happened in this one.
    """
    if strict:
        require_kinds(queries.events, tiers, role="relevance.tiers")
    grade = pl.col(EVENT).cast(pl.String).replace_strict(dict(tiers), default=0.0, return_dtype=pl.Float64)
    inside, counts = _attributed(queries, pl.col(EVENT).is_in(list(tiers)), window)
    return _finish(queries, inside.with_columns(grade.alias(RELEVANCE)), window, counts)


def rating_relevance(
    queries: Queries,
    *,
    column: str = VALUE,
    grades: Mapping[float, float] | None = None,
    window: timedelta | None = None,
) -> Relevance:
    """The highest rating of an item in its query, from `column`; `grades` replaces the ratings that it names.

    Events without a rating do not judge. Raises DataError for a missing or non-numeric column and negative ratings.
    """
    _require_numbers(queries.events, column)
    rated, counts = _attributed(queries, pl.col(column).is_not_null(), window)
    rating = pl.col(column).cast(pl.Float64)
    judged = rated.with_columns((rating.replace(dict(grades)) if grades else rating).alias(RELEVANCE))
    below = judged.filter(pl.col(RELEVANCE) < 0).height
    if below:
        raise DataError(f"{below} ratings below 0 in {column!r}", expected="ratings of at least 0", fix="map them")
    return _finish(queries, judged, window, counts)


def watch_relevance(
    queries: Queries,
    targets: float | WatchTargets,
    *,
    kind: str | None = None,
    window: timedelta | None = None,
    strict: bool = True,
) -> Relevance:
    """min(1, watched / target), the seconds of all plays of an item in its query summed first.

    `kind` is the event that carries seconds in `value` (None: every event with a value). Those without one are counted.
    Raises DataError where the log has no values and, if `strict`, no event of the kind.
    """
    _require_numbers(queries.events, VALUE)
    if kind is not None and strict:
        require_kinds(queries.events, [kind], role="relevance.watch")
    watched, counts = _watched(queries, kind, window)
    needed: Floats | float
    if isinstance(targets, WatchTargets):
        known = watched.select(ITEM).join(targets.frame, on=ITEM, how="left", maintain_order="left")[_TARGET]
        counts["watched_without_target"] = known.null_count()
        needed = known.fill_null(targets.default).to_numpy()
    else:
        needed = targets
    share = np.minimum(watched[VALUE].to_numpy() / needed, 1.0)
    return _finish(queries, watched.with_columns(pl.Series(RELEVANCE, share)), window, counts)


def item_targets(items: pl.DataFrame, column: str) -> WatchTargets:
    """Targets from a column of the catalogue, such as the full duration; items without one get the median of all."""
    if column not in items.columns:
        raise DataError(f"the items have no column {column!r}", expected="it", fix="name a column of data.items")
    _require_numbers(items, column)
    known = items.select(ITEM, pl.col(column).cast(pl.Float64).alias(_TARGET)).filter(pl.col(_TARGET) > 0)
    return _targets(known, f"{column!r} of the items")


def median_targets(
    queries: Queries, *, until: datetime, kind: str | None = None, window: timedelta | None = None
) -> WatchTargets:
    """Per item the median of the seconds watched per query, over the queries before `until` (the training window)."""
    return targets_of([watched_seconds(queries, until=until, kind=kind, window=window)])


def watched_seconds(
    queries: Queries, *, until: datetime, kind: str | None = None, window: timedelta | None = None
) -> pl.DataFrame:
    """`item`, `value`: the seconds above 0 that each was watched in each query before `until`."""
    asked = queries.frame.filter(pl.col(TIMESTAMP) < until)
    watched, _ = _watched(Queries(asked, queries.events, queries.counts), kind, window)
    return watched.filter(pl.col(VALUE) > 0).select(ITEM, VALUE)


def targets_of(watched: Sequence[pl.DataFrame]) -> WatchTargets:
    """The median of each item over tables of `watched_seconds`."""
    medians = pl.concat(watched).group_by(ITEM).agg(pl.col(VALUE).median().alias(_TARGET))
    return _targets(medians, "watch-time of the training window")


def _targets(frame: pl.DataFrame, what: str) -> WatchTargets:
    median = frame[_TARGET].median()
    if not isinstance(median, float):
        raise DataError(f"no {what} above 0", expected="some", fix="give a number of seconds as the target")
    return WatchTargets(frame.sort(ITEM), median)


def _attributed(queries: Queries, judges: pl.Expr, window: timedelta | None) -> tuple[pl.DataFrame, dict[str, int]]:
    """The judging events of each query in its window, and counts of the others."""
    asked = queries.frame.select(QUERY, pl.col(TIMESTAMP).alias(_ASKED))
    own = queries.events.filter(judges).join(asked, on=QUERY, how="inner", maintain_order="left")
    early = pl.col(TIMESTAMP) < pl.col(_ASKED)
    late = pl.lit(False) if window is None else pl.col(TIMESTAMP) > pl.col(_ASKED) + window
    inside = own.filter(~early & ~late)
    counts = {"events_before_query": own.filter(early).height, "events_after_window": own.filter(late).height}
    return inside, counts


def _watched(queries: Queries, kind: str | None, window: timedelta | None) -> tuple[pl.DataFrame, dict[str, int]]:
    """(query, item, value): seconds summed as fixed-point integers, so that their order cannot matter."""
    plays = pl.col(VALUE).is_not_null() if kind is None else pl.col(EVENT) == kind
    inside, counts = _attributed(queries, plays, window)
    timed = inside.filter(pl.col(VALUE).is_not_null())
    counts["events_without_value"] = inside.height - timed.height
    summed = timed.group_by(QUERY, ITEM).agg(to_fixed(pl.col(VALUE)).sum())
    seconds = from_fixed(summed[VALUE].to_numpy())
    return summed.with_columns(pl.Series(VALUE, seconds)).sort(QUERY, ITEM), counts


def _finish(queries: Queries, judged: pl.DataFrame, window: timedelta | None, counts: dict[str, int]) -> Relevance:
    strongest = judged.group_by(QUERY, ITEM).agg(pl.col(RELEVANCE).max()).sort(QUERY, ITEM)
    end = queries.events[TIMESTAMP].max()
    is_open = pl.lit(False) if window is None else pl.col(TIMESTAMP) + window > end
    open_queries = queries.frame.filter(is_open)[QUERY]
    return Relevance(strongest, open_queries, {**counts, "open_queries": len(open_queries)})


def _require_numbers(table: pl.DataFrame, column: str) -> None:
    if column not in table.columns or not table.schema[column].is_numeric():
        kind = "is text" if column in table.columns else "is missing"
        raise DataError(f"column {column!r} {kind}", expected="a column of numbers", fix="name or map another one")
