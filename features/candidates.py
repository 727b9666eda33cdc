"""Which items compete in a query: ONE pool for positives and negatives, so that being in it tells nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from features.columns import EVENT, ITEM, POSITION, QUERY, SESSION, TIMESTAMP, USER, VALUE
from features.hashing import hash_ids, hash_pairs, splitmix64, unit_interval
from features.log import Log, require_kinds
from features.queries import Queries
from features.windows import Ints, ItemPool, Timeline

_NOT_FIELDS: Final = (EVENT, TIMESTAMP, USER, SESSION, VALUE)
_CHUNK: Final = 50_000
"""Queries drawn for at once: bounds the memory, and changes nothing else."""
_SMALL: Final = 8
"""A pool of fewer than this many times the items wanted is ranked by hash as a whole, not drawn from."""
_STEP: Final = np.uint64(0x9E3779B97F4A7C15)
_NONE: Final = pl.DataFrame(schema={"row": pl.Int64, "place": pl.Int64})


@dataclass(frozen=True, slots=True)
class Candidates:
    """The items of each query.

    `frame`: `query`, `item`, unique pairs; from what was shown also `position` where logged, and the candidate fields.
    `counts`: what was left out, and why.
    """

    frame: pl.DataFrame
    counts: Mapping[str, int]


def shown_candidates(
    queries: Queries, shown: str, positives: pl.DataFrame | None = None, *, strict: bool = True
) -> Candidates:
    """What was shown: one row per item of a query, its first impression, with position and candidate fields.

    `positives` (query, item): those that were not shown are counted as unreachable. Fields without any value are left
    out, and DataError raised where the log holds no event of the kind `shown`; unless `strict`, for a part of a log
    where nothing may have been shown.
    """
    if strict:
        require_kinds(queries.events, [shown], role="data.shown")
    asked = queries.frame.select(QUERY)
    impressions = queries.events.filter(pl.col(EVENT) == shown).join(asked, on=QUERY, how="semi", maintain_order="left")
    first = impressions.unique([QUERY, ITEM], keep="first", maintain_order=True)
    fields = [name for name in first.columns if name not in (QUERY, ITEM, POSITION, *_NOT_FIELDS)]
    own = [name for name in (QUERY, ITEM, POSITION) if name in first.columns]
    frame = first.select(*own, *(name for name in fields if not strict or first[name].null_count() < first.height))
    counts = {
        "repeated_impressions": impressions.height - first.height,
        "queries_without_candidates": asked.join(frame, on=QUERY, how="anti").height,
        "unreachable_positives": _unreachable(positives, frame),
    }
    return Candidates(frame, counts)


def item_pool(log: Log) -> ItemPool:
    """The items of the log and its catalogue, by the time from which they exist."""
    return ItemPool(Timeline(log.events, log.delay), log.items)


def pool_candidates(log: Log, queries: pl.DataFrame) -> Candidates:
    """Every item that exists at the time of each query (`query`, `timestamp`), see `features.windows.ItemPool`."""
    pool = item_pool(log)
    sizes = pool.sizes(_times(queries))
    rows = np.repeat(np.arange(queries.height), sizes)
    frame = pl.DataFrame({QUERY: queries[QUERY].gather(rows), ITEM: pool.items.gather(_count_up(sizes))})
    return Candidates(frame, {"queries_without_candidates": int((sizes == 0).sum())})


def sampled_candidates(
    log: Log,
    queries: pl.DataFrame,
    positives: pl.DataFrame,
    *,
    negatives: int = 50,
    seed: int = 0,
    pool: ItemPool | None = None,
) -> Candidates:
    """The positives of each query and `negatives` other items, all from the items that exist at its time.

    `queries`: `query`, `timestamp`; `positives`: `query`, `item`; `pool`: `item_pool(log)`. Positives outside the pool
    are left out and counted as unreachable. Negatives are never positives of the query nor drawn twice; a pool with too
    few gives all it has, counted. The draw depends on `seed`, the query's id and the pool alone.
    """
    pool = pool or item_pool(log)
    asked = queries.select(QUERY, TIMESTAMP).with_row_index("row")
    place = pl.DataFrame({ITEM: pool.items, "place": np.arange(len(pool.items), dtype=np.int64)})
    known = positives.select(QUERY, ITEM).unique().join(asked, on=QUERY).join(place, on=ITEM)
    sizes = pool.sizes(_times(asked))
    inside = known.filter(pl.col("place") < pl.lit(sizes[known["row"].to_numpy()])).select("row", "place")
    taken = np.bincount(inside["row"].to_numpy(), minlength=asked.height)
    wanted = np.minimum(negatives, sizes - taken)
    drawn = _draw(pool, asked[QUERY], sizes, wanted, inside, seed)
    both = pl.concat([inside.cast(pl.Int64), drawn]).sort("row", "place")
    frame = pl.DataFrame({QUERY: asked[QUERY].gather(both["row"]), ITEM: pool.items.gather(both["place"])})
    judged = positives.select(QUERY, ITEM).unique().join(asked, on=QUERY, how="semi")
    counts = {
        "unreachable_positives": judged.height - inside.height,
        "queries_with_fewer_negatives": int((wanted < negatives).sum()),
        "queries_without_candidates": int((sizes == 0).sum()),
    }
    return Candidates(frame, counts)


def _draw(
    pool: ItemPool, queries: pl.Series, sizes: Ints, wanted: Ints, positives: pl.DataFrame, seed: int
) -> pl.DataFrame:
    """(row, place): `wanted` places below `sizes` for each query, none of them a positive."""
    keys = _keys(positives, len(pool.items))
    small = sizes < _SMALL * (wanted + np.bincount(positives["row"].to_numpy(), minlength=len(sizes)))
    parts = [_NONE]
    for start in range(0, len(sizes), _CHUNK):
        rows = np.arange(start, min(start + _CHUNK, len(sizes)))
        parts.append(_rank_all(rows[small[rows]], pool, queries, sizes, wanted, keys, seed))
        parts.append(_draw_some(rows[~small[rows]], pool, queries, sizes, wanted, keys, seed))
    return pl.concat(parts)


def _rank_all(
    rows: Ints, pool: ItemPool, queries: pl.Series, sizes: Ints, wanted: Ints, positives: Ints, seed: int
) -> pl.DataFrame:
    """Small pools: the whole of it in the order of a hash of (query, item)."""
    repeated = np.repeat(rows, sizes[rows])
    places = _count_up(sizes[rows])
    order = hash_pairs(queries.gather(repeated), pool.items.gather(places), seed=seed)
    frame = pl.DataFrame({"row": repeated, "place": places, "order": order})
    return _take(frame.sort("row", "order"), wanted, positives, len(pool.items))


def _draw_some(
    rows: Ints, pool: ItemPool, queries: pl.Series, sizes: Ints, wanted: Ints, positives: Ints, seed: int
) -> pl.DataFrame:
    """Large pools: draws from a hash stream of the query, until each query has enough distinct ones."""
    parts: list[pl.DataFrame] = []
    draws = 2 * int(wanted[rows].max(initial=0)) + 8
    streams = hash_ids(queries, seed=seed)
    while len(rows):
        hashes = splitmix64(streams[rows, None] + np.arange(draws, dtype=np.uint64) * _STEP)
        places = (unit_interval(hashes) * sizes[rows, None]).astype(np.int64)
        frame = pl.DataFrame({"row": np.repeat(rows, draws), "place": places.ravel()})
        found = _take(frame.unique(keep="first", maintain_order=True), wanted, positives, len(pool.items))
        enough = np.bincount(found["row"].to_numpy(), minlength=len(sizes)) >= wanted
        parts.append(found.filter(pl.lit(enough[found["row"].to_numpy()])))
        rows, draws = rows[~enough[rows]], 2 * draws
    return pl.concat([_NONE, *parts])


def _take(frame: pl.DataFrame, wanted: Ints, positives: Ints, stride: int) -> pl.DataFrame:
    """Of the rows of each query, which stand together, the first `wanted` that are not positives."""
    others = frame.filter(~np.isin(_keys(frame, stride), positives))
    number = pl.int_range(pl.len()).over("row")
    return others.filter(number < pl.lit(wanted[others["row"].to_numpy()])).select("row", "place")


def _keys(frame: pl.DataFrame, stride: int) -> Ints:
    keys: Ints = frame["row"].to_numpy().astype(np.int64) * stride + frame["place"].to_numpy()
    return keys


def _count_up(sizes: Ints) -> npt.NDArray[np.int64]:
    """[2, 3] -> [0, 1, 0, 1, 2]."""
    ends = np.cumsum(sizes)
    return np.arange(int(sizes.sum()), dtype=np.int64) - np.repeat(ends - sizes, sizes)


def _times(queries: pl.DataFrame) -> Ints:
    return queries[TIMESTAMP].to_physical().to_numpy()


def _unreachable(positives: pl.DataFrame | None, frame: pl.DataFrame) -> int:
    if positives is None:
        return 0
    return positives.select(QUERY, ITEM).unique().join(frame, on=[QUERY, ITEM], how="anti").height
