"""How an item compares with the last ones that the user did something with."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import polars as pl

from features.columns import ITEM, USER
from features.context import Context, Feature, numbers
from features.description import Description
from features.fields import read_number
from features.sequences import at_events, recent_events, recent_items, spread
from features.spec import FeatureSpec
from features.windows import NOBODY


def recent_features(log: Description) -> Iterator[Feature]:
    """`recent.*`: of the different items among the user's last interactions (`options.recent` of them) how many there
    are, which of them the candidate is, per category field the share that has the candidate's value, and per number
    field how far the candidate's lies above their mean.
    """
    if not log.users:
        return
    yield Feature(FeatureSpec("recent.items", missing="no user; 0 without history"), _items)
    spec = FeatureSpec("recent.item_place", missing="no user, or the item is none of them; 1 = the last")
    yield Feature(spec, _place)
    for field in log.item_fields:
        if field.kind == "category":
            missing = f"no user, no {field.name}, or nothing before"
            spec = FeatureSpec(f"recent.{field.name}_share", missing=missing)
            yield Feature(spec, partial(_share, name=field.name))
        elif field.kind == "number":
            missing = f"no user, no {field.name}, or none of those before has one"
            spec = FeatureSpec(f"recent.{field.name}_gap", missing=missing)
            yield Feature(spec, partial(_gap, name=field.name))


def _items(context: Context) -> pl.Series:
    count = (recent_events(context) >= 0).sum(axis=1)
    return numbers(spread(context, count), context.lookup(USER).known)


def _place(context: Context) -> pl.Series:
    """Interactions ago, those with other items between counted by their events."""
    items = recent_items(context)
    _, own = context.codes(ITEM)
    place = np.zeros(len(own), np.int64)
    for back in range(items.shape[1]):
        place[spread(context, items[:, back]) == own] = back + 1
    return numbers(place, place > 0)


def _share(context: Context, name: str) -> pl.Series:
    events, own = context.codes(f"{ITEM}.{name}")
    recent = recent_events(context)
    theirs = at_events(events, recent)
    every = spread(context, (recent >= 0).sum(axis=1))
    same = np.zeros(len(own), np.int64)
    for back in range(recent.shape[1]):
        same += spread(context, theirs[:, back]) == own
    return numbers(same / np.maximum(every, 1), (own != NOBODY) & (every > 0))


def _gap(context: Context, name: str) -> pl.Series:
    """The candidate's number less the mean of those that the last items had when the user met them."""
    own = read_number(context, Context.item_field, name)
    events = context.event_values(f"{ITEM}.{name}").cast(pl.Float64).to_numpy()
    recent = recent_events(context)
    theirs = np.where(recent >= 0, events[recent], np.nan) if len(events) else np.full(recent.shape, np.nan)
    has = np.isfinite(theirs)
    mean = np.where(has, theirs, 0.0).sum(axis=1) / np.maximum(has.sum(axis=1), 1)
    gap = own.cast(pl.Float64) - pl.Series(spread(context, mean))
    known = pl.Series(spread(context, has.sum(axis=1))) > 0
    return gap.set(~known, None).cast(pl.Float32)
