"""From one value per query to a number that can be reported."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from scipy import stats

from pipeline.reductions import (
    Interval,
    bootstrap_interval,
    composite,
    count_empty,
    count_thin,
    count_trivial,
    mean,
    paired_interval,
    relevant_per_query,
    share_of_ties,
)

NAN = float("nan")


def test_means_leave_out_what_has_no_value():
    assert mean([1, NAN, 3]) == 2
    assert mean([NAN]) is None
    assert mean([]) is None
    assert mean([1, 0.5, NAN], [10, 1, 5]) == (10 * 1 + 1 * 0.5) / 11
    assert mean([1, 2], [0, 0]) is None


@pytest.mark.parametrize(
    ("weights", "message"),
    [([1], "3 values and 1 weights"), ([1, -1, 1], r"weights\[1\] is -1"), ([1, 1, NAN], r"weights\[2\] is nan")],
)
def test_bad_weights_are_refused(weights, message):
    with pytest.raises(ValueError, match=message):
        mean([1, 2, 3], weights)


def test_interval_of_nothing_is_null():
    assert bootstrap_interval([]) == bootstrap_interval([NAN]) == Interval(None, None, None, 0)
    assert bootstrap_interval([NAN]).width is None
    one = bootstrap_interval([0.25, NAN])
    assert (one.mean, one.low, one.high, one.n) == (0.25, 0.25, 0.25, 1)


@pytest.mark.parametrize(
    ("values", "options", "message"),
    [
        ([1, 2], {"repetitions": 0}, "repetitions is 0; expected a whole number of at least 1"),
        ([1, 2], {"level": 1.5}, r"level is 1\.5; expected a share above 0, at most 1"),
        ([1, 2], {"level": NAN}, "level is nan"),
        ([1, float("inf")], {}, r"values\[1\] is inf; expected a finite number"),
    ],
)
def test_intervals_that_cannot_be_are_refused(values, options, message):
    with pytest.raises(ValueError, match=message):
        bootstrap_interval(values, **options)


def test_the_interval_of_level_one_is_all_that_was_drawn():
    interval = bootstrap_interval([0, 1], level=1)
    assert (interval.low, interval.high) == (0, 1)


def test_share_of_ties_has_one_cutoff():
    with pytest.raises(ValueError, match="k is a sequence"):
        share_of_ties([1, 2], [2], [1, 2])


@pytest.mark.parametrize("size", [200, 30_000])
def test_interval_is_about_as_wide_as_theory_says(size):
    values = np.random.default_rng(0).beta(2, 3, size)
    interval = bootstrap_interval(values, seed=3)
    expected = 2 * 1.96 * values.std() / np.sqrt(size)
    assert interval.width == pytest.approx(expected, rel=0.1)
    assert interval.low < interval.mean < interval.high
    assert interval.mean == pytest.approx(values.mean())


def test_interval_depends_on_seed_and_values_but_not_on_their_order():
    values = np.random.default_rng(1).random(300)
    values[::5] = NAN
    users = np.repeat(np.arange(30), 10)
    order = np.random.default_rng(2).permutation(300)
    for clusters in (None, users):
        moved = None if clusters is None else clusters[order]
        ours, theirs = bootstrap_interval(values, clusters=clusters), bootstrap_interval(values[order], clusters=moved)
        assert (ours.low, ours.high, ours.n) == (theirs.low, theirs.high, theirs.n)
        assert ours.mean == pytest.approx(theirs.mean, rel=1e-14)
    assert bootstrap_interval(values, seed=1) != bootstrap_interval(values, seed=2)


def test_clusters_widen_the_interval_where_users_are_alike():
    rng = np.random.default_rng(4)
    users = np.repeat(np.arange(40), 25)
    values = np.repeat(rng.random(40), 25) + 0.01 * rng.standard_normal(1000)
    by_user = bootstrap_interval(values, clusters=users)
    assert by_user.width > 3 * bootstrap_interval(values).width
    assert by_user.width == pytest.approx(2 * 1.96 * values.reshape(40, 25).mean(axis=1).std() / np.sqrt(40), rel=0.15)


def test_clustered_test_keeps_its_promise_under_user_effects():
    """20 users of 50 queries, no difference: 0 lies outside the 95 % interval about as often as it should."""
    outside, naive = 0, 0
    for trial in range(400):
        rng = np.random.default_rng(trial)
        users = np.repeat(np.arange(20), 50)
        difference = np.repeat(rng.standard_normal(20), 50) + rng.standard_normal(1000)
        interval = bootstrap_interval(difference, clusters=users, seed=trial)
        outside += not interval.low <= 0 <= interval.high
        naive += stats.ttest_1samp(difference, 0).pvalue < 0.05
    assert outside / 400 <= 0.07
    assert naive / 400 > 0.5


def test_anonymous_queries_are_clusters_of_their_own():
    values = np.random.default_rng(3).random(100)
    anonymous = pl.Series([None] * 100, dtype=pl.String)
    assert bootstrap_interval(values, clusters=anonymous) == bootstrap_interval(values)
    with pytest.raises(ValueError, match="100 values and 2 clusters"):
        bootstrap_interval(values, clusters=[1, 2])


def test_paired_interval_sees_a_constant_lead():
    values = np.random.default_rng(6).random(50)
    lead = paired_interval(values + 0.01, values)
    assert (lead.low, lead.high) == pytest.approx((0.01, 0.01))
    assert lead.n == 50
    both = paired_interval([1, NAN, 0.5], [0.5, 1, NAN])
    assert (both.mean, both.n) == (0.5, 1)
    with pytest.raises(ValueError, match="a has 2 queries and b 3"):
        paired_interval([1, 2], [1, 2, 3])


def test_counts_of_empty_thin_and_trivial_queries():
    relevance, groups = [0, 0, 1, 0, 2, 2, 1, 1, 1, 0, 4], [2, 2, 2, 4, 1]
    assert relevant_per_query(relevance, groups).tolist() == [0, 1, 2, 3, 1]
    assert count_empty(relevance, groups) == 1
    assert count_thin(relevance, groups) == 4
    assert count_thin(relevance, groups, min_relevant=2) == 3
    assert count_trivial(relevance, groups) == 2
    assert count_empty(relevance, groups, gain=(0, 0, 1, 2, 3)) == 3
    with pytest.raises(ValueError, match="groups sum to 3"):
        count_empty(relevance, [3])


def test_composite_is_a_weighted_sum():
    values = {"ndcg@10": [0.5, NAN], "diversity@10": [1, 0.5], "coverage@10": 0.25}
    weights = {"ndcg@10": 0.7, "diversity@10": 0.2, "coverage@10": 0.1}
    np.testing.assert_allclose(composite(values, weights), [0.7 * 0.5 + 0.2 + 0.1 * 0.25, NAN])
    with pytest.raises(ValueError, match="no metric mrr; there are ndcg@10, diversity@10"):
        composite(values, {"mrr": 1})
    with pytest.raises(ValueError, match="no metric is weighted"):
        composite(values, {})


def test_share_of_ties_looks_at_the_top():
    scores, groups = [3, 2, 2, 1, 5, 5, 5], [4, 3]
    assert share_of_ties(scores, groups) == (2 + 3) / 7
    assert share_of_ties(scores, groups, 1) == (0 + 1) / 2
    assert share_of_ties(scores, groups, 2) == (1 + 2) / 4
    assert share_of_ties([1, 1, 2, 2], [1, 3]) == 2 / 4
