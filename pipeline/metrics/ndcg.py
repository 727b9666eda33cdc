"""NDCG, DCG and CG: of one list, of many queries at once, of ranked ids."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from pipeline.metrics.arrays import (
    Array,
    Ints,
    as_cuts,
    as_relevance,
    as_scores,
    as_starts,
    check_finite,
    check_relevance,
)
from pipeline.metrics.conventions import Convention, Floats, discount_values, gain_values

if TYPE_CHECKING:
    from pipeline.metrics import kernels

DEFAULT = Convention()

Cuts = int | None | Sequence[int | None]
Ragged = tuple[npt.ArrayLike, npt.ArrayLike]
"""(values, sizes): the values of all queries end to end, and how many belong to each."""

TABLE_GRADES = 4096
"""Integer relevance up to here gets its gains from a table."""


def ndcg(
    scores: npt.ArrayLike,
    relevance: npt.ArrayLike,
    k: int | None = None,
    *,
    convention: Convention = DEFAULT,
    ideal: npt.ArrayLike | None = None,
) -> float:
    """NDCG@k of one list: scores (N,) and relevance (N,), in [0, 1]; NaN if it is empty and empties are skipped.

    ideal: relevances of all known items of the query, retrieved or not (see `ndcg_per_query`).
    Raises ValueError naming the offending index.
    """
    rows = len(np.atleast_1d(scores))
    if not rows:
        raise ValueError("scores is empty; expected at least one item")
    full = None if ideal is None else (ideal, [len(np.atleast_1d(ideal))])
    return float(ndcg_per_query(scores, relevance, [rows], k, convention=convention, ideal=full)[0])


def ndcg_per_query(
    scores: npt.ArrayLike,
    relevance: npt.ArrayLike,
    groups: npt.ArrayLike,
    k: Cuts = None,
    *,
    convention: Convention = DEFAULT,
    ideal: Ragged | None = None,
    threads: int = 1,
) -> Floats:
    """NDCG@k of Q queries whose rows follow each other.

    scores, relevance: (N,) numbers, the higher the better. groups: (Q,) sizes, at least 1 each, that sum to N.
    k: a cut-off or None (the whole list) -> (Q,); a sequence of them -> (len(k), Q), in the order given.
    ideal: (values, sizes), the relevances of all known items of each query, retrieved or not; a size may be 0.
        `ideal="all"` orders these (without them, the candidates); the other ideals learn from them only
        that a query whose list holds nothing relevant is not empty but missed, and scores 0.
    threads: queries are shared between so many threads; the result is the same for any number.

    Returns float64 in [0, 1]; NaN where a query is empty and the convention skips those.
    Raises ValueError naming the offending index.
    """
    return _evaluate(scores, relevance, groups, k, convention, ideal, threads, normalise=True)


def dcg_per_query(
    scores: npt.ArrayLike,
    relevance: npt.ArrayLike,
    groups: npt.ArrayLike,
    k: Cuts = None,
    *,
    convention: Convention = DEFAULT,
    threads: int = 1,
) -> Floats:
    """DCG@k of Q queries: as `ndcg_per_query`, not divided by the ideal. A query without a relevant item has DCG 0."""
    return _evaluate(scores, relevance, groups, k, convention, None, threads, normalise=False)


def cg_per_query(
    scores: npt.ArrayLike,
    relevance: npt.ArrayLike,
    groups: npt.ArrayLike,
    k: Cuts = None,
    *,
    convention: Convention = DEFAULT,
    threads: int = 1,
) -> Floats:
    """CG@k of Q queries: the sum of the gains of the first k items, whatever their positions."""
    undiscounted = dataclasses.replace(convention, discount="none")
    return _evaluate(scores, relevance, groups, k, undiscounted, None, threads, normalise=False)


def ndcg_of_items(
    ranked: Iterable[Hashable],
    relevance: Mapping[Any, float] | Collection[Any],
    k: int | None = None,
    *,
    convention: Convention = DEFAULT,
    duplicates: str = "error",
) -> float:
    """NDCG@k of a list of item ids, best first.

    relevance: a mapping id -> grade, or a collection of relevant ids (grade 1); ids it lacks have relevance 0.
        It is what is known of the query, so `candidates` and `all` both order all of its items,
        and a list that misses them all scores 0. `ties` has no bearing: a list has none.
    duplicates: what to do with an id that is ranked twice: "error" raises, "first" counts its first place
        and closes the gaps.
    """
    items = _without_duplicates(ranked, duplicates)
    grades = relevance if isinstance(relevance, Mapping) else dict.fromkeys(relevance, 1)
    known = as_relevance(list(grades.values()))
    check_relevance(known, convention)
    (cut,), _ = as_cuts(k, max(len(items), len(known)))
    returned = as_relevance([grades.get(item, 0) for item in items[:cut]])
    if not (gain_values(convention, known) > 0).any():
        return convention.empty_value
    pool = returned if convention.ideal == "retrieved" else known
    attained = _dcg_of_gains(gain_values(convention, returned), cut, convention)
    attainable = _dcg_of_gains(np.sort(gain_values(convention, pool))[::-1], cut, convention)
    return min(attained / attainable, 1.0) if attained > 0 else 0.0


def _dcg_of_gains(gains: Floats, cut: int, convention: Convention) -> float:
    top = gains[:cut]
    return math.fsum(top * discount_values(convention.discount, len(top)))


def _without_duplicates(ranked: Iterable[Hashable], duplicates: str) -> list[Hashable]:
    if duplicates not in ("error", "first"):
        raise ValueError(f"duplicates is {duplicates!r}; expected 'error' or 'first'")
    items = list(ranked)
    distinct = list(dict.fromkeys(items))
    if duplicates == "error" and len(distinct) < len(items):
        seen: set[Hashable] = set()
        for index, item in enumerate(items):
            if item in seen:
                raise ValueError(f"ranked[{index}] is {item!r}, which is ranked twice; duplicates='first' allows it")
            seen.add(item)
    return distinct


def _evaluate(
    scores: npt.ArrayLike,
    relevance: npt.ArrayLike,
    groups: npt.ArrayLike,
    k: Cuts,
    convention: Convention,
    ideal: Ragged | None,
    threads: int,
    *,
    normalise: bool,
) -> Floats:
    from pipeline.metrics import kernels

    score, truth = as_scores(scores), as_relevance(relevance)
    if len(score) != len(truth):
        raise ValueError(f"there are {len(score)} scores and {len(truth)} relevances")
    starts = as_starts(groups, len(score))
    check_finite(score, "scores")
    check_relevance(truth, convention)
    full, full_starts = _full_relevance(ideal, truth, starts, convention)
    longest = int(max(np.diff(starts).max(), np.diff(full_starts).max()))
    cuts, several = as_cuts(k, longest)
    order = np.argsort(cuts, kind="stable")
    rules = _rules(convention, truth, full, int(cuts.max()), ideal is not None, normalise=normalise)
    values = np.empty((len(cuts), len(starts) - 1))

    def work(first: int, last: int) -> None:
        kernels.ndcg_of_queries(score, truth, starts, full, full_starts, cuts[order], rules, first, last, values)

    _share(work, len(starts) - 1, threads)
    values[order] = values.copy()
    return values if several else values[0]


def _rules(
    convention: Convention, relevance: Array, full: Array, deepest: int, has_full: bool, *, normalise: bool
) -> kernels.Rules:
    """The convention in the numbers that the kernels take."""
    from pipeline.metrics import kernels

    gain, table = (
        {"linear": kernels.GAIN_LINEAR, "exp2": kernels.GAIN_EXP2}.get(str(convention.gain), kernels.GAIN_TABLE),
        np.empty(0),
    )
    highest = max((values.max(initial=0) for values in (relevance, full)), default=0)
    if isinstance(convention.gain, tuple):
        table = np.asarray(convention.gain)
    elif relevance.dtype.kind != "f" and full.dtype.kind != "f" and highest <= TABLE_GRADES:
        gain, table = kernels.GAIN_TABLE, gain_values(convention, np.arange(int(highest) + 1))
    ideals = {"candidates": kernels.IDEAL_OWN, "retrieved": kernels.IDEAL_RETRIEVED, "all": kernels.IDEAL_FULL}
    ideal = ideals[convention.ideal] if normalise else kernels.IDEAL_NONE
    if ideal == kernels.IDEAL_FULL and not has_full:
        ideal = kernels.IDEAL_OWN
    return kernels.Rules(
        gain,
        table,
        discount_values(convention.discount, deepest),
        ideal,
        kernels.TIES.index(convention.ties),
        convention.empty_value,
    )


def _full_relevance(ideal: Ragged | None, relevance: Array, starts: Ints, convention: Convention) -> tuple[Array, Ints]:
    """The relevances of all known items; none where no `ideal` is given."""
    if ideal is None:
        return relevance[:0], np.zeros(len(starts), np.int64)
    values, sizes = ideal
    full = as_relevance(values, "ideal")
    full_starts = as_starts(sizes, len(full), name="sizes of ideal", smallest=0)
    if len(full_starts) != len(starts):
        raise ValueError(f"ideal has {len(full_starts) - 1} queries, groups has {len(starts) - 1}")
    check_relevance(full, convention, "ideal")
    _check_cover(full, full_starts, relevance, starts)
    return full, full_starts


def _check_cover(full: Array, full_starts: Ints, relevance: Array, starts: Ints) -> None:
    """Every relevance of a list must be among those of its ideal, as often as in the list."""
    from pipeline.metrics import kernels

    narrow = np.float32 if np.float32 in (full.dtype, relevance.dtype) else np.float64
    query = kernels.first_uncovered(full.astype(narrow), full_starts, relevance.astype(narrow), starts)
    if query >= 0:
        raise ValueError(
            f"ideal of query {query} lacks a relevance that its list holds; it must cover what was retrieved"
        )


def _share(work: Callable[[int, int], None], queries: int, threads: int) -> None:
    """Call work(first, last) on shares of the queries, one per thread."""
    if isinstance(threads, bool) or not isinstance(threads, int) or threads < 1:
        raise ValueError(f"threads is {threads!r}; expected a whole number of at least 1")
    if threads == 1:
        work(0, queries)
        return
    borders = np.linspace(0, queries, threads + 1).astype(int).tolist()
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, borders[:-1], borders[1:]))
