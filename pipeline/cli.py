"""The command line: arguments and exit codes only. Each verb imports its story when it is called."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Annotated

import typer

from features.errors import ConfigError, RankingError

app = typer.Typer(
    name="rankloom",
    help="From an interaction log to a ranking model that can be trusted and shipped.",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

ALARM = 3

ConfigPath = Annotated[Path, typer.Argument(metavar="CONFIG", help="A TOML file, such as configs/shop.toml.")]
PackagePath = Annotated[Path, typer.Argument(metavar="PACKAGE", help="The folder of a package.")]
Settings = Annotated[
    list[str], typer.Option("--set", metavar="SECTION.KEY=VALUE", help="Overrides the config; repeatable.")
]
Out = Annotated[Path | None, typer.Option("--out", metavar="DIR", help="Where to write.")]
Events = Annotated[
    Path | None, typer.Option("--events", metavar="LOG", help="A log, with the history that features look back on.")
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace what rankloom wrote there before.")]


@app.command()
def train(config: ConfigPath, settings: Settings = [], out: Out = None, overwrite: Overwrite = False) -> None:  # noqa: B006
    """Train, judge beside cheap rivals, and package a ranking model."""
    from pipeline import commands

    commands.train(config, settings, out, overwrite=overwrite)


@app.command()
def tune(
    config: ConfigPath,
    trials: Annotated[int | None, typer.Option("--trials", min=1, help="How many trials the study shall hold.")] = None,
    timeout: Annotated[
        float | None, typer.Option("--timeout", metavar="SECONDS", help="No trial begins after it.")
    ] = None,
    jobs: Annotated[int | None, typer.Option("--jobs", min=1, help="Processes that search side by side.")] = None,
    storage: Annotated[
        str | None,
        typer.Option("--storage", metavar="URL", help="A database, or a file ending in .log, that processes share."),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the study, or join it.")] = False,
    settings: Settings = [],  # noqa: B006
    out: Out = None,
    overwrite: Overwrite = False,
) -> None:
    """Search for better settings, and package the best model beside an honest number."""
    from pipeline import tuning

    options = {
        "trials": trials,
        "timeout": None if timeout is None else f"{timeout}s",
        "jobs": jobs,
        "storage": storage,
    }
    given = [f"tune.{name}={value}" for name, value in options.items() if value is not None]
    tuning.tune(config, [*settings, *given], out, resume=resume, overwrite=overwrite)


@app.command()
def check(
    config: ConfigPath,
    leaks: Annotated[
        bool,
        typer.Option("--leaks", help="Also look for features that know the future. Findings leave the exit code 0."),
    ] = False,
    settings: Settings = [],  # noqa: B006
) -> None:
    """Read config and data, and say what is there and what is wrong. Trains nothing."""
    from pipeline import commands, inspecting

    inspecting.check_leaks(config, settings) if leaks else commands.check(config, settings)


@app.command()
def features(
    config: ConfigPath,
    out: Out = None,
    suggest: Annotated[
        bool, typer.Option("--suggest", help="Instead, print a [features] section with reasons, or write it to --out.")
    ] = False,
    settings: Settings = [],  # noqa: B006
    overwrite: Overwrite = False,
) -> None:
    """Write the feature tables of the three parts, and say what each feature means."""
    from pipeline import commands, inspecting

    if suggest:
        inspecting.suggest_features(config, settings, out)
    elif out is None:
        raise ConfigError("no --out", expected="a folder for the tables", fix="add --out DIR, or --suggest")
    else:
        commands.features(config, settings, out, overwrite=overwrite)


@app.command()
def evaluate(
    package: PackagePath,
    data: Annotated[
        Path | None, typer.Option("--data", metavar="TABLE", help="Query, item, relevance and the features.")
    ] = None,
    events: Events = None,
    out: Out = None,
    overwrite: Overwrite = False,
) -> None:
    """Judge a package on a labelled table, or on a log from which it builds its features itself."""
    from pipeline import commands

    _one_of(data, events)
    commands.evaluate(package, data, events, out, overwrite=overwrite)


@app.command()
def compare(
    runs: Annotated[
        list[str],
        typer.Argument(metavar="RUN RUN...", help="Folders of runs; RUN:RANKER takes another ranker than the model."),
    ],
    common: Annotated[
        bool, typer.Option("--common", help="Compare on the queries and candidates that all runs have.")
    ] = False,
    convention: Annotated[
        str | None, typer.Option("--convention", metavar="NAME", help="Judge all by this preset, such as sklearn.")
    ] = None,
    by: Annotated[list[str], typer.Option("--by", metavar="COLUMN", help="Also by groups of queries.")] = [],  # noqa: B006
    out: Out = None,
    overwrite: Overwrite = False,
) -> None:
    """Say what differs between rankings of the same queries, and what may be concluded. The first is the reference."""
    from pipeline import commands

    commands.compare(runs, common=common, convention=convention, by=by, out=out, overwrite=overwrite)


@app.command()
def export(
    package: PackagePath,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where to write.")],
    form: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="lightgbm, json, vespa, onnx, solr, elasticsearch ...; or all. Else those of the package's config.",
        ),
    ] = None,
    target_version: Annotated[
        str | None, typer.Option("--target-version", metavar="V", help="The engine's release, such as 3.8.")
    ] = None,
    overwrite: Overwrite = False,
) -> None:
    """Write a package for an engine, after proving that it ranks there as it was trained."""
    from pipeline import commands

    commands.export(package, form, out, target_version, overwrite=overwrite)


@app.command()
def monitor(
    package: PackagePath,
    log: Annotated[
        Path | None, typer.Option("--log", metavar="LOG", help="What was served and done, after the history before it.")
    ] = None,
    data: Annotated[
        Path | None, typer.Option("--data", metavar="TABLE", help="Or the rows that were ranked, with their features.")
    ] = None,
    served: Annotated[
        Path | None,
        typer.Option(
            "--served", metavar="TABLE", help="With --log: query, item, timestamp and features as they were served."
        ),
    ] = None,
    settings: Settings = [],  # noqa: B006
    out: Out = None,
    overwrite: Overwrite = False,
) -> None:
    """Hold served lists against what the package was when it was made. Exit code 3 on an alarm.

    With --served, hold the features that were served against those that the log gives.
    """
    from pipeline import commands, inspecting

    _one_of(data, log, "--log")
    if log is not None and served is not None:
        alarms = inspecting.replay(package, log, served, settings, out, overwrite=overwrite)
    elif served is not None:
        raise ConfigError("--served without --log", expected="the log to rebuild features from", fix="add --log LOG")
    else:
        alarms = commands.monitor(package, data, log, settings, out, overwrite=overwrite)
    if alarms:
        raise typer.Exit(ALARM)


@app.command()
def rank(
    package: PackagePath,
    data: Annotated[Path | None, typer.Option("--data", metavar="TABLE", help="Query, item and the features.")] = None,
    events: Events = None,
    queries: Annotated[
        Path | None,
        typer.Option("--queries", metavar="REQUESTS", help="With --events: query, timestamp, item, user and fields."),
    ] = None,
    top: Annotated[int, typer.Option("--top", min=1, help="How many items of each query.")] = 10,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="A .parquet or .csv file.")] = None,
) -> None:
    """Rank the items of each query: CSV on standard output, or a file."""
    from pipeline import commands

    _one_of(data, events)
    commands.rank(package, data, events, queries, top, out)


@app.command()
def metrics(
    truth: Annotated[
        Path, typer.Argument(metavar="QRELS", help="TREC judgements, or a table with query, item, relevance.")
    ],
    run: Annotated[
        Path | None, typer.Argument(metavar="RUN", help="A TREC run, or a table; without it QRELS has scores too.")
    ] = None,
    k: Annotated[str, typer.Option("--k", metavar="K,K", help="Cut-offs.")] = "10,20",
    convention: Annotated[
        str | None, typer.Option("--convention", metavar="NAME", help="A preset, such as trec_eval or lightgbm.")
    ] = None,
    gain: Annotated[str | None, typer.Option("--gain", help="exp2, linear, or gains per grade: 0,1,3,7.")] = None,
    discount: Annotated[
        str | None, typer.Option("--discount", help="log2, ln, power:s, none, or weights: 1,0.5,0.2.")
    ] = None,
    ideal: Annotated[str | None, typer.Option("--ideal", help="candidates, retrieved or all.")] = None,
    ties: Annotated[str | None, typer.Option("--ties", help="average, stable, reverse, worst or best.")] = None,
    empty: Annotated[str | None, typer.Option("--empty", help="skip, zero or one.")] = None,
    relevant_from: Annotated[
        float | None, typer.Option("--relevant-from", help="The lowest relevant grade of binary measures.")
    ] = None,
    max_grade: Annotated[
        float | None, typer.Option("--max-grade", help="The highest grade of the scale: adds ERR and nERR.")
    ] = None,
    missing: Annotated[
        str, typer.Option("--missing", help="Judged queries not in the run: zero, skip, error.")
    ] = "zero",
    extra: Annotated[str, typer.Option("--extra", help="Queries of the run without judgements: skip, error.")] = "skip",
    unjudged: Annotated[str, typer.Option("--unjudged", help="Items without a judgement: zero, skip, error.")] = "zero",
    duplicates: Annotated[str, typer.Option("--duplicates", help="Items twice in a query: error, first.")] = "error",
    per_query: Annotated[
        Path | None, typer.Option("--per-query", metavar="FILE", help="A .parquet or .csv file with a row per query.")
    ] = None,
    explain: Annotated[
        str | None, typer.Option("--explain", metavar="QUERY", help="Show the terms of this query's NDCG.")
    ] = None,
) -> None:
    """Judge a ranking by NDCG and its family, under a convention that is printed beside the figures."""
    from pipeline import commands

    by_hand = {"gain": gain, "discount": discount, "ideal": ideal, "ties": ties, "empty": empty}
    policies = {"missing": missing, "extra": extra, "unjudged": unjudged, "duplicates": duplicates}
    commands.metrics(
        truth,
        run,
        k,
        convention,
        by_hand,
        policies,
        relevant_from=relevant_from,
        max_grade=max_grade,
        per_query=per_query,
        query=explain,
    )


@app.command()
def simulate(
    kind: Annotated[str, typer.Argument(metavar="KIND", help="shop or video.")],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where to write.")],
    events: Annotated[int, typer.Option("--events", help="About how many events the log gets.")] = 100_000,
    seed: Annotated[int, typer.Option("--seed", help="Same seed and settings, same rows.")] = 7,
    bias: Annotated[float, typer.Option("--bias", help="b of the examination probability 1 / position^b.")] = 1.0,
    policy: Annotated[
        float, typer.Option("--policy", help="0: shown by popularity and noise, 1: by true utility.")
    ] = 0.2,
    days: Annotated[int, typer.Option("--days", help="How long the log runs.")] = 49,
    overwrite: Overwrite = False,
) -> None:
    """Make a seeded shop or video log whose truth is known."""
    from pipeline import commands

    commands.simulate(kind, events, out, seed=seed, bias=bias, policy=policy, days=days, overwrite=overwrite)


def _one_of(data: Path | None, events: Path | None, option: str = "--events") -> None:
    if (data is None) == (events is None):
        found = f"neither --data nor {option}" if data is None else f"both --data and {option}"
        raise ConfigError(found, expected="one of them", fix=f"give a table with --data, or a log with {option}")


def _stop(_signal: int, _frame: object) -> None:
    """A polite kill unwinds like Ctrl-C, so that no half-written folder is left."""
    sys.exit(143)


def main() -> None:
    """Exit codes: 0 done; 2 the user can mend it, said in one sentence; 3 an alarm; 1 a bug, with its traceback."""
    signal.signal(signal.SIGTERM, _stop)
    try:
        app()
    except RankingError as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(2)
