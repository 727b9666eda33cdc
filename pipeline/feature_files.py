"""The feature tables of the three parts as Parquet files, whether or not they fit into memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl

from features.room import Room
from features.spec import FeatureSpec
from features.spill import write_piece
from features.table import Table
from pipeline.blocks import PARTS, LargeParts, load_large_parts
from pipeline.config import Config
from pipeline.dealt import Say, room_for
from pipeline.folder import scratch_folder
from pipeline.package import with_levels
from pipeline.split import Parts, say_origin


def write_features(
    config: Config,
    out: Path,
    folder: Path,
    load_parts: Callable[[Config], Parts],
    say: Say,
) -> tuple[FeatureSpec, ...]:
    """train.parquet, valid.parquet and test.parquet in `folder`, levels for the codes of categories; the features.

    A log that needs more than `[memory]` allows is worked block by block, with files beside `out`; `load_parts` loads
    all else.
    """
    with scratch_folder(out) as scratch:
        room = room_for(config, scratch)
        if room is not None:
            large = load_large_parts(config, room, say)
            say_origin(large.origin, say)
            return {part: _write_blocks(large, part, folder, room, say) for part in PARTS}["train"]
    parts = load_parts(config)
    for part in PARTS:
        table: Table = getattr(parts, part)
        with_levels(table.frame, table.features).write_parquet(folder / f"{part}.parquet")
        _say_part(say, part, table.frame.height, table.features)
    return parts.train.features


def _write_blocks(parts: LargeParts, part: str, folder: Path, room: Room, say: Say) -> tuple[FeatureSpec, ...]:
    pieces, rows = [], 0
    for table in parts.tables(part):
        pieces.append(write_piece(with_levels(table.frame, table.features), room))
        rows, features = rows + table.frame.height, table.features
    pl.scan_ipc(pieces).sink_parquet(folder / f"{part}.parquet", row_group_size=room.rows)
    for piece in pieces:
        piece.unlink()
    _say_part(say, part, rows, features)
    return features


def _say_part(say: Say, part: str, rows: int, features: tuple[FeatureSpec, ...]) -> None:
    say(f"{part}: {rows} rows, {len(features)} features")
