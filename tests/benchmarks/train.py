"""Training beside bare LightGBM on the same matrix: time and peak memory, each in a process of its own, in pairs.

python tests/benchmarks/train.py [ROWS] [PAIRS]        (default 500000 rows of 60 float32 features, 5 pairs)
"""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
import time

import numpy as np
import polars as pl

ROUNDS, FEATURES, QUERY_ROWS = 30, 60, 20


def table(rows: int) -> pl.DataFrame:
    rng = np.random.default_rng(1)
    columns = {f"f{j:02}": rng.standard_normal(rows, dtype=np.float32) for j in range(FEATURES)}
    score = sum(columns[f"f{j:02}"] for j in range(8)) + rng.standard_normal(rows, dtype=np.float32) * 2
    relevance = np.clip(np.round(score / 2), 0, 4).astype(np.float64)
    keys = {"query": np.arange(rows) // QUERY_ROWS, "item": np.arange(rows) % QUERY_ROWS, "relevance": relevance}
    return pl.DataFrame(keys | columns)


def ours(frame: pl.DataFrame) -> float:
    from features.spec import FeatureSpec
    from features.table import Table
    from pipeline.config import config_from
    from pipeline.run import build_datasets
    from pipeline.split import Origin, Parts
    from pipeline.train import train_ranker

    specs = tuple(FeatureSpec(f"f{j:02}") for j in range(FEATURES))
    cut = frame.height * 9 // 10 // QUERY_ROWS
    train, valid = (Table(frame.filter(keep), specs) for keep in (pl.col("query") < cut, pl.col("query") >= cut))
    raw = {"k": [10], "data": {"table": "x"}, "train": {"rounds": ROUNDS, "early_stopping": ROUNDS}}
    config = config_from(raw, "benchmark")
    parts = Parts(train, valid, valid, Origin(""))
    datasets = build_datasets(parts, config, config.resolved_convention())
    del parts, train, valid
    start = time.perf_counter()
    train_ranker(datasets.train, datasets.valid, config)
    return time.perf_counter() - start


def bare(frame: pl.DataFrame) -> float:
    import lightgbm

    from pipeline.train import available_threads

    cut = frame.height * 9 // 10 // QUERY_ROWS
    parts = [frame.filter(keep) for keep in (pl.col("query") < cut, pl.col("query") >= cut)]
    params = {"objective": "lambdarank", "metric": "ndcg", "eval_at": [10], "verbosity": -1, "deterministic": True}
    params |= {"force_row_wise": True, "num_threads": available_threads(), "lambdarank_truncation_level": 13}
    start = time.perf_counter()
    sets: list[lightgbm.Dataset] = []
    for part in parts:
        sizes = np.full(part["query"].n_unique(), QUERY_ROWS)
        features = part.drop("query", "item", "relevance")
        label = part["relevance"].to_numpy()
        sets.append(lightgbm.Dataset(features, label, group=sizes, reference=sets[0] if sets else None))
    lightgbm.train(params, sets[0], ROUNDS, valid_sets=[sets[1]])
    return time.perf_counter() - start


def measure(which: str, rows: int) -> dict[str, float]:
    code = [sys.executable, __file__, "--one", which, str(rows)]
    return json.loads(subprocess.run(code, check=True, capture_output=True, text=True).stdout)  # type: ignore[no-any-return]


def main(rows: int, pairs: int) -> None:
    runs = [(measure("ours", rows), measure("bare", rows)) for _ in range(pairs)]
    for figure in ("seconds", "peak_mib"):
        ratio = statistics.median(a[figure] / b[figure] for a, b in runs)
        first, second = (statistics.median(run[i][figure] for run in runs) for i in (0, 1))
        print(f"{figure}: ours {first:.1f}, bare {second:.1f}, ratio {ratio:.2f} (medians of {pairs} pairs)")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        work = {"ours": ours, "bare": bare}[sys.argv[2]]
        seconds = work(table(int(sys.argv[3])))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps({"seconds": seconds, "peak_mib": peak}))
    else:
        numbers = [int(argument) for argument in sys.argv[1:]]
        main(*(numbers + [500_000, 5][len(numbers) :]))
