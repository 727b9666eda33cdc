"""RankingDataset: whole queries, an order that labels cannot influence, and refusal of what LightGBM would misread."""

from __future__ import annotations

from datetime import date, datetime, timedelta

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from features.errors import DatasetError, PackageError
from features.hashing import hash_pairs
from features.spec import FeatureSpec
from pipeline.dataset import FeatureSchema, query_sizes
from pipeline.labels import LabelRule, grades, levels
from tests.factories import dataset_of, ranking_frame


def test_sizes_are_run_lengths_in_row_order() -> None:
    assert query_sizes(pl.Series([7, 3, 3, 3, 5, 5])).tolist() == [1, 3, 2]


@settings(max_examples=30, deadline=None)
@given(st.randoms(use_true_random=False), st.booleans())
def test_order_depends_on_ids_alone(random: object, strings: bool) -> None:
    frame = ranking_frame(12, 5)
    if strings:
        frame = frame.with_columns(query=pl.format("q{}", "query"), item=pl.format("i{}", "item"))
    order = list(range(frame.height))
    random.shuffle(order)  # type: ignore[attr-defined]
    shuffled = frame[order].with_columns(relevance=pl.col("relevance").reverse())
    assert dataset_of(frame).keys["item"].equals(dataset_of(shuffled).keys["item"])
    assert dataset_of(frame).sizes.tolist() == [5] * 12


def test_rows_of_a_query_follow_the_hash_of_query_and_item() -> None:
    dataset = dataset_of(ranking_frame(4, 30))
    hashes = hash_pairs(dataset.keys["query"], dataset.keys["item"])
    for start, size in zip(dataset.starts, dataset.sizes, strict=True):
        assert (np.diff(hashes[start : start + size].astype(object)) > 0).all()


def test_features_are_float32_sorted_by_name_and_truth_follows_its_rows() -> None:
    frame = ranking_frame(10).select("c", "relevance", "item", "query", "a", "b")
    dataset = dataset_of(frame)
    assert dataset.features.columns == ["a", "b", "c"]
    assert set(dataset.features.dtypes) == {pl.Float32}
    back = pl.concat([dataset.keys, dataset.features], how="horizontal").sort("query", "item")
    assert back["a"].equals(frame.sort("query", "item")["a"].cast(pl.Float32))
    assert dataset.relevance.tolist() == dataset.keys["relevance"].to_list()


def test_interleaved_rows_are_brought_together() -> None:
    frame = pl.DataFrame(
        {"query": ["a", "a", "b", "a"], "item": [1, 2, 3, 4], "relevance": [1, 0, 1, 0], "x": [1.0] * 4}
    )
    assert sorted(dataset_of(frame).sizes.tolist()) == [1, 3]


def test_arrays_are_read_only() -> None:
    dataset = dataset_of(ranking_frame(3))
    with pytest.raises(ValueError, match="read-only"):
        dataset.labels[0] = 9


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"query": pl.Series([None] * 2 + [1] * 4, dtype=pl.Int64)}, "2 row.s. of the train part without a query id"),
        ({"item": pl.Series([None] + [1] * 5, dtype=pl.Int64)}, "1 row.s. of the train part without an item id"),
        ({"query": [16777216.0] * 6}, "query ids of type Float64"),
        ({"item": [1] * 6}, "item 1 stands more than once in query 0"),
        ({"relevance": [None, 1, 0, 0, 0, 0]}, "1 row.s. of the train part without a usable relevance, the first None"),
        ({"relevance": [float("nan"), 1, 0, 0, 0, 0]}, "the first nan"),
        ({"relevance": [-1, 1, 0, 0, 0, 0]}, "the first -1.0 at query 0, item 0"),
        ({"relevance": [float("inf"), 1, 0, 0, 0, 0]}, "the first inf"),
        ({"relevance": [0.37, 1, 0, 0, 0, 0]}, "1 fractional relevance value"),
        ({"relevance": [31, 1, 0, 0, 0, 0]}, "relevance 31 in the train part; expected grades 0 to 30"),
        ({"relevance": ["a"] * 6}, "relevance of type String"),
        ({"x": ["red"] * 6}, "feature 'x' is of type String"),
        ({"x": pl.Series(["red"] * 6, dtype=pl.Categorical)}, "feature 'x' is of type Categorical"),
        ({"x": pl.Series(["red"] * 6, dtype=pl.Enum(["red"]))}, "feature 'x' is of type Enum"),
        ({"x": [date(2026, 1, 1)] * 6}, "feature 'x' is of type Date"),
        ({"x": [datetime(2026, 1, 1)] * 6}, "feature 'x' is of type Datetime"),
        ({"x": [timedelta(1)] * 6}, "feature 'x' is of type Duration"),
        ({"x": pl.Series([1.0] * 6, dtype=pl.Float16)}, "feature 'x' is of type Float16"),
        ({"x": pl.Series([1] * 6, dtype=pl.Decimal(10, 2))}, "feature 'x' is of type Decimal"),
        ({"x": [[1.0]] * 6}, "feature 'x' is of type List"),
        ({"x": [{"y": 1}] * 6}, "feature 'x' is of type Struct"),
        ({"x": [b"1"] * 6}, "feature 'x' is of type Binary"),
        ({"x": [2**24 + 1] * 6}, "feature 'x' holds the whole number 16777217"),
        ({"x": [-(2**63)] * 6}, "feature 'x' holds the whole number 9223372036854775808"),
        ({"x": [1.6e9, 1.6e9 + 1, None, 3.0, 4.0, 5.0]}, "feature 'x' holds the whole number 1600000001"),
        ({"x": [1e39] * 6}, "feature 'x' holds an infinite value"),
        ({"x": [float("-inf")] * 6}, "feature 'x' holds an infinite value"),
    ],
)
def test_what_lightgbm_would_misread_is_refused(change: dict[str, object], message: str) -> None:
    base = {"query": [0] * 6, "item": list(range(6)), "relevance": [1, 0, 0, 0, 0, 0], "x": [1.0] * 6}
    frame = pl.DataFrame({**base, **change})
    with pytest.raises(DatasetError, match=message):
        dataset_of(frame, grades("exp2", 1.0))


def test_grade_30_is_accepted_and_booleans_and_nulls_are_features() -> None:
    frame = pl.DataFrame(
        {"query": [1, 1], "item": [1, 2], "relevance": [30, 0], "x": [True, None], "y": pl.Series([None, None])}
    )
    dataset = dataset_of(frame)
    assert sorted(dataset.labels.tolist()) == [0, 30]
    assert dataset.features["y"].null_count() == 2


def test_the_row_limit_of_a_query_is_exact() -> None:
    frame = pl.DataFrame({"query": 1, "item": range(10_001), "relevance": 1, "x": 1.0})
    with pytest.raises(DatasetError, match="query 1 of the train part has 10001 rows; expected at most 10000"):
        dataset_of(frame)
    assert dataset_of(frame.head(10_000)).sizes.tolist() == [10_000]


def test_ids_of_every_kind_stay_distinct() -> None:
    for ids in ([-1, -2], ["-1", "é"], [2**53, 2**53 + 1], [16_777_216, 16_777_217]):
        frame = pl.DataFrame({"query": ids, "item": ids, "relevance": [1, 0], "x": [1.0, 2.0]})
        assert dataset_of(frame).sizes.tolist() == [1, 1]


def test_schema_finds_columns_by_name_and_refuses_missing_ones() -> None:
    schema = FeatureSchema.of([FeatureSpec("b"), FeatureSpec("a")])
    frame = pl.DataFrame({"z": [9], "b": [2], "a": [1.0]})
    assert schema.select(frame).row(0) == (1.0, 2.0)
    with pytest.raises(PackageError, match=r"1 feature column.s. missing: b"):
        schema.select(frame.drop("b"))


@pytest.mark.parametrize("features", [[], [FeatureSpec("a"), FeatureSpec("a")]])
def test_schema_refuses_none_and_duplicates(features: list[FeatureSpec]) -> None:
    with pytest.raises(DatasetError, match=r"no feature column|features named twice: a"):
        FeatureSchema.of(features)


def test_fingerprints_tell_schemas_apart() -> None:
    one = FeatureSchema.of([FeatureSpec("a", "category", categories=("x", "y"))])
    other = FeatureSchema.of([FeatureSpec("a", "category", categories=("y", "x"))])
    assert one.fingerprint != other.fingerprint
    assert one.fingerprint == FeatureSchema.of([FeatureSpec("a", "category", categories=("x", "y"))]).fingerprint


def test_categories_become_codes_unseen_unknown_missing_null() -> None:
    schema = FeatureSchema.of([FeatureSpec("c", "category", categories=("blue", "red"))])
    encoded = schema.encode(pl.DataFrame({"c": ["red", "green", None, "blue"]}))
    assert schema.select(encoded)["c"].to_list() == [2, 0, None, 1]
    with pytest.raises(PackageError, match="category 'c' is of type String; expected Int32 codes"):
        schema.select(pl.DataFrame({"c": ["red"]}))


@given(st.lists(st.floats(0, 1), min_size=1, max_size=50), st.sampled_from(["linear", "exp2"]))
def test_levels_are_off_by_half_a_level_at_most(values: list[float], gain: str) -> None:
    rule = levels(gain, 1.0, 100)
    relevance = np.array(values)
    labels = rule.to_labels(relevance, "train")
    assert np.abs(labels * 0.01 - relevance).max() <= 0.005 + 1e-12
    assert np.all(np.diff(rule.gains) > 0)


def test_many_tiers_and_huge_gains_draw_a_warning() -> None:
    rule = grades("exp2", 19)
    assert "19 tiers with gains up to 524287" in rule.warnings(19)[0]
    assert grades("exp2", 4).warnings(4) == []
    assert LabelRule((0.0, 1.0, 3.0)).warnings(2) == []
