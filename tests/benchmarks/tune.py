"""How soon `tune` is as good as a naive search: a fresh LGBMRanker per trial, same space and sampler, no pruning.

    python tests/benchmarks/tune.py letor
    python tests/benchmarks/tune.py shop --seeds 7 8 9 --trials 50

Per seed: the naive search's seconds and best validation value; the share of these seconds after which ours first held
a model within 0.002 of that value; and the paired difference of both chosen models on test. Then the peak memory of
one fit and of a whole search, each in a process of its own. Validation values are ndcg@k of whole models on all
validation queries in both; what ours reaches on a sample of training queries counts for nothing. Seconds are those of
the processor, on one thread, so that a busy machine does not decide. Ours may run twice as many trials,
as they are shorter: only its clock counts.
Needs scikit-learn, for LGBMRanker.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import optuna

from pipeline.config import Config, load_config
from pipeline.dataset import RankingDataset
from pipeline.log import load_parts as load_log
from pipeline.metrics import ndcg_per_query
from pipeline.readymade import load_parts as load_tables
from pipeline.reductions import paired_interval
from pipeline.results import query_users
from pipeline.run import Datasets, build_datasets
from pipeline.simulate import simulate
from pipeline.split import Origin
from pipeline.train import evaluable, label_ndcg, lightgbm_params
from pipeline.tune import Task, Tried, best_of, fit_finals, make_task, run_search
from pipeline.tune.objective import point_of, suggest
from pipeline.tune.study import NumberedSampler

ROOT = Path(__file__).parents[2]
OURS_TRIALS = 2
LETOR = ROOT.parent / "shared" / "data" / "letor"
CLOSE = 0.002
SHOP_EVENTS = 200_000


def load(name: str, seed: int, trials: int, folder: Path) -> tuple[Datasets, Origin, Config]:
    settings = [f"seed={seed}", f"tune.trials={trials}", "train.threads=1"]
    if name == "letor":
        paths = [f"data.{part}={LETOR / f'rank.{part}'}" for part in ("train", "test")]
        config = load_config(ROOT / "configs" / "letor.toml", [*settings, *paths, "train.refit=false"])
        parts = load_tables(config)
    else:
        if not (folder / "events.parquet").exists():
            simulate("shop", SHOP_EVENTS, folder, seed=1, bias=1.0, policy=0.2, days=49, overwrite=True)
        paths = [
            f"data.{part}={folder / f'{part}.parquet'}" for part in ("events", "items", "users", "queries", "truth")
        ]
        config = load_config(ROOT / "configs" / "shop.toml", [*settings, *paths])
        parts = load_log(config)
    convention = config.resolved_convention(continuous=parts.origin.continuous)
    return build_datasets(parts, config, convention), parts.origin, config


def fit_ranker(task: Task, datasets: Datasets, setting: Any) -> lightgbm.LGBMRanker:
    """What people write by hand: everything from scratch, LightGBM's own early stopping."""
    config = task.for_final(setting)
    train, watched, _ = evaluable(datasets.train, datasets.valid)
    params, _ = lightgbm_params(config)
    ranker = lightgbm.LGBMRanker(
        n_estimators=config.train.rounds,
        label_gain=list(task.gains(setting)),
        verbosity=-1,
        importance_type="gain",
        **params,
    )
    stop = lightgbm.early_stopping(config.train.early_stopping, first_metric_only=True, verbose=False)
    categories = [train.features.columns.index(name) for name in train.schema.categorical]
    ranker.fit(
        train.features.to_numpy(),
        train.labels,
        group=train.sizes,
        eval_set=[(watched.features.to_numpy(), watched.labels)],
        eval_group=[watched.sizes],
        eval_at=[config.train_k],
        callbacks=[stop],
        categorical_feature=categories or "auto",
    )
    return ranker


def values_of(scores: np.ndarray, dataset: RankingDataset, task: Task) -> np.ndarray:
    return ndcg_per_query(scores, dataset.relevance, dataset.sizes, task.config.train_k, convention=task.convention)


def builtin_parity(dataset: RankingDataset) -> None:
    """Compiles what checks LightGBM's metric, so that no search is charged for it."""
    label_ndcg(dataset, np.zeros(dataset.rows), 10)


def naive(task: Task, datasets: Datasets) -> tuple[float, float, np.ndarray]:
    """Seconds, best validation value and (Q,) test values of a search without any of our means."""
    best: tuple[float, Any] = (-1.0, None)

    def objective(trial: optuna.Trial) -> float:
        nonlocal best
        drawn = task.space.draw(lambda name, dimension: suggest(trial, name, dimension))
        setting = task.default if trial.number == 0 else drawn
        ranker = fit_ranker(task, datasets, setting)
        value = float(np.nanmean(values_of(ranker.predict(datasets.valid.features.to_numpy()), datasets.valid, task)))
        if value > best[0]:
            best = (value, ranker)
        return value

    started = time.process_time()
    study = optuna.create_study(direction="maximize", sampler=NumberedSampler(task.config.seed))
    study.enqueue_trial(point_of(task.space.dimensions, task.nearest_default()))
    study.optimize(objective, n_trials=task.config.tune.trials)
    seconds = time.process_time() - started
    return seconds, best[0], values_of(best[1].predict(datasets.test.features.to_numpy()), datasets.test, task)


def ours(name: str, datasets: Datasets, origin: Origin, config: Config) -> tuple[list[tuple[float, float]], np.ndarray]:
    """(seconds, best value so far) after each trial and each final fit, and (Q,) test values of the chosen model."""
    from pipeline.booster import load_model, predict

    path: list[tuple[float, float]] = []
    values_of(np.zeros(datasets.valid.rows), datasets.valid, make_task(name, datasets, origin, config))
    builtin_parity(datasets.valid)
    started = time.process_time()

    def note(value: float) -> None:
        path.append((time.process_time() - started, max(value, path[-1][1] if path else value)))

    def on_trial(tried: list[Tried]) -> None:
        best = best_of(tried)
        if best is not None and best.value is not None:
            note(best.value)

    def on_fit(_: int, text: str) -> None:
        if not text.endswith("left out"):
            note(float(text.split()[-1]))

    longer = config.tune.model_copy(update={"trials": OURS_TRIALS * config.tune.trials})
    with tempfile.TemporaryDirectory() as folder:
        task = make_task(name, datasets, origin, config.model_copy(update={"tune": longer}))
        tried = run_search(task, f"sqlite:///{folder}/study.db", resume=False, on_trial=on_trial)
    chosen = fit_finals(task, datasets, tried, on_fit).chosen
    scores = predict(load_model(chosen.ranker.model_text), datasets.test.features)
    return path, values_of(scores, datasets.test, task)


def compare(name: str, seeds: list[int], trials: int, folder: Path) -> None:
    shares = []
    for seed in seeds:
        datasets, origin, config = load(name, seed, trials, folder)
        task = make_task(name, datasets, origin, config)
        path, mine = ours(name, datasets, origin, config)
        seconds, goal, theirs = naive(task, datasets)
        reached = next((at for at, value in path if value >= goal - CLOSE), float("inf"))
        shares.append(reached / seconds)
        lead = paired_interval(mine, theirs, clusters=query_users(datasets.test), seed=seed)
        print(
            f"{name} seed {seed}: {datasets.train.rows} rows; naive {seconds:.0f} s, best {goal:.4f}; "
            f"ours within {CLOSE} after {reached:.0f} s ({shares[-1]:.2f}), "
            f"whole {path[-1][0]:.0f} s, best {path[-1][1]:.4f}; "
            f"test ours - naive {lead.mean:+.4f} [{lead.low:+.4f}, {lead.high:+.4f}]",
            flush=True,
        )
    print(f"{name}: median share {np.median(shares):.2f} over {len(seeds)} seeds (to reach: 0.33)", flush=True)


def peak(name: str, what: str, trials: int, folder: Path) -> None:
    """Prints the peak memory of one fit, or of a search, data and libraries included."""
    datasets, origin, config = load(name, 7, trials, folder)
    if what == "fit":
        task = make_task(name, datasets, origin, config)
        fit_ranker(task, datasets, task.default)
    else:
        ours(name, datasets, origin, config)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("data", choices=["letor", "shop"])
    parser.add_argument("--seeds", type=int, nargs="+", default=[7, 8, 9, 10, 11])
    parser.add_argument("--trials", type=int, default=50)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "rankloom-bench-shop")
    parser.add_argument("--peak", choices=["fit", "search"])
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    given.folder.mkdir(parents=True, exist_ok=True)
    if given.peak:
        peak(given.data, given.peak, given.trials, given.folder)
        return
    compare(given.data, given.seeds, given.trials, given.folder)
    megabytes = {}
    for what in ("fit", "search"):
        command = [
            sys.executable,
            __file__,
            given.data,
            "--peak",
            what,
            "--trials",
            "10",
            "--folder",
            str(given.folder),
        ]
        megabytes[what] = int(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[-1])
    print(
        f"{given.data}: peak memory {megabytes}, {megabytes['search'] / megabytes['fit']:.2f} x one fit (at most 1.3)"
    )


if __name__ == "__main__":
    main()
