"""Looking at data before a model is made of it: the stories of `check --leaks` and `features --suggest`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import polars as pl

from features.columns import ITEM, QUERY, TIMESTAMP, USER
from features.description import Description
from pipeline.commands import load_datasets, say_parts
from pipeline.config import Config, load_config
from pipeline.console import console, logging_to
from pipeline.hindsight import Asked, leaks_in_log
from pipeline.leaks import Leak, fields_of, leaks_in_tables
from pipeline.log import read_log
from pipeline.run import Datasets, Timings
from pipeline.split import Origin


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


def find_leaks(config: Config, datasets: Datasets, origin: Origin) -> Iterator[Leak]:
    """All suspicions, those of the tables first."""
    description = Description.from_dict(origin.definitions["features"]["description"]) if origin.definitions else None
    convention = config.resolved_convention(continuous=origin.continuous)
    yield from leaks_in_tables(config, datasets, fields_of(description), convention)
    if config.data.is_log:
        yield from leaks_in_log(read_log(config).log, _asked(datasets))


def _asked(datasets: Datasets) -> Asked:
    parts = [
        getattr(datasets, name).keys.select(pl.col(QUERY, ITEM, TIMESTAMP, f"^{USER}$"), part=pl.lit(name))
        for name in ("train", "valid", "test")
    ]
    return Asked(pl.concat(parts))
