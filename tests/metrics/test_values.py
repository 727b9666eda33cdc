"""Right values that are known from elsewhere: by hand, from the design, from other libraries."""

from __future__ import annotations

import json
import math
from math import log2
from pathlib import Path

import numpy as np
import pytest

from pipeline.metrics import (
    PRESETS,
    Convention,
    cg_per_query,
    dcg_per_query,
    discount_values,
    ndcg,
    ndcg_of_items,
    ndcg_per_query,
)

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "ndcg_by_library.json").read_text())
LIBRARIES = {
    "lightgbm": Convention.named("lightgbm"),
    "xgboost": Convention.named("xgboost"),
    "xgboost-": Convention.named("xgboost-"),
    "catboost_exp": Convention.named("catboost_exp"),
    "catboost_base": Convention.named("catboost_base"),
    "sklearn": Convention.named("sklearn"),
    "sklearn_exp2_labels": Convention(empty="zero"),
    "trec_eval": Convention.named("trec_eval"),
    "ranx_ndcg": Convention.named("ranx"),
    "ranx_ndcg_burges": Convention.named("ranx_burges"),
}

GRADED = [3, 2, 0, 1, 0, 0, 2, 1, 0, 0]
BY_POSITION = -np.arange(10.0)
EXACT = {"rel": 1e-12, "abs": 1e-15}


ANSWERS = [
    pytest.param(library, case, id=f"{library}: {case['case']}")
    for library in LIBRARIES
    for case in GOLDEN
    if not (case["tied_scores"] and library.startswith("ranx"))  # ranx sorts ties unstably
]


@pytest.mark.parametrize(("library", "case"), ANSWERS)
def test_preset_equals_its_library(library, case):
    scores = np.concatenate([query["scores"] for query in case["queries"]])
    relevance = np.concatenate([query["relevance"] for query in case["queries"]])
    groups = [len(query["scores"]) for query in case["queries"]]
    values = ndcg_per_query(scores, relevance, groups, [1, 3, 10], convention=LIBRARIES[library])
    tolerance = 1e-5 if library.startswith("xgboost") else 1e-12
    for cut, mean in zip((1, 3, 10), values.mean(axis=1), strict=True):
        assert mean == pytest.approx(case["ndcg"][library][f"@{cut}"], abs=tolerance)


def test_every_preset_is_held_against_a_library():
    by_hand = {"textbook", "recall_list", "recsys_ln"}
    assert set(PRESETS) - by_hand == {name for one in LIBRARIES.values() for name in one.names()} - by_hand


def test_graded_list_by_hand():
    assert dcg_per_query(BY_POSITION, GRADED, [10], 10)[0] == pytest.approx(10.638930695573496, **EXACT)
    ideal = dcg_per_query(GRADED, GRADED, [10], 10)[0]
    assert ideal == pytest.approx(11.210318626022309, **EXACT)
    assert ndcg(BY_POSITION, GRADED, 10) == pytest.approx(0.9490301792919195, **EXACT)
    assert cg_per_query(BY_POSITION, GRADED, [10], 4)[0] == 7 + 3 + 0 + 1


@pytest.mark.parametrize(
    ("discount", "expected"),
    [
        (tuple(discount_values("log2", 10) * ([2] * 3 + [1] * 7)), 0.9041162067370617),
        (tuple(discount_values("log2", 10) * ([1] * 5 + [0.5] * 5)), 0.8903581236318705),
        ("power:1", 0.9350323043790382),
        ("power:0.5", 0.9413742955707736),
        ("ln", 0.9490301792919195),
    ],
)
def test_graded_list_under_other_discounts(discount, expected):
    assert ndcg(BY_POSITION, GRADED, 10, convention=Convention(discount=discount)) == pytest.approx(expected, **EXACT)


@pytest.mark.parametrize(
    ("order", "k", "expected"),
    [("BCADE", 5, 0.788088263175707), ("BCADE", 3, 0.7837249432452995), ("EDCBA", 5, 0.5128759531627177)],
)
def test_five_grades_by_hand(order, k, expected):
    relevance = dict(zip("ABCDE", [4, 3, 2, 1, 0], strict=True))
    assert ndcg_of_items(order, relevance, k) == pytest.approx(expected, **EXACT)
    scores, grades = -np.arange(5.0), [relevance[item] for item in order]
    assert ndcg(scores, grades, k) == pytest.approx(expected, **EXACT)
    assert dcg_per_query([5, 4, 3, 2, 1], [4, 3, 2, 1, 0], [5])[0] == pytest.approx(21.347184833073598, **EXACT)


@pytest.mark.parametrize(
    ("hits", "against_all", "against_retrieved"),
    [
        ([2, 3, 5, 7, 9], 0.7299222417644611, 0.7299222417644611),
        ([5, 8, 9], 0.3402956050025172, 0.47084972088011423),
        ([10], 0.09803928583135704, 0.2890648263178879),
    ],
)
def test_recall_list_against_both_ideals(hits, against_all, against_retrieved):
    ranked = [f"item {i}" for i in range(1, 11)]
    relevant = {f"item {i}" for i in hits} | {f"missed {i}" for i in range(5 - len(hits))}
    binary = Convention(gain="linear", ideal="all")
    assert ndcg_of_items(ranked, relevant, 10, convention=binary) == pytest.approx(against_all, **EXACT)
    recall_list = Convention.named("recall_list")
    assert ndcg_of_items(ranked, relevant, 10, convention=recall_list) == pytest.approx(against_retrieved, **EXACT)
    assert ndcg_of_items(ranked, relevant, 10, convention=Convention.named("recsys_ln")) == pytest.approx(
        against_retrieved, **EXACT
    )

    scores, relevance = BY_POSITION, [int(i in hits) for i in range(1, 11)]
    assert ndcg(scores, relevance, 10, convention=binary, ideal=[1] * 5) == pytest.approx(against_all, **EXACT)
    assert ndcg(scores, relevance, 10, convention=recall_list) == pytest.approx(against_retrieved, **EXACT)


def test_continuous_relevance_depends_on_the_gain():
    scores, watched = [3, 2, 1], [0.2, 1, 0.5]
    assert ndcg(scores, watched, convention=Convention(gain="linear")) == pytest.approx(0.7637, abs=5e-5)
    assert ndcg(scores, watched) == pytest.approx(0.7387, abs=5e-5)


def test_swapped_neighbours_show_the_gain():
    swapped = {"gain": "exp2"}, {"gain": "linear"}
    exp2, linear = (ndcg([1, 2], [3, 2], convention=Convention(**gain)) for gain in swapped)
    assert exp2 == pytest.approx((3 + 7 / log2(3)) / (7 + 3 / log2(3)), **EXACT)
    assert linear == pytest.approx((2 + 3 / log2(3)) / (3 + 2 / log2(3)), **EXACT)


def test_empty_query_counts_as_the_convention_says():
    scores, relevance, groups = [1, 0, 1, 0], [0, 0, 0, 1], [2, 2]
    low = 1 / log2(3)
    for empty, expected in (("one", (1 + low) / 2), ("zero", low / 2)):
        values = ndcg_per_query(scores, relevance, groups, 2, convention=Convention(empty=empty))
        assert values.mean() == pytest.approx(expected, **EXACT)
    skipped = ndcg_per_query(scores, relevance, groups, 2)
    assert math.isnan(skipped[0])
    assert skipped[1] == pytest.approx(low, **EXACT)


@pytest.mark.parametrize("ideal", ["candidates", "retrieved", "all"])
@pytest.mark.parametrize("empty", ["skip", "zero", "one"])
def test_missed_query_is_not_empty(ideal, empty):
    """Relevant items exist, none was retrieved: 0, whatever empty queries score."""
    convention = Convention(gain="linear", ideal=ideal, empty=empty)
    assert ndcg([2, 1], [0, 0], 2, convention=convention, ideal=[1, 1]) == 0
    assert ndcg_of_items(["a", "b"], {"c"}, 2, convention=convention) == 0
    assert ndcg([3, 2, 1], [0, 0, 1], 2, convention=convention) == 0


def test_six_tied_scores_average_their_orders():
    relevance = [1, 0, 0, 0, 0, 0]
    expected = (1 + 1 / log2(3) + 1 / 2) / 6
    assert ndcg(np.ones(6), relevance, 3) == pytest.approx(expected, **EXACT)
    assert ndcg(np.ones(6), relevance[::-1], 3) == pytest.approx(expected, **EXACT)
    for ties, (first, last) in {"stable": (1, 0), "reverse": (0, 1), "worst": (0, 0), "best": (1, 1)}.items():
        assert ndcg(np.ones(6), relevance, 3, convention=Convention(ties=ties)) == first
        assert ndcg(np.ones(6), relevance[::-1], 3, convention=Convention(ties=ties)) == last


def test_ideal_uses_k_items_of_the_judged_or_of_the_candidates():
    relevance = [1] * 20
    assert ndcg(np.arange(20), relevance, 10) == 1
    shown, unseen = [3, 2, 3, 0, 1, 2], [3, 2]
    convention = Convention(gain="linear", ideal="all")
    value = ndcg(-np.arange(6), shown, 6, convention=convention, ideal=shown + unseen)
    assert value == pytest.approx(0.785, abs=5e-4)


def test_repeated_items_count_once_where_allowed():
    assert ndcg_of_items(["a", "a", "b"], {"a", "b"}, duplicates="first") == 1
    with pytest.raises(ValueError, match=r"ranked\[1\] is 'a', which is ranked twice"):
        ndcg_of_items(["a", "a", "b"], {"a", "b"})
