"""What is known of an item: what was done with it, and what the catalogue says."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from features.activity import activity_features, distinct_feature
from features.columns import ITEM, POPULARITY, USER
from features.context import Context, Feature, numbers
from features.description import Description
from features.fields import field_features
from features.spec import FeatureSpec


def item_features(log: Description) -> Iterator[Feature]:
    """`item.*`: activity, popularity, distinct users, age, and the fields of the catalogue."""
    yield from activity_features("item", (ITEM,), log)
    yield Feature(FeatureSpec(f"item.{POPULARITY}", missing="never; 0 without history"), popularity)
    if log.users:
        yield distinct_feature("item.user_count", (ITEM,), USER)
    yield from field_features("item", log.item_fields, Context.item_field)


def popularity(context: Context) -> pl.Series:
    """Events of the item before the query, other than being shown."""
    return numbers(context.lookup(ITEM).count(context.description.interactions))
