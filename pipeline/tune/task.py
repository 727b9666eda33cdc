"""What a search works on: plain values that any process can be given, and that say whether two searches are one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from features.errors import ConfigError
from pipeline.booster import positions_of
from pipeline.config import Config
from pipeline.labels import LabelRule, regained
from pipeline.metrics import Convention
from pipeline.params import POSITION_BIAS
from pipeline.run import Datasets
from pipeline.space import GAIN, KNOBS, RATE, Setting, Space
from pipeline.split import Origin
from pipeline.train import available_threads, lightgbm_params
from pipeline.tune.folds import Fold, fingerprint, make_folds
from pipeline.tune.scores import diversity_column

FINAL_RATE = 0.05
"""The learning rate of the final fits, where the config names none: low, as there are only a few of them."""
QUICK_RATE, QUICK_FROM_ROWS = 0.15, 50_000
"""The learning rate of trials on so many training rows: a third of the trees order the settings much the same. Fits on
fewer rows are short, and their validation queries so few that the steps themselves decide."""
PATIENCE, MIN_PATIENCE = 0.3, 10
"""A trial is waited for this part of the patience that the final fits have, and at least so many rounds: where trials
differ by luck, two short looks find more than a long one, and the best are looked at again in full."""


@dataclass(frozen=True)
class Task:
    """A search: `name` is that of its study, `threads` what a trial may use."""

    name: str
    config: Config
    convention: Convention
    space: Space
    folds: tuple[Fold, ...]
    labels: LabelRule
    threads: int

    @cached_property
    def contract(self) -> dict[str, Any]:
        """All that a study rests on, in plain values: a study of another contract is another search."""
        tune, train = self.config.tune, self.config.train
        return {
            "space": self.space.to_plain(),
            "data": fingerprint(self.folds),
            "metric": f"ndcg@{self.config.train_k}, {self.convention.describe()}",
            "weights": tune.weights.model_dump() | {"diversity_by": tune.diversity_by},
            "direction": "maximise",
            "folds": f"{tune.folds}, first on {self.folds[0].share:g} of the training queries",
            "train": {
                "start": self.default.key,
                "rounds": train.rounds,
                "early_stopping": train.early_stopping,
                "search_rate": self.search_rate,
            },
            "seed": self.config.seed,
        }

    @property
    def default(self) -> Setting:
        """What `[train]` says."""
        return self.space.start

    @property
    def is_alone(self) -> bool:
        """Whether one process alone works on the study."""
        return self.config.tune.storage is None and self.config.tune.jobs == 1

    @property
    def searches_rate(self) -> bool:
        return RATE in self.space.dimensions

    def gains(self, setting: Setting) -> tuple[float, ...]:
        """The gain of each label that trees are grown for."""
        return regained(self.labels, setting.gain or self.convention.gain).gains

    def for_search(self, setting: Setting) -> Config:
        """The run of a trial: quick steps, little patience."""
        config = self.config.with_setting(setting)
        if not self.searches_rate:
            quick = {**setting.params, RATE: self.search_rate}
            config = self.config.with_setting(replace(setting, params=quick))
        whole = config.train.early_stopping
        patience = round(PATIENCE * whole * self.final_rate / config.train.params.get(RATE, KNOBS[RATE].default))
        update = {"early_stopping": min(whole, max(MIN_PATIENCE, patience)), "threads": self.threads}
        return config.model_copy(update={"train": config.train.model_copy(update=update)})

    def for_final(self, setting: Setting) -> Config:
        """The run that a setting ends in: small steps, unless the search chose their size."""
        if self.searches_rate:
            return self.config.with_setting(setting)
        return self.config.with_setting(replace(setting, params={**setting.params, RATE: self.final_rate}))

    @property
    def search_rate(self) -> float:
        chosen = self.config.tune.learning_rate
        if chosen is None:
            chosen = QUICK_RATE if self.folds[-1].train.rows >= QUICK_FROM_ROWS else self.final_rate
        return max(chosen, self.final_rate)

    @property
    def final_rate(self) -> float:
        return float(self.config.train.params.get(RATE, FINAL_RATE))

    def nearest_default(self) -> dict[str, Any]:
        """The default as a point of the space, for the sampler to learn from."""
        return self.space.nearest(lightgbm_params(self.config)[0])


def make_task(name: str, datasets: Datasets, origin: Origin, config: Config) -> Task:
    """Folds, the space within what the data allows, and all checks that need the data.

    Raises DataError, DatasetError or ConfigError for what could not be searched.
    """
    tune, convention = config.tune, config.resolved_convention(continuous=origin.continuous)
    train, valid = datasets.train, datasets.valid
    folds = make_folds(train, valid, count=tune.folds, gap=config.split_gap, sample=tune.sample)
    space = _space_for(config, folds)
    cores = available_threads()
    threads = max(1, min(config.train.threads or cores, cores // tune.jobs))
    task = Task(name, config, convention, space, folds, datasets.labels, threads)
    for gain in _gains_in(space):
        _check_gain(task, gain, max(int(part.labels.max()) for part in (train, valid, datasets.test)))
    if POSITION_BIAS in {*space.dimensions, *config.train.params}:
        positions_of(train)
    if tune.weights.diversity:
        diversity_column(valid, config)
    return task


def _space_for(config: Config, folds: tuple[Fold, ...]) -> Space:
    fewest = min((fold.train for fold in folds if fold.share == 1.0), key=lambda part: part.rows)
    asked = config.search_space()
    categories = bool(fewest.schema.categorical)
    space = asked.capped(fewest.rows, int(fewest.sizes.max()), categories=categories)
    lost = [name for name in config.tune.space if name not in space.dimensions]
    if lost:
        raise ConfigError(
            f"tune.space searches {', '.join(lost)} where no feature is a category",
            expected="parameters that change the model",
            fix="leave them out, or list categories in [features]",
        )
    return space


def contract_differences(old: Mapping[str, Any], new: Mapping[str, Any], prefix: str = "") -> list[str]:
    """One phrase for each thing in which two contracts differ."""
    found = []
    for name in sorted({*old, *new}):
        was, now = old.get(name), new.get(name)
        if isinstance(was, Mapping) and isinstance(now, Mapping):
            found += contract_differences(was, now, f"{prefix}{name}.")
        elif was != now:
            what = "is other data" if name == "data" else f"was {was if was is not None else 'absent'}, is now {now}"
            found.append(f"{prefix}{name} {what}")
    return found


def _gains_in(space: Space) -> tuple[Any, ...]:
    asked = space.dimensions.get(GAIN, ())
    return asked if isinstance(asked, tuple) else ()


def _check_gain(task: Task, gain: Any, top: int) -> None:
    table = task.gains(replace(task.default, gain=gain))
    if top >= len(table):
        raise ConfigError(
            f"tune.space.gain has a table of {len(table)} entries",
            expected=f"one for each of the labels 0 to {top}",
            fix="lengthen the table",
        )
