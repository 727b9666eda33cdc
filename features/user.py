"""What is known of a user: what they did, and what the users table says. Anonymous users have nulls."""

from __future__ import annotations

from collections.abc import Iterator

from features.activity import activity_features, distinct_feature
from features.columns import ITEM, USER
from features.context import Context, Feature
from features.description import Description
from features.fields import field_features


def user_features(log: Description) -> Iterator[Feature]:
    """`user.*`: activity, distinct items, and the fields of the users table."""
    if not log.users:
        return
    yield from activity_features("user", (USER,), log)
    yield distinct_feature("user.item_count", (USER,), ITEM)
    yield from field_features("user", log.user_fields, Context.user_field)
