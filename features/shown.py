"""What was logged when the item was shown: upstream scores, the price at that time. Never the position."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import polars as pl

from features.context import Context, Feature, numbers
from features.description import Description
from features.fields import field_features, read_number
from features.spec import FeatureSpec
from features.within import channels


def shown_features(log: Description) -> Iterator[Feature]:
    """`shown.*`: the candidate fields, and how many of the recall channels returned the item."""
    yield from field_features("shown", log.shown_fields, Context.shown_field)
    names = channels(log)
    if len(names) > 1:
        yield Feature(FeatureSpec("shown.channels", missing="never"), partial(_channels, names=names))


def _channels(context: Context, names: tuple[str, ...]) -> pl.Series:
    returned = [read_number(context, Context.shown_field, name).is_not_null().to_numpy() for name in names]
    return numbers(np.sum(returned, axis=0))
