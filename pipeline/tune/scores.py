"""What a trial is worth: our ndcg@k over the exact relevance of every validation query, or a weighted sum with more."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from features.columns import ITEM
from features.errors import ConfigError
from pipeline.booster import Booster, predict
from pipeline.config import Config
from pipeline.dataset import RankingDataset
from pipeline.metrics import Convention, category_diversity_per_query, coverage, ndcg_per_query

Floats = npt.NDArray[np.float64]
LATENCY_ROWS = 1000
LATENCY_REPEATS = 5


@dataclass(frozen=True)
class Score:
    """A model on one window: (Q,) values, NaN where a query has no relevant item, and what it has as a whole."""

    per_query: Floats
    whole: float


def pooled(scores: list[Score]) -> float:
    """The value of several windows: the mean over all their queries, and over the windows' own parts."""
    values = np.concatenate([score.per_query for score in scores])
    return float(np.nanmean(values) + np.mean([score.whole for score in scores]))


def score_model(booster: Booster, dataset: RankingDataset, config: Config, convention: Convention) -> Score:
    """Judges a model as `[tune] weights` says; by default that is ndcg@k of the run's convention and nothing else."""
    weights, k = config.tune.weights, config.train_k
    scores = predict(booster, dataset.features)
    judge = replace(convention, empty="skip")
    per_query = weights.ndcg * ndcg_per_query(scores, dataset.relevance, dataset.sizes, k, convention=judge)
    if weights.diversity:
        found = category_diversity_per_query(scores, diversity_column(dataset, config), dataset.sizes, k)
        per_query = per_query + weights.diversity * np.nan_to_num(found)
    whole = 0.0
    if weights.coverage:
        items = dataset.keys[ITEM].to_numpy()
        catalogue = dataset.keys[ITEM].n_unique()
        whole += weights.coverage * coverage(scores, items, dataset.sizes, k, catalogue_size=catalogue)
    if weights.latency:
        whole += weights.latency * latency_ms(booster, dataset)
    return Score(per_query, whole)


def diversity_column(dataset: RankingDataset, config: Config) -> npt.NDArray[np.generic]:
    """(N,) values of `tune.diversity_by`, a feature or a field of the rows. Raises ConfigError where there is none."""
    name = config.tune.diversity_by or ""
    for frame in (dataset.features, dataset.keys):
        if name in frame.columns:
            return frame[name].rank("dense").fill_null(0).cast(int).to_numpy()
    known = ", ".join([*dataset.schema.categorical, *dataset.keys.columns][:12])
    raise ConfigError(
        f"tune.diversity_by = {name!r}", expected=f"a column of the rows, such as {known}", fix="correct it"
    )


def latency_ms(booster: Booster, dataset: RankingDataset) -> float:
    """Milliseconds that 1000 rows take on one thread: the median of a few measurements."""
    rows = dataset.features.head(LATENCY_ROWS)
    taken = []
    for _ in range(LATENCY_REPEATS):
        start = time.perf_counter()
        predict(booster, rows)
        taken.append(time.perf_counter() - start)
    return float(np.median(taken)) * 1000 * LATENCY_ROWS / rows.height
