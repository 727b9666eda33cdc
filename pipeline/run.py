"""A training run from its parts to its folder: datasets, model, rivals, metrics.json, package."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from features.columns import ITEM, QUERY, RANDOMISED, RELEVANCE, TIMESTAMP
from features.errors import DataError
from features.log import align_ids
from features.table import Table
from pipeline.booster import load_model, predict
from pipeline.config import Config
from pipeline.dataset import RankingDataset
from pipeline.drift import fit_reference
from pipeline.labels import DEFAULT_LEVELS, LabelRule, grades, levels
from pipeline.metrics import Convention
from pipeline.package import write_package
from pipeline.readymade import read_rows
from pipeline.results import MODEL, Judgement, Rivals, judge, query_counts, warnings
from pipeline.split import Origin, Parts
from pipeline.train import Ranker, train_ranker

METRICS, PER_QUERY, CONFIG, LOG_FILE, PACKAGE = "metrics.json", "per_query.parquet", "config.toml", "log.txt", "package"
REJECTED, RANKED = "rejected.parquet", "ranked.parquet"
TRUTH, RANDOM_ORDER = "true relevance", "randomised queries"


@dataclass
class Timings:
    """Seconds spent in each step, in order."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = round(self.seconds.get(name, 0.0) + time.perf_counter() - start, 3)


@dataclass(frozen=True)
class Datasets:
    """The three parts as the trainer and the evaluator take them."""

    train: RankingDataset
    valid: RankingDataset
    test: RankingDataset
    labels: LabelRule
    slices: dict[str, RankingDataset]
    """Views of the test part on which what was shown on top has no advantage."""
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class Run:
    """All that a run found out; `write` turns it into a folder."""

    config: Config
    origin: Origin
    datasets: Datasets
    ranker: Ranker
    rivals: Rivals
    valid: Judgement
    test: Judgement
    metrics: dict[str, Any]
    warnings: tuple[str, ...]


def build_datasets(parts: Parts, config: Config, convention: Convention) -> Datasets:
    """Checked datasets of one schema and one label rule. Raises DatasetError."""
    tops = [top_relevance(table.frame) for table in (parts.train, parts.valid, parts.test)]
    labels = label_rule(config, convention, tops, continuous=parts.origin.continuous)
    train = RankingDataset.build(parts.train, labels=labels, part="train")
    return with_train(train, parts.valid, parts.test, labels, tops[0], config)


def with_train(
    train: RankingDataset, valid: Table, test: Table, labels: LabelRule, top: float, config: Config
) -> Datasets:
    """The datasets beside the one to train on, whose highest relevance is `top`. Raises DatasetError."""
    watched = RankingDataset.build(valid, labels=labels, part="valid", schema=train.schema)
    judged = RankingDataset.build(test, labels=labels, part="test", schema=train.schema)
    return Datasets(train, watched, judged, labels, _slices(judged, config), tuple(labels.warnings(top)))


def label_rule(config: Config, convention: Convention, tops: Sequence[float], *, continuous: bool) -> LabelRule:
    """How relevance becomes labels; `tops` are the highest relevances of train, valid and test."""
    gain = config.train.gain or convention.gain
    if continuous:
        return levels(gain, tops[0], config.relevance.levels or DEFAULT_LEVELS)
    return grades(gain, max(tops))


def run_training(
    datasets: Datasets, origin: Origin, config: Config, *, timings: Timings, on_round: Callable[[int, float], None]
) -> Run:
    """Trains and judges the model beside its rivals. Raises what the trainer and the rivals raise."""
    with timings.step("train"):
        ranker = train_ranker(datasets.train, datasets.valid, config, on_round)
    return judge_ranker(datasets, origin, config, ranker, timings=timings)


def judge_ranker(
    datasets: Datasets,
    origin: Origin,
    config: Config,
    ranker: Ranker,
    *,
    timings: Timings,
    others: Mapping[str, Ranker] = MappingProxyType({}),
) -> Run:
    """A trained model beside its rivals, to which `others` of the same features may be added by name."""
    convention = config.resolved_convention(continuous=origin.continuous)
    with timings.step("evaluate"):
        rivals = Rivals.choose(datasets.valid, config.train_k, convention, fields=origin.rivals, named=config.baselines)

        selected, shipped = (
            {name: getattr(held, text) for name, held in {MODEL: ranker, **others}.items()}
            for text in ("selected_text", "model_text")
        )

        def judged(dataset: RankingDataset, models: Mapping[str, str]) -> Judgement:
            scores = {name: predict(load_model(text), dataset.features) for name, text in models.items()}
            return judge(dataset, scores | rivals.scores(dataset), config.k, convention, config.seed)

        valid, test = judged(datasets.valid, selected), judged(datasets.test, shipped)
        parity = ranker.parity | _level_error(datasets, valid, convention)
        slices = {name: judged(part, shipped) for name, part in datasets.slices.items()}
        if RANDOM_ORDER in slices:
            slices[RANDOM_ORDER] = slices[RANDOM_ORDER].without("shown")
    counts = {"train": len(datasets.train.sizes), "valid": len(datasets.valid.sizes)}
    counts |= query_counts(datasets.test, convention)
    metrics = {
        "k": list(config.k),
        "convention": convention.to_dict(),
        "seed": config.seed,
        "best_iteration": ranker.best_iteration,
        "queries": counts,
        "valid": valid.block(),
        "test": test.block(),
        "diff": test.differences(),
        "slices": {name: {"test": part.block(), "diff": part.differences()} for name, part in slices.items()},
        "best_feature_name": rivals.best_feature,
        "parity": parity,
        "timings": timings.seconds,
    }
    found = (*datasets.warnings, *warnings(test, counts))
    return Run(config, origin, datasets, ranker, rivals, valid, test, metrics, found)


def write_run(folder: Path, run: Run) -> None:
    """config.toml, metrics.json, per_query.parquet, ranked.parquet, rejected.parquet (of a log) and package/."""
    (folder / CONFIG).write_text(run.config.to_toml(), "utf-8")
    (folder / METRICS).write_text(to_json(run.metrics), "utf-8")
    run.test.per_query().write_parquet(folder / PER_QUERY)
    run.test.rows().write_parquet(folder / RANKED)
    if run.origin.rejected is not None:
        run.origin.rejected.write_parquet(folder / REJECTED)
    labels, unseen_from = run.datasets.labels, run.origin.unseen_from
    manifest = {
        "definitions": run.origin.definitions,
        "reference": fit_reference(run.datasets.train, run.datasets.test, run.test.scores[MODEL]),
        "relevance": {
            "rule": run.config.to_plain()["relevance"],
            "width": labels.width,
            "gains": labels.gains,
        },
        "convention": run.metrics["convention"],
        "k": run.config.k,
        "data_window": {
            "train": _window(run.datasets.train),
            "valid": _window(run.datasets.valid),
            "test": _window(run.datasets.test),
            "unseen_from": unseen_from.isoformat() if unseen_from else None,
        },
        "metrics": {"test": run.metrics["test"][MODEL], "valid": run.metrics["valid"][MODEL]},
        "config": run.config.to_plain(),
        "best_iteration": run.ranker.best_iteration,
    }
    write_package(folder / PACKAGE, run.ranker.model_text, run.datasets.test, manifest)


def _level_error(datasets: Datasets, valid: Judgement, convention: Convention) -> dict[str, float]:
    """For continuous relevance: what cutting it into levels costs, in relevance and in the mean ndcg of the model."""
    if datasets.labels.width is None:
        return {}
    dataset = datasets.valid
    by_level = replace(dataset, relevance=dataset.labels * np.float64(datasets.labels.width))
    coarse = judge(by_level, {MODEL: valid.scores[MODEL]}, valid.ks, convention, valid.seed)
    moved = max(abs(coarse.mean(MODEL, k) - valid.mean(MODEL, k)) for k in valid.ks)
    return {"level_error": datasets.labels.max_error, "level_ndcg_diff": moved}


def _slices(test: RankingDataset, config: Config) -> dict[str, RankingDataset]:
    """Views of the test part on which what was shown on top has no advantage, where the data offers them.

    Clicks favour the top of a list even where its order was random: without another judge, the randomised queries
    compare the model with rivals that do not know the position, and say nothing of the shown order.
    """
    truth = judged_anew(test, Path(config.data.truth)) if config.data.truth is not None else None
    found = {} if truth is None else {TRUTH: truth}
    if RANDOMISED in test.keys.columns:
        shuffled = _truths(test.keys[RANDOMISED].gather(test.starts))
        if shuffled.any():
            name = RANDOM_ORDER if truth is None else f"{TRUTH} of {RANDOM_ORDER}"
            found[name] = (truth or test).keep(shuffled)
    return found


def _truths(flags: pl.Series) -> npt.NDArray[np.bool_]:
    """(Q,) booleans, or 0 and 1; null is false. Raises DataError for anything else."""
    numbers = flags.cast(pl.Int64) if flags.dtype in (pl.Boolean, pl.Null) else flags
    if not numbers.dtype.is_integer() or not numbers.drop_nulls().is_between(0, 1).all():
        raise DataError(
            f"{RANDOMISED} of type {flags.dtype}",
            expected="true or false per query",
            fix="cast it, or rename the column",
        )
    return flags.cast(pl.Boolean).fill_null(False).to_numpy()


def judged_anew(dataset: RankingDataset, path: Path) -> RankingDataset:
    """The same rows with the relevance of the table at `path`; a pair that is not in it has relevance 0."""
    truth = read_rows(path, {})
    if RELEVANCE not in truth.columns:
        raise DataError(f"{path} has no column {RELEVANCE}", expected="query, item and relevance", fix="add it")
    rows, truth = align_ids(*align_ids(dataset.keys.select(QUERY, ITEM), truth, QUERY), ITEM)
    found = rows.join(truth.select(QUERY, ITEM, RELEVANCE), on=[QUERY, ITEM], how="left", maintain_order="left")
    if found[RELEVANCE].null_count() == found.height:
        raise DataError(
            f"{path} judges none of the {found.height} candidates of the test part",
            expected="the queries and items of the log, spelled alike",
            fix="check its ids, or leave data.truth out",
        )
    return replace(dataset, relevance=found[RELEVANCE].fill_null(0.0).cast(pl.Float64).to_numpy())


def to_json(content: Mapping[str, Any]) -> str:
    """Strict JSON: a NaN would be a bug, and is refused."""
    return json.dumps(content, indent=2, allow_nan=False) + "\n"


def top_relevance(frame: pl.DataFrame) -> float:
    """The highest usable relevance: what is not usable is refused by name when the dataset is built."""
    column = frame["relevance"]
    values = column.cast(pl.Float64, strict=False).drop_nulls().to_numpy() if column.dtype.is_numeric() else np.empty(0)
    return float(values[np.isfinite(values)].max(initial=0.0))


def _window(dataset: RankingDataset) -> dict[str, str | int | None]:
    times = dataset.keys[TIMESTAMP] if TIMESTAMP in dataset.keys.columns else None
    first, last = (None, None) if times is None else (str(times.min()), str(times.max()))
    return {"queries": len(dataset.sizes), "rows": dataset.rows, "first": first, "last": last}
