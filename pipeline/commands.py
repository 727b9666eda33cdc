"""One function per verb: the stories. Heavy rooms are imported here, never by `pipeline.cli`."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

import polars as pl

from features.columns import RELEVANCE
from features.errors import DataError
from features.table import Table
from pipeline.baselines import random_scores
from pipeline.config import Config, load_config
from pipeline.console import LOG, console, logging_to, progress
from pipeline.dataset import RankingDataset
from pipeline.folder import check_free, new_folder
from pipeline.labels import LabelRule
from pipeline.metrics import Convention
from pipeline.printout import result_caption, result_table
from pipeline.readymade import load_parts, read_rows
from pipeline.results import MODEL, RANDOM, judge, query_counts
from pipeline.run import CONFIG, LOG_FILE, METRICS, PACKAGE, PER_QUERY, Timings, run_training, to_json, write_run
from pipeline.scorer import Scorer


def train(config_path: Path, settings: Sequence[str], out: Path | None, *, overwrite: bool) -> None:
    """Data -> datasets -> model -> rivals -> run folder, with the table on the terminal."""
    config = load_config(config_path, settings)
    out = out or Path("runs") / config_path.stem
    check_free(out, marker=CONFIG, overwrite=overwrite)
    with new_folder(out, marker=CONFIG, overwrite=overwrite) as folder, logging_to(folder / LOG_FILE):
        _train_into(folder, config)
    package = out / PACKAGE
    console.print(f"\nThe package lies in {package}. Next:", markup=False)
    console.print(f"  rankloom evaluate {package} --data TABLE", markup=False)
    console.print(f"  rankloom rank {package} --data CANDIDATES --top 10", markup=False)
    console.print(f"  rankloom export {package} --format json --out exports/json", markup=False)


def evaluate(package: Path, data: Path, out: Path | None, *, overwrite: bool) -> None:
    """A package on a labelled table that has its feature columns."""
    scorer = Scorer.load(package)
    manifest = scorer.package.manifest
    dataset = _labelled_dataset(scorer, data)
    convention = Convention(**manifest.convention)
    seed = manifest.config["seed"]
    scores = {MODEL: scorer.score_features(dataset.features), RANDOM: random_scores(dataset)}
    judged = judge(dataset, scores, manifest.k, convention, seed)
    metrics = {
        "k": list(manifest.k),
        "convention": manifest.convention,
        "seed": seed,
        "best_iteration": manifest.best_iteration,
        "queries": query_counts(dataset, convention),
        "test": judged.block(),
        "diff": judged.differences(),
    }
    if out is not None:
        with new_folder(out, marker=METRICS, overwrite=overwrite) as folder:
            (folder / METRICS).write_text(to_json(metrics), "utf-8")
            judged.per_query().write_parquet(folder / PER_QUERY)
    console.print(result_table(metrics))
    console.print(result_caption(metrics), markup=False)


def rank(package: Path, data: Path, top: int, out: Path | None) -> None:
    """The best `top` items of each query, as CSV on standard output or as a Parquet or CSV file."""
    scorer = Scorer.load(package)
    candidates = _read_for(scorer, data)
    ranked = scorer.rank(candidates, top=top)
    for name, count in scorer.unknown_levels(candidates).items():
        print(f"warning: {count} row(s) with a level of {name} that training never saw", file=sys.stderr)  # noqa: T201
    _write_ranked(ranked, out)


def _train_into(folder: Path, config: Config) -> None:
    timings = Timings()
    with timings.step("read"):
        parts = load_parts(config)
    LOG.info("Split: %s.", parts.split)
    for note in parts.notes:
        LOG.info("%s", note)
    with progress("training", config.train.rounds) as advance:
        run = run_training(
            parts,
            config,
            timings=timings,
            fields={},
            on_round=lambda done, value: advance(done, f"ndcg@{config.train_k} {value:.4f}"),
        )
    counts = run.metrics["queries"]
    LOG.info("Queries: %s train, %s valid, %s test.", counts["train"], counts["valid"], counts["test"])
    for note in run.ranker.notes:
        LOG.info("%s", note)
    for warning in run.warnings:
        LOG.warning("%s", warning)
    difference = run.ranker.parity["max_abs_diff"]
    LOG.info("Kept %s trees; LightGBM's ndcg and ours differ by at most %.1g.", run.ranker.best_iteration, difference)
    console.print(result_table(run.metrics))
    console.print(result_caption(run.metrics), markup=False)
    write_run(folder, run, None)


def _read_for(scorer: Scorer, data: Path) -> pl.DataFrame:
    """A table for a package, with the column names its config maps where the file has them."""
    numbers = [int(match.group(1)) for name in scorer.package.schema.names if (match := re.fullmatch(r"f(\d+)", name))]
    mapped = scorer.package.manifest.config["data"]["columns"]
    return read_rows(data, mapped, letor_width=max(numbers, default=0))


def _labelled_dataset(scorer: Scorer, data: Path) -> RankingDataset:
    schema = scorer.package.schema
    frame = schema.encode(_read_for(scorer, data))
    if RELEVANCE not in frame.columns:
        raise DataError(
            f"{data} has no relevance column", expected="the truth to judge by", fix="add it, or use rankloom rank"
        )
    rule = scorer.package.manifest.relevance
    labels = LabelRule(tuple(rule["gains"]), rule["width"])
    return RankingDataset.build(Table(frame, schema.features), labels=labels, part="evaluated", schema=schema)


def _write_ranked(ranked: pl.DataFrame, out: Path | None) -> None:
    if out is None:
        sys.stdout.write(ranked.write_csv())
    elif out.suffix == ".parquet":
        ranked.write_parquet(out)
    else:
        ranked.write_csv(out)
