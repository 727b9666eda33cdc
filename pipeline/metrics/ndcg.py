"""NDCG, DCG and CG: of one list, of many queries at once, of ranked ids."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from pipeline.metrics.arrays import (
    Array,
    Cuts,
    Ints,
    Ragged,
    as_cuts,
    as_lists,
    as_relevance,
    check_finite,
    check_relevance,
    check_single,
    full_relevance,
    largest_relevance,
)
from pipeline.metrics.conventions import Convention, Floats, check_convention, discount_values, gain_values
from pipeline.metrics.retrieved import expected_ndcg

if TYPE_CHECKING:
    from pipeline.metrics import kernels

DEFAULT = Convention()

SHARES_PER_THREAD = 8

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
    check_single(k)
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
    check_convention(convention)
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
    check_single(k)
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

    check_convention(convention)
    score, truth, starts = as_lists(scores, relevance, groups)
    full, full_starts = full_relevance(ideal, truth, starts, convention)
    truth, full = _alike(truth, full, convention)
    longest = int(max(np.diff(starts).max(), np.diff(full_starts).max()))
    cuts, several = as_cuts(k, longest)
    order = np.argsort(cuts, kind="stable")
    ideal_code = _ideal_code(convention, ideal) if normalise else kernels.IDEAL_NONE
    rules = _rules(convention, truth, full, int(cuts.max()), ideal_code)
    values = np.empty((len(starts) - 1, len(cuts)))

    def work(first: int, last: int) -> bool:
        query = kernels.ndcg_of_queries(
            score, truth, starts, full, full_starts, cuts[order], rules, first, last, values
        )
        return query < 0

    if not all(_shared(work, starts, threads)):
        check_finite(score, "scores")
        check_relevance(truth, convention)
        check_relevance(full, convention, "ideal")
    for query, c in np.argwhere(values == kernels.PENDING) if normalise else ():
        rows = slice(starts[query], starts[query + 1])
        gains = gain_values(convention, truth[rows])
        values[query, c] = expected_ndcg(score[rows], gains, int(cuts[order][c]), rules.discount)
    return values[:, np.argsort(order)].T if several else values[:, 0]


def _alike(relevance: Array, full: Array, convention: Convention) -> tuple[Array, Array]:
    """Both in one type, and negative ones 0 where the convention says so: the kernels take no others."""
    wanted = as_relevance(np.empty(1, np.promote_types(relevance.dtype, full.dtype))).dtype
    relevance, full = relevance.astype(wanted, copy=False), full.astype(wanted, copy=False)
    if convention.negative == "zero":
        return np.maximum(relevance, 0), np.maximum(full, 0)
    if isinstance(convention.gain, tuple) and wanted.kind == "f":
        check_relevance(relevance, convention)
        check_relevance(full, convention, "ideal")
    return relevance, full


def _rules(convention: Convention, relevance: Array, full: Array, deepest: int, ideal: int) -> kernels.Rules:
    """The convention in the numbers that the kernels take."""
    from pipeline.metrics import kernels

    gain, table = _gain_rule(convention, relevance, full)
    return kernels.Rules(
        gain,
        table,
        discount_values(convention.discount, deepest),
        ideal,
        kernels.TIES.index(convention.ties),
        convention.empty_value,
        0.0,
        float(largest_relevance(convention)),
    )


def _gain_rule(convention: Convention, relevance: Array, full: Array) -> tuple[int, Floats]:
    """A table where the grades are few, else a formula."""
    from pipeline.metrics import kernels

    if isinstance(convention.gain, tuple):
        return kernels.GAIN_TABLE, np.asarray(convention.gain)
    if relevance.dtype.kind != "f":
        highest = max(int(relevance.max()), int(full.max(initial=0)), 0)
        if highest <= min(TABLE_GRADES, largest_relevance(convention)):
            return kernels.GAIN_TABLE, gain_values(convention, np.arange(highest + 1))
    return (kernels.GAIN_EXP2 if convention.gain == "exp2" else kernels.GAIN_LINEAR), np.empty(0)


def _ideal_code(convention: Convention, ideal: Ragged | None) -> int:
    from pipeline.metrics import kernels

    if convention.ideal == "retrieved":
        return kernels.IDEAL_RETRIEVED
    return kernels.IDEAL_FULL if convention.ideal == "all" and ideal is not None else kernels.IDEAL_OWN


def _shared(work: Callable[[int, int], bool], starts: Ints, threads: int) -> list[bool]:
    """work(first, last) for shares of about as many rows each; a thread that is done takes the next."""
    if isinstance(threads, bool) or not isinstance(threads, int) or threads < 1:
        raise ValueError(f"threads is {threads!r}; expected a whole number of at least 1")
    if threads == 1:
        return [work(0, len(starts) - 1)]
    shares = np.linspace(0, starts[-1], threads * SHARES_PER_THREAD + 1)
    borders = np.searchsorted(starts, shares).tolist()
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(work, borders[:-1], borders[1:]))
