"""A seeded simulator of a shop and of a video feed that knows the truth.

It writes events, queries, items and users as a pipeline would read them, and apart from them the true relevance and the
true examination probability of all that was shown. The rows are a function of the settings alone: not of block size,
thread count, machine or release of a library. Memory is bounded: queries are made in blocks, in time order.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from features import columns as c
from features.errors import ConfigError
from pipeline.folder import new_folder
from pipeline.simulate.shop import Shop
from pipeline.simulate.tables import Names, World, sort_log
from pipeline.simulate.video import VideoFeed
from pipeline.simulate.world import Settings

__all__ = ["STEPS", "Settings", "Simulated", "simulate", "stream"]

Progress = Callable[[int], None]

STEPS: Final = 1_000
"""A simulation reports its progress in that many steps."""

_WORLDS: Final[dict[str, Callable[[Settings], World]]] = {"shop": Shop, "video": VideoFeed}
_STREAMED: Final = ("events", "queries", "truth")
_BLOCK_QUERIES: Final = 16_384
_ROW_GROUP: Final = 250_000
_ZSTD_LEVEL: Final = 9
"""A sixteenth smaller than the default, and hardly slower; the levels beyond are."""


@dataclass(frozen=True, slots=True)
class Simulated:
    """How many rows each file holds."""

    events: int
    queries: int
    items: int
    users: int
    truth: int


def simulate(
    kind: str,
    events: int,
    out: Path,
    *,
    seed: int = 7,
    bias: float = 1.0,
    policy: float = 0.2,
    days: int = 49,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Simulated:
    """Write about `events` events to the folder `out`: events, queries, items, users and truth (.parquet).

    data/README.md has their schema; `seed`, `bias`, `policy` and `days` are those of `Settings`. `progress` is called
    with 1, 2 .. `STEPS` as the queries are made. `out` is whole or absent.
    Raises ConfigError for what cannot be simulated, OutputError for a place that is taken or cannot be written.
    """
    if kind not in _WORLDS:
        raise ConfigError(f"the world {kind!r}", expected=" or ".join(_WORLDS), fix="choose one of these")
    settings = Settings(events, seed, bias, policy, days)
    with new_folder(out, marker="truth.parquet", overwrite=overwrite) as folder:
        return _write(_WORLDS[kind](settings), folder, progress)


def _write(world: World, folder: Path, progress: Progress | None) -> Simulated:
    """Blocks become part files, which are then streamed into one file each."""
    tables = {"items": world.items.sort(c.ITEM), "users": world.users}
    for name, table in tables.items():
        table.write_parquet(folder / f"{name}.parquet", compression_level=_ZSTD_LEVEL)
    rows = {name: table.height for name, table in tables.items()} | dict.fromkeys(_STREAMED, 0)
    parts = folder / "parts"
    for name in _STREAMED:
        (parts / name).mkdir(parents=True)
    for number, frames in enumerate(stream(world, _BLOCK_QUERIES, progress)):
        for name, frame in zip(_STREAMED, frames, strict=True):
            frame.write_parquet(parts / name / f"{number:06d}.parquet")
            rows[name] += frame.height
    for name in _STREAMED:
        pl.scan_parquet(parts / name).sink_parquet(
            folder / f"{name}.parquet", compression_level=_ZSTD_LEVEL, row_group_size=_ROW_GROUP
        )
    shutil.rmtree(parts)
    return Simulated(**rows)


def stream(
    world: World, block: int, progress: Progress | None = None
) -> Iterator[tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]]:
    """Events, queries and truth, `block` queries at a time, as they are written.

    The log is in time order throughout: what is done after the last query of a block waits for the next block.
    """
    names = Names.of(world)
    waiting: list[pl.DataFrame] = []
    for first in range(0, world.queries, block):
        last = min(first + block, world.queries)
        made = world.block(np.arange(first, last))
        log = pl.concat([*waiting, made.log])
        is_due = pl.lit(True) if last == world.queries else pl.col(c.TIMESTAMP) < made.queries[c.TIMESTAMP][-1]
        waiting = [log.filter(~is_due)]
        yield names.decode(sort_log(log.filter(is_due))), names.decode(made.queries), names.decode(made.truth)
        if progress is not None:
            for step in range(STEPS * first // world.queries, STEPS * last // world.queries):
                progress(step + 1)
