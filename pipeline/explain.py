"""Why a model ranks as it does: SHAP values of rows, compared within their query, where alone a ranker compares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from pipeline.booster import Booster, contributions, gain_importance
from pipeline.dataset import RankingDataset

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Explained:
    """SHAP values of the rows of a dataset: `shares` (N, F) by feature; with `base` they sum to the score of a row."""

    dataset: RankingDataset
    shares: Floats
    base: float

    @property
    def scores(self) -> Floats:
        """(N,) what the shares of each row sum to."""
        total: Floats = self.shares.sum(axis=1) + self.base
        return total


@dataclass(frozen=True)
class Importance:
    """What a feature gained in training (share of all), and how far it moves the items of a query apart."""

    feature: str
    gain: float
    shap: float


@dataclass(frozen=True)
class Difference:
    """What one feature adds to the lead of one item over another, and its two values as a person writes them."""

    feature: str
    share: float
    upper: str
    lower: str


def explain_rows(booster: Booster, dataset: RankingDataset, *, threads: int = 1) -> Explained:
    """SHAP values of every row of `dataset`."""
    values = contributions(booster, dataset.features, threads=threads)
    return Explained(dataset, values[:, :-1], float(values[0, -1]))


def rank_importance(booster: Booster, explained: Explained) -> list[Importance]:
    """All features, the one that moves items most first.

    `shap` is the mean distance of a row's SHAP value from the mean of its query: what is the same for all items of a
    query moves none of them, however large it is.
    """
    gain = gain_importance(booster)
    gain = gain / max(float(gain.sum()), np.finfo(np.float64).tiny)
    sizes = explained.dataset.sizes
    means = np.add.reduceat(explained.shares, explained.dataset.starts) / sizes[:, None]
    moved = np.abs(explained.shares - np.repeat(means, sizes, axis=0)).mean(axis=0)
    names = explained.dataset.schema.names
    found = [Importance(name, float(gain[i]), float(moved[i])) for i, name in enumerate(names)]
    return sorted(found, key=lambda feature: (-feature.shap, -feature.gain, feature.feature))


def dependence(explained: Explained, feature: str) -> tuple[pl.Series, Floats]:
    """(N,) values of a feature, categories as codes, and what each adds to the score of its row."""
    place = explained.dataset.schema.names.index(feature)
    return explained.dataset.features[feature], explained.shares[:, place]


def why_above(explained: Explained, upper: int, lower: int, levels: pl.DataFrame) -> list[Difference]:
    """Why row `upper` scores above row `lower`, the largest part first; the parts sum to the difference of the scores.

    `levels` are the feature columns of the dataset as a person reads them (`pipeline.package.with_levels`).
    """
    parts = explained.shares[upper] - explained.shares[lower]
    found = [
        Difference(name, float(parts[i]), written(levels[name][upper]), written(levels[name][lower]))
        for i, name in enumerate(explained.dataset.schema.names)
    ]
    return sorted(found, key=lambda part: (-abs(part.share), part.feature))


def summed(parts: Sequence[Difference], most: int) -> list[Difference]:
    """The `most` largest parts, and all others as one."""
    head, rest = list(parts[:most]), parts[most:]
    if rest:
        head.append(Difference(f"{len(rest)} other features", sum(part.share for part in rest), "", ""))
    return head


def written(value: object) -> str:
    """A feature's value in a table."""
    if value is None or (isinstance(value, float) and np.isnan(value)):
        return "missing"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
