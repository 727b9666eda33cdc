"""What is known of an item: what was done with it, and what the catalogue says."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from features.activity import activity_features, distinct_feature
from features.columns import ITEM, POPULARITY, USER
from features.company import company_feature
from features.context import Context, Feature, numbers
from features.description import Description
from features.fields import field_features
from features.peers import peer_features
from features.rhythm import return_feature, rhythm_features, trend_features
from features.spec import FeatureSpec


def item_features(log: Description) -> Iterator[Feature]:
    """`item.*`: activity, trends and silences, popularity, its users, its place among its like, its own fields."""
    yield from activity_features("item", (ITEM,), log)
    yield from trend_features("item", (ITEM,), log)
    yield from rhythm_features("item", (ITEM,))
    yield Feature(FeatureSpec(f"item.{POPULARITY}", missing="never; 0 without history"), popularity)
    if log.users:
        yield distinct_feature("item.user_count", (ITEM,), USER)
        yield return_feature("item.returning_user_share", (ITEM,))
        yield company_feature("item.mean_user_activity", (ITEM,), USER)
    yield from peer_features(log)
    yield from field_features("item", log.item_fields, Context.item_field)


def popularity(context: Context) -> pl.Series:
    """Events of the item before the query, other than being shown."""
    return numbers(context.lookup(ITEM).count(context.description.interactions))
