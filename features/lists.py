"""Lists of an item, such as its tags, and what they share with those of the user, the query and the last items."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Final

import numpy as np
import polars as pl

from features.columns import ITEM
from features.context import SHOWN, Context, Feature, numbers
from features.description import Description, Field
from features.nested import Lists, read_lists
from features.pooled import RECENT, Side, blocks, of_candidates, of_side
from features.sequences import query_numbers
from features.spec import FeatureSpec
from features.windows import Bools, Floats, Ints

_AT_ONCE: Final = 2**18
"""Rows looked at at once: bounds the memory, and changes nothing else."""
_WHOSE: Final[Mapping[Side, str]] = {
    "user": "of the user",
    "query": "of the query",
    "recent": "of the user's last items",
}


def list_features(log: Description) -> Iterator[Feature]:
    """`list.*`: of each list of the item, or of what was shown, how many different values it holds, and how many of
    them the list of the same name holds that the user has, or the query: their count, their share of the candidate's
    list, and the Jaccard index (shared / in either); of the item's the same with all values of the user's last items,
    and the mean share of these items that have a value (`affinity`).
    """
    for table, fields in ((ITEM, log.item_fields), (SHOWN, log.shown_fields)):
        for field in fields:
            if field.kind == "list":
                own = field.name if table == ITEM else f"{SHOWN}_{field.name}"
                spec = FeatureSpec(f"list.{own}_size", missing=f"no {field.name}")
                yield Feature(spec, partial(_size, table=table, name=field.name))
                for side in _sides(log, table, field):
                    yield from _overlaps(own, table, field.name, side)


def _sides(log: Description, table: str, field: Field) -> Iterator[Side]:
    if field in log.user_fields:
        yield "user"
    if field in log.query_fields:
        yield "query"
    if table == ITEM and log.users:
        yield "recent"


def _overlaps(own: str, table: str, name: str, side: Side) -> Iterator[Feature]:
    missing = f"no {name}, or no {name} {_WHOSE[side]}"
    for what, also in (("count", ""), ("share", ", or the item's is empty"), ("jaccard", ", or both are empty")):
        spec = FeatureSpec(f"list.{own}_{side}_{what}", missing=missing + also)
        yield Feature(spec, partial(_overlap, table=table, name=name, side=side, what=what))
    if side == RECENT:
        spec = FeatureSpec(f"list.{own}_{side}_affinity", missing=f"{missing}, or the item's is empty")
        yield Feature(spec, partial(_overlap, table=table, name=name, side=side, what="affinity"))


def _size(context: Context, table: str, name: str) -> pl.Series:
    pooled = of_candidates(context, table, name)
    (lists,) = read_lists(pooled.values)
    return numbers(lists.sizes[pooled.which], lists.known[pooled.which])


def _overlap(context: Context, table: str, name: str, side: Side, what: str) -> pl.Series:
    return context.once(f"list {table} {name} {side}", lambda: _compare(context, table, name, side))[what]


def _compare(context: Context, table: str, name: str, side: Side) -> Mapping[str, pl.Series]:
    """All that is said of two lists at once: to find what they share is most of the work."""
    mine, theirs = of_candidates(context, table, name), of_side(context, side, name)
    own, others = read_lists(mine.values, theirs.values)
    query = query_numbers(context)
    shared, met, in_other = (np.zeros(len(query), np.int64) for _ in range(3))
    for rows, queries in blocks(query, _AT_ONCE // theirs.which.shape[1]):
        found = _shared(own, mine.which[rows], others, theirs.which[queries], query[rows] - queries.start)
        shared[rows], met[rows], in_other[rows] = found
    sizes = own.sizes[mine.which]
    lists_of_side = others.known[theirs.which].sum(axis=1)[query]
    known = own.known[mine.which] & (lists_of_side > 0)
    return {
        "count": numbers(shared, known),
        "share": _ratio(shared, sizes, known),
        "jaccard": _ratio(shared, sizes + in_other - shared, known),
        "affinity": _ratio(met, sizes * lists_of_side, known),
    }


def _shared(own: Lists, which: Ints, others: Lists, of_queries: Ints, query: Ints) -> tuple[Ints, Ints, Ints]:
    """(M,) lists, and the lists of (q, n) queries, of which each row has the number -> (M,) each: how many values of
    the first occur in the others, how often they do, and how many different values there are in the others.
    """
    width = 1 + max(own.top, others.top)
    codes, owners = others.gather(of_queries.ravel())
    keys, times = np.unique(owners // of_queries.shape[1] * width + codes, return_counts=True)
    mine, rows = own.gather(which)
    needles = query[rows] * width + mine
    found = np.minimum(np.searchsorted(keys, needles), max(len(keys) - 1, 0))
    hit: Bools = keys[found] == needles if len(keys) else np.zeros(len(needles), np.bool_)
    shared = np.bincount(rows[hit], minlength=len(which))
    met = np.bincount(rows[hit], weights=times[found[hit]], minlength=len(which)).astype(np.int64)
    in_other = np.bincount(keys // width, minlength=len(of_queries))
    return shared, met, in_other[query]


def _ratio(part: Ints, whole: Ints, known: Bools) -> pl.Series:
    shares: Floats = part / np.maximum(whole, 1)
    return numbers(shares, known & (whole > 0))
