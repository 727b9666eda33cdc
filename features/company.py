"""In what company an entity is: how popular the items are that a user picks, how active the users who pick an item.

Both are means over the interactions before the query, of log(1 + n) with n = what the other had done strictly before
that interaction arrived. After RePlay's LogStatFeatures, but as of each event instead of over the whole log.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import polars as pl

from features.activity import unknown
from features.columns import ITEM, USER
from features.context import Context, Feature, Scope, numbers
from features.fixed import FIXED_POINT, from_fixed
from features.spec import FeatureSpec
from features.windows import NOBODY, Bools, Floats, Ints


def company_feature(name: str, scope: Scope, other: str) -> Feature:
    """How busy the `other` entities (item or user) of an entity's interactions were."""
    spec = FeatureSpec(name, missing=f"{unknown(scope)}, or no interaction before")
    return Feature(spec, partial(_mean, scope=scope, other=other))


def against_usual_feature(name: str) -> Feature:
    """log(1 + popularity of the item) less the mean of the items that the user usually picks."""
    return Feature(FeatureSpec(name, missing="no user, or no interaction before"), _against_usual)


def _mean(context: Context, scope: Scope, other: str) -> pl.Series:
    return numbers(*_means(context, scope, other))


def _against_usual(context: Context) -> pl.Series:
    usual, known = _means(context, (USER,), ITEM)
    popularity = context.lookup(ITEM).count(context.description.interactions)
    return numbers(np.log1p(popularity) - usual, known)


def _means(context: Context, scope: Scope, other: str) -> tuple[Floats, Bools]:
    lookup = context.lookup(*scope)
    summed = lookup.summed(_how_busy(context, other))
    count = lookup.summed(_counted(context, other))
    return from_fixed(summed) / np.maximum(count, 1), lookup.known & (count > 0)


def _how_busy(context: Context, other: str) -> Ints:
    """(E,) log(1 + n) in ten-thousandths, n = interactions of the event's item or user that arrived before it did."""
    return context.once(f"how busy the {other}", lambda: _look_back(context, other))


def _look_back(context: Context, other: str) -> Ints:
    lookup, entities = context.lookup(other), context.codes(other)[0]
    before = lookup.history.at(entities, context.timeline.arrivals()).count(context.description.interactions)
    fixed = np.rint(np.log1p(before) * FIXED_POINT).astype(np.int64)
    return np.where(_counted(context, other), fixed, 0)


def _counted(context: Context, other: str) -> Bools:
    known: Bools = context.codes(other)[0] != NOBODY
    return context.timeline.of_kinds(context.description.interactions) & known
