"""Small inputs for tests: tables, files and datasets made of plain numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

from features.spec import FeatureSpec
from features.table import Table
from pipeline.dataset import RankingDataset
from pipeline.labels import LabelRule, grades


def ranking_frame(queries: int = 60, items: int = 8, *, seed: int = 0, top: int = 3) -> pl.DataFrame:
    """query, item, relevance and three features; `a` and `b` tell something about relevance, `c` nothing."""
    rng = np.random.default_rng(seed)
    rows = queries * items
    a, b, c = rng.normal(size=(3, rows))
    relevance = np.clip(np.round(a + b + rng.normal(scale=0.5, size=rows)), 0, top)
    return pl.DataFrame(
        {
            "query": np.repeat(np.arange(queries), items),
            "item": np.tile(np.arange(items), queries),
            "relevance": relevance.astype(np.int64),
            "a": a,
            "b": b,
            "c": c,
        }
    )


def dataset_of(frame: pl.DataFrame, labels: LabelRule | None = None) -> RankingDataset:
    """A dataset whose features are all columns but our own."""
    keys = ("query", "item", "relevance", "timestamp", "user", "position")
    names = [name for name in frame.columns if name not in keys]
    table = Table(frame, tuple(FeatureSpec(name) for name in names))
    return RankingDataset.build(table, labels=labels or grades("exp2", 30), part="train")


def write_config(folder: Path, frame: pl.DataFrame, text: str = "") -> Path:
    """A Parquet table and a config over it that trains in a moment; `text` is appended."""
    frame.write_parquet(folder / "table.parquet")
    config = folder / "run.toml"
    params = "params = { min_data_in_leaf = 5, learning_rate = 0.2 }"
    quick = f"[train]\nthreads = 1\nrounds = 20\nearly_stopping = 10\n{params}\n"
    config.write_text(f'[data]\ntable = "{folder / "table.parquet"}"\n{quick}{text}')
    return config
