"""A training run on a log larger than memory: its training part stays in files, those that judge are in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import polars as pl

from features.errors import ConfigError, DataError
from features.room import Room
from features.spec import FeatureSpec
from features.spill import write_piece
from features.table import Table
from pipeline.blocks import load_large_parts
from pipeline.config import Config
from pipeline.dealt import Say
from pipeline.large_dataset import build_large_dataset
from pipeline.run import Datasets, Timings, label_rule, top_relevance, with_train
from pipeline.split import Origin, say_origin

_IN_MEMORY = 3
"""Of the limit, one part in so many is for the valid and test parts as they are read: training needs the rest."""


def load_large_datasets(config: Config, room: Room, timings: Timings, say: Say) -> tuple[Datasets, Origin]:
    """What `pipeline.run.build_datasets` makes of a log in memory; the files live in `room`.

    Raises ConfigError for a model that is to be fitted again on train and valid, DataError where valid and test are
    too large to be held in memory.
    """
    if config.train.refit:
        raise ConfigError(
            f"train.refit = true with a log larger than memory.limit = {config.memory.limit}",
            expected="a model of the training part alone",
            fix="set train.refit = false, or raise the limit",
        )
    with timings.step("read"):
        parts = load_large_parts(config, room, say)
        say_origin(parts.origin, say)
        training = [_Piece(table, room) for table in parts.tables("train")]
        valid, test = (_held(parts.tables(part), part, config) for part in ("valid", "test"))
    with timings.step("dataset"):
        return _datasets(config, training, valid, test, parts.origin, room), parts.origin


def _datasets(
    config: Config, training: Sequence[_Piece], valid: Table, test: Table, origin: Origin, room: Room
) -> Datasets:
    tops = [max(piece.top for piece in training), *(top_relevance(table.frame) for table in (valid, test))]
    convention = config.resolved_convention(continuous=origin.continuous)
    labels = label_rule(config, convention, tops, continuous=origin.continuous)
    files = [piece.file for piece in training]
    train = build_large_dataset(files, training[0].features, labels, room)
    return with_train(train, valid, test, labels, tops[0], config)


class _Piece:
    """A block of the training part in a file."""

    def __init__(self, table: Table, room: Room) -> None:
        self.file: Path = write_piece(table.frame, room)
        self.features: tuple[FeatureSpec, ...] = table.features
        self.top: float = top_relevance(table.frame)


def _held(tables: Iterator[Table], part: str, config: Config) -> Table:
    held: list[Table] = []
    most, size = config.memory.limit_bytes / _IN_MEMORY / 2, 0.0
    for table in tables:
        held.append(table)
        size += table.frame.estimated_size()
        if size > most:
            raise DataError(
                f"the {part} part is larger than {most / 2**20:.0f} MiB",
                expected=f"as much as memory.limit = {config.memory.limit} leaves for it beside training",
                fix=f"shorten split.{part}, choose fewer features, or raise the limit",
            )
    return Table(pl.concat([table.frame for table in held]), held[0].features)
