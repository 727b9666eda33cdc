"""A training run from its parts to its folder: datasets, model, rivals, metrics.json, package."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from features.columns import TIMESTAMP
from pipeline.booster import load_model, predict
from pipeline.config import Config
from pipeline.dataset import RankingDataset
from pipeline.labels import DEFAULT_LEVELS, LabelRule, grades, levels
from pipeline.metrics import Convention
from pipeline.package import write_package
from pipeline.results import MODEL, Judgement, Rivals, judge, query_counts, warnings
from pipeline.split import Parts
from pipeline.train import Ranker, train_ranker

METRICS, PER_QUERY, CONFIG, LOG_FILE, PACKAGE = "metrics.json", "per_query.parquet", "config.toml", "log.txt", "package"


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


@dataclass(frozen=True)
class Run:
    """All that a run found out; `write` turns it into a folder."""

    config: Config
    datasets: Datasets
    ranker: Ranker
    rivals: Rivals
    valid: Judgement
    test: Judgement
    metrics: dict[str, Any]
    warnings: tuple[str, ...]


def build_datasets(parts: Parts, config: Config, convention: Convention) -> Datasets:
    """Checked datasets of one schema and one label rule. Raises DatasetError."""
    tops = [_top_relevance(table.frame) for table in (parts.train, parts.valid, parts.test)]
    if config.relevance.is_continuous:
        labels = levels(convention.gain, tops[0], config.relevance.levels or DEFAULT_LEVELS)
    else:
        labels = grades(convention.gain, max(tops))
    train = RankingDataset.build(parts.train, labels=labels, part="train")
    valid = RankingDataset.build(parts.valid, labels=labels, part="valid", schema=train.schema)
    test = RankingDataset.build(parts.test, labels=labels, part="test", schema=train.schema)
    return Datasets(train, valid, test, labels)


def run_training(
    parts: Parts,
    config: Config,
    *,
    timings: Timings,
    fields: Mapping[str, str],
    on_round: Callable[[int, float], None],
) -> Run:
    """Trains and judges; `fields` are rivals that rank by a column beside the features (popularity, shown order)."""
    convention = config.resolved_convention()
    with timings.step("dataset"):
        datasets = build_datasets(parts, config, convention)
    with timings.step("train"):
        ranker = train_ranker(datasets.train, datasets.valid, config, on_round)
    with timings.step("evaluate"):
        rivals = Rivals.choose(datasets.valid, config.train_k, convention, fields=fields, named=config.baselines)
        judged = {}
        for part, dataset, text in (
            ("valid", datasets.valid, ranker.selected_text),
            ("test", datasets.test, ranker.model_text),
        ):
            scores = {MODEL: predict(load_model(text), dataset.features), **rivals.scores(dataset)}
            judged[part] = judge(dataset, scores, config.k, convention, config.seed)
    counts = {"train": len(datasets.train.sizes), "valid": len(datasets.valid.sizes)}
    counts |= query_counts(datasets.test, convention)
    metrics = {
        "k": list(config.k),
        "convention": convention.to_dict(),
        "seed": config.seed,
        "best_iteration": ranker.best_iteration,
        "queries": counts,
        "valid": judged["valid"].block(),
        "test": judged["test"].block(),
        "diff": judged["test"].differences(),
        "best_feature_name": rivals.best_feature,
        "parity": ranker.parity,
        "timings": timings.seconds,
    }
    found = [*datasets.labels.warnings(_top_relevance(parts.train.frame)), *warnings(judged["test"], counts)]
    return Run(config, datasets, ranker, rivals, judged["valid"], judged["test"], metrics, tuple(found))


def write_run(folder: Path, run: Run, definitions: dict[str, Any] | None) -> None:
    """config.toml, metrics.json, per_query.parquet and package/ into `folder`."""
    (folder / CONFIG).write_text(run.config.to_toml(), "utf-8")
    (folder / METRICS).write_text(to_json(run.metrics), "utf-8")
    run.test.per_query().write_parquet(folder / PER_QUERY)
    labels = run.datasets.labels
    manifest = {
        "definitions": definitions,
        "relevance": {
            "rule": run.config.model_dump(mode="json")["relevance"],
            "width": labels.width,
            "gains": labels.gains,
        },
        "convention": run.metrics["convention"],
        "k": run.config.k,
        "data_window": {
            "train": _window(run.datasets.train),
            "valid": _window(run.datasets.valid),
            "test": _window(run.datasets.test),
        },
        "metrics": {"test": run.metrics["test"][MODEL], "valid": run.metrics["valid"][MODEL]},
        "config": json.loads(run.config.model_dump_json(by_alias=True)),
        "best_iteration": run.ranker.best_iteration,
    }
    write_package(folder / PACKAGE, run.ranker.model_text, run.datasets.test, manifest)


def to_json(content: Mapping[str, Any]) -> str:
    """Strict JSON: a NaN would be a bug, and is refused."""
    return json.dumps(content, indent=2, allow_nan=False) + "\n"


def _top_relevance(frame: pl.DataFrame) -> float:
    """The highest usable relevance: what is not usable is refused by name when the dataset is built."""
    column = frame["relevance"]
    values = column.cast(pl.Float64, strict=False).drop_nulls().to_numpy() if column.dtype.is_numeric() else np.empty(0)
    return float(values[np.isfinite(values)].max(initial=0.0))


def _window(dataset: RankingDataset) -> dict[str, str | int | None]:
    times = dataset.keys[TIMESTAMP] if TIMESTAMP in dataset.keys.columns else None
    first, last = (None, None) if times is None else (str(times.min()), str(times.max()))
    return {"queries": len(dataset.sizes), "rows": dataset.rows, "first": first, "last": last}
