"""What a user did with this very item, and with items that share a category with it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import polars as pl

from features.activity import days_since_last, slug
from features.columns import ITEM, USER
from features.company import against_usual_feature
from features.context import Context, Feature, numbers
from features.description import Description
from features.spec import FeatureSpec


def cross_features(log: Description) -> Iterator[Feature]:
    """`cross.*`: user x item counts and recency; per category field shares of the user's events, and the last one."""
    if not log.users:
        return
    for kind in log.kinds:
        spec = FeatureSpec(f"cross.user_item_{slug(kind)}_count", missing="no user; 0 without history")
        yield Feature(spec, partial(_pair_count, kind=kind))
    spec = FeatureSpec("cross.user_item_days_since_last", missing="no user, or never before")
    yield Feature(spec, partial(days_since_last, scope=(USER, ITEM), kinds=None))
    yield against_usual_feature("cross.user_item_popularity_gap")
    for field in log.item_fields:
        if field.kind == "category":
            yield from _category_features(field.name, log)


def _category_features(name: str, log: Description) -> Iterator[Feature]:
    for kind in log.kinds:
        spec = FeatureSpec(
            f"cross.user_{name}_{slug(kind)}_share", missing=f"no user, no {name}, or no such event of the user before"
        )
        yield Feature(spec, partial(_share, name=name, kind=kind))
    spec = FeatureSpec(f"cross.user_last_{name}_same", missing=f"no user, no {name}, or nothing before")
    yield Feature(spec, partial(_same_as_last, name=name))


def _pair_count(context: Context, kind: str) -> pl.Series:
    lookup = context.lookup(USER, ITEM)
    return numbers(lookup.count((kind,)), lookup.known)


def _share(context: Context, name: str, kind: str) -> pl.Series:
    """Of the user's events of a kind, the share with items of the same category."""
    same, all_of_user = context.lookup(USER, f"{ITEM}.{name}"), context.lookup(USER)
    every = all_of_user.count((kind,))
    return numbers(same.count((kind,)) / np.maximum(every, 1), same.known & (every > 0))


def _same_as_last(context: Context, name: str) -> pl.Series:
    """Whether the last item that the user did something with had the same category: 1 or 0."""
    key = f"{ITEM}.{name}"
    lookup = context.lookup(USER)
    last = lookup.last_event(context.description.interactions)
    events, rows = context.codes(key)
    if not len(events):
        return numbers(np.zeros(len(rows)), np.zeros(len(rows), np.bool_))
    known = lookup.known & (last >= 0) & (events[last] >= 0) & (rows >= 0)
    return numbers(events[last] == rows, known)
