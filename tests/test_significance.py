"""Tests between rankings: against SciPy, against every possible swap, and against worlds whose truth is known."""

from __future__ import annotations

from itertools import product

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from pipeline.overlap import PERSISTENCE, ranks, top_overlap
from pipeline.significance import (
    contrast,
    holm,
    pair,
    randomisation_test,
    smallest_effect,
    t_test,
    wilcoxon_test,
)

values = st.lists(st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.9, 1.0]), min_size=6, max_size=10)


def many_users(rng: np.random.Generator, users: int, per_user: int) -> tuple[np.ndarray, np.ndarray, pl.Series]:
    """Two rankings without a difference on average, though each user leans towards one of them."""
    user = np.repeat(np.arange(users), rng.poisson(per_user, users) + 1)
    a = rng.uniform(0.3, 0.8, users)[user] + rng.normal(0, 0.1, len(user))
    return a, a + rng.normal(0, 0.05, users)[user] + rng.normal(0, 0.05, len(user)), pl.Series(user)


def test_t_and_wilcoxon_are_scipys_where_every_query_stands_alone() -> None:
    rng = np.random.default_rng(3)
    a = rng.uniform(size=40)
    b = a + rng.normal(0.02, 0.1, 40)
    paired = pair(a, b, None)
    assert t_test(paired) == pytest.approx(stats.ttest_rel(b, a).pvalue, rel=1e-12)
    assert wilcoxon_test(paired) == pytest.approx(stats.wilcoxon(b - a).pvalue, rel=1e-12)


@given(a=values, seed=st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_randomisation_equals_every_possible_swap(a: list[float], seed: int) -> None:
    first = np.array(a)
    second = np.random.default_rng(seed).permutation(first)
    difference = second - first
    reached = [
        abs(np.dot(signs, difference)) >= abs(difference.sum()) - 1e-12 for signs in product([1, -1], repeat=len(a))
    ]
    assert randomisation_test(pair(first, second, None), seed=0) == pytest.approx(np.mean(reached))


def test_drawn_swaps_come_close_to_all_swaps() -> None:
    rng = np.random.default_rng(1)
    a = rng.uniform(size=30)
    b = a + rng.normal(0.03, 0.08, 30)
    drawn = randomisation_test(pair(a, b, None), seed=4)
    assert drawn == pytest.approx(t_test(pair(a, b, None)), abs=0.02)


def test_identical_rankings_have_p_1_and_no_difference() -> None:
    a = np.random.default_rng(0).uniform(size=50)
    found = contrast(a, a.copy(), None, seed=1)
    assert (found.p_t, found.p_wilcoxon, found.p_random) == (1.0, 1.0, 1.0)
    assert (found.wins, found.ties, found.losses, found.difference.mean) == (0, 50, 0, 0.0)


@pytest.mark.parametrize("queries", [1, 2, 5])
def test_few_queries_are_too_few(queries: int) -> None:
    a = np.linspace(0.1, 0.5, queries)
    found = contrast(a, a + 0.3, None, seed=1)
    assert (found.p_t, found.p_wilcoxon, found.p_random) == (None, None, None)
    assert found.wins == queries
    assert (found.difference.low is None) == (queries == 1)


def test_many_queries_of_one_user_are_one_unit() -> None:
    a = np.linspace(0.1, 0.5, 300)
    found = contrast(a, a + 0.1, pl.Series(["u"] * 300), seed=1)
    assert (found.units, found.p_random) == (1, None)


def test_a_constant_lead_is_certain_where_pairs_are_kept() -> None:
    a = np.random.default_rng(0).uniform(size=200)
    found = contrast(a, a + 0.01, None, seed=1)
    assert found.p_random is not None
    assert found.p_random < 1e-3
    assert stats.ttest_ind(a, a + 0.01).pvalue > 0.5


def test_queries_without_a_value_and_users_without_a_name() -> None:
    a = np.array([0.1, np.nan, 0.3, 0.4, 0.5, 0.6, 0.7])
    b = np.array([0.2, 0.9, np.nan, 0.5, 0.4, 0.6, 0.9])
    paired = pair(a, b, pl.Series(["u", "u", "u", "u", None, None, "v"]))
    assert (paired.units, paired.wins, paired.ties, paired.losses) == (4, 3, 1, 1)
    assert paired.mean == pytest.approx((0.1 + 0.1 - 0.1 + 0.0 + 0.2) / 5)


def test_false_alarms_stay_at_their_level_where_users_have_many_queries() -> None:
    alarms, naive, worlds = 0, 0, 120
    for seed in range(worlds):
        a, b, users = many_users(np.random.default_rng(seed), users=20, per_user=50)
        alarms += t_test(pair(a, b, users)) < 0.05
        naive += t_test(pair(a, b, None)) < 0.05
    assert alarms / worlds < 0.05 + 3 * np.sqrt(0.05 * 0.95 / worlds)
    assert naive / worlds > 0.5


def test_smallest_effect_is_found_in_four_of_five_worlds() -> None:
    rng = np.random.default_rng(5)
    noise, found, worlds = 0.1, 0, 300
    effect = smallest_effect(pair(np.zeros(60), rng.normal(0, noise, 60), None))
    assert effect == pytest.approx((1.9600 + 0.8416) * noise / np.sqrt(60), rel=0.25)
    exact = (stats.t.ppf(0.975, 59) + stats.t.ppf(0.8, 59)) * noise / np.sqrt(60)
    for _ in range(worlds):
        found += t_test(pair(np.zeros(60), rng.normal(exact, noise, 60), None)) < 0.05
    assert found / worlds == pytest.approx(0.8, abs=0.07)


@pytest.mark.parametrize("queries", [12, 20, 30])
def test_an_interval_of_few_queries_is_as_wide_as_students(queries: int) -> None:
    """The percentile bootstrap is expanded for few units once: twice made it 17 % too wide at twelve."""
    worlds = np.random.default_rng(queries).normal(size=(60, queries))
    found = [contrast(np.zeros(queries), world, None, seed=i).difference.width for i, world in enumerate(worlds)]
    students = 2 * stats.t.ppf(0.975, queries - 1) * worlds.std(axis=1, ddof=1) / np.sqrt(queries)
    assert np.mean(found / students) == pytest.approx(1, abs=0.04)


def test_holm_corrects_in_order_and_never_turns_around() -> None:
    assert holm([0.01, 0.011]) == [0.02, 0.02]
    assert holm([0.04, None, 0.01, 0.03]) == [pytest.approx(0.06), None, pytest.approx(0.03), pytest.approx(0.06)]
    assert holm([0.9, 0.8]) == [1.0, 1.0]


@given(
    sizes=st.lists(st.integers(1, 6), min_size=1, max_size=4),
    k=st.integers(1, 5),
    seed=st.integers(0, 99),
)
@settings(max_examples=60, deadline=None)
def test_overlap_equals_a_slow_loop(sizes: list[int], k: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    groups = np.array(sizes, np.int32)
    a, b = rng.integers(0, 4, (2, groups.sum())).astype(float)
    shares, biased = top_overlap(a, b, groups, k)
    ends = np.cumsum(groups)
    for query, (start, end) in enumerate(zip(ends - groups, ends, strict=True)):
        first = np.argsort(-a[start:end], kind="stable")
        second = np.argsort(-b[start:end], kind="stable")
        depth = min(k, end - start)
        common = [len(set(first[:d]) & set(second[:d])) for d in range(1, depth + 1)]
        rbo = common[-1] / depth * PERSISTENCE**depth + (1 - PERSISTENCE) / PERSISTENCE * sum(
            x / d * PERSISTENCE**d for d, x in enumerate(common, start=1)
        )
        assert shares[query] == pytest.approx(common[-1] / depth)
        assert biased[query] == pytest.approx(rbo)


def test_equal_and_disjoint_lists_overlap_wholly_and_not_at_all() -> None:
    a = np.array([4.0, 3, 2, 1])
    assert [float(x[0]) for x in top_overlap(a, a, np.array([4], np.int32), 2)] == [1.0, pytest.approx(1.0)]
    assert [float(x[0]) for x in top_overlap(a, -a, np.array([4], np.int32), 2)] == [0.0, 0.0]
    assert ranks(np.array([1.0, 1, 2, 5]), np.array([3, 1], np.int32)).tolist() == [2, 3, 1, 1]
