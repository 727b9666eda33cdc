"""What is known of a user: what they did, and what the users table says. Anonymous users have nulls."""

from __future__ import annotations

from collections.abc import Iterator

from features.activity import activity_features, distinct_feature
from features.columns import ITEM, USER
from features.company import company_feature
from features.context import Context, Feature
from features.description import Description
from features.fields import field_features
from features.keys import item_keys
from features.rhythm import return_feature, rhythm_features, trend_features


def user_features(log: Description) -> Iterator[Feature]:
    """`user.*`: activity, trends and silences, how many items and categories, and the fields of the users table."""
    if not log.users:
        return
    yield from activity_features("user", (USER,), log)
    yield from trend_features("user", (USER,), log)
    yield from rhythm_features("user", (USER,))
    yield distinct_feature("user.item_count", (USER,), ITEM)
    for key in item_keys(log):
        yield distinct_feature(f"user.{key.field}_count", (USER,), *key.scope)
    yield return_feature("user.returning_item_share", (USER,))
    yield company_feature("user.mean_item_popularity", (USER,), ITEM)
    yield from field_features("user", log.user_fields, Context.user_field)
