"""A training part larger than memory: its feature columns stay in files, and LightGBM is fed one file at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from features.columns import QUERY, TIMESTAMP
from features.room import Room
from features.spec import FeatureSpec
from features.spill import write_piece
from features.table import Table
from pipeline.dataset import FeatureSchema, RankingDataset, frozen
from pipeline.labels import LabelRule


@dataclass(frozen=True)
class FiledFeatures:
    """Feature columns of N rows, in files that follow each other; one column, or one file, is in memory at a time."""

    files: tuple[Path, ...]
    heights: tuple[int, ...]
    columns: tuple[str, ...]
    room: Room

    @property
    def height(self) -> int:
        return sum(self.heights)

    @property
    def width(self) -> int:
        return len(self.columns)

    def __getitem__(self, name: str) -> pl.Series:
        """(N,) a column."""
        return pl.scan_ipc(list(self.files)).select(name).collect().to_series()

    def filter(self, mask: pl.Series) -> FiledFeatures:
        """The rows where `mask` (N,) is true, in files of their own."""
        files, heights, start = [], [], 0
        for file, height in zip(self.files, self.heights, strict=True):
            kept = pl.read_ipc(file).filter(mask[start : start + height])
            start += height
            if kept.height:
                files.append(write_piece(kept, self.room))
                heights.append(kept.height)
        return FiledFeatures(tuple(files), tuple(heights), self.columns, self.room)


@dataclass(frozen=True)
class LargeDataset(RankingDataset):
    """A `RankingDataset` to train on, its features in files. `keys`: query and, where known, timestamp."""

    features: FiledFeatures  # type: ignore[assignment]


def build_large_dataset(
    files: Sequence[Path], features: Sequence[FeatureSpec], labels: LabelRule, room: Room
) -> LargeDataset:
    """The training part whose tables lie in `files`, checked one by one; they are removed. Raises DatasetError."""
    schema = FeatureSchema.of(features)
    built, written = [], []
    for file in files:
        table = Table(pl.read_ipc(file), tuple(features))
        file.unlink()
        dataset = RankingDataset.build(table, labels=labels, part="train", schema=schema)
        written.append(write_piece(dataset.features, room))
        kept = [name for name in (QUERY, TIMESTAMP) if name in dataset.keys.columns]
        built.append((dataset.keys.select(kept), dataset.sizes, dataset.relevance, dataset.labels))
    keys, sizes, relevance, integer = zip(*built, strict=True)
    heights = tuple(frame.height for frame in keys)
    return LargeDataset(
        pl.concat(keys),
        FiledFeatures(tuple(written), heights, schema.names, room),
        schema,
        frozen(np.concatenate(sizes)),
        frozen(np.concatenate(relevance)),
        frozen(np.concatenate(integer)),
        labels.gains,
    )
