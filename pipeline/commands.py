"""One function per verb: the stories. Heavy rooms are imported here, never by `pipeline.cli`."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl

from features.columns import RELEVANCE
from features.errors import ConfigError, DataError, OutputError, PackageError
from features.room import Room
from features.table import Table
from pipeline import log, readymade
from pipeline.arms import read_arm
from pipeline.baselines import named_scores, random_scores
from pipeline.compare import compare as compare_arms
from pipeline.compare import named_convention
from pipeline.compared import comparison_caption, comparison_tables
from pipeline.config import Config, config_from, load_config, with_settings
from pipeline.console import LOG, console, logging_to, progress
from pipeline.dataset import RankingDataset
from pipeline.dealt import room_for
from pipeline.evaluate import convention_from, cutoffs_from, measure_run
from pipeline.evaluate import explain as explain_query
from pipeline.feature_files import write_features
from pipeline.findings import find
from pipeline.folder import check_free, new_folder, scratch_folder
from pipeline.judgements import Policies, judge_run, read_judged
from pipeline.labels import LabelRule
from pipeline.large_run import load_large_datasets
from pipeline.log import rivals_in
from pipeline.measured import explanation_tables, measure_caption, measure_table
from pipeline.metrics import Convention
from pipeline.monitor import monitor as monitor_served
from pipeline.monitored import monitor_lines, monitor_tables
from pipeline.package import load_package, with_levels
from pipeline.printout import feature_table, result_caption, result_table, slice_sentences
from pipeline.readymade import present_columns, read_rows
from pipeline.report import comparison_page, monitor_page, run_page, write_page
from pipeline.results import MODEL, RANDOM, judge, query_counts
from pipeline.run import (
    CONFIG,
    LOG_FILE,
    METRICS,
    PACKAGE,
    PER_QUERY,
    RANKED,
    Datasets,
    Run,
    Timings,
    build_datasets,
    run_training,
    to_json,
    write_run,
)
from pipeline.scorer import Scorer
from pipeline.simulate import STEPS
from pipeline.simulate import simulate as write_world
from pipeline.split import Origin, Parts, say_origin
from pipeline.summaries import summarise

COMPARISON, MONITORED, REPORT, TABLE = "comparison.json", "monitor.json", "report.html", "train.parquet"


def train(config_path: Path, settings: Sequence[str], out: Path | None, *, overwrite: bool) -> None:
    """Data -> datasets -> model -> rivals -> run folder, with the table on the terminal."""
    config = load_config(config_path, settings)
    out = out or Path("runs") / config_path.stem
    check_free(out, marker=CONFIG, overwrite=overwrite)
    with (
        scratch_folder(out) as scratch,
        new_folder(out, marker=CONFIG, overwrite=overwrite) as folder,
        logging_to(folder / LOG_FILE),
    ):
        _train_into(folder, config, config_path.stem, room_for(config, scratch))
    _say_next(config, out / PACKAGE)


def check(config_path: Path, settings: Sequence[str]) -> None:
    """Reads config and data, and says what is there: counts, rejected rows by rule, parts. Trains nothing."""
    with logging_to(None):
        datasets, _ = load_datasets(load_config(config_path, settings), Timings())
        say_parts(datasets)


def say_parts(datasets: Datasets) -> None:
    """How large each part is, and how many features there are."""
    for part in ("train", "valid", "test"):
        dataset = getattr(datasets, part)
        counts = len(dataset.sizes), dataset.rows, int((~dataset.has_positive).sum())
        LOG.info("%s: %s queries, %s rows, %s queries without a relevant item", part, *counts)
    LOG.info("%s features; `rankloom features` writes and explains them", len(datasets.train.schema.names))


def features(config_path: Path, settings: Sequence[str], out: Path, *, overwrite: bool) -> None:
    """The feature tables of the three parts, as Parquet files that `data.train`, `valid` and `test` read."""
    config = load_config(config_path, settings)
    check_free(out, marker=TABLE, overwrite=overwrite)
    with new_folder(out, marker=TABLE, overwrite=overwrite) as folder, logging_to(None):
        console.print(feature_table(write_features(config, out, folder, _load_parts, LOG.info)))


def evaluate(package: Path, data: Path | None, events: Path | None, out: Path | None, *, overwrite: bool) -> None:
    """A package on a labelled table that has its feature columns, or on a log from which they are built."""
    scorer = Scorer.load(package)
    manifest = scorer.package.manifest
    since = manifest.data_window["unseen_from"]
    unseen = datetime.fromisoformat(since) if since else None
    table = _table_from(data, scorer) if data is not None else _table_from_events(events, scorer, unseen)
    schema, rule = scorer.package.schema, manifest.relevance
    labels = LabelRule(tuple(rule["gains"]), rule["width"])
    dataset = RankingDataset.build(table, labels=labels, part="evaluated", schema=schema)
    convention = Convention(**manifest.convention)
    seed = manifest.config["seed"]
    scores = {MODEL: scorer.score_features(dataset.features), RANDOM: random_scores(dataset)}
    scores |= {name: named_scores(dataset, name, column) for name, column in rivals_in(table.frame.columns).items()}
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
            judged.rows().write_parquet(folder / RANKED)
    console.print(result_table(metrics))
    console.print(result_caption(metrics), markup=False)


def compare(
    runs: Sequence[str],
    *,
    common: bool,
    convention: str | None,
    by: Sequence[str],
    out: Path | None,
    overwrite: bool,
) -> None:
    """Rankings of the same queries side by side, and what may be concluded."""
    rule = named_convention(convention) if convention else None
    found = compare_arms([read_arm(run) for run in runs], common=common, convention=rule, by=by)
    if out is not None:
        with new_folder(out, marker=COMPARISON, overwrite=overwrite) as folder:
            (folder / COMPARISON).write_text(to_json(found.to_dict()), "utf-8")
            write_page(folder / REPORT, comparison_page(found, out.name))
    for table in comparison_tables(found):
        console.print(table)
    console.print("\n".join((comparison_caption(found), *found.notes, "", *found.conclusions)), markup=False)


def metrics(
    truth: Path,
    run: Path | None,
    k: str,
    convention: str | None,
    by_hand: Mapping[str, str | None],
    policies: Mapping[str, str],
    *,
    relevant_from: float | None,
    max_grade: float | None,
    per_query: Path | None,
    query: str | None,
) -> None:
    """A ranking beside its judgements: per-query values, their means, and one query's terms on request."""
    ks, rule, settled = cutoffs_from(k), convention_from(convention, by_hand), Policies(**policies)
    judged = judge_run(*read_judged(truth, run), settled, rule)
    values = measure_run(judged, ks, rule, relevant_from=relevant_from, max_grade=max_grade)
    shown = explanation_tables(explain_query(judged, query, max(ks), rule)) if query is not None else ()
    if per_query is not None:
        _write_ranked(values, per_query)
    summary = summarise(judged, values, ks, rule)
    console.print(measure_table(summary))
    console.print(measure_caption(summary, judged, rule, settled), markup=False)
    for part in shown:
        console.print(part, markup=False)


def monitor(
    package: Path,
    data: Path | None,
    events: Path | None,
    settings: Sequence[str],
    out: Path | None,
    *,
    overwrite: bool,
) -> int:
    """What was served since the package was made, day by day against it; returns the number of alarms."""
    scorer = Scorer.load(package)
    manifest = scorer.package.manifest
    rule = with_settings(manifest.config, settings, "the package").monitor
    if data is not None:
        table = Table(scorer.package.schema.encode(_read_for(scorer, data)), scorer.package.schema.features)
    else:
        last = datetime.fromisoformat(manifest.data_window["test"]["last"])
        table = _table_from_events(events, scorer, last + timedelta(microseconds=1))
    judged = table.labelled
    labels = LabelRule(tuple(manifest.relevance["gains"]), manifest.relevance["width"])
    frame = table.frame if judged else table.frame.with_columns(pl.lit(0.0).alias(RELEVANCE))
    served = RankingDataset.build(
        Table(frame, table.features), labels=labels, part="served", schema=scorer.package.schema
    )
    found = monitor_served(scorer, served, rule, judged=judged)
    if out is not None:
        with new_folder(out, marker=MONITORED, overwrite=overwrite) as folder:
            (folder / MONITORED).write_text(to_json(found.to_dict()), "utf-8")
            write_page(folder / REPORT, monitor_page(found, out.name))
    for each in monitor_tables(found):
        console.print(each)
    console.print("\n".join(monitor_lines(found)), markup=False)
    return len(found.alarms)


def rank(
    package: Path, data: Path | None, events: Path | None, queries: Path | None, top: int, out: Path | None
) -> None:
    """The best `top` items of each query, as CSV on standard output or as a Parquet or CSV file."""
    scorer = Scorer.load(package)
    candidates = _read_for(scorer, data) if data is not None else _requested(events, queries, scorer)
    ranked = scorer.rank(candidates, top=top)
    for name, count in scorer.unknown_levels(candidates).items():
        print(f"warning: {count} row(s) with a level of {name} that training never saw", file=sys.stderr)  # noqa: T201
    _write_ranked(ranked, out)


def export(package: Path, form: str | None, out: Path, target_version: str | None, *, overwrite: bool) -> None:
    """A package in an engine's format, in all of them, or in those of its config, each proven before it is written."""
    from pipeline.export import ALL, export_package
    from pipeline.export.parity import in_words

    loaded = load_package(package)
    named: list[str] = [form] if form else loaded.manifest.config["export"]["formats"]
    formats = named[0] if len(named) == 1 else named
    reports = export_package(loaded, formats, out, target_version, overwrite=overwrite)
    for name, report in ({formats: reports} if isinstance(formats, str) and formats != ALL else reports).items():
        console.print(f"{name}: {in_words(report)}", markup=False)
    console.print(f"The export lies in {out}; parity.json says how it was proven.", markup=False)


def simulate(
    kind: str, events: int, out: Path, *, seed: int, bias: float, policy: float, days: int, overwrite: bool
) -> None:
    """A seeded world, written as a log and its tables, with the truth beside them."""
    with progress("simulating", STEPS) as advance:
        made = write_world(
            kind,
            events,
            out,
            seed=seed,
            bias=bias,
            policy=policy,
            days=days,
            overwrite=overwrite,
            progress=lambda step: advance(step, ""),
        )
    rows = f"{made.events:,} events of {made.queries:,} queries, {made.items:,} items and {made.users:,} users"
    console.print(f"{rows} lie in {out}; truth.parquet holds what really was relevant.", markup=False)


def _train_into(folder: Path, config: Config, title: str, room: Room | None) -> None:
    """`room`: of a log that does not fit into memory."""
    timings = Timings()
    datasets, origin = load_datasets(config, timings, room)
    with progress("training", config.train.rounds) as advance:
        run = run_training(
            datasets,
            origin,
            config,
            timings=timings,
            on_round=lambda done, value: advance(done, f"ndcg@{config.train_k} {value:.4f}"),
        )
    print_run(run)
    for sentence in slice_sentences(run.metrics):
        console.print(sentence, markup=False)
    write_run(folder, run)
    write_page(folder / REPORT, run_page(run, find(run), title))


def print_run(run: Run) -> None:
    """What a reader must know of a run, then its table."""
    counts = run.metrics["queries"]
    LOG.info("Queries: %s train, %s valid, %s test.", counts["train"], counts["valid"], counts["test"])
    if run.origin.continuous:
        width = run.datasets.labels.max_error
        LOG.info(
            "Relevance is continuous: %s gain, levels for LightGBM off by at most %.3g.",
            run.metrics["convention"]["gain"],
            width,
        )
    for note in run.ranker.notes:
        LOG.info("%s", note)
    for warning in run.warnings:
        LOG.warning("%s", warning)
    difference = run.ranker.parity["max_abs_diff"]
    LOG.info("Kept %s trees; LightGBM's ndcg and ours differ by at most %.1g.", run.ranker.best_iteration, difference)
    console.print(result_table(run.metrics))
    console.print(result_caption(run.metrics), markup=False)


def load_datasets(config: Config, timings: Timings, room: Room | None = None) -> tuple[Datasets, Origin]:
    """All three parts; the tables are let go once the datasets are built of them: training needs the memory."""
    if room is not None:
        return load_large_datasets(config, room, timings, LOG.info)
    with timings.step("read"):
        parts = _load_parts(config)
    with timings.step("dataset"):
        convention = config.resolved_convention(continuous=parts.origin.continuous)
        return build_datasets(parts, config, convention), parts.origin


def _load_parts(config: Config) -> Parts:
    parts = log.load_parts(config) if config.data.is_log else readymade.load_parts(config)
    say_origin(parts.origin, LOG.info)
    return parts


def _say_next(config: Config, package: Path) -> None:
    console.print(f"\nThe report is {package.parent / REPORT}. The package lies in {package}. Next:", markup=False)
    if config.data.is_log:
        console.print(f"  rankloom evaluate {package} --events {config.data.events}", markup=False)
        console.print(
            f"  rankloom rank {package} --events {config.data.events} --queries REQUESTS --top 10", markup=False
        )
    else:
        console.print(f"  rankloom evaluate {package} --data TABLE", markup=False)
        console.print(f"  rankloom rank {package} --data CANDIDATES --top 10", markup=False)
    console.print(f"  rankloom export {package} --format json --out exports/json", markup=False)


def _table_from(data: Path, scorer: Scorer) -> Table:
    frame = scorer.package.schema.encode(_read_for(scorer, data))
    if RELEVANCE not in frame.columns:
        raise DataError(
            f"{data} has no relevance column", expected="the truth to judge by", fix="add it, or use rankloom rank"
        )
    return Table(frame, scorer.package.schema.features)


def _table_from_events(events: Path | None, scorer: Scorer, since: datetime | None) -> Table:
    """The labelled table of a log's queries from `since` on; says what was read and left out."""
    config, definitions = log_definitions(scorer)
    table, notes = log.table_from_log(config, definitions, events, since)
    for note in notes:
        console.print(note, markup=False)
    return table


def _requested(events: Path | None, queries: Path | None, scorer: Scorer) -> pl.DataFrame:
    """The requests' rows with their features, categories as levels, as `Scorer.rank` takes them."""
    if events is None or queries is None:
        raise ConfigError("neither --data nor --events with --queries", expected="one of the two", fix="add it")
    config, definitions = log_definitions(scorer)
    table = log.table_of_requests(config, definitions, events, queries)
    return with_levels(table.frame, table.features)


def log_definitions(scorer: Scorer) -> tuple[Config, dict[str, Any]]:
    """The config of a package and how it makes features of a log. Raises PackageError where it does not."""
    manifest = scorer.package.manifest
    if manifest.definitions is None:
        raise PackageError(
            f"{scorer.package.folder} was trained on a ready-made table",
            expected="a package trained on a log",
            fix="give its feature columns with --data",
        )
    return config_from(manifest.config, "the package"), manifest.definitions


def _read_for(scorer: Scorer, data: Path) -> pl.DataFrame:
    """A table for a package, with the column names its config maps where the file has them."""
    numbers = [int(match.group(1)) for name in scorer.package.schema.names if (match := re.fullmatch(r"f(\d+)", name))]
    mapped = present_columns(data, scorer.package.manifest.config["data"]["columns"])
    return read_rows(data, mapped, letor_width=max(numbers, default=0))


def _write_ranked(ranked: pl.DataFrame, out: Path | None) -> None:
    if out is None:
        sys.stdout.write(ranked.write_csv())
        return
    if out.suffix not in (".parquet", ".csv") or out.exists():
        found = f"{out} exists" if out.exists() else f"{out} is neither .parquet nor .csv"
        raise OutputError(found, expected="a new .parquet or .csv file", fix="choose another file")
    try:
        ranked.write_parquet(out) if out.suffix == ".parquet" else ranked.write_csv(out)
    except OSError as error:
        raise OutputError(
            f"cannot write {out}: {error.strerror or error}",
            expected="a file in a folder that exists and can be written to",
            fix="choose another file",
        ) from error
