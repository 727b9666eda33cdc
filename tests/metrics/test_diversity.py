"""alpha-NDCG and what lists are like beside being right, by hand and against slow loops."""

from __future__ import annotations

import itertools
import math
from math import log2

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.metrics import (
    Convention,
    alpha_ndcg_per_query,
    category_diversity_per_query,
    coverage,
    ndcg_by_popularity,
    ndcg_by_stratum,
    ndcg_per_query,
    novelty_per_query,
    personalisation,
    popularity_bias_per_query,
    vector_diversity_per_query,
)
from tests import oracles

STABLE = Convention(ties="stable")


def test_three_items_of_one_brand_are_redundant():
    scores, brands = [4, 3, 2, 1], ["A", "A", "A", "B"]
    attained = 1 + 0.5 / log2(3) + 0.25 / 2 + 1 / log2(5)
    ideal = 1 + 1 / log2(3) + 0.5 / 2 + 0.25 / log2(5)
    assert attained == pytest.approx(1.871141434859122, rel=1e-12)
    assert ideal == pytest.approx(1.9885988930898058, rel=1e-12)
    assert alpha_ndcg_per_query(scores, [1] * 4, [4], brands)[0] == pytest.approx(attained / ideal, rel=1e-12)
    assert ndcg_per_query(scores, [1] * 4, [4])[0] == 1
    assert alpha_ndcg_per_query(scores, [1] * 4, [4], brands, alpha=0)[0] == pytest.approx(1, rel=1e-12)


items = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=5)


@settings(max_examples=80, deadline=None)
@given(st.lists(items, min_size=1, max_size=3), st.sampled_from([0.0, 0.5, 1.0]), st.integers(1, 6))
def test_alpha_ndcg_of_an_attribute_equals_the_best_of_all_orders(drawn, alpha, k):
    expected = []
    for query in drawn:
        ranked = sorted(query, key=lambda item: -item[0])
        gains = [2.0**grade - 1 for _, grade, _ in ranked]
        topics = [{brand} for _, _, brand in ranked]
        best = oracles.best_alpha_dcg(gains, topics, alpha, k, STABLE)
        expected.append(oracles.alpha_dcg(gains, topics, alpha, k, STABLE) / best if best else math.nan)
    scores, relevance, brands = zip(*[item for query in drawn for item in query], strict=True)
    groups = [len(query) for query in drawn]
    values = alpha_ndcg_per_query(scores, relevance, groups, brands, k, alpha=alpha)
    np.testing.assert_allclose(values, expected, rtol=1e-12)
    as_sets = alpha_ndcg_per_query(scores, relevance, groups, brands, k, sizes=[1] * len(brands), alpha=alpha)
    np.testing.assert_allclose(as_sets, expected, rtol=1e-12)


def test_alpha_ndcg_of_subtopic_sets_by_hand():
    """Item 0 covers a and b, item 1 covers a, item 2 covers c; 1 comes first."""
    topics, sizes = ["a", "b", "a", "c"], [2, 1, 1]
    attained = 1 + (0.5 + 1) / log2(3) + 1 / 2
    ideal = 2 + 1 / log2(3) + 0.5 / 2
    assert alpha_ndcg_per_query([2, 3, 1], [1, 1, 1], [3], topics, sizes=sizes)[0] == pytest.approx(
        attained / ideal, rel=1e-12
    )
    values = alpha_ndcg_per_query([2, 3, 1], [1, 1, 1], [3], topics, [3, 1], sizes=sizes)
    np.testing.assert_allclose(values, [[attained / ideal], [1 / 2]])


def test_alpha_ndcg_of_sets_does_not_depend_on_the_order_of_rows():
    rng = np.random.default_rng(2)
    sizes = rng.integers(0, 4, 12)
    topics = [rng.choice(6, size, replace=False).tolist() for size in sizes]
    scores, relevance = rng.permutation(12), rng.integers(0, 3, 12)
    values = []
    for order in (np.arange(12), rng.permutation(12), np.arange(12)[::-1]):
        ragged = [topic for row in order for topic in topics[row]]
        value = alpha_ndcg_per_query(scores[order], relevance[order], [12], ragged, 5, sizes=sizes[order])
        values.append(value[0])
    assert values == [values[0]] * 3


def test_alpha_ndcg_refuses_what_it_cannot_do():
    with pytest.raises(ValueError, match="alpha-NDCG does not average ties"):
        alpha_ndcg_per_query([1, 2], [0, 1], [2], ["a", "b"], convention=Convention())
    with pytest.raises(ValueError, match=r"alpha is 1\.5"):
        alpha_ndcg_per_query([1, 2], [0, 1], [2], ["a", "b"], alpha=1.5)
    with pytest.raises(ValueError, match=r"subtopics have the shape \(1,\); expected \(2,\)"):
        alpha_ndcg_per_query([1, 2], [0, 1], [2], ["a"])
    with pytest.raises(ValueError, match="subtopics are given for 1 rows of 2"):
        alpha_ndcg_per_query([1, 2], [0, 1], [2], ["a"], sizes=[1])


SCORES = [3, 2, 1, 3, 2, 1, 9]
GROUPS = [3, 3, 1]


def test_category_diversity_counts_pairs():
    categories = ["a", "a", "b", "a", "b", "c", "a"]
    np.testing.assert_allclose(category_diversity_per_query(SCORES, categories, GROUPS), [2 / 3, 1, np.nan])
    np.testing.assert_allclose(category_diversity_per_query(SCORES, categories, GROUPS, 2), [0, 1, np.nan])


def test_vector_diversity_is_the_mean_distance_of_pairs():
    rng = np.random.default_rng(1)
    vectors = rng.standard_normal((7, 4))
    vectors[1] = 0
    expected = []
    for rows in ([0, 1, 2], [3, 4, 5]):
        cosines = []
        for a, b in itertools.combinations(rows, 2):
            lengths = np.linalg.norm(vectors[a]) * np.linalg.norm(vectors[b])
            cosines.append(vectors[a] @ vectors[b] / lengths if lengths else 0)
        expected.append(1 - np.mean(cosines))
    np.testing.assert_allclose(vector_diversity_per_query(SCORES, vectors, GROUPS), [*expected, np.nan])
    with pytest.raises(ValueError, match=r"vectors have the shape \(7,\)"):
        vector_diversity_per_query(SCORES, np.ones(7), GROUPS)


def test_novelty_is_in_bits():
    share = [1 / 2, 1 / 4, 1 / 8, 1, 1, 1, 1 / 16]
    np.testing.assert_allclose(novelty_per_query(SCORES, share, GROUPS, [2, None]), [[1.5, 0, 4], [2, 0, 4]])
    with pytest.raises(ValueError, match=r"popularity\[1\] is 0.0; expected a share above 0"):
        novelty_per_query([1, 2], [1, 0], [2])


def test_popularity_bias_compares_the_top_with_all():
    popularity = [6, 3, 0, 1, 2, 3, 0]
    np.testing.assert_allclose(popularity_bias_per_query(SCORES, popularity, GROUPS, 1), [2, 0.5, np.nan])


def test_coverage_is_a_share_of_the_catalogue():
    shown = ["a", "b", "c", "a", "d", "e", "b"]
    assert coverage(SCORES, shown, GROUPS, 1, catalogue_size=10) == 2 / 10
    assert coverage(SCORES, shown, GROUPS, catalogue_size=5) == 1
    with pytest.raises(ValueError, match="catalogue_size is 4, but the lists show 5 different items"):
        coverage(SCORES, shown, GROUPS, catalogue_size=4)


def test_personalisation_is_how_little_lists_overlap():
    assert personalisation([2, 1, 2, 1], [1, 2, 1, 2], [2, 2]) == pytest.approx(0)
    assert personalisation([2, 1, 2, 1], [1, 2, 3, 4], [2, 2]) == 1
    lists = [{1, 2, 3}, {2, 3, 4}, {5}]
    pairs = itertools.combinations(lists, 2)
    expected = 1 - np.mean([len(a & b) / math.sqrt(len(a) * len(b)) for a, b in pairs])
    assert personalisation(SCORES, [1, 2, 3, 2, 3, 4, 5], GROUPS) == pytest.approx(expected)
    assert math.isnan(personalisation([1, 2], [1, 2], [2]))


def test_ndcg_by_stratum_looks_at_one_kind_of_item_among_all():
    strata = ["head", "tail", "tail", "head", "head", "tail", "tail"]
    relevance = [1, 0, 1, 1, 0, 0, 0]
    values = ndcg_by_stratum(SCORES, relevance, GROUPS, strata, 3)
    np.testing.assert_allclose(values["head"], [1, 1, np.nan])
    np.testing.assert_allclose(values["tail"], [1 / log2(4), np.nan, np.nan])


def test_ndcg_by_popularity_cuts_at_the_edges():
    popularity, relevance = [100, 1, 10, 500, 3, 9, 9], [1, 0, 1, 1, 0, 0, 0]
    values = ndcg_by_popularity(SCORES, relevance, GROUPS, popularity, (10, 100), 3)
    assert list(values) == ["below 10", "10 to 100", "from 100"]
    np.testing.assert_allclose(values["from 100"], [1, 1, np.nan])
    np.testing.assert_allclose(values["10 to 100"], [1 / log2(4), np.nan, np.nan])
    with pytest.raises(ValueError, match=r"edges are \[100, 10\]"):
        ndcg_by_popularity(SCORES, relevance, GROUPS, popularity, (100, 10))
    with pytest.raises(ValueError, match=r"edges are \[10, nan\]"):
        ndcg_by_popularity(SCORES, relevance, GROUPS, popularity, (10, math.nan), 3)
    with pytest.raises(ValueError, match=r"popularity\[0\] is nan"):
        ndcg_by_popularity(SCORES, relevance, GROUPS, [math.nan, *popularity[1:]], (10, 100), 3)


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("categories", lambda ids: category_diversity_per_query([2, 1], ids, [2])),
        ("items", lambda ids: coverage([2, 1], ids, [2], catalogue_size=2)),
        ("items", lambda ids: personalisation([2, 1], ids, [1, 1])),
        ("subtopics", lambda ids: alpha_ndcg_per_query([2, 1], [0, 1], [2], ids)),
        ("strata", lambda ids: ndcg_by_stratum([2, 1], [0, 1], [2], ids)),
    ],
)
def test_none_and_mixed_ids_are_refused_by_index(name, call):
    with pytest.raises(ValueError, match=rf"{name}\[1\] is None; expected an id"):
        call(["a", None])
    with pytest.raises(ValueError, match=rf"{name}\[1\] is 1; expected ids of one type"):
        call(np.array(["a", 1], object))
