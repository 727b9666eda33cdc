"""Training: parity with LightGBM's own metric, the same model every time, refusal of what cannot be learned."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from features.errors import ParityError, TrainingError
from pipeline.booster import Trained, builtin_ndcg, load_model, predict, train_booster
from pipeline.config import Config, config_from
from pipeline.labels import LabelRule, grades, levels
from pipeline.train import available_threads, check_parity, label_ndcg, lightgbm_params, train_ranker
from tests.factories import dataset_of, ranking_frame


def config(**train: object) -> Config:
    params = {"min_data_in_leaf": 5, "learning_rate": 0.2}
    raw = {"k": [5, 1], "data": {"table": "t.parquet"}, "train": {"rounds": 30, "early_stopping": 10, "params": params}}
    raw["train"] |= {"threads": 1, **train}  # type: ignore[operator]
    return config_from(raw, "test")


@st.composite
def judged_lists(draw: st.DrawFn) -> tuple[pl.DataFrame, np.ndarray, LabelRule]:
    """Ragged queries with ties, empty and single-item queries, up to 31 grades, and one of three gain tables."""
    sizes = draw(st.lists(st.integers(1, 12), min_size=1, max_size=8))
    top = draw(st.sampled_from([1, 4, 30]))
    rows = sum(sizes)
    relevance = draw(st.lists(st.integers(0, top), min_size=rows, max_size=rows))
    scores = draw(st.lists(st.sampled_from([-1.5, 0.0, 0.25, 0.5, 3.0]), min_size=rows, max_size=rows))
    query = np.repeat(np.arange(len(sizes)), sizes)
    frame = pl.DataFrame({"query": query, "item": np.arange(rows), "relevance": relevance, "a": np.arange(rows) * 1.0})
    gain = draw(st.sampled_from(["exp2", "linear", tuple(float(i * i) for i in range(31))]))
    return frame, np.array(scores), grades(gain, top)


@settings(max_examples=60, deadline=None)
@given(judged_lists())
def test_builtin_ndcg_equals_ours_on_any_lists(case: tuple[pl.DataFrame, np.ndarray, LabelRule]) -> None:
    frame, scores, labels = case
    dataset = dataset_of(frame, labels)
    theirs = builtin_ndcg(dataset, scores, [1, 3, 10, 50])
    for k, value in theirs.items():
        assert label_ndcg(dataset, scores, k) == pytest.approx(value, abs=1e-9)


@pytest.mark.parametrize("objective", ["lambdarank", "rank_xendcg"])
@pytest.mark.parametrize("extra", [{}, {"bagging_freq": 1, "bagging_fraction": 0.5}, {"data_sample_strategy": "goss"}])
def test_parity_holds_after_every_kind_of_training(objective: str, extra: dict[str, object]) -> None:
    frame = ranking_frame(80)
    params = {"min_data_in_leaf": 5, "learning_rate": 0.2, **extra}
    ranker = train_ranker(
        dataset_of(frame.filter(pl.col("query") < 60)),
        dataset_of(frame.filter(pl.col("query") >= 60)),
        config(objective=objective, params=params, refit=True),
    )
    assert ranker.parity["max_abs_diff"] <= 1e-9


def test_parity_stops_the_run_when_rows_moved() -> None:
    dataset = dataset_of(ranking_frame(60))
    trained = train_booster(dataset, dataset, params=lightgbm_params(config())[0], rounds=10, ks=[5])
    shifted = Trained(trained.model_text, 10, {5: [value - 0.01 for value in trained.history[5]]})
    with pytest.raises(ParityError, match=r"differ by 0.01"):
        check_parity(shifted, dataset)


def test_training_is_blind_to_the_order_of_rows_columns_and_queries() -> None:
    frame = ranking_frame(60)
    moved = frame.sample(fraction=1.0, shuffle=True, seed=3).select(sorted(frame.columns, reverse=True))
    texts = []
    for table in (frame, moved):
        dataset = dataset_of(table)
        texts.append(train_ranker(dataset, dataset, config()).model_text)
    assert texts[0] == texts[1]


def test_training_gives_the_same_trees_on_one_and_two_threads() -> None:
    dataset = dataset_of(ranking_frame(60))
    one, two = (train_ranker(dataset, dataset, config(threads=n)).model_text for n in (1, 2))
    assert one.split("parameters:")[0] == two.split("parameters:")[0]


def test_label_order_within_a_query_does_not_help_a_model() -> None:
    """Rows sorted by label would win all ties; the order of a dataset comes from ids alone."""
    frame = ranking_frame(60)
    rising, falling = (dataset_of(frame.sort("relevance", descending=down)) for down in (False, True))
    assert rising.keys.equals(falling.keys)
    constant = np.zeros(rising.rows)
    assert label_ndcg(rising, constant, 5) < 0.8


def test_early_stopping_follows_the_chosen_cutoff_not_the_smallest() -> None:
    frame = ranking_frame(120, seed=5)
    train, valid = dataset_of(frame.filter(pl.col("query") < 60)), dataset_of(frame.filter(pl.col("query") >= 60))
    ranker = train_ranker(train, valid, config(k=5, rounds=40, early_stopping=40))
    assert ranker.best_iteration == int(np.argmax(ranker.history[5])) + 1
    assert load_model(ranker.model_text).num_trees() == ranker.best_iteration


def test_empty_queries_are_set_aside_and_counted() -> None:
    frame = ranking_frame(60).with_columns(
        relevance=pl.when(pl.col("query") < 7).then(0).otherwise(pl.col("relevance"))
    )
    train, valid = dataset_of(frame.filter(pl.col("query") < 40)), dataset_of(frame.filter(pl.col("query") >= 40))
    ranker = train_ranker(train, valid, config())
    assert "7 of 40 training queries have no relevant item and are not trained on" in ranker.notes


def test_refit_keeps_the_number_of_trees_and_sees_both_parts() -> None:
    frame = ranking_frame(80)
    train, valid = dataset_of(frame.filter(pl.col("query") < 60)), dataset_of(frame.filter(pl.col("query") >= 60))
    plain, refitted = (train_ranker(train, valid, config(refit=refit)) for refit in (False, True))
    assert load_model(refitted.model_text).num_trees() == plain.best_iteration
    assert refitted.selected_text == plain.model_text != refitted.model_text


def test_all_labels_zero_is_refused() -> None:
    frame = ranking_frame(20).with_columns(relevance=pl.lit(0))
    with pytest.raises(TrainingError, match="all 20 training queries are without a relevant item"):
        train_ranker(dataset_of(frame), dataset_of(frame), config())


def test_constant_features_are_refused() -> None:
    frame = ranking_frame(20).with_columns(a=pl.lit(1.0), b=pl.lit(2.0), c=pl.lit(3.0))
    with pytest.raises(TrainingError, match="no tree found a split in 160 rows"):
        train_ranker(dataset_of(frame), dataset_of(frame), config())


def test_continuous_relevance_trains_on_levels_with_a_bounded_error() -> None:
    rng = np.random.default_rng(1)
    frame = ranking_frame(60).with_columns(relevance=pl.Series(rng.uniform(size=480)) * (pl.col("a") > 0))
    rule = levels("linear", 1.0)
    dataset = dataset_of(frame, rule)
    gains = np.asarray(dataset.gains)[dataset.labels]
    assert np.abs(gains - dataset.relevance).max() <= rule.max_error + 1e-15
    assert train_ranker(dataset, dataset, config()).parity["max_abs_diff"] <= 1e-9


def test_dart_keeps_all_rounds_and_says_so() -> None:
    dataset = dataset_of(ranking_frame(60))
    ranker = train_ranker(dataset, dataset, config(params={"boosting": "dart", "min_data_in_leaf": 5}))
    assert ranker.best_iteration == 30
    assert any("dart rescales" in note for note in ranker.notes)


def test_rounds_without_a_split_are_no_trees() -> None:
    """LightGBM takes such a tree back and counts on: its round numbers are then ahead of the trees in the model."""
    frame = ranking_frame(60).with_columns(c=pl.lit(1.0), d=pl.lit(2.0), e=pl.lit(3.0))
    params = {"min_data_in_leaf": 5, "learning_rate": 0.2, "feature_fraction": 0.2}
    dataset = dataset_of(frame)
    ranker = train_ranker(dataset, dataset, config(params=params, rounds=40, early_stopping=40))
    assert len(ranker.history[5]) < 40
    assert load_model(ranker.model_text).num_trees() == ranker.best_iteration
    assert ranker.parity["max_abs_diff"] <= 1e-9


def test_predict_of_no_rows_is_no_scores() -> None:
    dataset = dataset_of(ranking_frame(60))
    booster = load_model(train_ranker(dataset, dataset, config()).model_text)
    assert predict(booster, dataset.features.head(0)).shape == (0,)


def test_available_threads_is_at_least_one() -> None:
    assert available_threads() >= 1


@pytest.mark.parametrize(
    "params",
    [
        {"num_leaves": 1},
        {"max_bin": 1},
        {"num_leaves": 200_000},
        {"boosting": "bogus"},
        {"boosting": "rf"},
        {"feature_fraction": 2},
        {"learning_rate": 0},
        {"sigmoid": 0},
        {"feature_contri": [1.0]},
        {"data_sample_strategy": "goss", "bagging_freq": 1, "bagging_fraction": 0.5},
    ],
)
def test_what_lightgbm_refuses_is_for_the_user_to_mend(params: dict[str, object]) -> None:
    dataset = dataset_of(ranking_frame(20))
    with pytest.raises(TrainingError, match="LightGBM refuses the settings"):
        train_ranker(dataset, dataset, config(params=params))
