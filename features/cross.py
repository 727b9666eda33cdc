"""What goes together: a user with an item, a user with a category, an item with a segment, a device or a text.

Which features exist, all over the whole of history (in a window most pairs have none):
- user and item: counts per kind, recency, and the item's popularity beside what the user usually picks;
- user and category field of the item: the share of the user's events, the rate, the mean value, whether it is that of
  the last item, per kind where there are kinds;
- item and category field of the user, category or text field of the query: conditional popularity, that is the share
  of the level's interactions that are with the item, their count, and the rate.
The rate of a pair is smoothed with the rate of its item side, that one with the global rate: a pair never seen ranks as
the item or the category does everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import polars as pl

from features.activity import days_since_feature, quotients, rated_kinds, slug, smoothed_rate, value_mean
from features.columns import ITEM, USER
from features.company import against_usual_feature
from features.context import Context, Feature, Scope, numbers
from features.description import Description
from features.keys import Key, item_keys, query_keys, user_keys
from features.spec import FeatureSpec


def cross_features(log: Description) -> Iterator[Feature]:
    """`cross.user_item_*`, `cross.user_<category>_*`, and `cross.<user or query field>_item_*`."""
    if log.users:
        yield from _user_item_features(log)
        for key in item_keys(log):
            yield from _user_key_features(key, log)
    for key in (*user_keys(log), *query_keys(log)):
        yield from _key_item_features(key, log)


def _user_item_features(log: Description) -> Iterator[Feature]:
    for kind in log.kinds:
        spec = FeatureSpec(f"cross.user_item_{slug(kind)}_count", missing="no user; 0 without history")
        yield Feature(spec, partial(_count, scope=(USER, ITEM), kinds=(kind,)))
    yield days_since_feature("cross.user_item_days_since_last", (USER, ITEM))
    yield against_usual_feature("cross.user_item_popularity_gap")


def _user_key_features(key: Key, log: Description) -> Iterator[Feature]:
    prefix, nobody = f"cross.user_{key.field}", f"no user, no {key.field}"
    for kind in log.kinds:
        spec = FeatureSpec(f"{prefix}_{slug(kind)}_share", missing=f"{nobody}, or no such event of the user before")
        yield Feature(spec, partial(_share, part=(USER, *key.scope), whole=(USER,), kinds=(kind,)))
    for kind in rated_kinds(log):
        spec = FeatureSpec(f"{prefix}_{slug(kind)}_rate", missing=f"{nobody}; the rate of the {key.field} at first")
        yield Feature(spec, partial(_rate, scope=(USER, *key.scope), wider=key.scope, kind=kind))
    for kind in log.valued:
        spec = FeatureSpec(f"{prefix}_{slug(kind)}_value_mean", missing=f"{nobody}, or no value before")
        yield Feature(spec, partial(value_mean, scope=(USER, *key.scope), kind=kind))
    spec = FeatureSpec(f"cross.user_last_{key.field}_same", missing=f"{nobody}, or nothing before")
    yield Feature(spec, partial(_same_as_last, key=key))


def _key_item_features(key: Key, log: Description) -> Iterator[Feature]:
    prefix, pair = f"cross.{key.name}_item", (*key.scope, ITEM)
    spec = FeatureSpec(f"{prefix}_count", missing=f"no {key.field}; 0 without history")
    yield Feature(spec, partial(_count, scope=pair, kinds=log.interactions))
    spec = FeatureSpec(f"{prefix}_share", missing=f"no {key.field}, or no interaction with it before")
    yield Feature(spec, partial(_share, part=pair, whole=key.scope, kinds=log.interactions))
    for kind in rated_kinds(log):
        spec = FeatureSpec(f"{prefix}_{slug(kind)}_rate", missing=f"no {key.field}; the rate of the item at first")
        yield Feature(spec, partial(_rate, scope=pair, wider=(ITEM,), kind=kind))


def _count(context: Context, scope: Scope, kinds: tuple[str, ...]) -> pl.Series:
    lookup = context.lookup(*scope)
    return numbers(lookup.count(kinds), lookup.known)


def _share(context: Context, part: Scope, whole: Scope, kinds: tuple[str, ...]) -> pl.Series:
    """Of the events of the one, the share that is of both."""
    both, every = context.lookup(*part), context.lookup(*whole).count(kinds)
    return numbers(quotients(both.count(kinds), 0.0, every, 0.0), both.known & (every > 0))


def _rate(context: Context, scope: Scope, wider: Scope, kind: str) -> pl.Series:
    prior = smoothed_rate(context, wider, kind)
    return numbers(smoothed_rate(context, scope, kind, prior=prior), context.lookup(*scope).known)


def _same_as_last(context: Context, key: Key) -> pl.Series:
    """Whether the last item that the user did something with had the same category: 1 or 0."""
    lookup = context.lookup(USER)
    last = lookup.last_event(context.description.interactions)
    events, rows = context.codes(*key.scope)
    if not len(events):
        return numbers(np.zeros(len(rows)), np.zeros(len(rows), np.bool_))
    known = lookup.known & (last >= 0) & (events[last] >= 0) & (rows >= 0)
    return numbers(events[last] == rows, known)
