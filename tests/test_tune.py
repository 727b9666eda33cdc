"""Searching: folds that look forward, trials that equal fresh trainings, an end that tells the truth."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import polars as pl
import pytest

from features.columns import TIMESTAMP
from features.errors import ConfigError, DataError, ParityError, TrainingError
from pipeline.booster import bin_datasets, binning_of, load_model, predict, train_booster
from pipeline.config import Config, config_from, load_config
from pipeline.dataset import RankingDataset
from pipeline.labels import grades
from pipeline.metrics import category_diversity_per_query, ndcg_per_query
from pipeline.params import POSITION_BIAS
from pipeline.run import Datasets
from pipeline.scorer import Scorer
from pipeline.space import Setting
from pipeline.split import Origin
from pipeline.train import lightgbm_params, train_ranker
from pipeline.tune import Tried, influences, make_task, overlay, run_search
from pipeline.tune.finals import best_of_many, fit_finals
from pipeline.tune.folds import Blocks, Fold, make_folds
from pipeline.tune.objective import Objective
from pipeline.tune.task import Task, contract_differences
from tests.factories import dataset_of, ranking_frame, write_config

ORIGIN = Origin("by hand")
START = datetime(2025, 1, 1)
SPACE = "[tune]\nfinalists = 2\n[tune.space]\nnum_leaves = { low = 2, high = 8 }\nlambda_l2 = true\n"


def timed_frame(queries: int = 120, **keywords: Any) -> pl.DataFrame:
    """One query an hour, told apart by user."""
    frame = ranking_frame(queries, **keywords)
    return frame.with_columns(pl.lit(START).dt.offset_by(pl.format("{}h", pl.col("query"))).alias("timestamp"))


def shown_frame() -> pl.DataFrame:
    """The same with the position of each row on a page."""
    return timed_frame().with_columns(position=pl.int_range(pl.len()).over("query"))


def config(space: dict[str, Any] | None = None, **tune: Any) -> Config:
    train = {"rounds": 20, "early_stopping": 10, "threads": 1, "params": {"min_data_in_leaf": 5, "learning_rate": 0.2}}
    raw = {"k": [5], "data": {"table": "t.parquet"}, "train": train}
    return config_from({**raw, "tune": {"trials": 6, "space": space or {"num_leaves": [2, 4, 8]}, **tune}}, "test")


def datasets(frame: pl.DataFrame | None = None, *, test_from: int = 90) -> Datasets:
    frame = timed_frame() if frame is None else frame
    cut = test_from * 2 // 3
    parts = (pl.col("query") < cut, pl.col("query").is_between(cut, test_from - 1), pl.col("query") >= test_from)
    return Datasets(*(dataset_of(frame.filter(part)) for part in parts), grades("exp2", 3), slices={}, warnings=())


def task_of(held: Datasets | None = None, space: dict[str, Any] | None = None, **tune: Any) -> Task:
    return make_task("test", held or datasets(), ORIGIN, config(space, **tune))


def search(task: Task, place: Path, **keywords: Any) -> list[Any]:
    return run_search(task, f"sqlite:///{place}", **{"resume": False, "on_trial": lambda _: None, **keywords})


def trees(text: str) -> str:
    return text.split("parameters:")[0]


# --- folds


def test_folds_are_disjoint_whole_and_forward_in_time() -> None:
    held = datasets()
    gap = timedelta(hours=2)
    folds = make_folds(held.train, held.valid, count=2, gap=gap, sample=None)
    assert len(folds) == 2
    assert folds[-1] == Fold(held.train, held.valid)
    assert folds[0].train.keys[TIMESTAMP].max() < folds[0].valid.keys[TIMESTAMP].min() - gap  # type: ignore[operator]
    for fold in folds:
        assert fold.train.keys[TIMESTAMP].max() < fold.valid.keys[TIMESTAMP].min()  # type: ignore[operator]
        assert not set(fold.train.queries) & set(fold.valid.queries)
        assert (fold.train.sizes == 8).all()
        assert (fold.valid.sizes == 8).all()
    assert folds[0].valid.keys[TIMESTAMP].max() < folds[1].valid.keys[TIMESTAMP].min() - gap  # type: ignore[operator]


def test_a_sample_holds_whole_queries_and_is_the_same_each_time() -> None:
    held = datasets(timed_frame(600), test_from=500)
    folds = make_folds(held.train, held.valid, count=1, gap=timedelta(0), sample=0.5)
    sampled, watched = folds[0].learnable()
    assert (sampled.sizes == 8).all()
    assert 0.4 < len(sampled.sizes) / len(held.train.sizes) < 0.6
    assert watched.queries.equals(folds[1].learnable()[1].queries)
    again = make_folds(held.train, held.valid, count=1, gap=timedelta(0), sample=0.5)[0].learnable()[0]
    assert again.queries.equals(sampled.queries)


def test_folds_beyond_the_log_are_refused() -> None:
    held = datasets()
    with pytest.raises(DataError, match=r"tune.folds = 9: no query is left to train on"):
        make_folds(held.train, held.valid, count=9, gap=timedelta(0), sample=None)


def test_folds_without_times_are_refused() -> None:
    held = datasets(ranking_frame(120))
    with pytest.raises(DataError, match=r"tune.folds = 2 for queries without a time"):
        make_folds(held.train, held.valid, count=2, gap=timedelta(0), sample=None)


def test_blocks_keep_the_mean_and_leave_out_what_has_no_value() -> None:
    values = np.random.default_rng(0).uniform(size=1000)
    values[::3] = np.nan
    blocks = Blocks.of(values)
    assert len(blocks.sums) == 256
    assert blocks.sums.sum() / blocks.counts.sum() == pytest.approx(np.nanmean(values), abs=1e-12)


# --- shared datasets


VARIATIONS: list[dict[str, Any]] = [
    {"min_data_in_leaf": 50},
    {"min_data_in_leaf": 5},
    {"min_data_in_leaf": 50, "num_leaves": 7, "lambda_l1": 0.5},
    {"objective": "rank_xendcg", "min_data_in_leaf": 2},
    {"feature_fraction": 0.5, "bagging_freq": 1, "bagging_fraction": 0.5, "bagging_by_query": True},
    {"extra_trees": True, "path_smooth": 1.0},
    {"sigmoid": 2.0, "lambdarank_norm": False, "lambdarank_truncation_level": 3},
    {POSITION_BIAS: 0.1},
    {"max_bin": 15},
    {"max_bin": 255, "min_data_in_bin": 30},
    {POSITION_BIAS: 2.0},
    {"min_data_in_leaf": 50},
]


def test_a_shared_dataset_gives_the_model_of_a_fresh_one_in_every_case() -> None:
    task = task_of(datasets(shown_frame()))
    objective, fold = Objective(task), task.folds[-1]
    base = lightgbm_params(config())[0]
    linear = tuple(float(label) for label in range(31))
    made = set()
    for i, varied in enumerate(VARIATIONS):
        params = base | varied
        train, watched = (replace(part, gains=linear if i % 2 else part.gains) for part in fold.learnable())
        shared = objective._binned(0, fold, params)
        made.add(id(shared.train_set))
        texts = [
            train_booster(
                train, watched, params=params, rounds=12, ks=[5], stop_k=5, patience=5, binned=held
            ).model_text
            for held in (shared, None)
        ]
        assert trees(texts[0]) == trees(texts[1]), varied
    assert len(made) < len(VARIATIONS)


def test_positions_change_the_model_only_where_their_bias_is_asked_for() -> None:
    held, plain = datasets(shown_frame()), datasets()
    base = lightgbm_params(config())[0]
    fits = [
        trees(train_booster(data.train, data.valid, params=base | bias, rounds=8, ks=[5]).model_text)
        for data, bias in ((held, {}), (plain, {}), (held, {POSITION_BIAS: 0.1}), (held, {POSITION_BIAS: 0.1}))
    ]
    assert fits[0] == fits[1] != fits[2] == fits[3]


@pytest.mark.parametrize(("shown", "count"), [(False, 480), (True, 8)])
def test_a_bias_of_positions_that_rows_lack_is_refused_before_the_first_trial(shown: bool, count: int) -> None:
    frame = shown_frame().with_columns(position=pl.when(pl.col("query") > 0).then(pl.col("position")))
    with pytest.raises(TrainingError, match=f"{count} of 480 training rows have no position for {POSITION_BIAS}"):
        task_of(datasets(frame if shown else None), {POSITION_BIAS: True})


def test_a_dataset_is_made_anew_for_every_parameter_that_lightgbm_fixes_in_it() -> None:
    """LightGBM itself is asked: one dataset under changed parameters is refused exactly where our key differs."""
    held = datasets()
    base = lightgbm_params(config())[0]
    for varied in ({"max_bin": 15}, {"min_data_in_bin": 9}, {"use_missing": False}, {"linear_tree": True}, {"seed": 1}):
        assert binning_of(base | varied) != binning_of(base)
    shared = bin_datasets(held.train, held.valid, base)
    with pytest.raises(Exception, match="max_bin"):
        train_booster(held.train, held.valid, params=base | {"max_bin": 15}, rounds=2, ks=[5], binned=shared)


# --- trials


def test_the_first_trial_is_the_default_itself(tmp_path: Path) -> None:
    task = task_of(space={"lambda_l1": {"low": 1.0, "high": 9.0}}, trials=1)
    first = search(task, tmp_path / "s.db")[0]
    assert first.is_default
    assert first.setting == Setting("lambdarank", None, {"min_data_in_leaf": 5, "learning_rate": 0.2})
    fold = task.folds[-1]
    trained = train_booster(
        *fold.learnable(),
        params=lightgbm_params(task.for_search(task.default))[0],
        rounds=20,
        ks=[5],
        stop_k=5,
        patience=10,
    )
    scores = predict(load_model(trained.model_text), fold.valid.features)
    expected = np.nanmean(ndcg_per_query(scores, fold.valid.relevance, fold.valid.sizes, 5))
    assert first.value == pytest.approx(expected, abs=1e-12)


def test_several_folds_are_one_mean_over_all_their_queries(tmp_path: Path) -> None:
    task = task_of(folds=2, trials=1)
    first = search(task, tmp_path / "s.db")[0]
    sums = [np.nansum(np.array(stage, float)) for stage in first.outcome["blocks"]]
    counts = [fold.counts(task.convention).sum() for fold in task.folds]
    assert first.value == pytest.approx(sum(sums) / sum(counts), abs=1e-6)
    assert len(first.outcome["rounds"]) == 2


def test_a_weighted_aim_is_the_weighted_sum_of_its_parts(tmp_path: Path) -> None:
    frame = timed_frame().with_columns(brand=(pl.col("item") % 3).cast(pl.Float64))
    task = task_of(
        datasets(frame), weights={"ndcg": 2.0, "diversity": 0.5, "coverage": 0.25}, diversity_by="brand", trials=1
    )
    valid = task.folds[-1].valid
    trained = train_booster(
        *task.folds[-1].learnable(),
        params=lightgbm_params(task.for_search(task.default))[0],
        rounds=20,
        ks=[5],
        stop_k=5,
        patience=10,
    )
    scores = predict(load_model(trained.model_text), valid.features)
    ndcg = ndcg_per_query(scores, valid.relevance, valid.sizes, 5)
    known = ~np.isnan(ndcg)
    different = category_diversity_per_query(scores, valid.features["brand"].to_numpy().astype(int), valid.sizes, 5)
    expected = 2.0 * ndcg[known].mean() + 0.5 * different[known].mean() + 0.25 * 1.0
    assert search(task, tmp_path / "s.db")[0].value == pytest.approx(expected, abs=1e-9)


def test_a_weighted_aim_over_an_unknown_column_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"tune.diversity_by = 'colour'"):
        task_of(weights={"diversity": 0.5}, diversity_by="colour")


def test_a_setting_is_trained_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trained = []

    def counting(*arguments: Any, **keywords: Any) -> Any:
        trained.append(keywords["params"].get("num_leaves"))
        return train_booster(*arguments, **keywords)

    monkeypatch.setattr("pipeline.tune.objective.train_booster", counting)
    tried = search(task_of(space={"num_leaves": [31, 4]}, trials=12), tmp_path / "s.db")
    assert len(tried) == 12
    assert len(trained) <= 3
    for trial in tried:
        if trial.same_as is not None:
            assert trial.value == tried[trial.same_as].value


def test_a_trial_that_is_plainly_worse_ends_after_its_first_fold(tmp_path: Path) -> None:
    tried = search(
        task_of(datasets(timed_frame(300), test_from=270), {"max_bin": [2]}, folds=2, trials=2), tmp_path / "s.db"
    )
    assert [trial.state for trial in tried] == ["complete", "pruned"]


def test_what_lies_behind_the_median_is_pruned_while_it_grows(tmp_path: Path) -> None:
    space = {"num_leaves": {"low": 2, "high": 31}, "lambda_l2": True}
    tried = search(task_of(space=space, trials=30), tmp_path / "s.db")
    states = [trial.state for trial in tried]
    assert states.count("pruned") > 3
    assert "complete" in states[10:]


def test_the_same_seed_gives_the_same_trials(tmp_path: Path) -> None:
    space = {"num_leaves": {"low": 2, "high": 31}, "lambda_l2": True, "objective": True}
    one, two = (
        [(t.setting, t.value, t.state) for t in search(task_of(space=space, trials=11), tmp_path / f"{i}.db")]
        for i in (1, 2)
    )
    assert one == two


def test_the_same_trials_end_in_the_same_settings(tmp_path: Path) -> None:
    task, held = task_of(trials=5), datasets()
    one, two = (fit_finals(task, held, search(task, tmp_path / f"{i}.db")).chosen for i in (1, 2))
    assert overlay(one.config, "") == overlay(two.config, "")
    assert one.ranker.model_text == two.ranker.model_text


def test_memory_does_not_grow_over_a_hundred_trials(tmp_path: Path) -> None:
    held: list[int] = []

    def note(_: object) -> None:
        held.append(int(Path("/proc/self/statm").read_text("ascii").split()[1]))

    search(task_of(space={"lambda_l2": True, "max_bin": [15, 63, 255]}, trials=100), tmp_path / "s.db", on_trial=note)
    assert len(held) == 100
    assert held[-1] < 1.1 * held[9]


def test_a_search_that_was_cut_in_two_does_not_repeat_itself(tmp_path: Path) -> None:
    space = {"lambda_l2": True, "feature_fraction": True}
    search(task_of(space=space, trials=6), tmp_path / "s.db")
    tried = search(task_of(space=space, trials=11), tmp_path / "s.db", resume=True)
    whole = search(task_of(space=space, trials=11), tmp_path / "w.db")
    assert len({trial.setting.key for trial in tried}) == 11
    assert [(t.setting, t.value) for t in tried] == [(t.setting, t.value) for t in whole]


def test_threads_times_jobs_stay_within_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.tune.task.available_threads", lambda: 4)
    held = datasets()
    for jobs, threads in ((1, 4), (2, 2), (3, 1), (9, 1)):
        settled = config(jobs=jobs)
        free = settled.model_copy(update={"train": settled.train.model_copy(update={"threads": None})})
        assert make_task("t", held, ORIGIN, free).threads == threads


def test_a_search_out_of_time_ends_within_a_round_and_begins_with_the_default_again(tmp_path: Path) -> None:
    task = task_of()
    hasty = task.config.model_copy(update={"tune": task.config.tune.model_copy(update={"timeout": timedelta(0)})})
    with pytest.raises(TrainingError, match=r"none of 0 trials was finished.*--timeout"):
        search(replace(task, config=hasty), tmp_path / "s.db")
    tried = search(task_of(trials=2), tmp_path / "s.db", resume=True)
    assert [(trial.number, trial.is_default) for trial in tried] == [(0, True), (1, False)]


def test_a_finalist_that_cannot_be_fitted_is_left_out_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    task, held = task_of(), datasets()
    settings = [Setting("lambdarank", None, {"num_leaves": leaves, "min_data_in_leaf": 5}) for leaves in (2, 3, 4)]
    tried = [Tried(n + 1, "complete", 0.9, s, False, {}, None, None, 1.0, 0.0) for n, s in enumerate(settings)]
    fails = {2}

    def train(train: RankingDataset, valid: RankingDataset, config: Config) -> Any:
        if config.train.params.get("num_leaves") in fails:
            raise ParityError("LightGBM's ndcg and ours differ by 0.1", expected="less", fix="report it")
        return train_ranker(train, valid, config)

    monkeypatch.setattr("pipeline.tune.finals.train_ranker", train)
    choice = fit_finals(task, held, tried)
    assert list(choice.refused) == [1]
    assert "differ by 0.1" in choice.refused[1]
    assert choice.default is not None
    fails |= {None, 3, 4}
    with pytest.raises(TrainingError, match=r"none of 4 finalists could be fitted in full; the first: .*differ by 0.1"):
        fit_finals(task, held, tried)


def test_steps_are_large_in_the_search_and_small_at_the_end() -> None:
    task = task_of(learning_rate=0.4)
    assert task.for_search(task.default).train.params["learning_rate"] == 0.4
    assert task.for_final(task.default).train.params["learning_rate"] == 0.2
    patient = task_of().config.model_copy(
        update={"train": task_of().config.train.model_copy(update={"early_stopping": 100})}
    )
    for rate, rounds in ((0.2, 30), (0.4, 15), (0.8, 10)):
        tune = patient.tune.model_copy(update={"learning_rate": rate})
        quick = make_task("t", datasets(), ORIGIN, patient.model_copy(update={"tune": tune}))
        assert quick.for_search(quick.default).train.early_stopping == rounds
        assert quick.for_final(quick.default).train.early_stopping == 100
    searched = task_of(space={"learning_rate": True})
    setting = Setting("lambdarank", None, {"learning_rate": 0.07})
    assert searched.for_search(setting).train.params == searched.for_final(setting).train.params == setting.params


def test_a_fold_that_judges_nothing_fails_each_trial_with_the_reason(tmp_path: Path) -> None:
    frame = timed_frame().with_columns(relevance=pl.when(pl.col("query") < 60).then(pl.col("relevance")).otherwise(0))
    with pytest.raises(
        TrainingError, match="all 3 trials failed, most often because of this: all 30 validation queries"
    ):
        search(task_of(datasets(frame), trials=3), tmp_path / "s.db")
    study = optuna.load_study(study_name="test", storage=f"sqlite:///{tmp_path / 's.db'}")
    assert all("without a relevant item" in trial.user_attrs["reason"] for trial in study.trials)


# --- resuming


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        ({"space": {"num_leaves": [2, 4]}}, r"space.num_leaves was \[2, 4, 8\], is now \[2, 4\]"),
        ({"held": datasets(timed_frame(seed=9))}, "data is other data"),
        ({"weights": {"coverage": 0.1}}, r"weights.coverage was 0.0, is now 0.1"),
        ({"learning_rate": 0.3}, r"train.search_rate was 0.2, is now 0.3"),
        ({"folds": 2}, "folds was 1, .* is now 2"),
    ],
)
def test_another_search_is_not_resumed(tmp_path: Path, change: dict[str, Any], difference: str) -> None:
    search(task_of(trials=1), tmp_path / "s.db")
    with pytest.raises(ConfigError, match=difference):
        search(task_of(**{"held": None, **change}), tmp_path / "s.db", resume=True)


def test_a_study_that_minimises_is_not_resumed(tmp_path: Path) -> None:
    optuna.create_study(study_name="test", storage=f"sqlite:///{tmp_path / 's.db'}", direction="minimize")
    with pytest.raises(ConfigError, match="minimises"):
        search(task_of(), tmp_path / "s.db", resume=True)


def test_a_study_is_not_joined_unasked(tmp_path: Path) -> None:
    search(task_of(trials=1), tmp_path / "s.db")
    with pytest.raises(ConfigError, match=r"holds a study 'test' already.*--resume"):
        search(task_of(trials=1), tmp_path / "s.db")


def test_differences_are_named_key_by_key() -> None:
    old, new = {"a": {"x": 1, "y": 2}, "b": 1}, {"a": {"x": 1, "z": 3}, "b": 2}
    expected = ["a.y was 2, is now None", "a.z was absent, is now 3", "b was 1, is now 2"]
    assert contract_differences(old, new) == expected


# --- optimism


def test_the_optimism_of_equal_trials_is_nothing() -> None:
    means = np.tile(np.random.default_rng(0).uniform(size=100), (20, 1))
    assert best_of_many(means, np.ones(100), 0) == pytest.approx(0.0, abs=0.02)


@pytest.mark.parametrize("count", [2, 10, 50])
def test_the_optimism_of_noise_is_the_expected_maximum(count: int) -> None:
    """Trials that differ by luck alone: the best of T means of spread s lies s * E[max of T normals] up."""
    rng = np.random.default_rng(1)
    blocks, estimates = 200, []
    for _ in range(20):
        means = rng.normal(size=(count, blocks))
        estimates.append(best_of_many(means, np.ones(blocks), 3))
    expected = rng.normal(size=(20_000, count)).max(axis=1).mean() / np.sqrt(blocks)
    assert np.mean(estimates) == pytest.approx(expected, rel=0.35)


# --- the verb


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, str]:
    """A config, the run folder that tune made of it, and what it printed."""
    import contextlib
    import io

    from pipeline import tuning
    from pipeline.console import console

    folder = tmp_path_factory.mktemp("tuned")
    path = write_config(folder, timed_frame(200), "[split]\nvalid = 0.2\ntest = 0.2\n" + SPACE)
    printed = io.StringIO()
    console.file = printed
    try:
        with contextlib.redirect_stdout(printed):
            tuning.tune(path, ["tune.trials=8"], folder / "out", resume=False, overwrite=False)
    finally:
        console.file = None  # type: ignore[assignment]
    return path, folder / "out", printed.getvalue()


def test_tune_writes_a_whole_run_folder(tuned: tuple[Path, Path, str]) -> None:
    names = {path.name for path in tuned[1].iterdir()}
    assert {"config.toml", "metrics.json", "per_query.parquet", "package", "log.txt"} <= names
    assert {"best.toml", "study.db", "trials.parquet"} <= names


def test_the_report_shows_the_search_before_the_run(tuned: tuple[Path, Path, str]) -> None:
    page = (tuned[1] / "report.html").read_text("utf-8")
    figures = json.loads(page.split('id="figures">')[1].split("</script>")[0])
    assert {"tune-history", "tune-curves"} <= set(figures)
    assert sum(len(trace["x"]) for trace in figures["tune-history"]["data"][:2]) == 8
    assert {trace["type"] for figure in figures.values() for trace in figure["data"]} <= {"scatter", "bar"}
    assert page.index('id="search"') < page.index('id="results"')


def test_what_has_no_influence_is_given_none() -> None:
    """A parameter that decides the value explains all of it, one that is drawn beside it nothing or little."""
    rng = np.random.default_rng(0)
    tried = []
    for number in range(60):
        leaves, noise = int(rng.integers(2, 100)), float(rng.uniform())
        setting = Setting("lambdarank", None, {"num_leaves": leaves, "lambda_l1": noise, "max_bin": 255})
        value = 0.5 if leaves < 50 else 0.6
        tried.append(Tried(number, "complete", value, setting, False, {}, None, None, 1.0, 0.0))
    found = influences(tried)
    assert list(found) == ["num_leaves", "lambda_l1"]
    assert found["num_leaves"] > 0.6
    assert found["lambda_l1"] < 0.15


def test_tune_prints_few_lines_in_a_pipe_and_nothing_of_optuna(tuned: tuple[Path, Path, str]) -> None:
    lines = tuned[2].splitlines()
    assert len(lines) < 30
    assert "Warning" not in tuned[2]
    assert "[I " not in tuned[2]


def test_the_best_value_is_that_of_the_package(tuned: tuple[Path, Path, str]) -> None:
    path, out, _ = tuned
    metrics = json.loads((out / "metrics.json").read_text())
    frame = pl.read_parquet(load_config(path).data.table)
    from pipeline.readymade import load_parts

    valid = RankingDataset.build(load_parts(load_config(path)).valid, labels=grades("exp2", 3), part="valid")
    scores = Scorer.load(out / "package").score_features(valid.features)
    value = float(np.nanmean(ndcg_per_query(scores, valid.relevance, valid.sizes, 10)))
    assert metrics["tune"]["chosen_value"] == pytest.approx(value, abs=1e-12)
    assert metrics["valid"]["model"]["ndcg@10"]["mean"] == pytest.approx(value, abs=1e-12)
    assert frame.height == 1600


def test_best_toml_makes_train_repeat_the_model(
    tuned: tuple[Path, Path, str], rankloom: Callable[..., Any], tmp_path: Path
) -> None:
    path, out, _ = tuned
    again = rankloom("train", path, "--set", f"include={out / 'best.toml'}", "--out", tmp_path / "again")
    assert again.code == 0, again.err
    first, second = ((folder / "package" / "model.txt").read_text() for folder in (out, tmp_path / "again"))
    assert first == second


def test_the_default_stands_beside_the_best_on_test(tuned: tuple[Path, Path, str]) -> None:
    metrics = json.loads((tuned[1] / "metrics.json").read_text())
    assert metrics["tune"]["optimism"] is not None
    if metrics["tune"]["chosen_trial"] != 0:
        assert set(metrics["diff"]["default"]["ndcg@10"]) == {"mean", "low", "high"}
        lead = metrics["test"]["model"]["ndcg@10"]["mean"] - metrics["test"]["default"]["ndcg@10"]["mean"]
        assert metrics["diff"]["default"]["ndcg@10"]["mean"] == pytest.approx(lead, abs=1e-12)


def test_a_search_over_noise_shows_no_gain(rankloom: Callable[..., Any], tmp_path: Path) -> None:
    frame = timed_frame(240, seed=4)
    shuffled = frame.with_columns(pl.col("relevance").shuffle(seed=1).over("query"))
    path = write_config(tmp_path, shuffled, "[split]\nvalid = 0.25\ntest = 0.25\n" + SPACE)
    outcome = rankloom("tune", path, "--trials", 50, "--out", tmp_path / "out")
    assert outcome.code == 0, outcome.err
    metrics = json.loads((tmp_path / "out" / "metrics.json").read_text())
    assert metrics["tune"]["optimism"] > 0
    assert "default is kept" in outcome.out or "no gain over the default" in outcome.out
    lead = metrics["diff"].get("default", {}).get("ndcg@10")
    assert lead is None or lead["low"] <= 0


def test_ctrl_c_leaves_the_study_and_the_best_so_far(
    rankloom: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_config(tmp_path, timed_frame(), "[split]\nvalid = 0.25\ntest = 0.25\n" + SPACE)
    calls, real = [], Objective.__call__

    def third_is_stopped(self: Objective, trial: optuna.Trial) -> float:
        calls.append(trial.number)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(self, trial)

    monkeypatch.setattr(Objective, "__call__", third_is_stopped)
    outcome = rankloom("tune", path, "--trials", 5, "--out", tmp_path / "out")
    assert outcome.code == 2
    assert "stopped after 2 of 5 trials" in outcome.err
    assert "--resume" in outcome.err
    assert load_config(path, [f"include={tmp_path / 'out' / 'best.toml'}"]).train.params
    assert rankloom("tune", path, "--trials", 5, "--out", tmp_path / "out").code == 2
    resumed = rankloom("tune", path, "--trials", 5, "--out", tmp_path / "out", "--resume")
    assert resumed.code == 0, resumed.err
    trials = pl.read_parquet(tmp_path / "out" / "trials.parquet")
    assert trials.height == 5
    assert trials["trial"].to_list() == [0, 1, 2, 3, 4]


def test_a_search_that_never_began_leaves_nothing(rankloom: Callable[..., Any], tmp_path: Path) -> None:
    path = write_config(tmp_path, ranking_frame(60), "[split]\nvalid = 0.25\ntest = 0.25\n[tune]\nfolds = 2\n")
    outcome = rankloom("tune", path, "--out", tmp_path / "out")
    assert outcome.code == 2
    assert "without a time" in outcome.err
    assert not (tmp_path / "out").exists()


def test_tune_does_not_replace_what_is_not_its_own(rankloom: Callable[..., Any], tmp_path: Path) -> None:
    path = write_config(tmp_path, timed_frame(), SPACE)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "letter.txt").write_text("dear")
    for options in ([], ["--overwrite"], ["--resume"]):
        outcome = rankloom("tune", path, "--out", tmp_path / "out", *options)
        assert outcome.code == 2
        assert (tmp_path / "out" / "letter.txt").read_text() == "dear"
