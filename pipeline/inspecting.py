"""Looking at data before a model is made of it: the stories of `check --leaks` and `features --suggest`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import polars as pl

from features.columns import ITEM, QUERY, TIMESTAMP, USER
from features.description import Description
from features.errors import OutputError
from pipeline.commands import load_datasets, say_parts
from pipeline.config import Config, load_config
from pipeline.console import console, logging_to
from pipeline.hindsight import Asked, leaks_in_log
from pipeline.leaks import Leak, fields_of, leaks_in_tables
from pipeline.log import read_log
from pipeline.run import Datasets, Timings
from pipeline.split import Origin, time_borders
from pipeline.suggest import remarks_on, suggest, suggest_options


def check_leaks(config_path: Path, settings: Sequence[str]) -> None:
    """What is there, as `commands.check`, then each suspicion that a feature knows the future, with what to do."""
    config = load_config(config_path, settings)
    with logging_to(None):
        datasets, origin = load_datasets(config, Timings())
        say_parts(datasets)
    found = list(find_leaks(config, datasets, origin))
    for leak in found:
        console.print(f"\n{leak.column}: {leak.found}.\n  Do: {leak.do}.", markup=False)
    looked = f"{len(datasets.train.schema.names)} features" + (", the log and its tables" if config.data.is_log else "")
    counted = "nothing was found" if not found else "1 suspicion" if len(found) == 1 else f"{len(found)} suspicions"
    console.print(f"\nLooked for leaks in {looked}: {counted}.", markup=False)


def suggest_features(config_path: Path, settings: Sequence[str], out: Path | None) -> None:
    """A `[features]` section with a reason per line, printed, or written to the file `out`, which `include` reads."""
    if out is not None and out.exists():
        raise OutputError(f"{out} exists", expected="a new file", fix="choose another name, or remove it")
    given = load_config(config_path, settings)
    options, remarks = ({}, [])
    asked = read_log(given) if given.data.is_log else None
    if asked is not None:
        borders = time_borders(
            asked.queries.frame[TIMESTAMP], valid=given.split.valid, test=given.split.test, gap=given.split_gap
        )
        options = suggest_options(given.features, asked.log, borders.train_until)
    chosen = given.features.model_copy(update={"use": ("*",), "drop": (), **{k: v for k, (v, _) in options.items()}})
    config = given.model_copy(update={"features": chosen})
    datasets, origin = load_datasets(config, Timings())
    description = _description(origin)
    if asked is not None and description is not None:
        remarks = remarks_on(asked.log, description)
    convention = config.resolved_convention(continuous=origin.continuous)
    text = suggest(config, datasets, fields_of(description), options, convention, remarks).to_toml()
    if out is None:
        sys.stdout.write(text)
    else:
        out.write_text(text, "utf-8")
        console.print(f"{out} is written: rankloom train {config_path} --set include={out}", markup=False)


def find_leaks(config: Config, datasets: Datasets, origin: Origin) -> Iterator[Leak]:
    """All suspicions, those of the tables first."""
    convention = config.resolved_convention(continuous=origin.continuous)
    yield from leaks_in_tables(config, datasets, fields_of(_description(origin)), convention)
    if config.data.is_log:
        yield from leaks_in_log(read_log(config).log, _asked(datasets))


def _asked(datasets: Datasets) -> Asked:
    parts = [
        getattr(datasets, name).keys.select(pl.col(QUERY, ITEM, TIMESTAMP, f"^{USER}$"), part=pl.lit(name))
        for name in ("train", "valid", "test")
    ]
    return Asked(pl.concat(parts))


def _description(origin: Origin) -> Description | None:
    """What the log offers; None for a ready-made table."""
    return Description.from_dict(origin.definitions["features"]["description"]) if origin.definitions else None
