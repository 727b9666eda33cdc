"""The rows of a table before they have features: queries and candidates joined, in an order that tells nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl
from polars import selectors

from features.columns import ITEM, JUDGED, POSITION, QUERY, RELEVANCE, TIMESTAMP, USER, private
from features.errors import DataError
from features.hashing import UInt64s, hash_ids, pair_hashes
from features.log import Log, align_ids
from features.normalise import normalise_ids

OF_QUERY = "_of_query"
"""Added to the name of a query's field where the candidates have one of the same name."""
_TRUTH: Final = (RELEVANCE, JUDGED)
"""What a table says of its rows itself: a field that is called so is none."""
_OF_CANDIDATE: Final = (ITEM, POSITION)
_LENGTH: Final = private("length")
_PLACE: Final = private("place")

Ints = npt.NDArray[np.int64]
Places = npt.NDArray[np.uint32]


def order_rows(frame: pl.DataFrame) -> pl.DataFrame:
    """The same rows: queries by (timestamp, query), or by query where there is no time; within one by hash, then item.

    The hash is `features.hashing.hash_pairs(query, item)`, so neither the input order nor the labels can be read from
    the row order. Rows of a query that differ in time stay together, at the earliest of them. The position in the
    result depends on the ids alone where (query, item) is unique.
    """
    order, _ = _order(_runs(frame), frame[ITEM])
    return frame if order is None else frame[order]


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
    fields = queries.select(~selectors.nested()).drop(_TRUTH + _OF_CANDIDATE, strict=False)
    own, runs = _of_queries(candidates.drop(_TRUTH, strict=False), fields)
    if relevance is not None:
        own = _join_relevance(own, relevance)
        runs = runs.with_columns(pl.col(QUERY).cast(own.schema[QUERY]))
    own = own.with_columns(_as_in_log(log, own, ITEM))
    order, tied = _order(runs, own[ITEM])
    asked = _repeat(runs[_PLACE], runs)
    if order is not None:
        own, asked = own[order], asked.gather(order)
    if tied:
        _check_unique(own)
    rows = _beside(own, fields.drop(QUERY)[asked])
    return rows.with_columns(_as_in_log(log, rows, USER))


def _of_queries(candidates: pl.DataFrame, queries: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The candidates of the queries, and their runs with the row of each in `queries`, and its time."""
    runs = _runs(candidates)
    known = queries.select(QUERY, TIMESTAMP).with_row_index(_PLACE)
    runs = runs.join(
        known if TIMESTAMP not in runs.columns else known.drop(TIMESTAMP), on=QUERY, how="left", maintain_order="left"
    )
    strange = runs[_PLACE].is_null()
    if not strange.any():
        return candidates, runs
    return candidates.filter(_repeat(~strange, runs)), runs.filter(~strange)


def _repeat(values: pl.Series, runs: pl.DataFrame) -> pl.Series:
    """(R,) one value per run -> (N,) one per row."""
    return values.gather(pl.Series(np.repeat(np.arange(runs.height, dtype=np.uint32), runs[_LENGTH].to_numpy())))


def _beside(own: pl.DataFrame, fields: pl.DataFrame) -> pl.DataFrame:
    """The columns of both, relevance last."""
    clashes = {name: name + OF_QUERY for name in fields.columns if name in own.columns}
    rows = own.hstack(fields.rename(clashes))
    return rows.select(pl.exclude(RELEVANCE), pl.col(f"^{RELEVANCE}$"))


def _runs(frame: pl.DataFrame) -> pl.DataFrame:
    """Neighbouring rows of one query: `query`, how many they are, and where known their earliest `timestamp`."""
    earliest = [pl.col(TIMESTAMP).min()] if TIMESTAMP in frame.columns else []
    runs = frame.group_by(pl.col(QUERY).rle_id().alias(_PLACE), maintain_order=True)
    return runs.agg(pl.col(QUERY).first(), pl.len().alias(_LENGTH), *earliest).drop(_PLACE)


def _order(runs: pl.DataFrame, items: pl.Series) -> tuple[pl.Series | None, bool]:
    """What `order_rows` does, of (N,) items in `runs`: (N,) the order, None where it holds; are hashes equal?"""
    keys = [pl.col(QUERY)]
    if TIMESTAMP in runs.columns:
        keys.insert(0, pl.col(TIMESTAMP).min().over(QUERY))
    lengths = runs[_LENGTH].to_numpy().astype(np.int64)
    by_query = runs.select(pl.arg_sort_by(keys, maintain_order=True)).to_series().to_numpy()
    rows = _rows_of_runs(lengths, by_query)
    parts = runs[QUERY].gather(by_query).rle().struct.field("len").to_numpy().astype(np.int64)
    sizes = np.add.reduceat(lengths[by_query], np.cumsum(parts) - parts) if len(parts) else parts
    hashes = pair_hashes(np.repeat(hash_ids(runs[QUERY]), lengths), hash_ids(items))
    within, tied = _sort_within(hashes[rows], sizes)
    if not tied:
        ordered = rows[within]
        return None if (ordered[1:] > ordered[:-1]).all() else pl.Series(ordered), False
    place = np.repeat(np.arange(len(sizes)), sizes)
    table = pl.DataFrame({"place": place, "hash": hashes[rows], "item": items.gather(rows), "row": rows})
    return table.sort(pl.all())["row"], True


def _sort_within(hashes: UInt64s, sizes: Ints) -> tuple[npt.NDArray[np.intp], bool]:
    """(N,) and (Q,) sizes of queries -> (N,) the order within each, and whether it could not tell two apart.

    One number holds the query and the high bits of the hash: NumPy's stable sort takes no time for what is nearly in
    order, and Numba, which a scorer does without, is not needed.
    """
    bits = np.uint64(max(len(sizes).bit_length(), 1))
    keys = np.repeat(np.arange(len(sizes), dtype=np.uint64) << (np.uint64(64) - bits), sizes)
    keys |= hashes >> bits
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    return order, bool((keys[1:] == keys[:-1]).any())


def _rows_of_runs(lengths: Ints, order: Places) -> Places:
    """(R,) lengths of runs and their order -> (N,) their rows, one run after the other."""
    begins, own = np.cumsum(lengths) - lengths, lengths[order]
    shift = begins[order] - (np.cumsum(own) - own)
    rows = np.repeat(shift, own)
    rows += np.arange(len(rows))
    return rows.astype(np.uint32)


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


def _as_in_log(log: Log, rows: pl.DataFrame, name: str) -> Iterator[pl.Series]:
    """Items or users of a request in the type that they have in the log, where no id changes by it."""
    held = log.events.collect_schema().get(name)
    if name in rows.columns and held not in (None, rows.schema[name]):
        yield rows[name].cast(pl.String) if held == pl.String else normalise_ids(rows[name], what=name)
