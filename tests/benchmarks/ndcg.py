"""How fast the NDCG core is, beside other libraries and a plain pass over the same memory. Run by hand:

    python tests/benchmarks/ndcg.py [--queries 50000] [--repeats 7] [--threads 1,2]

All contenders take turns in one process on the same arrays, so that a busy machine slows all of them; ratios are
medians over the turns. LightGBM is its built-in metric (`eval_train` of a booster whose scores are its `init_score`).
ranx, pytrec_eval and scikit-learn are left out where they are not installed, and see a tenth of the queries;
the making of their inputs is not timed. Results go into LOG.md by hand, with command, date, commit and cores.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from statistics import median

import lightgbm
import numpy as np

from pipeline.metrics import Convention, ndcg_per_query

K = 10
STABLE = Convention.named("lightgbm")
SLOW_SHARE = 10


@dataclass(frozen=True)
class Lists:
    scores: np.ndarray
    relevance: np.ndarray
    watched: np.ndarray
    groups: np.ndarray

    @classmethod
    def drawn(cls, queries: int) -> Lists:
        """Queries of 20 to 180 items; grades 0 to 4, most of them 0, and a continuous relevance beside them."""
        rng = np.random.default_rng(1)
        groups = rng.integers(20, 181, queries)
        rows = int(groups.sum())
        relevance = rng.choice(5, rows, p=[0.6, 0.2, 0.1, 0.07, 0.03]).astype(np.int32)
        return cls(rng.standard_normal(rows), relevance, (relevance + rng.random(rows)) / 5, groups)

    def first(self, queries: int) -> Lists:
        groups = self.groups[:queries]
        rows = int(groups.sum())
        return Lists(self.scores[:rows], self.relevance[:rows], self.watched[:rows], groups)

    @property
    def rows(self) -> int:
        return len(self.scores)


Contenders = dict[str, tuple[Callable[[], object], int]]
"""name -> (what to time, rows it sees)"""


def ours(lists: Lists, threads: int) -> Contenders:
    def run(relevance: np.ndarray, k: object, convention: Convention, scores: np.ndarray = lists.scores) -> object:
        return ndcg_per_query(scores, relevance, lists.groups, k, convention=convention, threads=threads)

    narrow = lists.scores.astype(np.float32)
    linear = Convention(gain="linear", ties="stable")
    timed = {
        "ours, stable": lambda: run(lists.relevance, K, STABLE),
        "ours, ties averaged": lambda: run(lists.relevance, K, Convention()),
        "ours, three cut-offs": lambda: run(lists.relevance, [5, K, 20], STABLE),
        "ours, continuous exp2": lambda: run(lists.watched, K, STABLE),
        "ours, continuous linear": lambda: run(lists.watched, K, linear),
        "ours, float32 scores": lambda: run(lists.relevance, K, STABLE, narrow),
    }
    return {name: (function, lists.rows) for name, function in timed.items()}


def built_in(lists: Lists, threads: int) -> Contenders:
    data = lightgbm.Dataset(
        np.zeros((lists.rows, 1), np.float32),
        label=lists.relevance,
        group=lists.groups,
        init_score=lists.scores,
        params={"verbose": -1, "feature_pre_filter": False},
    )
    options = {"objective": "lambdarank", "metric": "ndcg", "eval_at": [K], "verbose": -1, "num_threads": threads}
    booster = lightgbm.Booster(options, data)
    theirs, mine = booster.eval_train()[0][2], ndcg_per_query(lists.scores, lists.relevance, lists.groups, K).mean()
    if abs(theirs - mine) > 1e-9:
        sys.exit(f"LightGBM says {theirs}, we say {mine}: nothing to compare")
    return {"LightGBM": (booster.eval_train, lists.rows)}


def others(lists: Lists) -> Contenders:
    found: Contenders = {"one plain pass": (lambda: lists.scores.sum() + lists.relevance.sum(), lists.rows)}
    few = lists.first(len(lists.groups) // SLOW_SHARE)
    starts = np.cumsum(few.groups) - few.groups
    ranges = [slice(start, start + size) for start, size in zip(starts, few.groups, strict=True)]
    if find_spec("ranx"):
        found["ranx"] = (_ranx(few, ranges), few.rows)
    if find_spec("pytrec_eval"):
        found["pytrec_eval"] = (_pytrec_eval(few, ranges), few.rows)
    if find_spec("sklearn"):
        from sklearn.metrics import ndcg_score

        tenth = ranges[: len(ranges) // 10]
        rows = int(few.groups[: len(tenth)].sum())
        found["scikit-learn"] = (
            lambda: [ndcg_score([few.relevance[rows]], [few.scores[rows]], k=K) for rows in tenth],
            rows,
        )
    return found


def _ranx(lists: Lists, ranges: list[slice]) -> Callable[[], object]:
    from ranx import Qrels, Run, evaluate

    truth, run = _dictionaries(lists, ranges)
    qrels, ranked = Qrels(truth), Run(run)
    return lambda: evaluate(qrels, ranked, f"ndcg_burges@{K}")


def _pytrec_eval(lists: Lists, ranges: list[slice]) -> Callable[[], object]:
    import pytrec_eval

    truth, run = _dictionaries(lists, ranges)
    evaluator = pytrec_eval.RelevanceEvaluator(truth, {f"ndcg_cut.{K}"})
    return lambda: evaluator.evaluate(run)


def _dictionaries(lists: Lists, ranges: list[slice]) -> tuple[dict, dict]:
    def of(values: np.ndarray) -> dict:
        return {
            str(query): {str(item): value for item, value in enumerate(values[rows].tolist())}
            for query, rows in enumerate(ranges)
        }

    return of(lists.relevance), of(lists.scores)


def in_turns(contenders: Contenders, repeats: int) -> dict[str, list[float]]:
    """Seconds per turn, after one that is not counted."""
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(repeats + 1):
        for name, (function, _) in contenders.items():
            start = time.perf_counter()
            function()
            if turn:
                seconds[name].append(time.perf_counter() - start)
    return seconds


def print_table(contenders: Contenders, seconds: dict[str, list[float]], beside: str) -> None:
    """Rows per second, and how many times faster per row than `beside`."""
    per_row = {name: [t / contenders[name][1] for t in times] for name, times in seconds.items()}
    print(f"{'':26}{'ms':>9}{'M rows/s':>10}{'times ' + beside:>20}")
    for name, times in seconds.items():
        ratio = median(theirs / own for theirs, own in zip(per_row[beside], per_row[name], strict=True))
        print(f"{name:26}{median(times) * 1e3:9.1f}{1e-6 / median(per_row[name]):10.1f}{ratio:20.2f}")


def print_growth(lists: Lists, repeats: int) -> None:
    print("\ngrowth with k (ms):", end="")
    for k in (1, 5, 10, 20, 50, 100, None):
        run = {"": (lambda k=k: ndcg_per_query(lists.scores, lists.relevance, lists.groups, k), lists.rows)}
        print(f"  {k}: {median(in_turns(run, repeats)['']) * 1e3:.1f}", end="")
    print("\ngrowth with rows at k=10 (ns per row):", end="")
    for share in (100, 10, 2, 1):
        part = lists.first(len(lists.groups) // share)
        run = {"": (lambda part=part: ndcg_per_query(part.scores, part.relevance, part.groups, K), part.rows)}
        print(f"  {part.rows}: {median(in_turns(run, repeats)['']) / part.rows * 1e9:.1f}", end="")
    print("\none list of all rows at k=10 (ns per row):", end="")
    whole = {"": (lambda: ndcg_per_query(lists.scores, lists.relevance, [lists.rows], K), lists.rows)}
    print(f"  {median(in_turns(whole, repeats)['']) / lists.rows * 1e9:.1f}")


def print_cold_start() -> None:
    """A first call in a new process: without compiled code on disk, then with it, then without any call."""
    call = "import pipeline.metrics as m; m.ndcg_per_query([0.5, 1.0], [0, 1], [2], 2)"
    with tempfile.TemporaryDirectory() as cache:
        for what, code in (
            ("nothing compiled yet", call),
            ("compiled code on disk", call),
            ("import pipeline.metrics alone", "import pipeline.metrics"),
        ):
            start = time.perf_counter()
            subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "NUMBA_CACHE_DIR": cache})
            print(f"process with {what}: {time.perf_counter() - start:.2f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=50_000)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--threads", default="1,2")
    options = parser.parse_args()
    lists = Lists.drawn(options.queries)
    print(f"{lists.rows} rows in {len(lists.groups)} queries, {os.cpu_count()} cores")
    for threads in map(int, options.threads.split(",")):
        print(f"\n{threads} thread(s)")
        contenders = built_in(lists, threads) | ours(lists, threads)
        print_table(contenders, in_turns(contenders, options.repeats), "LightGBM")
    print("\nothers, one thread")
    contenders = {"ours, stable": ours(lists, 1)["ours, stable"]} | others(lists)
    print_table(contenders, in_turns(contenders, min(options.repeats, 3)), "ours, stable")
    print_growth(lists, options.repeats)
    print_cold_start()


if __name__ == "__main__":
    main()
