"""Lists and vectors of items, users, queries and of what was shown: each stands once, and rows know which is theirs.

So the memory never holds the vector of an item once per row that it is a candidate in.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import polars as pl

from features.columns import ITEM, QUERY, TIMESTAMP, USER
from features.context import SHOWN, Context
from features.errors import DataError
from features.log import align_ids
from features.sequences import at_events, heads, recent_events
from features.windows import Ints, rows_as_of

RECENT: Final = "recent"
Side = Literal["user", "query", "recent"]
"""Whose lists and vectors those of a candidate are compared with: the user's, the query's, or those of the different
items among the user's last interactions.
"""


@dataclass(frozen=True, slots=True)
class Pooled:
    """`values` (K,): lists or vectors. `which`: their numbers, -1 for none; (N,) of candidates, (Q, n) of a `Side`."""

    values: pl.Series
    which: Ints


def of_candidates(context: Context, table: str, name: str) -> Pooled:
    """A field of the items, as of the query, or of what was shown."""
    if table == SHOWN:
        return Pooled(_values(context.rows, name, "the candidates"), np.arange(context.rows.height))
    return Pooled(
        _values(context.log.items, name, "the items"), context.once("rows of items", lambda: _of_items(context))
    )


def of_side(context: Context, side: Side, name: str) -> Pooled:
    """A field of the user, as of the query (n = 1), of the query (n = 1), or of the last items as the user met them."""
    if side == RECENT:
        which = context.once("rows of recent items", lambda: _of_recent(context))
        return Pooled(_values(context.log.items, name, "the items"), which)
    if side == USER:
        which = context.once("rows of users", lambda: _of_users(context))
        return Pooled(_values(context.log.users, name, "the users"), which)
    queries = context.once("lists of queries", lambda: _of_queries(context))
    return Pooled(_values(queries, name, "the queries"), np.arange(queries.height)[:, None])


def blocks(query: Ints, size: int) -> Iterator[tuple[Ints, slice]]:
    """(N,) numbers of queries, ascending -> at most `size` rows at a time, and the queries that they belong to."""
    for start in range(0, len(query), max(1, size)):
        rows = np.arange(start, min(start + max(1, size), len(query)))
        yield rows, slice(int(query[rows[0]]), int(query[rows[-1]]) + 1)


def _of_items(context: Context) -> Ints:
    return _rows(context.log.items, ITEM, context.rows)


def _of_users(context: Context) -> Ints:
    asked = context.rows[heads(context)]
    return _rows(context.log.users, USER, asked)[:, None]


def _of_recent(context: Context) -> Ints:
    return at_events(_rows(context.log.items, ITEM, context.timeline.events), recent_events(context))


def _rows(table: pl.DataFrame | None, key: str, asked: pl.DataFrame) -> Ints:
    if table is None or key not in asked.columns:
        return np.full(asked.height, -1)
    known, rows = align_ids(table, asked.select(key, TIMESTAMP), key)
    return rows_as_of(known, key, rows)


def _of_queries(context: Context) -> pl.DataFrame:
    """(Q,) the queries with their lists, in the order of the rows."""
    asked = context.rows[heads(context)].select(QUERY)
    if context.queries is None:
        return asked
    queries, asked = align_ids(context.queries, asked, QUERY)
    return asked.join(queries, on=QUERY, how="left", maintain_order="left", validate="m:1")


def _values(table: pl.DataFrame | None, name: str, what: str) -> pl.Series:
    if table is None or name not in table.columns:
        raise DataError(
            f"{what} have no field {name!r}",
            expected="every field that the features were made from",
            fix="add the column",
        )
    return table[name]
