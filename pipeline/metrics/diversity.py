"""What the lists are like beside being right: how varied, how new, how different from user to user.

Where several items are tied, their input order decides, unless a function says that it averages.
Wrong input raises ValueError naming the offending index.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from pipeline.metrics.arrays import (
    Array,
    Cuts,
    Ints,
    as_ids,
    as_relevance,
    as_scores,
    as_starts,
    check_finite,
    check_relevance,
)
from pipeline.metrics.conventions import Convention, Floats, check_convention, discount_values, gain_values
from pipeline.metrics.measures import RankedLists, rank_lists, value_per_query
from pipeline.metrics.ndcg import DEFAULT, ndcg_per_query

STABLE = Convention(ties="stable")


def alpha_ndcg_per_query(
    scores: npt.ArrayLike,
    relevance: npt.ArrayLike,
    groups: npt.ArrayLike,
    subtopics: npt.ArrayLike,
    k: Cuts = None,
    *,
    sizes: npt.ArrayLike | None = None,
    alpha: float = 0.5,
    convention: Convention = STABLE,
) -> Floats:
    """alpha-NDCG (Clarke et al. 2008): an item's gain counts (1 - alpha)^n for its n-th repetition of a subtopic.

    subtopics: (N,) attribute of the items, such as brand or category; or, with `sizes` (N,), the subtopics of all rows
        end to end, so many for each. The ideal is the greedy best order of the query's items, which is the
        best one where each item has one subtopic.
    convention: gain, discount, ties (not "average": the value has no closed form) and empty.

    Returns (Q,) or (len(k), Q) as `ndcg_per_query` does.
    """
    from pipeline.metrics import redundancy

    if not 0 <= alpha <= 1:
        raise ValueError(f"alpha is {alpha}; expected a number in [0, 1]")
    check_convention(convention)
    if convention.ties == "average":
        raise ValueError("alpha-NDCG does not average ties; choose a convention with ties 'stable', 'worst' or 'best'")
    truth = as_relevance(relevance)
    check_relevance(truth, convention)
    lists = rank_lists(scores, groups, k, ties=convention.ties, values=truth)
    firsts, topics = _topics(subtopics, sizes, len(truth))
    order = np.argsort(lists.cuts, kind="stable")
    discount = discount_values(convention.discount, int(lists.cuts.max()))
    values = np.empty((len(lists.cuts), len(lists.sizes)))
    redundancy.alpha_ndcg_of_queries(
        lists.order,
        gain_values(convention, truth),
        firsts,
        topics,
        alpha,
        discount,
        lists.starts,
        lists.cuts[order],
        values,
    )
    values[order] = values.copy()
    return lists.shaped(np.where(np.isnan(values), convention.empty_value, values))


def category_diversity_per_query(
    scores: npt.ArrayLike, categories: npt.ArrayLike, groups: npt.ArrayLike, k: int | None = None
) -> Floats:
    """(Q,) share of pairs among the first k items that differ in category; NaN for lists of one item."""
    lists = rank_lists(scores, groups, k)
    queries, rows = top_rows(lists)
    codes = _codes(categories, len(lists.order), "categories")[rows]
    sizes = np.bincount(queries, minlength=len(lists.sizes))
    pairs, counts = np.unique(np.stack([queries, codes]), axis=1, return_counts=True)
    same = np.bincount(pairs[0], counts * (counts - 1), minlength=len(sizes))
    return 1.0 - _per_pair(same.astype(np.float64), sizes)


def vector_diversity_per_query(
    scores: npt.ArrayLike, vectors: npt.ArrayLike, groups: npt.ArrayLike, k: int | None = None
) -> Floats:
    """(Q,) mean of 1 - cosine over pairs among the first k items; vectors (N, D). NaN for lists of one item.

    The cosine with a vector of zeros is 0.
    """
    lists = rank_lists(scores, groups, k)
    queries, rows = top_rows(lists)
    vector = np.asarray(vectors, np.float64)
    if vector.ndim != 2 or len(vector) != len(lists.order):
        raise ValueError(f"vectors have the shape {vector.shape}; expected ({len(lists.order)}, D)")
    check_finite(vector.ravel(), "vectors, flattened,")
    lengths = np.linalg.norm(vector, axis=1)
    unit = (vector / np.where(lengths > 0, lengths, 1.0)[:, None])[rows]
    sums = np.zeros((len(lists.sizes), vector.shape[1]))
    np.add.at(sums, queries, unit)
    sizes = np.bincount(queries, minlength=len(sums))
    own = np.bincount(queries, (unit**2).sum(axis=1), minlength=len(sums))
    return 1.0 - _per_pair((sums**2).sum(axis=1) - own, sizes)


def novelty_per_query(
    scores: npt.ArrayLike, popularity: npt.ArrayLike, groups: npt.ArrayLike, k: Cuts = None, *, ties: str = "average"
) -> Floats:
    """Mean of -log2(popularity) of the first k items, in bits (Zhou et al. 2010).

    popularity: (N,) share of the users, or of the interactions, that the item has: above 0, at most 1.
    """
    share = np.asarray(popularity, np.float64)
    strange = ~((share > 0) & (share <= 1))
    if strange.any():
        index = int(strange.argmax())
        raise ValueError(f"popularity[{index}] is {share[index]}; expected a share above 0 and at most 1")
    return value_per_query(scores, -np.log2(share), groups, k, ties=ties)


def popularity_bias_per_query(
    scores: npt.ArrayLike, popularity: npt.ArrayLike, groups: npt.ArrayLike, k: Cuts = None, *, ties: str = "average"
) -> Floats:
    """Mean popularity (N,) of the first k items divided by that of all the query's items: above 1 favours the popular.

    NaN where the popularity of all items is 0.
    """
    top = value_per_query(scores, popularity, groups, k, ties=ties)
    every = value_per_query(scores, popularity, groups, ties=ties)
    return np.divide(top, every, out=np.full_like(top, np.nan), where=every > 0)


def coverage(
    scores: npt.ArrayLike, items: npt.ArrayLike, groups: npt.ArrayLike, k: int | None = None, *, catalogue_size: int
) -> float:
    """Share of a catalogue of `catalogue_size` items that stands among the first k of any list. items: (N,) ids."""
    lists = rank_lists(scores, groups, k)
    _, rows = top_rows(lists)
    shown = len(np.unique(_codes(items, len(lists.order), "items")[rows]))
    if catalogue_size < shown:
        raise ValueError(f"catalogue_size is {catalogue_size}, but the lists show {shown} different items")
    return shown / catalogue_size


def personalisation(scores: npt.ArrayLike, items: npt.ArrayLike, groups: npt.ArrayLike, k: int | None = None) -> float:
    """1 - mean overlap of two users' lists: 0 where all see the same first k items, 1 where no two share one.

    The overlap of a pair of lists is the share of items of one that the other holds, as the cosine of the two sets.
    One list per user; NaN for a single one.
    """
    lists = rank_lists(scores, groups, k)
    queries, rows = top_rows(lists)
    if len(lists.sizes) < 2:
        return float("nan")
    codes = _codes(items, len(lists.order), "items")[rows]
    pairs = np.unique(np.stack([queries, codes]), axis=1)
    sizes = np.bincount(pairs[0], minlength=len(lists.sizes))
    shares = 1.0 / np.sqrt(sizes[pairs[0]])
    both = np.bincount(pairs[1], shares) ** 2 - np.bincount(pairs[1], shares**2)
    users = len(lists.sizes)
    return float(1.0 - both.sum() / (users * (users - 1)))


def ndcg_by_stratum(
    scores: npt.ArrayLike,
    relevance: npt.ArrayLike,
    groups: npt.ArrayLike,
    strata: npt.ArrayLike,
    k: Cuts = None,
    *,
    convention: Convention = DEFAULT,
) -> dict[str, Floats]:
    """NDCG in which only the items of one stratum are relevant, for each stratum (head, middle, tail ...).

    strata: (N,) the stratum of each row's item. The lists stay whole: it shows how high the relevant items
    of a stratum come among all; queries without one are empty.
    """
    truth = as_relevance(relevance)
    names = as_ids(strata, "strata")
    if names.shape != truth.shape:
        raise ValueError(f"there are {len(truth)} relevances and {names.size} strata")
    return {
        str(name): ndcg_per_query(scores, np.where(names == name, truth, 0), groups, k, convention=convention)
        for name in np.unique(names)
    }


def ndcg_by_popularity(
    scores: npt.ArrayLike,
    relevance: npt.ArrayLike,
    groups: npt.ArrayLike,
    popularity: npt.ArrayLike,
    edges: Sequence[float],
    k: Cuts = None,
    *,
    convention: Convention = DEFAULT,
) -> dict[str, Floats]:
    """`ndcg_by_stratum` with the items cut by popularity (N,) at the ascending edges, an edge belonging above.

    edges (10, 100) give "below 10", "10 to 100" and "from 100", each with (Q,) or (len(k), Q) values.
    """
    if not edges or not np.isfinite(edges).all() or any(low >= high for low, high in pairwise(edges)):
        raise ValueError(f"edges are {list(edges)}; expected finite numbers that ascend")
    counts = as_scores(popularity, "popularity")
    check_finite(counts, "popularity")
    middle = [f"{low:g} to {high:g}" for low, high in pairwise(edges)]
    names = np.array([f"below {edges[0]:g}", *middle, f"from {edges[-1]:g}"])
    strata = names[np.searchsorted(edges, counts, side="right")]
    values = ndcg_by_stratum(scores, relevance, groups, strata, k, convention=convention)
    return {name: values[name] for name in names if name in values}


def top_rows(lists: RankedLists) -> tuple[Ints, Ints]:
    """(M,) queries and (M,) rows of all items above the (only) cut-off."""
    cut = lists.cut
    queries = np.repeat(np.arange(len(lists.sizes)), lists.sizes)
    places = np.arange(len(lists.order)) - lists.starts[queries]
    return queries[places < cut], lists.order[places < cut]


def _per_pair(sums: Floats, sizes: Ints) -> Floats:
    pairs = (sizes * (sizes - 1)).astype(np.float64)
    means = np.full(len(sums), np.nan)
    np.divide(sums, pairs, out=means, where=pairs > 0)
    return means


def _codes(values: npt.ArrayLike, rows: int, name: str) -> Ints:
    ids = as_ids(values, name)
    if ids.shape != (rows,):
        raise ValueError(f"{name} have the shape {ids.shape}; expected ({rows},)")
    _, codes = np.unique(ids, return_inverse=True)
    return codes.astype(np.int64)


def _topics(subtopics: npt.ArrayLike, sizes: npt.ArrayLike | None, rows: int) -> tuple[Ints, Ints]:
    """(rows + 1,) starts and the sorted, distinct codes of the subtopics of each row."""
    if sizes is None:
        return np.arange(rows + 1), _codes(subtopics, rows, "subtopics")
    ids: Array = np.asarray(subtopics)
    starts = as_starts(sizes, len(ids), name="sizes of subtopics", smallest=0)
    if len(starts) != rows + 1:
        raise ValueError(f"subtopics are given for {len(starts) - 1} rows of {rows}")
    owner = np.repeat(np.arange(rows), np.diff(starts))
    pairs = np.unique(np.stack([owner, _codes(ids, len(ids), "subtopics")]), axis=1)
    return np.searchsorted(pairs[0], np.arange(rows + 1)), pairs[1]
