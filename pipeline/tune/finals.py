"""From trials to one model: the best few fitted with care, the choice made on the validation queries, and its price.

Of many settings that are equally good, the luckiest looks better than it is. `expected_optimism` says by how much.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import tomli_w

from features.errors import RankingError, TrainingError
from pipeline.booster import load_model
from pipeline.config import Config
from pipeline.run import Datasets
from pipeline.space import Setting
from pipeline.train import Ranker, train_ranker
from pipeline.tune.scores import pooled, score_model
from pipeline.tune.study import Tried
from pipeline.tune.task import Task

Floats = npt.NDArray[np.float64]
REPETITIONS = 1000


@dataclass(frozen=True)
class Final:
    """A setting fitted as the run will use it. `trial` is its number in the study, `value` its score on valid."""

    trial: int
    config: Config
    gains: tuple[float, ...]
    ranker: Ranker
    value: float
    is_default: bool


@dataclass(frozen=True)
class Choice:
    """The finalists that could be fitted: the best on valid, and the default (None where that one could not).

    `refused`: trial -> why its setting could not be fitted in full.
    """

    chosen: Final
    default: Final | None
    refused: dict[int, str]


def fit_finals(
    task: Task, datasets: Datasets, tried: list[Tried], on_fit: Callable[[int, str], None] = lambda _done, _note: None
) -> Choice:
    """Fits the best `tune.finalists` of the search and the default; the best on valid is chosen, of equals the default.

    A setting that cannot be fitted is left out with its reason. Raises TrainingError where none can be.
    """
    fitted: list[Final] = []
    refused: dict[int, str] = {}
    for number, setting in _entrants(task, tried):
        try:
            final = _fit(task, datasets, number, setting)
        except RankingError as error:
            refused[number] = str(error)
            on_fit(len(fitted) + len(refused), f"trial {number}: left out")
            continue
        fitted.append(final)
        on_fit(len(fitted) + len(refused), f"trial {number}: {final.value:.4f}")
    if not fitted:
        raise TrainingError(
            f"none of {len(refused)} finalists could be fitted in full; the first: {next(iter(refused.values()))}",
            expected="at least one",
            fix="mend that, then go on with --resume",
        )
    default = next((final for final in fitted if final.is_default), None)
    return Choice(max(fitted, key=lambda final: final.value), default, refused)


def _fit(task: Task, datasets: Datasets, number: int, setting: Setting) -> Final:
    config, gains = task.for_final(setting), task.gains(setting)
    ranker = train_ranker(replace(datasets.train, gains=gains), replace(datasets.valid, gains=gains), config)
    score = score_model(load_model(ranker.selected_text), datasets.valid, config, task.convention)
    return Final(number, config, gains, ranker, pooled([score]), setting.key == task.default.key)


def expected_optimism(task: Task, tried: list[Tried]) -> float | None:
    """How much better than it is the best of these trials must be expected to look, as luck had a say in the choice.

    None for fewer than two finished trials.
    """
    values = [_means(trial) for trial in tried if trial.value is not None and trial.outcome]
    if len(values) < 2:
        return None
    counts = np.concatenate([fold.counts(task.convention) for fold in task.folds if fold.share == 1.0])
    return best_of_many(np.nan_to_num(np.array(values)), counts, task.config.seed)


def best_of_many(means: Floats, counts: Floats, seed: int) -> float:
    """The optimism of the best of T trials from their means (T, B) over blocks of `counts` (B,) queries.

    Bootstrap estimate (Efron 1983): choose the best on a resample of the blocks, and see how much lower the same trial
    stands on the whole.
    """
    rng = np.random.default_rng(seed)
    blocks = len(counts)
    weights = rng.multinomial(blocks, np.full(blocks, 1 / blocks), REPETITIONS) * counts
    drawn = weights @ means.T / weights.sum(axis=1, keepdims=True)
    whole = means @ counts / counts.sum()
    best = drawn.argmax(axis=1)
    return float(np.mean(drawn[np.arange(REPETITIONS), best] - whole[best]))


def overlay(config: Config, headline: str) -> str:
    """The `[train]` settings of a config as TOML that `include` reads."""
    train = config.train.model_dump(exclude_none=True, include={"objective", "gain", "params"})
    return f"# {headline}\n" + tomli_w.dumps({"train": _listed(train)})


def trial_table(tried: list[Tried]) -> pl.DataFrame:
    """A row per trial: number, state, value, rounds, seconds, reason, and the setting that was trained."""
    rows = [
        {
            "trial": trial.number,
            "state": trial.state,
            "value": trial.value,
            "default": trial.is_default,
            "same_as": trial.same_as,
            "rounds": (trial.outcome.get("rounds") or [None])[-1],
            "seconds": trial.seconds,
            "reason": trial.reason,
            **_columns(trial.setting),
        }
        for trial in tried
    ]
    return pl.DataFrame(rows, infer_schema_length=None)


def _entrants(task: Task, tried: list[Tried]) -> list[tuple[int, Setting]]:
    """The default, then the best of the search: each setting once."""
    default = next((trial.number for trial in tried if trial.is_default), 0)
    found, seen = [(default, task.default)], {task.default.key}
    ranked = sorted((t for t in tried if t.value is not None), key=lambda t: (-(t.value or 0.0), t.number))
    for trial in ranked:
        if len(found) > task.config.tune.finalists:
            break
        if trial.setting is not None and trial.setting.key not in seen:
            seen.add(trial.setting.key)
            found.append((trial.number, trial.setting))
    return found


def _means(trial: Tried) -> list[float]:
    """The trial's block means over all whole folds: a sample that came before them is the extra one in front."""
    stages = trial.outcome["blocks"]
    whole = stages[len(stages) - len(trial.outcome["rounds"]) :]
    return [np.nan if value is None else value for stage in whole for value in stage]


def _columns(setting: Setting | None) -> dict[str, Any]:
    if setting is None:
        return {}
    gain = None if setting.gain is None else str(setting.gain)
    return {"objective": setting.objective, "gain": gain, **setting.params}


def _listed(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _listed(entry) for key, entry in value.items()}
    return list(value) if isinstance(value, tuple) else value
