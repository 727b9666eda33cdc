"""How an item stands among the items that share a category with it: its part of their interactions, its rates beside
theirs. For each category field of the catalogue, over all of history.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import polars as pl

from features.activity import rated_kinds, slug, smoothed_rate
from features.columns import ITEM
from features.context import Context, Feature, numbers
from features.description import Description
from features.spec import FeatureSpec


def peer_features(log: Description) -> Iterator[Feature]:
    """`item.share_of_*` and `item.*_rate_above_*`, by category field."""
    for field in log.item_fields:
        if field.kind != "category":
            continue
        spec = FeatureSpec(
            f"item.share_of_{field.name}", missing=f"no {field.name}, or no interaction with such items before"
        )
        yield Feature(spec, partial(_share, key=f"{ITEM}.{field.name}"))
        for kind in rated_kinds(log):
            spec = FeatureSpec(
                f"item.{slug(kind)}_rate_above_{field.name}", missing=f"no {field.name}; 0 without history"
            )
            yield Feature(spec, partial(_rate_above, kind=kind, key=f"{ITEM}.{field.name}"))


def _share(context: Context, key: str) -> pl.Series:
    """The item's interactions over those with all items of its category; above 1 where it came from another one."""
    peers, interactions = context.lookup(key), context.description.interactions
    every = peers.count(interactions)
    return numbers(context.lookup(ITEM).count(interactions) / np.maximum(every, 1), peers.known & (every > 0))


def _rate_above(context: Context, kind: str, key: str) -> pl.Series:
    """The item's rate less that of its category, which is also what it is smoothed with."""
    of_peers = smoothed_rate(context, (key,), kind)
    return numbers(smoothed_rate(context, (ITEM,), kind, prior=of_peers) - of_peers, context.lookup(key).known)
