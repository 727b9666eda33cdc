"""What was done with all that share a level of a field: the same brand, the same segment, the same words in a query.

Which features exist: for every category of items, users, queries and impressions, and every text of queries, what is
counted of an item, in all of history and in each window: counts and smoothed rates per kind, sums and means of values,
trends, and the days since anything happened. That is wide (33 per field for four kinds and two windows), so the
family is meant to be chosen from, as in use = ["field.item_brand.*_rate*"]. A field of the user or of the query is the
same for all items of a query: alone it cannot rank them, together with others it can. For pairs see `features.cross`.
"""

from __future__ import annotations

from collections.abc import Iterator

from features.activity import count_features, days_since_feature, rate_features, value_features
from features.context import Feature
from features.description import Description
from features.keys import item_keys, query_keys, shown_keys, user_keys
from features.rhythm import trend_features


def level_features(log: Description) -> Iterator[Feature]:
    """`field.<table>_<field>.*`, such as field.item_brand.click_rate_7d and field.query_text.event_count."""
    for key in (*item_keys(log), *user_keys(log), *query_keys(log), *shown_keys(log)):
        prefix = f"field.{key.name}"
        yield from count_features(prefix, key.scope, log)
        yield from rate_features(prefix, key.scope, log)
        yield from value_features(prefix, key.scope, log)
        yield from trend_features(prefix, key.scope, log)
        yield days_since_feature(f"{prefix}.days_since_last", key.scope)
