"""The kernels against slow loops, and what must hold for every legal convention."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.metrics import Convention, dcg_per_query, ndcg, ndcg_of_items, ndcg_per_query
from pipeline.metrics.conventions import IDEALS, TIES
from tests import oracles
from tests.metrics.strategies import conventions, cutoffs, queries

FIXED = tuple(ties for ties in TIES if ties != "average")


def flat(drawn: list) -> tuple[np.ndarray, np.ndarray, list[int]]:
    scores = np.array([score for scores, _ in drawn for score in scores])
    relevance = np.array([grade for _, grades in drawn for grade in grades])
    return scores, relevance, [len(scores) for scores, _ in drawn]


def same(values, expected) -> None:
    np.testing.assert_allclose(values, expected, rtol=1e-12, atol=1e-14)


@settings(max_examples=150, deadline=None)
@given(queries(), conventions(FIXED), cutoffs)
def test_kernel_equals_the_textbook_loop(drawn, convention, k):
    scores, relevance, groups = flat(drawn)
    expected = [oracles.ndcg(*query, k, convention) for query in drawn]
    same(ndcg_per_query(scores, relevance, groups, k, convention=convention), expected)


@settings(max_examples=100, deadline=None)
@given(queries(5), conventions(("average",)), cutoffs)
def test_average_equals_the_mean_over_all_permutations(drawn, convention, k):
    scores, relevance, groups = flat(drawn)
    expected = [oracles.ndcg(*query, k, convention) for query in drawn]
    same(ndcg_per_query(scores, relevance, groups, k, convention=convention), expected)


@settings(max_examples=60, deadline=None)
@given(
    queries(8, st.sampled_from([0.0, 0.25, 0.5, 1.0, 3.5])), st.sampled_from(IDEALS), st.sampled_from(FIXED), cutoffs
)
def test_continuous_relevance_equals_the_textbook_loop(drawn, ideal, ties, k):
    scores, relevance, groups = flat(drawn)
    for gain in ("exp2", "linear"):
        convention = Convention(gain=gain, ideal=ideal, ties=ties)
        expected = [oracles.ndcg(*query, k, convention) for query in drawn]
        same(ndcg_per_query(scores, relevance, groups, k, convention=convention), expected)


@settings(max_examples=60, deadline=None)
@given(queries(6), conventions(), cutoffs, st.lists(st.integers(0, 4), max_size=4))
def test_full_relevance_equals_the_textbook_loop(drawn, convention, k, unseen):
    scores, relevance, groups = flat(drawn)
    full = [grade for _, grades in drawn for grade in (*grades, *unseen)]
    sizes = [size + len(unseen) for size in groups]
    expected = [oracles.ndcg(*query, k, convention, [*query[1], *unseen]) for query in drawn]
    same(ndcg_per_query(scores, relevance, groups, k, convention=convention, ideal=(full, sizes)), expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("k", [1, 10, 100, 300, None])
def test_long_lists_equal_the_textbook_loop(k, tied, dtype):
    """Long enough for lanes, sorting and counting to take turns."""
    rng = np.random.default_rng(17)
    sizes = [1, 31, 32, 33, 64, 150, 193, 400, 1000]
    scores = (rng.integers(0, 20, sum(sizes)) if tied else rng.standard_normal(sum(sizes))).astype(dtype)
    grades = rng.choice(5, sum(sizes), p=[0.6, 0.2, 0.1, 0.07, 0.03])
    relevance = grades.astype(np.float32) if dtype == np.float32 else grades
    starts = np.cumsum([0, *sizes])
    for ties in FIXED:
        convention = Convention(ties=ties)
        values = ndcg_per_query(scores, relevance, sizes, k, convention=convention)
        expected = [
            oracles.ndcg(scores[a:b].tolist(), relevance[a:b].tolist(), k, convention)
            for a, b in itertools.pairwise(starts)
        ]
        same(values, expected)
    averaged = dcg_per_query(scores, relevance, sizes, k)
    expected = [
        oracles.expected_dcg(scores[a:b].tolist(), relevance[a:b].tolist(), k, Convention())
        for a, b in itertools.pairwise(starts)
    ]
    same(averaged, expected)


@pytest.mark.parametrize("gain", ["exp2", "linear"])
@pytest.mark.parametrize("k", [10, 200])
def test_long_lists_of_continuous_relevance_equal_the_textbook_loop(k, gain):
    rng = np.random.default_rng(3)
    sizes = [40, 250, 700]
    scores, starts = rng.standard_normal(sum(sizes)), np.cumsum([0, *sizes])
    watched = np.where(rng.random(sum(sizes)) < 0.7, 0, rng.random(sum(sizes)))
    convention = Convention(gain=gain, ties="stable")
    expected = [
        oracles.ndcg(scores[a:b].tolist(), watched[a:b].tolist(), k, convention) for a, b in itertools.pairwise(starts)
    ]
    same(ndcg_per_query(scores, watched, sizes, k, convention=convention), expected)


@settings(max_examples=100, deadline=None)
@given(queries(), conventions(), st.lists(cutoffs, min_size=1, max_size=4))
def test_several_cutoffs_equal_each_alone_and_lie_in_0_1(drawn, convention, cuts):
    scores, relevance, groups = flat(drawn)
    values = ndcg_per_query(scores, relevance, groups, cuts, convention=convention)
    assert values.shape == (len(cuts), len(groups))
    assert (np.isnan(values) | ((values >= 0) & (values <= 1))).all()
    for row, k in zip(values, cuts, strict=True):
        same(ndcg_per_query(scores, relevance, groups, k, convention=convention), row)


@settings(max_examples=60, deadline=None)
@given(queries(), conventions(), cutoffs, st.randoms(use_true_random=False))
def test_value_survives_what_does_not_matter(drawn, convention, k, random):
    """Increasing maps of the scores; the order of queries; under averaged ties, the order of rows."""
    scores, relevance, groups = flat(drawn)
    values = ndcg_per_query(scores, relevance, groups, k, convention=convention)
    same(ndcg_per_query(np.exp(scores) * 3 - 7, relevance, groups, k, convention=convention), values)
    order = list(range(len(drawn)))
    random.shuffle(order)
    moved = flat([drawn[query] for query in order])
    same(ndcg_per_query(*moved, k, convention=convention), values[order])
    if convention.ties == "average":
        shuffled = []
        for query_scores, grades in drawn:
            rows = list(zip(query_scores, grades, strict=True))
            random.shuffle(rows)
            shuffled.append(tuple(zip(*rows, strict=True)))
        same(ndcg_per_query(*flat(shuffled), k, convention=convention), values)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=8), conventions(("stable",)), cutoffs)
def test_items_equal_scores_in_order(grades, convention, k):
    items = [f"item {place}" for place in range(len(grades))]
    relevance = dict(zip(items, grades, strict=True))
    scores = -np.arange(len(grades), dtype=np.float64)
    same(ndcg_of_items(items, relevance, k, convention=convention), ndcg(scores, grades, k, convention=convention))


@pytest.mark.parametrize("threads", [2, 3, 8])
def test_threads_change_nothing(threads):
    rng = np.random.default_rng(5)
    groups = rng.integers(1, 40, 500)
    scores, relevance = rng.integers(0, 9, groups.sum()), rng.integers(0, 3, groups.sum())
    one, many = (ndcg_per_query(scores, relevance, groups, [3, None], threads=n) for n in (1, threads))
    np.testing.assert_array_equal(one, many)
    assert ndcg_per_query([1, 2], [0, 1], [2], threads=threads)[0] == 1


@pytest.mark.parametrize("kind", [np.bool_, np.uint8, np.int8, np.int16, np.uint16, np.int32, np.uint32, np.int64])
def test_types_and_views_change_nothing(kind):
    scores, relevance, groups = np.array([0.5, 0.25, 0.5, 2, 1]), np.array([1, 0, 0, 0, 1]), [3, 2]
    expected = ndcg_per_query(scores, relevance, groups)
    same(ndcg_per_query(scores, relevance.astype(kind), groups), expected)
    same(ndcg_per_query(scores.astype(np.float32), relevance.astype(np.float16), groups), expected)
    same(ndcg_per_query(np.repeat(scores, 2)[::2], relevance.repeat(3).astype(kind)[1::3], groups), expected)
    read_only = scores.copy()
    read_only.flags.writeable = False
    same(ndcg_per_query(read_only, relevance, np.array(groups, np.uint8)), expected)
    same(ndcg_per_query(scores.tolist(), relevance.tolist(), groups), expected)


def test_inputs_are_left_as_they_are():
    scores, relevance = np.array([1.0, 3.0, 2.0]), np.array([-1, 2, 0])
    before = scores.copy(), relevance.copy()
    ndcg_per_query(scores, relevance, [3], convention=Convention.named("trec_eval"))
    np.testing.assert_array_equal(scores, before[0])
    np.testing.assert_array_equal(relevance, before[1])


def test_all_equal_relevance_scores_one_however_ranked():
    for grades in ([2], [1, 1, 1], [0.1] * 7):
        assert ndcg(np.arange(len(grades)), grades) == pytest.approx(1, abs=1e-15)


def test_too_many_outcomes_under_the_retrieved_ideal_are_refused():
    convention = Convention(gain="linear", ideal="retrieved")
    watched = np.linspace(0, 1, 60)
    with pytest.raises(ValueError, match="60 tied items with 60 different gains"):
        ndcg(np.ones(60), watched, 30, convention=convention)
    assert math.isclose(ndcg(np.arange(60), watched, 30, convention=convention), 1)
