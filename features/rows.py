"""The rows of a table before they have features: queries and candidates joined, in an order that tells nothing."""

from __future__ import annotations

import polars as pl

from features.columns import ITEM, QUERY, RELEVANCE, TIMESTAMP, USER
from features.errors import DataError
from features.hashing import hash_pairs
from features.log import Log, align_ids

OF_QUERY = "_of_query"
"""Added to the name of a query's field where the candidates have one of the same name."""


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
    they have in the log. Raises DataError for a pair that is twice a candidate, a query that stands twice, and a query
    without a time.
    """
    candidates, queries = align_ids(candidates, queries, QUERY)
    _check_queries(queries)
    rows = candidates.drop(RELEVANCE, strict=False).join(
        queries, on=QUERY, how="inner", maintain_order="left", suffix=OF_QUERY
    )
    if relevance is not None:
        rows = _join_relevance(rows, relevance)
    ordered = order_rows(rows.with_columns(_id_casts(log, rows)))
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


def _id_casts(log: Log, rows: pl.DataFrame) -> list[pl.Expr]:
    """Items and users of a request as the log spells them; text that is no integer cannot be in a log of integers."""
    names = [name for name in (ITEM, USER) if name in rows.columns and name in log.events.columns]
    return [pl.col(name).cast(log.events.schema[name], strict=False) for name in names]
