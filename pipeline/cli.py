"""The command line: arguments and exit codes only. Each verb imports its story when it is called."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from features.errors import RankingError

app = typer.Typer(
    name="rankloom",
    help="From an interaction log to a ranking model that can be trusted and shipped.",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

ConfigPath = Annotated[Path, typer.Argument(metavar="CONFIG", help="A TOML file, such as configs/shop.toml.")]
PackagePath = Annotated[Path, typer.Argument(metavar="PACKAGE", help="The folder of a package.")]
Settings = Annotated[
    list[str], typer.Option("--set", metavar="SECTION.KEY=VALUE", help="Overrides the config; repeatable.")
]
Out = Annotated[Path | None, typer.Option("--out", metavar="DIR", help="Where to write.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace what rankloom wrote there before.")]


@app.command()
def train(config: ConfigPath, settings: Settings = [], out: Out = None, overwrite: Overwrite = False) -> None:  # noqa: B006
    """Train, judge beside cheap rivals, and package a ranking model."""
    from pipeline import commands

    commands.train(config, settings, out, overwrite=overwrite)


@app.command()
def evaluate(
    package: PackagePath,
    data: Annotated[Path, typer.Option("--data", metavar="TABLE", help="Query, item, relevance and the features.")],
    out: Out = None,
    overwrite: Overwrite = False,
) -> None:
    """Judge a package on a labelled table."""
    from pipeline import commands

    commands.evaluate(package, data, out, overwrite=overwrite)


@app.command()
def rank(
    package: PackagePath,
    data: Annotated[Path, typer.Option("--data", metavar="TABLE", help="Query, item and the features.")],
    top: Annotated[int, typer.Option("--top", min=1, help="How many items of each query.")] = 10,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="A .parquet or .csv file.")] = None,
) -> None:
    """Rank the items of each query: CSV on standard output, or a file."""
    from pipeline import commands

    commands.rank(package, data, top, out)


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


def main() -> None:
    """Exit codes: 0 done; 2 the user can mend it, said in one sentence; 1 a bug, with its traceback."""
    try:
        app()
    except RankingError as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(2)
