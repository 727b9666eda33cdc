"""What was logged when the item was shown: upstream scores, the price at that time. Never the position."""

from __future__ import annotations

from collections.abc import Iterator

from features.context import Context, Feature
from features.description import Description
from features.fields import field_features


def shown_features(log: Description) -> Iterator[Feature]:
    """`shown.*`: the candidate fields."""
    yield from field_features("shown", log.shown_fields, Context.shown_field)
