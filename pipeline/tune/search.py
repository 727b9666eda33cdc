"""Running trials: in this process, or in several side by side, until there are as many as asked for."""

from __future__ import annotations

import multiprocessing
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import inf

import optuna
from optuna.trial import FrozenTrial

from features.errors import RankingError, TrainingError
from pipeline.tune.keep import keeper
from pipeline.tune.objective import Objective, OutOfTime
from pipeline.tune.study import Tried, copy_in_memory, ended, open_storage, open_study, quiet, was_cut_off
from pipeline.tune.task import Task

OnTrial = Callable[[list[Tried]], None]


class Interrupted(Exception):  # noqa: N818
    """The search was stopped from outside; `tried` has ended by then and stays in the study."""

    def __init__(self, tried: list[Tried]) -> None:
        super().__init__("the search was stopped")
        self.tried = tried


def run_search(task: Task, place: str, *, resume: bool, on_trial: OnTrial) -> list[Tried]:
    """Runs trials until the study at `place` holds `tune.trials` of them, and returns all that ended.

    `on_trial` is told all that have ended after each of this process. Raises Interrupted after Ctrl-C, ConfigError
    where the study is another one, TrainingError where no trial came to a value.
    """
    with quiet():
        storage = open_storage(place)
        kept = open_study(task, storage, resume=resume)
        study = copy_in_memory(kept, task) if task.is_alone else kept
        with _workers(task, place):
            try:
                _work(study, task, on_trial, keep=keeper(kept, storage) if task.is_alone else _is_kept)
            except KeyboardInterrupt:
                raise Interrupted(ended(study)) from None
        tried = ended(study)
    _check_any(tried)
    return tried


def best_of(tried: list[Tried]) -> Tried | None:
    """The trial of the highest value, the earliest of equals; None where none was finished."""
    valued = [trial for trial in tried if trial.value is not None]
    return max(valued, key=lambda trial: (trial.value, -trial.number), default=None)


def _is_kept(_: FrozenTrial) -> None:
    """A shared study holds the trial already."""


def _work(study: optuna.Study, task: Task, on_trial: OnTrial, keep: Callable[[FrozenTrial], None] = _is_kept) -> None:
    """Runs trials in `study` until there are enough; `keep` is given each that has ended."""
    timeout, wanted = task.config.tune.timeout, task.config.tune.trials
    deadline = inf if timeout is None else time.monotonic() + timeout.total_seconds()

    def after(study: optuna.Study, trial: FrozenTrial) -> None:
        if time.monotonic() >= deadline:
            study.stop()
        if was_cut_off(trial):
            return
        keep(trial)
        tried = ended(study)
        on_trial(tried)
        if len(tried) >= wanted:
            study.stop()

    if len(ended(study)) < wanted:
        study.optimize(Objective(task, deadline), callbacks=[after], catch=(RankingError, OutOfTime))


@contextmanager
def _workers(task: Task, place: str) -> Iterator[None]:
    """The other processes: LightGBM keeps the gains of labels for a whole process, so that threads would share them."""
    context = multiprocessing.get_context("spawn")
    started = []
    try:
        for _ in range(task.config.tune.jobs - 1):
            worker = context.Process(target=_join_search, args=(task, place), daemon=True)
            worker.start()
            started.append(worker)
        yield
    except BaseException:
        for worker in started:
            worker.terminate()
        raise
    finally:
        for worker in started:
            worker.join()


def _join_search(task: Task, place: str) -> None:
    """What a worker does. Ctrl-C is the first process's to answer; told to end, it gives its trial back."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with quiet():
            _work(open_study(task, open_storage(place), resume=True), task, lambda _tried: None)
    except KeyboardInterrupt:
        return


def _check_any(tried: list[Tried]) -> None:
    if best_of(tried) is not None:
        return
    reasons = [trial.reason for trial in tried if trial.reason]
    if not reasons:
        raise TrainingError(
            f"none of {len(tried)} trials was finished",
            expected="at least the default's",
            fix="give the search more time with --timeout, or resume it with --resume",
        )
    raise TrainingError(
        f"all {len(tried)} trials failed, most often because of this: {max(set(reasons), key=reasons.count)}",
        expected="at least one with a value",
        fix="mend that, then search anew",
    )
