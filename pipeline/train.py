"""Lambdarank on a RankingDataset: stopped by ndcg@k alone, proven against our own metric, the same every time."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from features.errors import ParityError, TrainingError
from pipeline.booster import Trained, load_model, predict, train_booster
from pipeline.config import Config
from pipeline.dataset import RankingDataset
from pipeline.metrics import Convention, ndcg_per_query
from pipeline.params import bags_by_query

PARITY_TOLERANCE = 1e-9
TRUNCATION_MARGIN = 3
"""LightGBM's advice: pairs a little below the cut-off still teach what belongs above it."""

Floats = npt.NDArray[np.float64]
OnRound = Callable[[int, float], None]


@dataclass(frozen=True)
class Ranker:
    """A trained model and what its training showed."""

    model_text: str
    selected_text: str
    """The model that was chosen on the validation queries: the same, unless it was refitted on them afterwards."""
    best_iteration: int
    history: dict[int, list[float]]
    """cut-off k -> LightGBM's ndcg@k on the watched queries after rounds 1, 2, ..."""
    parity: dict[str, float]
    notes: tuple[str, ...]


def train_ranker(
    train: RankingDataset, valid: RankingDataset, config: Config, on_round: OnRound = lambda _round, _value: None
) -> Ranker:
    """Trains as `[train]` says; queries without a positive are left out of training and of early stopping.

    Raises TrainingError where nothing can be learned, ParityError where LightGBM's metric is not ours.
    """
    learn, watch, notes = evaluable(train, valid)
    params, remarks = lightgbm_params(config)
    ks = sorted({*config.k, config.train_k})
    trained = train_booster(
        learn,
        watch,
        params=params,
        rounds=config.train.rounds,
        ks=ks,
        stop_k=None if params.get("boosting") == "dart" else config.train_k,
        patience=config.train.early_stopping,
        on_round=on_round,
    )
    parity = check_parity(trained, watch)
    text = _refit(trained, learn.joined(watch), params) if config.train.refit else trained.model_text
    return Ranker(text, trained.model_text, trained.best_iteration, trained.history, parity, (*notes, *remarks))


def lightgbm_params(config: Config) -> tuple[dict[str, Any], list[str]]:
    """The parameters LightGBM is given (label gains aside), and what should be said about them."""
    chosen = dict(config.train.params)
    if bags_by_query(chosen):
        chosen["bagging_by_query"] = True
    if config.train.objective == "lambdarank":
        chosen.setdefault("lambdarank_truncation_level", config.train_k + TRUNCATION_MARGIN)
    threads, notes = _threads(config, chosen)
    if chosen.get("boosting") == "dart":
        notes.append("all rounds are kept: dart rescales earlier trees, so that no earlier round can be gone back to")
    fixed = {"objective": config.train.objective, "seed": config.seed, "num_threads": threads}
    return {**chosen, **fixed, "deterministic": True, "force_row_wise": True}, notes


def available_threads() -> int:
    """The processors this process may use: its affinity, less what a container's quota leaves (cgroup v2)."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text("ascii").split()
    except (OSError, ValueError):
        return cores
    return cores if quota == "max" else max(1, min(cores, int(quota) // int(period)))


def check_parity(trained: Trained, watched: RankingDataset) -> dict[str, float]:
    """LightGBM's ndcg@k at the best round against ours over the same labels and gains, and over the exact relevance.

    Raises ParityError above 1e-9: then rows, labels or groups are not what we think they are.
    """
    scores = predict(load_model(trained.model_text), watched.features)
    if not np.isfinite(scores).all():
        raise TrainingError(
            "the model's scores are not finite", expected="finite scores", fix="lower learning_rate in [train] params"
        )
    differences = []
    for k, history in trained.history.items():
        ours = label_ndcg(watched, scores, k)
        differences.append(abs(ours - history[trained.best_iteration - 1]))
    largest = max(differences)
    if not largest <= PARITY_TOLERANCE:
        raise ParityError(
            f"LightGBM's ndcg and ours differ by {largest:.3g}",
            expected=f"at most {PARITY_TOLERANCE:g}",
            fix="report it with the config: the model is not to be trusted",
        )
    return {"max_abs_diff": float(largest)}


def label_ndcg(dataset: RankingDataset, scores: Floats, k: int) -> float:
    """Mean ndcg@k as LightGBM defines it: over integer labels with the model's gains, ties in row order, empty = 1."""
    convention = Convention(gain=dataset.gains, ties="stable", empty="one")
    values = ndcg_per_query(scores, dataset.labels, dataset.sizes, k, convention=convention)
    return float(np.mean(values))


def evaluable(train: RankingDataset, valid: RankingDataset) -> tuple[RankingDataset, RankingDataset, list[str]]:
    """The queries of both that have a relevant item, and what to say of the rest. Raises TrainingError for none."""
    notes = []
    for part, dataset, use in (("training", train, "trained on"), ("validation", valid, "watched")):
        empty = int((~dataset.has_positive).sum())
        if empty == len(dataset.sizes):
            raise TrainingError(
                f"all {empty} {part} queries are without a relevant item",
                expected="at least one item of positive gain",
                fix="check the relevance column, the tiers, or the join that brought the labels",
            )
        if empty:
            notes.append(f"{empty} of {len(dataset.sizes)} {part} queries have no relevant item and are not {use}")
    return train.keep(train.has_positive), valid.keep(valid.has_positive), notes


def _refit(trained: Trained, both: RankingDataset, params: dict[str, Any]) -> str:
    """As many trees as were chosen, on train and valid together."""
    again = train_booster(both, both, params=params, rounds=trained.best_iteration, ks=list(trained.history))
    check_parity(again, both)
    return again.model_text


def _threads(config: Config, params: dict[str, Any]) -> tuple[int, list[str]]:
    """One of LightGBM's samplers depends on the number of threads: such a run gets one, and says so."""
    threads = config.train.threads or available_threads()
    if threads == 1 or "goss" not in (params.get("data_sample_strategy"), params.get("boosting")):
        return threads, []
    return 1, ["trained on one thread: with goss, LightGBM's model depends on the number of threads"]
