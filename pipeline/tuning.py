"""The verb `tune`: data -> search -> the best few fitted with care -> the run folder of the best, and best.toml."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from features.errors import OutputError, TrainingError
from pipeline.commands import REPORT, load_datasets, print_run
from pipeline.config import load_config
from pipeline.console import LOG, console, logging_to, progress
from pipeline.findings import find
from pipeline.folder import check_free, new_folder
from pipeline.report import run_page, tuning_page, write_page
from pipeline.run import LOG_FILE, PACKAGE, Datasets, Run, Timings, judge_ranker, write_run
from pipeline.split import Origin
from pipeline.tune import (
    STUDY,
    Choice,
    Interrupted,
    Task,
    Tried,
    best_of,
    copy_database,
    expected_optimism,
    fit_finals,
    influences,
    make_task,
    overlay,
    run_search,
    trial_table,
)

BEST, TRIALS = "best.toml", "trials.parquet"
DEFAULT = "default"
EARLIER_WINDOWS = (
    "Earlier validation windows see features whose category codes, rates and document frequencies were learned on the "
    "whole training window: their values are a little kind, to every trial alike."
)
PLAIN_LINES = 3
"""In a pipe, a search says so many times how far it is."""


def tune(config_path: Path, settings: Sequence[str], out: Path | None, *, resume: bool, overwrite: bool) -> None:
    """Searches, fits, judges and writes. While it searches, `out` holds the log and the study; then the whole run.

    Raises TrainingError after Ctrl-C: the study stays, with the best so far in best.toml.
    """
    config = load_config(config_path, settings)
    out = out or Path("runs") / f"{config_path.stem}-tuned"
    with _workplace(out, resume=resume, overwrite=overwrite), logging_to(out / LOG_FILE):
        timings = Timings()
        datasets, origin = load_datasets(config, timings)
        task = make_task(config_path.stem, datasets, origin, config)
        LOG.info("%s", _plan(task))
        if config.tune.folds > 1 and config.data.events is not None:
            LOG.info("%s", EARLIER_WINDOWS)
        place = config.tune.storage or f"sqlite:///{out.resolve() / STUDY}"
        with timings.step("search"):
            tried = _search(task, place, out, resume=resume)
        with timings.step("final fits"), progress("fitting the best", config.tune.finalists + 1, every=10) as advance:
            choice = fit_finals(task, datasets, tried, advance)
        run = _judged(task, datasets, origin, tried, choice, timings)
        print_run(run)
        for sentence in verdict(run.metrics):
            LOG.info("%s", sentence)
        _write(out, config_path.stem, run, tried)
    console.print(f"The package lies in {out / PACKAGE}. The settings lie in {BEST} beside it:", markup=False)
    console.print(f"  rankloom train {config_path} --set include={out / BEST}", markup=False)


def verdict(metrics: dict[str, Any]) -> list[str]:
    """What the search was worth, in words: on test beside the default, and what luck must have added on valid."""
    found, metric = metrics["tune"], metrics["tune"]["metric"]
    counts = found["trials"]
    luck = (
        "" if found["optimism"] is None else f" (the best of so many looks {found['optimism']:.4f} better than it is)"
    )
    sentences = [f"{counts['complete']} trials finished{luck}, {counts['pruned']} pruned, {counts['failed']} failed."]
    sentences += [f"Trial {number} could not be fitted in full: {why}." for number, why in found["refused"].items()]
    if found["default_value"] is None:
        return [*sentences, "The default could not be fitted, so there is nothing to compare the tuned model with."]
    lead = metrics["diff"].get(DEFAULT)
    if lead is None:
        return [*sentences, "No setting beat the default on the validation queries: the default is kept."]
    mean, low, high = (lead[metric][part] for part in ("mean", "low", "high"))
    figures = f"{metric} {mean:+.4f} [{low:+.4f}, {high:+.4f}]"
    if low > 0:
        return [*sentences, f"On test the tuned model is ahead of the default: {figures}."]
    if high < 0:
        return [*sentences, f"On test the tuned model is behind the default: {figures}. Keep the default."]
    return [*sentences, f"On test there is no gain over the default that could be told from chance: {figures}."]


def _search(task: Task, place: str, out: Path, *, resume: bool) -> list[Tried]:
    wanted = task.config.tune.trials
    try:
        with progress("tuning", wanted, every=max(1, wanted // PLAIN_LINES)) as advance:
            return run_search(
                task, place, resume=resume, on_trial=lambda tried: advance(min(len(tried), wanted), _state(task, tried))
            )
    except Interrupted as stop:
        best = best_of(stop.tried)
        so_far = "no trial has a value yet"
        if best is not None and best.setting is not None:
            so_far = f"the best so far, {best.value:.4f}, lies in {out / BEST}"
            (out / BEST).write_text(overlay(task.for_final(best.setting), _headline(task, best.number)), "utf-8")
        raise TrainingError(
            f"the search was stopped after {len(stop.tried)} of {wanted} trials ({so_far})",
            expected="a whole search",
            fix="add --resume to go on with it",
        ) from stop


def _judged(
    task: Task,
    datasets: Datasets,
    origin: Origin,
    tried: list[Tried],
    choice: Choice,
    timings: Timings,
) -> Run:
    """The chosen model beside its rivals, the default among them."""
    chosen, default = choice.chosen, choice.default
    labels = replace(datasets.labels, gains=chosen.gains)
    train, valid, test = (replace(part, gains=chosen.gains) for part in (datasets.train, datasets.valid, datasets.test))
    chosen_on = replace(datasets, train=train, valid=valid, test=test, labels=labels)
    others = {} if default is None or default is chosen else {DEFAULT: default.ranker}
    run = judge_ranker(chosen_on, origin, chosen.config, chosen.ranker, timings=timings, others=others)
    states = [trial.state for trial in tried]
    best = best_of(tried)
    run.metrics["tune"] = {
        "metric": f"ndcg@{task.config.train_k}",
        "trials": {state: states.count(state) for state in ("complete", "pruned", "failed")},
        "chosen_trial": chosen.trial,
        "chosen_value": chosen.value,
        "default_value": None if default is None else default.value,
        "refused": choice.refused,
        "search_best_trial": None if best is None else best.number,
        "search_best_value": None if best is None else best.value,
        "search_default_value": next((trial.value for trial in tried if trial.is_default), None),
        "optimism": expected_optimism(task, tried),
        "threads": task.threads,
        "jobs": task.config.tune.jobs,
    }
    return run


def _write(out: Path, title: str, run: Run, tried: list[Tried]) -> None:
    """The run folder takes the place of the one the search worked in; the study and the log move along."""
    with new_folder(out, marker=LOG_FILE, overwrite=True) as folder:
        write_run(folder, run)
        headline = f"trial {run.metrics['tune']['chosen_trial']} of {len(tried)}"
        (folder / BEST).write_text(overlay(run.config, headline), "utf-8")
        trial_table(tried).write_parquet(folder / TRIALS)
        page = run_page(run, find(run), title)
        write_page(folder / REPORT, tuning_page(page, run.metrics, tried, influences(tried), verdict(run.metrics)))
        if (out / STUDY).is_file():
            copy_database(out / STUDY, folder / STUDY)
        shutil.copyfile(out / LOG_FILE, folder / LOG_FILE)


@contextmanager
def _workplace(out: Path, *, resume: bool, overwrite: bool) -> Iterator[None]:
    """`out` as a folder to search in; where the search never began, nothing is left of it. Raises OutputError."""
    ours = (out / LOG_FILE).is_file()
    if not (resume and ours):
        check_free(out, marker=LOG_FILE, overwrite=overwrite)
        shutil.rmtree(out, ignore_errors=True)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(
            f"cannot write to {out}: {error.strerror}", expected="a writable folder", fix="choose another --out"
        ) from error
    try:
        yield
    except BaseException:
        if {path.name for path in out.iterdir()} <= {LOG_FILE}:
            shutil.rmtree(out)
        raise


def _plan(task: Task) -> str:
    sampled = [fold.share for fold in task.folds if fold.share < 1]
    first = f", at first on {sampled[0]:.0%} of the training queries" if sampled else ""
    folds = len(task.folds) - len(sampled)
    over = "1 validation window" if folds == 1 else f"{folds} validation windows"
    jobs = task.config.tune.jobs
    processes = "" if jobs == 1 else f", {jobs} processes: the order of trials, and so the result, differs between runs"
    return (
        f"Searching {', '.join(task.space.dimensions)} for ndcg@{task.config.train_k} over {over}{first}"
        f" ({task.threads} threads each{processes})."
    )


def _state(task: Task, tried: list[Tried]) -> str:
    best = best_of(tried)
    pruned = sum(trial.state == "pruned" for trial in tried) / len(tried)
    value = "-" if best is None else f"{best.value:.4f}"
    return f"best ndcg@{task.config.train_k} {value}, {pruned:.0%} pruned"


def _headline(task: Task, number: int) -> str:
    return f"trial {number} of the unfinished study {task.name}"
