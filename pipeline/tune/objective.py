"""One trial: a setting of the space, trained on one fold after the other until it is finished or plainly beaten."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any

import numpy as np
import optuna
from optuna.trial import FrozenTrial, TrialState

from features.errors import RankingError
from pipeline.booster import Binned, Trained, bin_datasets, binning_of, load_model, train_booster
from pipeline.config import Config
from pipeline.reductions import paired_interval
from pipeline.space import Dimension, Range, Setting, is_whole
from pipeline.train import lightgbm_params
from pipeline.tune.folds import Blocks, Fold
from pipeline.tune.scores import Score, pooled, score_model
from pipeline.tune.task import Task

DEFAULT, SETTING, OUTCOME, REASON, SAME_AS = "default", "setting", "outcome", "reason", "same_as"
"""What a study keeps of a trial beside its parameters: attributes of Optuna's trials."""

RUNGS = (16, 32, 64, 128, 256, 512)
"""After so many rounds a learning curve is held against those of finished trials."""
WARMUP_TRIALS = 5
KEPT_SHARE = 0.5
"""A trial goes on while it is among this part of the finished ones, all taken after as many rounds."""
STAGE = 10_000
"""The step of Optuna's report: this times the fold, plus the rounds."""
BEATEN_LEVEL = 0.9
"""A trial ends between folds when even the upper end of this interval of its difference to the best lies below zero."""
CURVE_POINTS = 60
KEPT_BINNINGS = 2
_ANSWERED = (TrialState.COMPLETE, TrialState.PRUNED)


class OutOfTime(Exception):  # noqa: N818
    """The search is to end now: the trial is neither finished nor beaten, and is not counted."""


@dataclass
class Objective:
    """Called by Optuna with a trial; returns its value, raises TrialPruned, or RankingError with the reason kept.

    Raises OutOfTime in the first round after `deadline`, on the clock of `time.monotonic`.
    """

    task: Task
    deadline: float = inf
    binned: dict[tuple[Any, ...], Binned] = field(default_factory=dict)

    def __call__(self, trial: optuna.Trial) -> float:
        setting = self._setting(trial)
        trial.set_user_attr(SETTING, setting.to_plain())
        earlier = Earlier.of(trial)
        if (twin := earlier.twin_of(setting)) is not None:
            return _answer_of(trial, twin)
        try:
            return self._value(trial, setting, earlier)
        except RankingError as error:
            trial.set_user_attr(REASON, str(error))
            raise

    def _setting(self, trial: optuna.Trial) -> Setting:
        """The default's place in the space is noted for the sampler; what is trained is the default itself."""
        drawn = self.task.space.draw(lambda name, dimension: suggest(trial, name, dimension))
        return self.task.default if trial.user_attrs.get(DEFAULT) else drawn

    def _value(self, trial: optuna.Trial, setting: Setting, earlier: Earlier) -> float:
        started = time.perf_counter()
        config, gains = self.task.for_search(setting), self.task.gains(setting)
        stages: list[_Stage] = []
        for number, fold in enumerate(self.task.folds):
            judge = _Judge(trial, number, earlier.curves(number, gains), self.deadline)
            stages.append(self._stage(judge, number, fold, config, gains))
            if number + 1 < len(self.task.folds) and _is_beaten(earlier, stages, config.seed):
                trial.report(pooled([stage.score for stage in stages]), number * STAGE + STAGE - 1)
                raise optuna.TrialPruned("beaten by the best trial, query by query")
        whole = [stage for stage in stages if stage.fold.share == 1.0]
        outcome = {
            "rounds": [stage.trained.best_iteration for stage in whole],
            "blocks": [np.round(stage.blocks.means, 7).tolist() for stage in stages],
            "gains": list(gains),
            "rungs": [_at_rungs(stage.trained.history[config.train_k]) for stage in stages],
            "curve": _thinned(whole[-1].trained.history[config.train_k]),
            "seconds": round(time.perf_counter() - started, 3),
        }
        trial.set_user_attr(OUTCOME, _without_nan(outcome))
        return pooled([stage.score for stage in whole])

    def _stage(self, judge: _Judge, number: int, fold: Fold, config: Config, gains: tuple[float, ...]) -> _Stage:
        train, watched = (replace(part, gains=gains) for part in (fold.train, fold.valid))
        params, _ = lightgbm_params(config)
        trained = train_booster(
            train,
            watched,
            params=params,
            rounds=config.train.rounds,
            ks=[config.train_k],
            stop_k=None if params.get("boosting") == "dart" else config.train_k,
            patience=config.train.early_stopping,
            on_round=judge,
            binned=self._binned(number, fold, params),
        )
        score = score_model(load_model(trained.model_text), fold.valid, config, self.task.convention)
        return _Stage(fold, trained, score, Blocks.of(score.per_query))

    def _binned(self, number: int, fold: Fold, params: Mapping[str, Any]) -> Binned:
        """The learnable queries as the last few binnings have them, each made once."""
        key = (number, *binning_of(params))
        if key not in self.binned:
            for old in [held for held in self.binned if held[0] == number][: 1 - KEPT_BINNINGS]:
                del self.binned[old]
            self.binned[key] = bin_datasets(*fold.learnable(), params)
        return self.binned[key]


@dataclass(frozen=True)
class _Stage:
    fold: Fold
    trained: Trained
    score: Score
    blocks: Blocks


def suggest(trial: optuna.Trial, name: str, dimension: Dimension) -> Any:
    """Asks Optuna for one parameter. Choices that are lists go by their place, as Optuna keeps plain values only."""
    if isinstance(dimension, tuple):
        if any(isinstance(choice, list | tuple) for choice in dimension):
            return dimension[trial.suggest_categorical(name, list(range(len(dimension))))]
        return trial.suggest_categorical(name, list(dimension))
    if is_whole(name, dimension):
        return trial.suggest_int(
            name, int(dimension.low), int(dimension.high), log=dimension.log, step=int(dimension.step or 1)
        )
    return trial.suggest_float(name, dimension.low, dimension.high, log=dimension.log, step=dimension.step)


def point_of(dimensions: Mapping[str, Dimension], point: Mapping[str, Any]) -> dict[str, Any]:
    """A point of the space as `suggest` would have recorded it."""
    recorded = {}
    for name, value in point.items():
        dimension = dimensions[name]
        listed = isinstance(dimension, tuple) and any(isinstance(choice, list | tuple) for choice in dimension)
        whole = isinstance(dimension, Range) and is_whole(name, dimension)
        recorded[name] = dimension.index(value) if listed else int(value) if whole else value  # type: ignore[union-attr]
    return recorded


@dataclass(frozen=True)
class Earlier:
    """The trials that had ended when this one began: asked for once, as each question to a database takes its time."""

    ended: list[FrozenTrial]

    @classmethod
    def of(cls, trial: optuna.Trial) -> Earlier:
        return cls([other for other in trial.study.get_trials(deepcopy=False) if other.state in _ANSWERED])

    @property
    def complete(self) -> list[FrozenTrial]:
        return [trial for trial in self.ended if trial.state == TrialState.COMPLETE and OUTCOME in trial.user_attrs]

    def best(self) -> FrozenTrial | None:
        return max(self.complete, key=lambda trial: (trial.value or 0.0, -trial.number), default=None)

    def twin_of(self, setting: Setting) -> FrozenTrial | None:
        """A trial of the same setting, whose answer is known."""
        plain = setting.to_plain()
        return next((trial for trial in self.ended if trial.user_attrs.get(SETTING) == plain), None)

    def curves(self, stage: int, gains: tuple[float, ...]) -> list[list[float]]:
        """The `_at_rungs` of finished trials whose trees were grown, and watched, for the same gains."""
        outcomes = [trial.user_attrs[OUTCOME] for trial in self.complete]
        return [outcome["rungs"][stage] for outcome in outcomes if outcome["gains"] == list(gains)]


@dataclass
class _Judge:
    """Told the value after each round of a stage, it ends a trial that falls behind, by raising TrialPruned."""

    trial: optuna.Trial
    stage: int
    curves: list[list[float]]
    deadline: float
    best: float = -np.inf

    def __call__(self, rounds: int, value: float) -> None:
        if time.monotonic() >= self.deadline:
            raise OutOfTime
        self.best = max(self.best, value)
        if len(self.curves) < WARMUP_TRIALS or rounds not in RUNGS:
            return
        if self.best < np.quantile([curve[RUNGS.index(rounds)] for curve in self.curves], 1 - KEPT_SHARE):
            self.trial.report(self.best, self.stage * STAGE + rounds)
            raise optuna.TrialPruned(f"behind finished trials after {rounds} rounds")


def _at_rungs(history: list[float]) -> list[float]:
    """(R + 1,) best value so far after each of `RUNGS`, and at the end."""
    best = np.maximum.accumulate(history)
    return [round(float(best[min(rounds, len(best)) - 1]), 7) for rounds in (*RUNGS, len(best))]


def _is_beaten(earlier: Earlier, stages: list[_Stage], seed: int) -> bool:
    """Whether the best trial so far is ahead beyond doubt on the same queries: those of the last kind of stage."""
    best = earlier.best()
    if best is None:
        return False
    same = [i for i, stage in enumerate(stages) if stage.fold.share == stages[-1].fold.share]
    ours = np.concatenate([stages[i].blocks.means for i in same])
    counts = np.concatenate([stages[i].blocks.counts for i in same])
    theirs = np.concatenate([np.asarray(best.user_attrs[OUTCOME]["blocks"][i], np.float64) for i in same])
    high = paired_interval(ours, theirs, weights=counts, level=BEATEN_LEVEL, seed=seed).high
    return high is not None and high < 0


def _answer_of(trial: optuna.Trial, twin: FrozenTrial) -> float:
    trial.set_user_attr(SAME_AS, twin.number)
    if twin.state == TrialState.PRUNED or twin.value is None:
        for step, value in twin.intermediate_values.items():
            trial.report(value, step)
        raise optuna.TrialPruned(f"the same as trial {twin.number}")
    trial.set_user_attr(OUTCOME, {**twin.user_attrs[OUTCOME], "seconds": 0.0})
    return twin.value


def _thinned(history: list[float]) -> list[list[float]]:
    """[round, ndcg so far] at evenly spaced rounds, the last one among them."""
    best = np.maximum.accumulate(history)
    rounds = np.unique(np.linspace(1, len(best), min(CURVE_POINTS, len(best))).round().astype(int))
    return [[int(n), round(float(best[n - 1]), 6)] for n in rounds]


def _without_nan(outcome: dict[str, Any]) -> dict[str, Any]:
    """JSON has no NaN."""
    blocks = [[None if value != value else value for value in stage] for stage in outcome["blocks"]]
    return {**outcome, "blocks": blocks}
