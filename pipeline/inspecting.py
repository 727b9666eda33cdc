"""Looking at features beside the data: the stories of `check --leaks`, `features --suggest` and `monitor --served`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path

import polars as pl

from features.columns import ITEM, QUERY, TIMESTAMP, USER
from features.description import Description
from features.errors import OutputError
from features.fitted import Fitted
from features.log import Log
from features.table import Table
from pipeline.commands import load_datasets, log_definitions, say_parts
from pipeline.config import Config, load_config, with_settings
from pipeline.console import console, logging_to
from pipeline.folder import new_folder
from pipeline.hindsight import Asked, leaks_in_log
from pipeline.leaks import Leak, fields_of, leaks_in_tables
from pipeline.log import read_log, read_requests, table_of_rows
from pipeline.monitored import difference_table
from pipeline.package import with_levels
from pipeline.replay import alarm_lines, compare_features, complete_rows, worst_first
from pipeline.run import Datasets, Timings, to_json
from pipeline.scorer import Scorer
from pipeline.split import Origin, time_borders
from pipeline.suggest import CUSTOM, remarks_on, suggest, suggest_options

REPLAY = "replay.json"


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
    if out is not None and (out.exists() or not out.parent.is_dir()):
        found = f"{out} exists" if out.exists() else f"there is no folder {out.parent}"
        raise OutputError(found, expected="a new file in a folder that exists", fix="choose another name")
    given = load_config(config_path, settings)
    log, until = _until_validation(given) if given.data.is_log else (None, None)
    options = suggest_options(given.features, log, until)
    everything = {"use": ("*",), **{name: value for name, (value, _) in options.items()}}
    config = given.model_copy(update={"features": given.features.model_copy(update=everything)})
    datasets, origin = load_datasets(config, Timings())
    description = _description(origin)
    remarks = remarks_on(log, description) if log is not None and description is not None else ()
    convention = config.resolved_convention(continuous=origin.continuous)
    text = suggest(config, datasets, fields_of(description), options, convention, remarks).to_toml()
    if out is None:
        sys.stdout.write(text)
    else:
        out.write_text(text, "utf-8")
        console.print(f"{out} is written: rankloom train {config_path} --set include={out}", markup=False)


def _until_validation(config: Config) -> tuple[Log, datetime]:
    """The log, and when its training part ends."""
    asked, split = read_log(config), config.split
    borders = time_borders(asked.queries.frame[TIMESTAMP], valid=split.valid, test=split.test, gap=config.split_gap)
    return asked.log, borders.train_until


def replay(
    package: Path, events: Path, served: Path, settings: Sequence[str], out: Path | None, *, overwrite: bool
) -> int:
    """Features as served beside the same rebuilt from the log, feature by feature; returns the number of alarms."""
    scorer = Scorer.load(package)
    config, definitions = log_definitions(scorer)
    level = with_settings(scorer.package.manifest.config, settings, "the package").monitor.replay_alarm
    fitted = Fitted.from_dict(definitions["features"])
    rows, log = read_requests(config, events, served, required=(QUERY, ITEM, TIMESTAMP))
    logged = [*fitted.names, *(f"{CUSTOM}{name}" for name in fitted.custom)]
    bare = complete_rows(log, rows.drop(logged, strict=False), fitted.description)
    table = table_of_rows(log, bare, fitted)
    found = compare_features(rows, Table(with_levels(table.frame, table.features), table.features))
    if out is not None:
        with new_folder(out, marker=REPLAY, overwrite=overwrite) as folder:
            content = {"rows": rows.height, "features": [each.to_dict() for each in found]}
            (folder / REPLAY).write_text(to_json(content), "utf-8")
    apart = worst_first(found)
    if apart:
        console.print(difference_table(apart))
    equal = len(found) - len(apart)
    console.print(f"{equal} of {len(found)} logged features are equal on all {found[0].rows} rows.", markup=False)
    alarms = list(alarm_lines(found, level))
    for sentence in alarms:
        console.print(f"ALARM: {sentence}", markup=False)
    return len(alarms)


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
