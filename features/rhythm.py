"""When an entity is busy: more or less than it used to be, with what silences between, on how many days.

The same for items and users. A trend exists for each kind of event and each two neighbouring windows of the config.
Silences and days are those of interactions over all of history: being shown says more of the list than of the entity.
Gaps are measured between arrivals, so that none is negative where some kinds of events arrive late.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import pairwise

import numpy as np
import polars as pl

from features.activity import slug, unknown
from features.columns import ITEM, TIMESTAMP, USER
from features.context import MICROSECONDS_PER_DAY, Context, Feature, Scope, days, numbers
from features.description import Description
from features.durations import in_days, parse_duration
from features.spec import FeatureSpec
from features.windows import NOBODY, Bools, Ints


def trend_features(prefix: str, scope: Scope, log: Description) -> Iterator[Feature]:
    """How the pace of a short window compares with that of the next longer one, per kind of event."""
    windows = sorted(log.options.windows, key=parse_duration)
    for kind in log.kinds:
        for short, long in pairwise(windows):
            spec = FeatureSpec(
                f"{prefix}.{slug(kind)}_trend_{short}_{long}",
                missing=f"{unknown(scope)}; 1 where nothing happened",
                lookback_days=in_days(parse_duration(long)),
            )
            yield Feature(spec, partial(_trend, scope=scope, kind=kind, short=short, long=long))


def rhythm_features(prefix: str, scope: Scope) -> Iterator[Feature]:
    """The silences between interactions, and the days that had one."""
    once, twice = (f"{unknown(scope)}, or fewer than {least} interactions before" for least in ("one", "two"))
    yield Feature(FeatureSpec(f"{prefix}.mean_gap_days", missing=twice), partial(_mean_gap, scope=scope))
    yield Feature(FeatureSpec(f"{prefix}.last_gap_days", missing=twice), partial(_last_gap, scope=scope))
    yield Feature(FeatureSpec(f"{prefix}.overdue", missing=twice), partial(_overdue, scope=scope))
    spec = FeatureSpec(f"{prefix}.active_days", missing=f"{unknown(scope)}; 0 without history")
    yield Feature(spec, partial(_active_days, scope=scope))
    spec = FeatureSpec(f"{prefix}.interactions_per_active_day", missing=once)
    yield Feature(spec, partial(_per_active_day, scope=scope))


def return_feature(name: str, scope: Scope) -> Feature:
    """Of the pairs of user and item that an entity had interactions in, the share with some on another day too."""
    spec = FeatureSpec(name, missing=f"{unknown(scope)}, or no interaction before")
    return Feature(spec, partial(_returned, scope=scope))


def _trend(context: Context, scope: Scope, kind: str, short: str, long: str) -> pl.Series:
    """(short count + 1 * part) / (part * (long count + 1)), part = length of the short window / of the long one.

    The ratio of the two paces, with one more event in the long window that is spread over it evenly: 1 where both are
    empty, and never above 1 / part.
    """
    lookup = context.lookup(*scope)
    recent, all_of_it = (lookup.count((kind,), parse_duration(window)) for window in (short, long))
    part = parse_duration(short) / parse_duration(long)
    return numbers((recent + part) / (part * (all_of_it + 1)), lookup.known)


def _mean_gap(context: Context, scope: Scope) -> pl.Series:
    gap, known = _mean_gaps(context, scope)
    return numbers(gap / MICROSECONDS_PER_DAY, known)


def _last_gap(context: Context, scope: Scope) -> pl.Series:
    """From the interaction before the last to the last."""
    last, known = _arrival(context, scope, -1)
    before, twice = _arrival(context, scope, -2)
    return days(last - before, known & twice)


def _overdue(context: Context, scope: Scope) -> pl.Series:
    """since / (since + mean gap), since = the time from the last interaction to the query, which is never 0.

    1/2: as long as usual; above: longer. Like since / mean gap, but defined where all came at once.
    """
    last, _ = _arrival(context, scope, -1)
    since = context.times - last
    gap, known = _mean_gaps(context, scope)
    return numbers(np.divide(since, since + gap, out=np.zeros_like(gap), where=known), known)


def _active_days(context: Context, scope: Scope) -> pl.Series:
    return numbers(_days_seen(context, scope), context.lookup(*scope).known)


def _per_active_day(context: Context, scope: Scope) -> pl.Series:
    lookup, seen = context.lookup(*scope), _days_seen(context, scope)
    every = lookup.count(context.description.interactions)
    return numbers(every / np.maximum(seen, 1), lookup.known & (seen > 0))


def _returned(context: Context, scope: Scope) -> pl.Series:
    lookup = context.lookup(*scope)
    nth = _nth_day(context, (USER, ITEM))
    pairs, again = (lookup.summed(nth == number) for number in (1, 2))
    return numbers(again / np.maximum(pairs, 1), lookup.known & (pairs > 0))


def _mean_gaps(context: Context, scope: Scope) -> tuple[np.ndarray[tuple[int], np.dtype[np.float64]], Bools]:
    """(N,) microseconds between the first interaction and the last, per step, and whether there were two."""
    first, known = _arrival(context, scope, 0)
    last, _ = _arrival(context, scope, -1)
    steps = context.lookup(*scope).count(context.description.interactions) - 1
    return (last - first) / np.maximum(steps, 1), known & (steps > 0)


def _arrival(context: Context, scope: Scope, place: int) -> tuple[Ints, Bools]:
    """(N,) when an interaction of the entity arrived, `place` as in a list, and whether there is one."""
    lookup = context.lookup(*scope)
    rows = lookup.event(place, context.description.interactions)
    arrivals = context.timeline.arrivals()
    return arrivals[rows] if len(arrivals) else np.zeros_like(rows), lookup.known & (rows >= 0)


def _days_seen(context: Context, scope: Scope) -> Ints:
    return context.lookup(*scope).summed(_nth_day(context, scope) > 0)


def _nth_day(context: Context, scope: Scope) -> Ints:
    """(E,) 1, 2 ... where an interaction is the first of its entity on its first, second ... day (UTC); else 0."""
    return context.once(f"nth day of {scope}", lambda: _count_days(context, context.entities(scope)[0]))


def _count_days(context: Context, entities: Ints) -> Ints:
    of_kinds = context.timeline.of_kinds(context.description.interactions)
    rows = np.flatnonzero(of_kinds & (entities != NOBODY))
    day = context.timeline.events[TIMESTAMP].dt.epoch("d")
    frame = pl.DataFrame({"entity": entities[rows], "day": day.gather(rows), "row": rows})
    first = frame.unique(["entity", "day"], keep="first", maintain_order=True)
    nth = np.zeros(len(entities), np.int64)
    nth[first["row"].to_numpy()] = first.select(pl.int_range(1, pl.len() + 1).over("entity")).to_series()
    return nth
