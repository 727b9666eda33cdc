"""Bad input: the right value, or a ValueError that names the index. Never a crash, never a value above 1."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from pipeline.metrics import (
    PRESETS,
    Convention,
    alpha_ndcg_per_query,
    auc_per_query,
    category_diversity_per_query,
    cg_per_query,
    coverage,
    gain_values,
    ndcg,
    ndcg_bounds,
    ndcg_of_items,
    ndcg_per_query,
    recall_per_query,
)

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("scores", "relevance", "groups", "message"),
    [
        ([1, NAN, 0], [0, 1, 0], [3], r"scores\[1\] is nan"),
        ([1, 0, INF], [0, 1, 0], [1, 2], r"scores\[2\] is inf"),
        ([-INF, 0, 1], [0, 1, 0], [3], r"scores\[0\] is -inf"),
        ([1, 2, 3], [0, NAN, 0], [3], r"relevance\[1\] is nan"),
        ([1, 2, 3], [0, 0, INF], [3], r"relevance\[2\] is inf"),
        ([1, 2, 3], [0, -1, 0], [3], r"relevance\[1\] is -1; relevance must not be negative"),
        ([1, 2, 3], [0, -0.5, 0], [2, 1], r"relevance\[1\] is -0.5"),
        ([1, 2, 3], [0, 1, 1100], [3], r"relevance\[2\] is 1100; the gains end at 996"),
        ([1, 2, 3], [0, 1, 1100.5], [3], r"relevance\[2\] is 1100.5"),
        ([1, 2, 3], [0, 1, 0], [2, 2], "groups sum to 4, but there are 3 rows; sizes are expected, not ids"),
        ([1, 2, 3], [0, 1, 0], [7, 7, 7], "groups sum to 21, but there are 3 rows"),
        ([1, 2, 3], [0, 1, 0], [3, 0], r"groups\[1\] is 0"),
        ([1, 2, 3], [0, 1, 0], [4, -1], r"groups\[1\] is -1"),
        ([1, 2, 3], [0, 1, 0], [2**62, 2**62, 2**62, 2**62 + 3], "groups sum to"),
        ([1, 2, 3], [0, 1, 0], [3.0], "groups holds float64; expected integer sizes"),
        ([1, 2, 3], [0, 1, 0], [[3]], "groups has 2 dimensions"),
        ([1, 2, 3], [0, 1, 0], [], "groups is empty"),
        ([], [], [], "groups is empty"),
        ([], [], [0], r"groups\[0\] is 0"),
        ([1, 2, 3], [0, 1], [3], "there are 3 scores and 2 relevances"),
        ([[1, 2]], [0, 1], [2], "scores has 2 dimensions"),
        (["a", "b"], [0, 1], [2], "scores holds <U1; expected numbers"),
        ([1, 2], [None, 1], [2], "relevance holds object; expected numbers"),
        ([1, 2], [1j, 1], [2], "relevance holds complex128"),
        ([2**53, 2**53 + 1], [0, 1], [2], r"scores\[1\] is 9007199254740993; float64 holds whole numbers only up to"),
        ([0, -(2**63)], [0, 1], [2], r"scores\[1\] is -9223372036854775808"),
        (np.array([2**63, 0], np.uint64), [0, 1], [2], r"scores\[0\] is 9223372036854775808"),
    ],
)
def test_bad_arrays_are_refused_by_index(scores, relevance, groups, message):
    for threads in (1, 2):
        with pytest.raises(ValueError, match=message):
            ndcg_per_query(scores, relevance, groups, 2, threads=threads)


@pytest.mark.parametrize(
    ("k", "message"),
    [
        (0, "k is 0; expected at least 1"),
        (-1, "k is -1"),
        ([1, 0], "k is 0"),
        ([], "k is empty"),
        (1.5, r"k is 1\.5; expected a whole number"),
        (True, "k is a bool"),
        (2**63, r"k is above 2\^63 - 1; expected None for the whole list"),
        ("3", "k is '3'"),
    ],
)
def test_bad_cutoffs_are_refused(k, message):
    with pytest.raises(ValueError, match=message):
        ndcg_per_query([1, 2], [0, 1], [2], k)


@pytest.mark.parametrize("k", [2, 100, 10**15, np.int32(5), np.array(3), None])
def test_cutoff_above_the_size_means_the_whole_list(k):
    assert ndcg([2, 1], [1, 0], k) == 1


@pytest.mark.parametrize(
    ("ideal", "message"),
    [
        (([1, 1], [2]), "ideal has 1 queries, groups has 2"),
        (([1, 1, 1], [1, 1]), "sizes of ideal sum to 2, but there are 3 rows"),
        (([1, NAN], [1, 1]), r"ideal\[1\] is nan"),
        (([1, -2], [1, 1]), r"ideal\[1\] is -2"),
        (([2, 1, 2], [1, 2]), "ideal of query 0 has too few items of relevance 1"),
        (([1, 1, 1], [3, 0]), "ideal of query 1 has too few items of relevance 2"),
        (([1, 2], [3, -1]), r"sizes of ideal\[1\] is -1"),
    ],
)
def test_ideals_must_fit_and_cover_what_was_retrieved(ideal, message):
    with pytest.raises(ValueError, match=message):
        ndcg_per_query([1, 2, 3], [1, 0, 2], [2, 1], convention=Convention(ideal="all"), ideal=ideal)


def test_ideal_may_leave_out_what_is_not_relevant():
    values = ndcg_per_query([1, 2, 3], [1, 0, 0], [2, 1], convention=Convention(ideal="all"), ideal=([1], [1, 0]))
    np.testing.assert_array_equal(values, [1 / np.log2(3), np.nan])


def test_narrow_floats_are_covered_by_wide_ones():
    grades = np.array([0.1, 0.7], np.float32)
    convention = Convention(gain="linear", ideal="all")
    assert ndcg([2, 1], grades[::-1], convention=convention, ideal=[0.1, 0.7]) == pytest.approx(1, abs=1e-7)


def test_negative_relevance_counts_zero_where_the_convention_says_so():
    trec = Convention.named("trec_eval")
    assert ndcg([3, 2, 1], [-2, 1, 0], convention=trec) == pytest.approx(1 / np.log2(3))
    assert ndcg_of_items(["a", "b"], {"a": -2, "b": 1}, convention=trec) == pytest.approx(1 / np.log2(3))
    with pytest.raises(ValueError, match=r"relevance\[0\] is -2"):
        ndcg_of_items(["a", "b"], {"a": -2, "b": 1})


@pytest.mark.parametrize("threads", [0, -1, True, 1.5, None])
def test_bad_thread_counts_are_refused(threads):
    with pytest.raises(ValueError, match="threads is"):
        ndcg_per_query([1, 2], [0, 1], [2], threads=threads)


@pytest.mark.parametrize("kind", [np.int64, np.float64])
def test_gain_tables_take_whole_grades_within_the_table(kind):
    convention = Convention(gain=(0, 1, 5))
    assert ndcg([2, 1], np.array([1, 2], kind), convention=convention) == pytest.approx(
        (1 + 5 / np.log2(3)) / (5 + 1 / np.log2(3))
    )
    with pytest.raises(ValueError, match=r"relevance\[1\] is 3.*; the gains end at 2"):
        ndcg([2, 1], np.array([1, 3], kind), convention=convention)
    with pytest.raises(ValueError, match=r"relevance\[0\] is 0\.5; a table of gains takes whole grades"):
        ndcg([2, 1], [0.5, 1], convention=convention)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"gain": (0, 2, 1)}, r"gain\[2\] is 1.0, below gain\[1\] = 2.0"),
        ({"gain": (1, 2)}, r"gain\[0\] is 1.0; grade 0 must have the gain 0"),
        ({"gain": (0, NAN)}, r"gain\[1\] is nan"),
        ({"gain": (0, INF)}, r"gain\[1\] is inf"),
        ({"gain": (0, 1e301)}, "gains end at"),
        ({"gain": ()}, "the table of gain is empty"),
        ({"gain": "exp"}, "gain is 'exp'; expected one of exp2, linear"),
        ({"gain": 2}, "gain is 2; expected a name or a table"),
        ({"discount": (0.5, 1)}, r"discount\[1\] is 1.0, above discount\[0\] = 0.5"),
        ({"discount": (0,)}, "the first must be positive"),
        ({"discount": (1, -1)}, "weights must not be negative"),
        ({"discount": (1, NAN)}, r"discount\[1\] is nan"),
        ({"discount": "log"}, "discount is 'log'; expected one of log2, ln, none"),
        ({"discount": "power:-1"}, "power:s takes a finite number s of at least 0"),
        ({"discount": "power:x"}, "power:s takes a finite number"),
        ({"ideal": "best"}, "ideal is 'best'; expected one of candidates, retrieved, all"),
        ({"ties": None}, "ties is None"),
        ({"empty": "nan"}, "empty is 'nan'; expected one of skip, zero, one"),
        ({"negative": "keep"}, "negative is 'keep'"),
    ],
)
def test_illegal_conventions_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        Convention(**fields)


def test_unknown_preset_lists_the_known_ones():
    with pytest.raises(ValueError, match="convention is 'lgbm'; expected one of lightgbm, xgboost, "):
        Convention.named("lgbm")


@pytest.mark.parametrize(
    "call",
    [
        lambda: ndcg([1, 2], [0, 1], convention="sklearn"),
        lambda: ndcg_of_items(["a"], ["a"], convention="sklearn"),
        lambda: cg_per_query([1, 2], [0, 1], [2], convention="sklearn"),
        lambda: recall_per_query([1, 2], [0, 1], [2], convention="sklearn"),
        lambda: auc_per_query([1, 2], [0, 1], [2], convention="sklearn"),
        lambda: alpha_ndcg_per_query([1, 2], [0, 1], [2], [0, 1], convention="sklearn"),
        lambda: ndcg_bounds([1, 2], [0, 1], tolerance=0.1, convention="sklearn"),
    ],
)
def test_the_name_of_a_convention_is_none(call):
    with pytest.raises(ValueError, match=r"convention is 'sklearn'; expected a Convention, such as Convention\.named"):
        call()


@pytest.mark.parametrize(
    "call",
    [
        lambda k: ndcg([1, 2], [0, 1], k),
        lambda k: ndcg_of_items(["a"], ["a"], k),
        lambda k: ndcg_bounds([1, 2], [0, 1], k, tolerance=0.1),
        lambda k: category_diversity_per_query([1, 2], [0, 1], [2], k),
        lambda k: coverage([1, 2], [0, 1], [2], k, catalogue_size=2),
    ],
)
def test_one_value_has_one_cutoff(call):
    for k in ([1, 2], [1]):
        with pytest.raises(ValueError, match=r"k is .*; expected one cut-off, or None"):
            call(k)


def test_an_ideal_is_a_pair():
    for ideal, message in (([1], "ideal is no pair"), (([1],), "ideal is no pair"), ([1, 2], "ideal has 0 dimensions")):
        with pytest.raises(ValueError, match=message):
            ndcg_per_query([1, 2], [0, 1], [2], ideal=ideal)


@pytest.mark.parametrize("name", PRESETS)
def test_convention_is_a_value_that_says_itself(name):
    convention = Convention.named(name)
    assert Convention(**convention.to_dict()) == convention
    assert hash(convention) == hash(Convention(**convention.to_dict()))
    assert name in convention.describe()
    assert name in convention.names()


def test_tables_become_part_of_the_convention():
    convention = Convention(gain=[0, 1, 3], discount=np.array([1.0, 0.5]))
    assert convention == Convention(gain=(0.0, 1.0, 3.0), discount=(1.0, 0.5))
    assert Convention(**convention.to_dict()) == convention
    assert "gain table 0, 1, 3" in convention.describe()
    np.testing.assert_array_equal(gain_values(convention, [[0, 2]]), [[0, 3]])


@pytest.mark.parametrize("duplicates", ["error", "first"])
def test_an_empty_list_of_items_misses_what_there_is(duplicates):
    assert ndcg_of_items([], {"a": 1}, duplicates=duplicates) == 0
    assert np.isnan(ndcg_of_items([], {}))
    with pytest.raises(ValueError, match="duplicates is 'last'"):
        ndcg_of_items([], {}, duplicates="last")
    with pytest.raises(ValueError, match="scores is empty"):
        ndcg([], [])


def test_importing_the_metrics_loads_nothing_but_numpy():
    code = (
        "import sys, pipeline.metrics; "
        "print(sorted({m.partition('.')[0] for m in sys.modules} & {'numba', 'polars', 'scipy', 'lightgbm', 'pandas'}))"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"


def test_kernels_compile_where_nothing_can_be_cached(monkeypatch):
    """A read-only installation without a home: slower to start, but it works."""
    from numba.core import caching

    from pipeline.metrics.compiling import compiled

    def twice(value: float) -> float:
        return value * 2

    monkeypatch.setattr(caching.CacheImpl, "_locator_classes", [])
    assert compiled(twice)(1.5) == 3


def test_no_bytes_crash_the_process():
    """Whatever the arrays hold, the answer is a value in [0, 1], NaN, or a ValueError."""
    rng = np.random.default_rng(11)
    odd = np.array([0, 1, 4, -1, 1e308, -1e308, 5e-324, NAN, INF, 2**53, 997, 31.5])
    for _ in range(300):
        rows = int(rng.integers(1, 60))
        scores, relevance = (
            rng.choice(odd, rows) if rng.random() < 0.5 else rng.integers(0, 4, rows) for _ in range(2)
        )
        groups = rng.integers(-1, 30, int(rng.integers(1, 6))) if rng.random() < 0.2 else np.array([rows])
        gain = ["exp2", "linear", (0, 1, 1, 5)][rng.integers(3)]
        try:
            values = ndcg_per_query(
                scores, relevance, groups, int(rng.integers(1, 70)), convention=Convention(gain=gain)
            )
        except ValueError:
            continue
        assert (np.isnan(values) | ((values >= 0) & (values <= 1))).all()
