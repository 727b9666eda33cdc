"""The family beside NDCG against slow loops, and by hand."""

from __future__ import annotations

import math
from math import log2

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.metrics import (
    Convention,
    auc_per_query,
    average_precision_per_query,
    err_per_query,
    hit_rate_per_query,
    judged_per_query,
    ndcg_bounds,
    ndcg_per_query,
    nerr_per_query,
    pooled_auc,
    precision_per_query,
    rbp_per_query,
    recall_per_query,
    reciprocal_rank_per_query,
    value_per_query,
)
from pipeline.metrics.conventions import TIES
from tests import oracles
from tests.metrics.strategies import GRADES, cutoffs, queries

BY_POSITION = -np.arange(10.0)
GRADED = [3, 2, 0, 1, 0, 0, 2, 1, 0, 0]

MEASURES = {
    precision_per_query: lambda hits, k: oracles.precision(hits, k),
    recall_per_query: lambda hits, k: oracles.recall(hits, k, sum(hits)),
    hit_rate_per_query: lambda hits, k: float(any(hits[:k])),
    reciprocal_rank_per_query: lambda hits, k: oracles.reciprocal_rank(hits, k),
    average_precision_per_query: lambda hits, k: oracles.average_precision(hits, k, sum(hits)),
    rbp_per_query: lambda hits, k: oracles.rbp(hits, k, 0.8),
}


def flat(drawn: list) -> tuple[np.ndarray, np.ndarray, list[int]]:
    scores = np.array([score for scores, _ in drawn for score in scores])
    relevance = np.array([grade for _, grades in drawn for grade in grades])
    return scores, relevance, [len(scores) for scores, _ in drawn]


@pytest.mark.parametrize("measure", MEASURES, ids=lambda measure: measure.__name__)
@settings(max_examples=50, deadline=None)
@given(queries(5), st.sampled_from(TIES), st.sampled_from([None, 2]), cutoffs)
def test_binary_measures_equal_the_mean_over_all_orders(measure, drawn, ties, relevant_from, k):
    def one(hits: list[int]) -> float:
        return MEASURES[measure](hits, k) if any(hits) else math.nan

    expected = [
        oracles.mean_over_orders(
            lambda ranked: one([int(grade >= (relevant_from or 1)) for grade in ranked]), scores, grades, ties
        )
        for scores, grades in drawn
    ]
    values = measure(*flat(drawn), k, convention=Convention(ties=ties), relevant_from=relevant_from)
    np.testing.assert_allclose(values, expected, rtol=1e-12, atol=1e-14)


@settings(max_examples=60, deadline=None)
@given(queries(5), st.sampled_from(TIES), cutoffs)
def test_err_equals_the_mean_over_all_orders(drawn, ties, k):
    convention = Convention(ties=ties, empty="zero")
    expected = [
        oracles.mean_over_orders(lambda ranked: oracles.err(ranked, k, GRADES), *query, ties) for query in drawn
    ]
    values = err_per_query(*flat(drawn), k, max_grade=GRADES, convention=convention)
    np.testing.assert_allclose(values, expected, rtol=1e-12, atol=1e-14)
    best = [oracles.err(sorted(grades, reverse=True), k, GRADES) for _, grades in drawn]
    normalised = nerr_per_query(*flat(drawn), k, max_grade=GRADES, convention=convention)
    np.testing.assert_allclose(
        normalised, [a / b if b else 0 for a, b in zip(expected, best, strict=True)], rtol=1e-12, atol=1e-14
    )


@settings(max_examples=60, deadline=None)
@given(queries(8), st.sampled_from(TIES))
def test_auc_counts_pairs(drawn, ties):
    expected = [oracles.auc(scores, [grade > 0 for grade in grades]) for scores, grades in drawn]
    scores, relevance, groups = flat(drawn)
    values = auc_per_query(scores, relevance, groups, convention=Convention(ties=ties))
    np.testing.assert_allclose(values, expected, rtol=1e-12)
    pooled = oracles.auc(scores.tolist(), (relevance > 0).tolist())
    np.testing.assert_allclose(pooled_auc(scores, relevance), pooled, rtol=1e-12)


@settings(max_examples=40, deadline=None)
@given(queries(5, st.sampled_from([-3.5, 0.0, 1.0, 60.0])), st.sampled_from(TIES), cutoffs)
def test_value_is_the_mean_of_the_top(drawn, ties, k):
    expected = [oracles.mean_over_orders(lambda ranked: float(np.mean(ranked[:k])), *query, ties) for query in drawn]
    np.testing.assert_allclose(value_per_query(*flat(drawn), k, ties=ties), expected, rtol=1e-12, atol=1e-13)


def test_err_of_the_graded_list():
    assert err_per_query(BY_POSITION, GRADED, [10], max_grade=3)[0] == pytest.approx(0.9052085876464844, rel=1e-12)


def test_grades_above_the_scale_are_refused():
    with pytest.raises(ValueError, match=r"relevance\[0\] is 3, above max_grade 2"):
        err_per_query(BY_POSITION, GRADED, [10], max_grade=2)


@pytest.mark.parametrize("max_grade", [2000, -1, math.nan, math.inf])
def test_scales_have_an_end(max_grade):
    with pytest.raises(ValueError, match=r"max_grade is .*; expected a number from 0 to 996"):
        err_per_query([2, 1], [1, 0], [2], max_grade=max_grade)


def test_unknown_ties_are_refused():
    with pytest.raises(ValueError, match="ties is 'foo'; expected one of average, stable"):
        value_per_query([2, 1], [1, 0], [2], ties="foo")


@pytest.mark.parametrize("k", [3, 10, None])
def test_nerr_looks_at_the_whole_ideal_whatever_else_is_in_the_batch(k):
    best = 1 / 2 + 1 / 4 / 2 + 1 / 8 / 3
    alone = nerr_per_query([2, 1], [1, 0], [2], k, max_grade=1, ideal=([1, 1, 1, 0], [4]))
    both = nerr_per_query(
        [2, 1, 3, 2, 1, 0], [1, 0, 1, 0, 0, 0], [2, 4], k, max_grade=1, ideal=([1, 1, 1, 0, 1], [4, 1])
    )
    np.testing.assert_allclose(alone, [1 / 2 / best])
    np.testing.assert_allclose(both, [1 / 2 / best, 1])


def test_average_precision_takes_grades_as_relevant_or_not():
    graded, binary = (average_precision_per_query([3, 2, 1], grades, [3]) for grades in ([0, 3, 1], [0, 1, 1]))
    assert graded[0] == binary[0] == (1 / 2 + 2 / 3) / 2


def test_precision_divides_by_k_where_the_list_is_shorter():
    np.testing.assert_array_equal(precision_per_query([2, 1], [1, 1], [2], [1, 2, 4, None]).T, [[1, 1, 0.5, 1]])


def test_unretrieved_items_lower_recall_and_average_precision():
    known = ([1, 1, 1, 1], [4])
    assert recall_per_query([2, 1], [1, 0], [2], ideal=known)[0] == 1 / 4
    assert average_precision_per_query([2, 1], [1, 0], [2], ideal=known)[0] == 1 / 4


@pytest.mark.parametrize("measure", [*MEASURES, auc_per_query], ids=lambda measure: measure.__name__)
def test_the_same_queries_have_a_value_as_under_ndcg(measure):
    scores, relevance, groups = [1, 2, 3, 4, 5], [0, 0, 1, 0, 0], [2, 3]
    with_value = ~np.isnan(ndcg_per_query(scores, relevance, groups))
    np.testing.assert_array_equal(~np.isnan(measure(scores, relevance, groups)), with_value)


@pytest.mark.parametrize("measure", MEASURES, ids=lambda measure: measure.__name__)
def test_empty_queries_count_as_the_convention_says(measure):
    for empty, value in (("zero", 0), ("one", 1)):
        assert measure([1, 2], [0, 0], [2], 1, convention=Convention(empty=empty))[0] == value


def test_judged_is_the_share_of_the_top():
    np.testing.assert_array_equal(
        judged_per_query([4, 3, 2, 1], [True, False, True, False], [4], [1, 2, 3]).T, [[1, 1 / 2, 2 / 3]]
    )
    with pytest.raises(ValueError, match="judged holds int64; expected booleans"):
        judged_per_query([1, 2], [0, 1], [2])


@pytest.mark.parametrize("relevant_from", [0, -1, math.nan, math.inf])
@pytest.mark.parametrize("measure", [recall_per_query, auc_per_query], ids=lambda measure: measure.__name__)
def test_relevance_of_nothing_is_not_relevant(measure, relevant_from):
    with pytest.raises(ValueError, match=r"relevant_from is .*; expected a finite number above 0"):
        measure([1, 2], [0, 1], [2], relevant_from=relevant_from)


@pytest.mark.parametrize("persistence", [-0.1, 1, float("nan")])
def test_persistence_is_a_probability_below_one(persistence):
    with pytest.raises(ValueError, match="persistence is"):
        rbp_per_query([1, 2], [0, 1], [2], persistence=persistence)


@pytest.mark.parametrize("measure", MEASURES, ids=lambda measure: measure.__name__)
def test_bad_input_is_refused_by_index(measure):
    with pytest.raises(ValueError, match=r"scores\[1\] is nan"):
        measure([1, math.nan], [0, 1], [2])
    with pytest.raises(ValueError, match=r"relevance\[1\] is -1"):
        measure([1, 2], [0, -1], [2])
    with pytest.raises(ValueError, match="there are 2 scores and 3 relevances"):
        measure([1, 2], [0, 1, 1], [2])
    with pytest.raises(ValueError, match="groups sum to 3"):
        measure([1, 2], [0, 1], [3])


@pytest.mark.parametrize("tolerance", [0, 1e-9, 1e-3, 0.1])
@pytest.mark.parametrize("k", [None, 5000])
def test_bounds_hold_the_value_and_are_as_close_as_asked(tolerance, k):
    rng = np.random.default_rng(9)
    scores, relevance = rng.standard_normal(20_000), rng.choice(4, 20_000, p=[0.97, 0.01, 0.01, 0.01])
    relevance[scores > 2.5] = 3
    value = ndcg_per_query(scores, relevance, [20_000], k)[0]
    bounds = ndcg_bounds(scores, relevance, k, tolerance=tolerance)
    assert bounds.low - 1e-12 <= value <= bounds.high + 1e-12
    assert bounds.high - bounds.low <= max(tolerance, 1e-12)
    assert bounds.looked_at == (k or 20_000) if tolerance == 0 else bounds.looked_at <= (k or 20_000)


def test_bounds_stop_early_where_the_rest_is_small():
    scores, relevance = -np.arange(100_000.0), np.zeros(100_000)
    relevance[:50] = 3
    assert ndcg_bounds(scores, relevance, tolerance=0.01) == (1, 1, 256)
    with pytest.raises(ValueError, match="bounds are not defined for ideal='retrieved'"):
        ndcg_bounds(scores, relevance, tolerance=0.01, convention=Convention(ideal="retrieved"))
    with pytest.raises(ValueError, match="tolerance is -1"):
        ndcg_bounds(scores, relevance, tolerance=-1)


def test_expected_reciprocal_rank_of_two_tied_items():
    assert reciprocal_rank_per_query([1, 1], [0, 1], [2])[0] == (1 + 1 / 2) / 2
    assert ndcg_per_query([1, 1], [0, 1], [2])[0] == pytest.approx((1 + 1 / log2(3)) / 2)
