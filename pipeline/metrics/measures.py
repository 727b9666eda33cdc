"""The family beside NDCG: one value per query, under the same conventions for ties and empty queries.

All functions take scores (N,), relevance (N,), groups (Q,) and k as `ndcg_per_query` does, and return (Q,) for one
cut-off, (len(k), Q) for several. Of the convention they use `ties` (under "average" the expected value over the orders
of tied scores), `empty` (so the same queries have a value as under NDCG) and `negative`.

relevant_from: the smallest relevance that counts as relevant, above 0; None means any of positive gain.
ideal: (values, sizes), the relevances of all known items of each query: they tell how many relevant items there are
    where some were not retrieved. Without it those of the list are all.

Wrong input raises ValueError naming the offending index.
"""

from __future__ import annotations

from dataclasses import dataclass

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
    as_scores,
    as_starts,
    check_finite,
    check_relevance,
    full_relevance,
    listed_cuts,
)
from pipeline.metrics.conventions import MAX_GRADE, TIES, Convention, Floats, check_choice, gain_values
from pipeline.metrics.ndcg import DEFAULT


@dataclass(frozen=True)
class RankedLists:
    """Rows in ranked order: order (N,), ends (N,) of the blocks of tied places, starts (Q + 1,), cuts (C,)."""

    order: Ints
    ends: Ints
    starts: Ints
    cuts: Ints
    several: bool

    @property
    def sizes(self) -> Ints:
        return np.diff(self.starts)

    @property
    def cut(self) -> int:
        """The only cut-off. Raises ValueError where several were given."""
        if self.several:
            raise ValueError("k is a sequence; expected one cut-off, or None")
        return int(self.cuts[0])

    def measured(self, measure: str, values: Array, weights: Floats | None = None) -> Floats:
        """(C, Q) of a measure of `places.MEASURES` over the values (N,) of the rows in input order."""
        from pipeline.metrics import places

        out = np.empty((len(self.cuts), len(self.starts) - 1))
        every = np.ones(int(self.cuts.max())) if weights is None else weights
        ranked = values[self.order].astype(np.float64)
        places.measure_queries(places.MEASURES.index(measure), ranked, self.ends, self.starts, self.cuts, every, out)
        return out

    def shaped(self, values: Floats) -> Floats:
        """(C, Q) -> what was asked for: (C, Q) for several cut-offs, (Q,) for one."""
        return values if self.several else values.reshape(-1)


@dataclass(frozen=True)
class Judged:
    """Ranked lists with what is relevant in them: hits (N,) 0 or 1, known (Q,) relevant items of each query."""

    lists: RankedLists
    hits: Floats
    known: Ints
    convention: Convention

    def shaped(self, values: Floats) -> Floats:
        """With what the convention says in place of queries without a relevant item."""
        return self.lists.shaped(np.where(self.known == 0, self.convention.empty_value, values))

    def measured(self, measure: str, weights: Floats | None = None) -> Floats:
        return self.lists.measured(measure, self.hits, weights)


def rank_lists(
    scores: npt.ArrayLike, groups: npt.ArrayLike, k: Cuts, *, ties: str = "stable", values: npt.ArrayLike | None = None
) -> RankedLists:
    """The lists that the scores make; `values` (N,) rank tied items under "worst" and "best"."""
    from pipeline.metrics import ordering

    check_choice("ties", ties, TIES)
    score, second, starts = as_lists(scores, scores if values is None else values, groups)
    check_finite(score, "scores")
    cuts, several = as_cuts(k, int(np.diff(starts).max()))
    order, ends = np.empty(len(score), np.int64), np.empty(len(score), np.int64)
    keys, values_of_rows = score.astype(np.float64, copy=False), second.astype(np.float64, copy=False)
    ordering.order_of_queries(keys, values_of_rows, starts, TIES.index(ties), order, ends)
    return RankedLists(order, ends, starts, cuts, several)


def judge(
    scores: npt.ArrayLike,
    relevance: npt.ArrayLike,
    groups: npt.ArrayLike,
    k: Cuts,
    convention: Convention,
    relevant_from: float | None,
    ideal: Ragged | None,
) -> Judged:
    truth = as_relevance(relevance)
    check_relevance(truth, convention)
    hits = _hits(truth, convention, relevant_from)
    lists = rank_lists(scores, groups, k, ties=convention.ties, values=truth)
    full, full_starts = full_relevance(ideal, truth, lists.starts, convention)
    if ideal is None:
        return Judged(lists, hits, _sums(hits, lists.starts), convention)
    return Judged(lists, hits, _sums(_hits(full, convention, relevant_from), full_starts), convention)


def precision_per_query(
    scores: npt.ArrayLike,
    relevance: npt.ArrayLike,
    groups: npt.ArrayLike,
    k: Cuts = None,
    *,
    convention: Convention = DEFAULT,
    relevant_from: float | None = None,
    ideal: Ragged | None = None,
) -> Floats:
    """Relevant items among the first k, divided by k also where the list is shorter (as trec_eval's P_k).

    Without a cut-off they are divided by the length of the list.
    """
    judged = judge(scores, relevance, groups, k, convention, relevant_from, ideal)
    sizes = _asked(k, judged.lists)
    return judged.shaped(judged.measured("weighted_sum") / sizes)


def recall_per_query(
    scores: npt.ArrayLike,
    relevance: npt.ArrayLike,
    groups: npt.ArrayLike,
    k: Cuts = None,
    *,
    convention: Convention = DEFAULT,
    relevant_from: float | None = None,
    ideal: Ragged | None = None,
) -> Floats:
    """Relevant items among the first k, divided by all relevant items known."""
    judged = judge(scores, relevance, groups, k, convention, relevant_from, ideal)
    return judged.shaped(judged.measured("weighted_sum") / np.maximum(judged.known, 1))


def hit_rate_per_query(
    scores: npt.ArrayLike,
    relevance: npt.ArrayLike,
    groups: npt.ArrayLike,
    k: Cuts = None,
    *,
    convention: Convention = DEFAULT,
    relevant_from: float | None = None,
    ideal: Ragged | None = None,
) -> Floats:
    """1 where a relevant item is among the first k, else 0; with ties averaged the probability of that."""
    judged = judge(scores, relevance, groups, k, convention, relevant_from, ideal)
    return judged.shaped(1.0 - judged.measured("no_hit"))


def reciprocal_rank_per_query(
    scores: npt.ArrayLike,
    relevance: npt.ArrayLike,
    groups: npt.ArrayLike,
    k: Cuts = None,
    *,
    convention: Convention = DEFAULT,
    relevant_from: float | None = None,
    ideal: Ragged | None = None,
) -> Floats:
    """1 / position of the first relevant item, 0 where it is not among the first k."""
    judged = judge(scores, relevance, groups, k, convention, relevant_from, ideal)
    return judged.shaped(judged.measured("reciprocal_rank"))


def average_precision_per_query(
    scores: npt.ArrayLike,
    relevance: npt.ArrayLike,
    groups: npt.ArrayLike,
    k: Cuts = None,
    *,
    convention: Convention = DEFAULT,
    relevant_from: float | None = None,
    ideal: Ragged | None = None,
) -> Floats:
    """Precisions at the relevant items among the first k, summed and divided by all relevant items known.

    As trec_eval's map and map_cut_k. Grades above `relevant_from` do not count more: [0, 3, 1] is [0, 1, 1].
    """
    judged = judge(scores, relevance, groups, k, convention, relevant_from, ideal)
    return judged.shaped(judged.measured("average_precision") / np.maximum(judged.known, 1))


def rbp_per_query(
    scores: npt.ArrayLike,
    relevance: npt.ArrayLike,
    groups: npt.ArrayLike,
    k: Cuts = None,
    *,
    persistence: float = 0.8,
    convention: Convention = DEFAULT,
    relevant_from: float | None = None,
    ideal: Ragged | None = None,
) -> Floats:
    """Rank-biased precision (Moffat and Zobel 2008): (1 - p) * sum of p^(i-1) over the positions i of relevant items.

    persistence: p, the probability of going on to the next item, in [0, 1).
    """
    if not 0 <= persistence < 1:
        raise ValueError(f"persistence is {persistence}; expected a number in [0, 1)")
    judged = judge(scores, relevance, groups, k, convention, relevant_from, ideal)
    positions = np.arange(int(judged.lists.cuts.max()), dtype=np.float64)
    weights = (1 - persistence) * np.power(persistence, positions)
    return judged.shaped(judged.measured("weighted_sum", weights))


def err_per_query(
    scores: npt.ArrayLike,
    relevance: npt.ArrayLike,
    groups: npt.ArrayLike,
    k: Cuts = None,
    *,
    max_grade: float,
    convention: Convention = DEFAULT,
    ideal: Ragged | None = None,
) -> Floats:
    """Expected reciprocal rank (Chapelle et al. 2009): a reader stops at an item with (2^grade - 1) / 2^max_grade.

    max_grade: the highest grade of the scale, not of the data: it sets the chances of all others.
    """
    judged = judge(scores, relevance, groups, k, convention, None, ideal)
    return judged.shaped(judged.lists.measured("stopped", _chances(relevance, max_grade)))


def nerr_per_query(
    scores: npt.ArrayLike,
    relevance: npt.ArrayLike,
    groups: npt.ArrayLike,
    k: Cuts = None,
    *,
    max_grade: float,
    convention: Convention = DEFAULT,
    ideal: Ragged | None = None,
) -> Floats:
    """ERR divided by that of the best order of all known items."""
    judged = judge(scores, relevance, groups, k, convention, None, ideal)
    attained = judged.lists.measured("stopped", _chances(relevance, max_grade))
    values, sizes = (relevance, groups) if ideal is None else ideal
    attainable = _best_err(values, sizes, k, max_grade)
    return judged.shaped(np.minimum(attained / np.where(attainable > 0, attainable, 1.0), 1.0))


def auc_per_query(
    scores: npt.ArrayLike,
    relevance: npt.ArrayLike,
    groups: npt.ArrayLike,
    *,
    convention: Convention = DEFAULT,
    relevant_from: float | None = None,
) -> Floats:
    """(Q,) share of pairs of a relevant and another item that the scores put right; tied pairs count half.

    NaN where a query lacks one of the two.
    """
    truth = as_relevance(relevance)
    check_relevance(truth, convention)
    lists = rank_lists(scores, groups, None, ties="average", values=truth)
    return lists.shaped(lists.measured("pairs", _hits(truth, convention, relevant_from)))


def pooled_auc(
    scores: npt.ArrayLike,
    relevance: npt.ArrayLike,
    *,
    convention: Convention = DEFAULT,
    relevant_from: float | None = None,
) -> float:
    """AUC over all rows as if they were one query: right only where scores of different queries can be compared."""
    rows = len(np.atleast_1d(scores))
    return float(auc_per_query(scores, relevance, [rows], convention=convention, relevant_from=relevant_from)[0])


def value_per_query(
    scores: npt.ArrayLike,
    values: npt.ArrayLike,
    groups: npt.ArrayLike,
    k: Cuts = None,
    *,
    ties: str = "average",
) -> Floats:
    """Mean of the values (seconds watched, revenue, judged or not ...) of the first k items; any finite numbers.

    Lists shorter than k are divided by their length.
    """
    value = as_scores(values, "values")
    check_finite(value, "values")
    lists = rank_lists(scores, groups, k, ties=ties, values=value)
    sizes = np.minimum(lists.cuts[:, None], lists.sizes)
    return lists.shaped(lists.measured("weighted_sum", value) / sizes)


def judged_per_query(
    scores: npt.ArrayLike,
    judged: npt.ArrayLike,
    groups: npt.ArrayLike,
    k: Cuts = None,
    *,
    ties: str = "average",
) -> Floats:
    """judged@k: share of the first k items that anyone has judged. judged: (N,) booleans."""
    known = np.asarray(judged)
    if known.dtype != np.bool_:
        raise ValueError(f"judged holds {known.dtype}; expected booleans")
    return value_per_query(scores, known, groups, k, ties=ties)


def _hits(relevance: Array, convention: Convention, relevant_from: float | None) -> Floats:
    if relevant_from is None:
        return (gain_values(convention, relevance) > 0).astype(np.float64)
    if not 0 < relevant_from < np.inf:
        raise ValueError(f"relevant_from is {relevant_from}; expected a finite number above 0")
    return (relevance >= relevant_from).astype(np.float64)


def _sums(values: Floats, starts: Ints) -> Ints:
    """(Q,) sums of the values of each query, 0 where it has none."""
    running = np.concatenate([[0.0], np.cumsum(values)])
    sums: Ints = np.diff(running[starts]).astype(np.int64)
    return sums


def _asked(k: Cuts, lists: RankedLists) -> Ints:
    """(C, Q) cut-offs as asked for; the length of the list where none was."""
    cuts, _ = listed_cuts(k)
    asked = np.empty((len(cuts), len(lists.sizes)), np.int64)
    for row, cut in zip(asked, cuts, strict=True):
        row[:] = lists.sizes if cut is None else cut
    return asked


def _chances(relevance: npt.ArrayLike, max_grade: float) -> Floats:
    if not 0 <= max_grade <= MAX_GRADE:
        raise ValueError(f"max_grade is {max_grade}; expected a number from 0 to {MAX_GRADE:g}")
    grades = np.maximum(np.asarray(relevance, np.float64), 0)
    if grades.size and grades.max() > max_grade:
        index = int(grades.argmax())
        raise ValueError(f"relevance[{index}] is {grades[index]:g}, above max_grade {max_grade:g}")
    chances: Floats = (np.exp2(grades) - 1.0) / 2.0**max_grade
    return chances


def _best_err(values: npt.ArrayLike, sizes: npt.ArrayLike, k: Cuts, max_grade: float) -> Floats:
    """(C, Q) ERR of the values in descending order."""
    chances = _chances(values, max_grade)
    starts = as_starts(sizes, len(chances), smallest=0)
    queries = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    order = np.lexsort((-chances, queries))
    ends = np.arange(len(chances)) - starts[queries] + 1
    cuts, _ = as_cuts(k, int(np.diff(starts).max()))
    return RankedLists(order, ends, starts, cuts, several=True).measured("stopped", chances)
