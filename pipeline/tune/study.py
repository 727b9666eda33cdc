"""Optuna's study: where it lies, whether it is the one that was meant, and what it holds in plain values."""

from __future__ import annotations

import sqlite3
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import optuna
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler, TPESampler
from optuna.storages import BaseStorage, JournalStorage, RDBStorage, RetryHeartbeatStaleTrialCallback
from optuna.storages.journal import JournalFileBackend
from optuna.trial import FrozenTrial, TrialState
from sqlalchemy import event
from sqlalchemy.exc import (
    ArgumentError,
    DBAPIError,
    IntegrityError,
    NoSuchModuleError,
    OperationalError,
    ProgrammingError,
    SQLAlchemyError,
)

from features.errors import ConfigError, MissingExtraError
from pipeline.space import Setting
from pipeline.tune.objective import DEFAULT, OUTCOME, REASON, SAME_AS, SETTING, point_of
from pipeline.tune.task import Task, contract_differences

STUDY = "study.db"
CONTRACT = "contract"
HEARTBEAT_SECONDS = 30
"""A trial whose process has not been heard of for four heartbeats is begun anew by another."""
STARTUP_TRIALS = 10
JOURNAL = ".log"
SQLITE_WAIT_SECONDS = 60
OPENING_TRIES = 10


@dataclass(frozen=True)
class Tried:
    """A trial that has ended: `state` is "complete", "pruned" or "failed"."""

    number: int
    state: str
    value: float | None
    setting: Setting | None
    is_default: bool
    outcome: dict[str, Any]
    reason: str | None
    same_as: int | None
    seconds: float
    started: float


class NumberedSampler(BaseSampler):
    """TPE whose draws depend on the seed and on the trial's number, not on what this process drew before.

    So a search that was stopped goes on without repeating itself, and processes do not propose the same.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._tpe = _tpe(seed)

    def before_trial(self, study: optuna.Study, trial: FrozenTrial) -> None:  # noqa: ARG002
        self._tpe = _tpe((self._seed * 1_000_003 + trial.number) % 2**32)

    def infer_relative_search_space(self, study: optuna.Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        return self._tpe.infer_relative_search_space(study, trial)

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        return self._tpe.sample_relative(study, trial, search_space)

    def sample_independent(
        self, study: optuna.Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        return self._tpe.sample_independent(study, trial, param_name, param_distribution)

    def after_trial(
        self, study: optuna.Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None
    ) -> None:
        self._tpe.after_trial(study, trial, state, values)


@contextmanager
def quiet() -> Iterator[None]:
    """Optuna's own log lines and remarks on what it calls experimental are kept from the user."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            yield
    finally:
        optuna.logging.set_verbosity(before)


def open_storage(place: str, *, heartbeat_seconds: int = HEARTBEAT_SECONDS) -> BaseStorage:
    """A database URL, or a journal file ending in .log. Raises ConfigError where neither can be opened."""
    if place.endswith(JOURNAL):
        Path(place).parent.mkdir(parents=True, exist_ok=True)
        return JournalStorage(JournalFileBackend(place))
    url = _with_driver(place)
    is_file = url.startswith("sqlite")
    try:
        with quiet():
            storage = _open_database(
                url,
                engine_kwargs={"connect_args": {"timeout": SQLITE_WAIT_SECONDS}} if is_file else None,
                heartbeat_interval=heartbeat_seconds,
                grace_period=4 * heartbeat_seconds,
                heartbeat_stale_trial_callback=RetryHeartbeatStaleTrialCallback(max_retry=3),
            )
    except (SQLAlchemyError, ArgumentError, NoSuchModuleError, ImportError, ValueError) as error:
        scheme = place.partition(":")[0]
        raise ConfigError(
            f"the storage {scheme}:... cannot be opened: {str(error).splitlines()[0]}",
            expected="a database URL, such as postgresql://user@host/name, or a file ending in .log",
            fix="check tune.storage, and that the database is running",
        ) from error
    if is_file:
        event.listen(storage.engine, "connect", _log_ahead)
        storage.engine.dispose()
    return storage


def _open_database(url: str, **how: Any) -> RDBStorage:
    """Processes that meet in an empty database make its tables at once: who comes second finds them on the next try."""
    tries = 1
    while True:
        try:
            return RDBStorage(url, **how)
        except (IntegrityError, ProgrammingError, OperationalError) as error:
            if tries == OPENING_TRIES or not _made_meanwhile(error):
                raise
            tries += 1
            time.sleep(0.2)


def _made_meanwhile(error: DBAPIError) -> bool:
    return isinstance(error, IntegrityError) or "already exists" in str(error)


def _log_ahead(connection: sqlite3.Connection, _: object) -> None:
    """A killed process loses nothing either way; a power failure may take the last trials, but leaves a sound file.

    Each report of a trial is a commit, and waits for the disk otherwise.
    """
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")


def copy_database(source: Path, target: Path) -> None:
    """A SQLite file as it stands, whatever else is about to be written to it."""
    with closing(sqlite3.connect(source)) as old, closing(sqlite3.connect(target)) as new:
        old.backup(new)


def open_study(task: Task, storage: BaseStorage, *, resume: bool) -> optuna.Study:
    """Begins the study, its first trial being the default, or joins it. Raises ConfigError if it must not be joined."""
    how = {**_manner(task), "storage": storage}
    try:
        study = optuna.create_study(direction="maximize", **how)
    except optuna.exceptions.DuplicatedStudyError:
        study = optuna.load_study(**how)
        _check_same(study, task, resume=resume)
        if not task.is_alone:
            _enqueue_default(study, task)
        return study
    if not task.is_alone:
        _enqueue_default(study, task)
    study.set_user_attr(CONTRACT, task.contract)
    return study


def copy_in_memory(study: optuna.Study, task: Task) -> optuna.Study:
    """A study of the same trials to work in, for a process that is alone.

    A database would be asked thirty times a trial, which takes longer than a small trial does.
    """
    copy = optuna.create_study(direction="maximize", **_manner(task))
    copy.add_trials(study.get_trials(deepcopy=False))
    _enqueue_default(copy, task)
    return copy


def ended(study: optuna.Study) -> list[Tried]:
    """Trials that came to an end, in order; those that were cut off before are left out."""
    trials = study.get_trials(deepcopy=False)
    return [_tried(trial) for trial in trials if trial.state.is_finished() and not was_cut_off(trial)]


def was_cut_off(trial: FrozenTrial) -> bool:
    """Whether it was ended from outside: by Ctrl-C, for want of time, or with its process."""
    return trial.state == TrialState.FAIL and REASON not in trial.user_attrs


def _tried(trial: FrozenTrial) -> Tried:
    attrs, names = trial.user_attrs, {TrialState.COMPLETE: "complete", TrialState.PRUNED: "pruned"}
    start, end = trial.datetime_start, trial.datetime_complete
    return Tried(
        number=trial.number,
        state=names.get(trial.state, "failed"),
        value=trial.value if trial.state == TrialState.COMPLETE else None,
        setting=Setting.from_plain(attrs[SETTING]) if SETTING in attrs else None,
        is_default=bool(attrs.get(DEFAULT)),
        outcome=attrs.get(OUTCOME, {}),
        reason=attrs.get(REASON),
        same_as=attrs.get(SAME_AS),
        seconds=(end - start).total_seconds() if start and end else 0.0,
        started=start.timestamp() if start else 0.0,
    )


def _check_same(study: optuna.Study, task: Task, *, resume: bool) -> None:
    if not resume:
        raise ConfigError(
            f"the storage holds a study {task.name!r} already",
            expected="a new one",
            fix="add --resume to go on with it, or choose another --storage",
        )
    if study.direction != optuna.study.StudyDirection.MAXIMIZE:
        raise ConfigError(
            f"the study {task.name!r} minimises", expected="one that maximises", fix="choose another --storage"
        )
    differences = contract_differences(_contract_of(study), task.contract)
    if differences:
        raise ConfigError(
            f"the study {task.name!r} was another search: {'; '.join(differences[:5])}",
            expected="the same space, data, metric and settings",
            fix="undo the change, or begin a new study without --resume in another --out or --storage",
        )


def _manner(task: Task) -> dict[str, Any]:
    sampler = NumberedSampler(task.config.seed)
    return {"study_name": task.name, "sampler": sampler, "pruner": optuna.pruners.NopPruner()}


def _enqueue_default(study: optuna.Study, task: Task) -> None:
    """Puts the default before all others, unless it waits already, is under way, or has ended."""
    trials = study.get_trials(deepcopy=False)
    if any(trial.user_attrs.get(DEFAULT) and not was_cut_off(trial) for trial in trials):
        return
    point = point_of(task.space.dimensions, task.nearest_default())
    study.enqueue_trial(point, user_attrs={DEFAULT: True})


def _contract_of(study: optuna.Study) -> dict[str, Any]:
    """The study's contract; a process that has just begun it may still be about to write it."""
    for _ in range(50):
        contract: dict[str, Any] | None = study.user_attrs.get(CONTRACT)
        if contract is not None:
            return contract
        time.sleep(0.1)
    raise ConfigError(
        f"the study {study.study_name!r} was not begun by rankloom", expected="one of ours", fix="choose another name"
    )


def _tpe(seed: int) -> TPESampler:
    with quiet():
        return TPESampler(seed=seed, n_startup_trials=STARTUP_TRIALS, multivariate=True, group=True)


def _with_driver(url: str) -> str:
    scheme, colon, rest = url.partition("://")
    if scheme not in ("postgresql", "postgres"):
        return url
    if find_spec("psycopg") is None:
        raise MissingExtraError("psycopg", "postgres")
    return f"postgresql+psycopg{colon}{rest}"
