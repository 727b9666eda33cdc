"""What an entity did, or what was done to it: counts, rates, values and recency. The same for items and users."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from features.compiling import compiled
from features.context import MICROSECONDS_PER_DAY, Context, Feature, Scope, days, numbers
from features.description import Description
from features.durations import in_days, parse_duration
from features.spec import FeatureSpec
from features.windows import Bools, Floats, Ints, Kinds

Singles = npt.NDArray[np.float32]

PRIOR_WEIGHT: Final = 10.0
"""How many impressions the global rate is worth in a smoothed rate."""


def activity_features(prefix: str, scope: Scope, log: Description) -> Iterator[Feature]:
    """All that is counted of an entity; names start with `prefix`, the entity is named by the columns of `scope`."""
    yield from count_features(prefix, scope, log)
    yield from rate_features(prefix, scope, log)
    yield from share_features(prefix, scope, log)
    yield from value_features(prefix, scope, log)
    yield from recency_features(prefix, scope, log)


def slug(kind: str) -> str:
    """A kind of event as a part of a name: COMMENT CREATED -> comment_created."""
    return re.sub(r"\W+", "_", kind.lower()).strip("_")


def unknown(scope: Scope) -> str:
    """What a missing entity is called."""
    return f"no {' or '.join(key.rpartition('.')[2] for key in scope)}"


def rated_kinds(log: Description) -> tuple[str, ...]:
    """The kinds of events that have a rate: those that follow on an impression, where impressions are logged."""
    return () if log.shown is None or log.shown in log.interactions else log.interactions


def smoothed_rate(
    context: Context, scope: Scope, kind: str, window: timedelta | None = None, prior: Floats | None = None
) -> Floats:
    """(N,) (count of the kind + w * prior) / (count of impressions + w), w = PRIOR_WEIGHT.

    `prior` (N,) is what an entity without history gets; by default the global rate of the training window.
    """
    lookup, shown = context.lookup(*scope), (str(context.description.shown),)
    done = lookup.count((kind,), window) + PRIOR_WEIGHT * (context.rates[kind] if prior is None else prior)
    return done / (lookup.count(shown, window) + PRIOR_WEIGHT)


def quotients(above: Ints, more: float, below: Ints, least: float) -> Singles:
    """(N,) (above + more) / (below + least), computed in Float64; 0 where there is nothing below."""
    found = np.empty(len(above), np.float32)
    _divide(above, more, below, least, found)
    return found


@compiled
def _divide(above: Ints, more: float, below: Ints, least: float, found: Singles) -> None:
    for place in range(len(above)):
        whole = below[place] + least
        found[place] = (above[place] + more) / whole if whole > 0 else 0.0


def count_features(prefix: str, scope: Scope, log: Description) -> Iterator[Feature]:
    """How many events, per kind and of all kinds, in all of history and in each window."""
    named: list[tuple[str, Kinds]] = [(slug(kind), (kind,)) for kind in log.kinds]
    if len(log.kinds) > 1:
        named.append(("event", None))
    for name, kinds in named:
        for suffix, window in _spans(log):
            spec = _spec(f"{prefix}.{name}_count{suffix}", f"{unknown(scope)}; 0 without history", window)
            yield Feature(spec, partial(_count, scope=scope, kinds=kinds, window=window))


def rate_features(prefix: str, scope: Scope, log: Description) -> Iterator[Feature]:
    """Smoothed events per impression, per kind, in all of history and in each window."""
    for kind in rated_kinds(log):
        for suffix, window in _spans(log):
            spec = _spec(
                f"{prefix}.{slug(kind)}_rate{suffix}", f"{unknown(scope)}; the global rate without history", window
            )
            yield Feature(spec, partial(_rate, scope=scope, kind=kind, window=window))


def share_features(prefix: str, scope: Scope, log: Description) -> Iterator[Feature]:
    """Of the interactions, the smoothed share of each kind, where there are several."""
    for kind in log.interactions if len(log.interactions) > 1 else ():
        missing = f"{unknown(scope)}; the global share without history"
        yield Feature(_spec(f"{prefix}.{slug(kind)}_share", missing, None), partial(_share, scope=scope, kind=kind))


def value_features(prefix: str, scope: Scope, log: Description) -> Iterator[Feature]:
    """Sums of values, in all of history and in each window, and their mean, per kind that carries a value."""
    for kind in log.valued:
        for suffix, window in _spans(log):
            spec = _spec(f"{prefix}.{slug(kind)}_value_sum{suffix}", f"{unknown(scope)}; 0 without history", window)
            yield Feature(spec, partial(_value_sum, scope=scope, kind=kind, window=window))
        spec = _spec(f"{prefix}.{slug(kind)}_value_mean", f"{unknown(scope)}, or no event with a value", None)
        yield Feature(spec, partial(value_mean, scope=scope, kind=kind))


def recency_features(prefix: str, scope: Scope, log: Description) -> Iterator[Feature]:
    """Days since the last event, per kind and of all kinds, and since the first."""
    for kind in log.kinds if len(log.kinds) > 1 else ():
        yield days_since_feature(f"{prefix}.days_since_{slug(kind)}", scope, (kind,))
    yield days_since_feature(f"{prefix}.days_since_last", scope)
    spec = _spec(f"{prefix}.days_since_first", f"{unknown(scope)}, or no event before", None)
    yield Feature(spec, partial(_days_since_first, scope=scope))


def days_since_feature(name: str, scope: Scope, kinds: Kinds = None) -> Feature:
    """Days from the last event of the kinds to have arrived to the query."""
    missing = f"{unknown(scope)}, or no such event before"
    return Feature(_spec(name, missing, None), partial(_days_since_last, scope=scope, kinds=kinds))


def distinct_feature(name: str, scope: Scope, other: str) -> Feature:
    """How many different values of the column `other` the events of an entity had."""
    return Feature(
        _spec(name, f"{unknown(scope)}; 0 without history", None), partial(_distinct, scope=scope, other=other)
    )


def _days_since_last(context: Context, scope: Scope, kinds: Kinds) -> pl.Series:
    lookup = context.lookup(*scope)
    return _days_since(context, lookup.last_event(kinds), lookup.known)


def _count(context: Context, scope: Scope, kinds: Kinds, window: timedelta | None) -> pl.Series:
    lookup = context.lookup(*scope)
    return numbers(lookup.count(kinds, window), lookup.known)


def _rate(context: Context, scope: Scope, kind: str, window: timedelta | None) -> pl.Series:
    lookup, shown = context.lookup(*scope), (str(context.description.shown),)
    done, every = lookup.count((kind,), window), lookup.count(shown, window)
    return numbers(quotients(done, PRIOR_WEIGHT * context.rates[kind], every, PRIOR_WEIGHT), lookup.known)


def _share(context: Context, scope: Scope, kind: str) -> pl.Series:
    """(count of the kind + w * prior) / (count of interactions + w), the prior being the share in all of the log."""
    lookup, interactions = context.lookup(*scope), context.description.interactions
    every = sum(context.rates[other] for other in interactions)
    prior = context.rates[kind] / every if every else 1 / len(interactions)
    shares = (lookup.count((kind,)) + PRIOR_WEIGHT * prior) / (lookup.count(interactions) + PRIOR_WEIGHT)
    return numbers(shares, lookup.known)


def _value_sum(context: Context, scope: Scope, kind: str, window: timedelta | None) -> pl.Series:
    lookup = context.lookup(*scope)
    return numbers(lookup.total((kind,), window), lookup.known)


def value_mean(context: Context, scope: Scope, kind: str) -> pl.Series:
    """(N,) the mean value of the entity's events of a kind that have one."""
    lookup = context.lookup(*scope)
    count = lookup.valued((kind,))
    return numbers(lookup.total((kind,)) / np.maximum(count, 1), lookup.known & (count > 0))


def _days_since_first(context: Context, scope: Scope) -> pl.Series:
    lookup = context.lookup(*scope)
    return _days_since(context, lookup.first_event(), lookup.known)


def _days_since(context: Context, rows: Ints, known: Bools) -> pl.Series:
    if not len(context.timeline):
        return days(np.zeros_like(rows), np.zeros_like(known))
    ages = np.empty(len(rows), np.float32)
    _age(context.times, context.timeline.times(), rows, ages)
    return numbers(ages, known & (rows >= 0))


@compiled
def _age(times: Ints, of_events: Ints, rows: Ints, ages: Singles) -> None:
    """The days from the event at each row to each time; anything where there is none."""
    for place in range(len(rows)):
        ages[place] = (times[place] - of_events[rows[place]]) / MICROSECONDS_PER_DAY


def _distinct(context: Context, scope: Scope, other: str) -> pl.Series:
    return numbers(context.distinct(scope, other), context.lookup(*scope).known)


def _spans(log: Description) -> Iterator[tuple[str, timedelta | None]]:
    """All of history, then each window, with what it adds to a name."""
    yield "", None
    for window in log.options.windows:
        yield f"_{window}", parse_duration(window)


def _spec(name: str, missing: str, window: timedelta | None) -> FeatureSpec:
    return FeatureSpec(name, missing=missing, lookback_days=None if window is None else in_days(window))
