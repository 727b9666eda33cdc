"""The rows of a table before they have features: queries and candidates joined, in an order that tells nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import polars as pl
from polars import selectors

from features.columns import ITEM, JUDGED, POSITION, QUERY, RELEVANCE, TIMESTAMP, USER
from features.errors import DataError
from features.hashing import hash_pairs
from features.log import Log, align_ids
from features.normalise import normalise_ids

OF_QUERY = "_of_query"
"""Added to the name of a query's field where the candidates have one of the same name."""
_TRUTH: Final = (RELEVANCE, JUDGED)
"""What a table says of its rows itself: a field that is called so is none."""
_OF_CANDIDATE: Final = (ITEM, POSITION)


def order_rows(frame: pl.DataFrame) -> pl.DataFrame:
    """The same rows: queries by (timestamp, query), or by query where there is no time; within one by hash, then item.

    The hash is `features.hashing.hash_pairs(query, item)`, so neither the input order nor the labels can be read from
    the row order. Rows of a query that differ in time stay together, at the earliest of them. The position in the
    result depends on the ids alone where (query, item) is unique.
    """
    hashes = pl.Series("hash", hash_pairs(frame[QUERY], frame[ITEM]))
    keys = [pl.col(QUERY), hashes, pl.col(ITEM)]
    if TIMESTAMP in frame.columns:
        keys.insert(0, pl.col(TIMESTAMP).min().over(QUERY))
    order = frame.select(pl.arg_sort_by(keys, maintain_order=True)).to_series()
    return frame if order.is_sorted() else frame[order]


def join_rows(
    log: Log, queries: pl.DataFrame, candidates: pl.DataFrame, relevance: pl.DataFrame | None = None
) -> pl.DataFrame:
    """One row per candidate with its query's time, user and fields, and its relevance where given, ordered.

    `queries`: `query`, `timestamp`, and where known `user` and fields; candidates of other queries are left out.
    `relevance`: `query`, `item`, `relevance`; a candidate that is not in it has relevance 0. Ids take the type that
    they have in the log; text that a log of integers cannot hold stays text, and has no history. Fields called like a
    column of the table's own (its relevance; of a query the item and the position) are left out, and so are the lists
    and vectors of queries, which would stand in the memory once per candidate. Raises DataError for a pair that is
    twice a candidate, a query that stands twice, and a query without a time.
    """
    candidates, queries = align_ids(candidates, queries, QUERY)
    _check_queries(queries)
    rows = candidates.drop(_TRUTH, strict=False).join(
        queries.select(~selectors.nested()).drop(_TRUTH + _OF_CANDIDATE, strict=False),
        on=QUERY,
        how="inner",
        maintain_order="left",
        suffix=OF_QUERY,
    )
    if relevance is not None:
        rows = _join_relevance(rows, relevance)
    ordered = order_rows(rows.with_columns(_as_in_log(log, rows)))
    _check_unique(ordered)
    return ordered


def _check_queries(queries: pl.DataFrame) -> None:
    if TIMESTAMP not in queries.columns or queries[TIMESTAMP].null_count():
        raise DataError("queries without a timestamp", expected="a time for every query", fix="add or map the column")
    if queries[QUERY].is_duplicated().any():
        raise DataError("a query stands twice in the queries", expected="one row per query", fix="keep one of them")


def _check_unique(ordered: pl.DataFrame) -> None:
    """Equal pairs are neighbours."""
    same = pl.all_horizontal(pl.col(name).eq_missing(pl.col(name).shift(1)) for name in (QUERY, ITEM))
    twice = int(ordered.select(same.sum()).item())
    if twice:
        raise DataError(f"{twice} candidates are in their query twice", expected="unique pairs", fix="keep one of each")


def _join_relevance(rows: pl.DataFrame, relevance: pl.DataFrame) -> pl.DataFrame:
    for name in (QUERY, ITEM):
        rows, relevance = align_ids(rows, relevance, name)
    judged = relevance.select(QUERY, ITEM, RELEVANCE)
    joined = rows.join(judged, on=[QUERY, ITEM], how="left", maintain_order="left", validate="m:1")
    return joined.with_columns(pl.col(RELEVANCE).fill_null(0.0))


def _as_in_log(log: Log, rows: pl.DataFrame) -> Iterator[pl.Series]:
    """Items and users of a request in the type that they have in the log, where no id changes by it."""
    for name in (ITEM, USER):
        held = log.events.collect_schema().get(name)
        if name in rows.columns and held not in (None, rows.schema[name]):
            yield rows[name].cast(pl.String) if held == pl.String else normalise_ids(rows[name], what=name)
