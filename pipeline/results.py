"""Every ranker on the same queries, by the same metric: per-query values, means with intervals, paired differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from features.columns import QUERY, RELEVANCE, SCORE, USER
from pipeline.baselines import best_feature, column_scores, named_scores, random_scores
from pipeline.dataset import RankingDataset
from pipeline.metrics import Convention, ndcg_per_query
from pipeline.package import with_levels
from pipeline.reductions import Interval, bootstrap_interval, count_empty, count_thin, count_trivial, paired_interval

Floats = npt.NDArray[np.float64]

LEAK_MARGIN = 0.01
"""A single feature that comes this near to a perfect order is rather the label than a feature."""

MODEL, RANDOM, BEST_FEATURE = "model", "random", "best_feature"


def score_of(ranker: str) -> str:
    """The column of a ranker's scores beside the rows it ranked."""
    return f"{SCORE}.{ranker}"


@dataclass(frozen=True)
class Judgement:
    """The rankers of one part: `scores[ranker]` is (N,), `values[ranker]` (K, Q), NaN where a query has no value."""

    dataset: RankingDataset
    ks: tuple[int, ...]
    scores: Mapping[str, Floats]
    values: dict[str, Floats]
    seed: int

    def without(self, ranker: str) -> Judgement:
        """The same without one ranker."""
        return replace(self, values={name: values for name, values in self.values.items() if name != ranker})

    def block(self) -> dict[str, dict[str, dict[str, Any]]]:
        """ranker -> "ndcg@k" -> mean, low, high, n."""
        return {
            ranker: {f"ndcg@{k}": asdict(self._interval(values[i])) for i, k in enumerate(self.ks)}
            for ranker, values in self.values.items()
        }

    def differences(self) -> dict[str, dict[str, dict[str, Any]]]:
        """rival -> "ndcg@k" -> mean, low, high of model minus rival, paired over queries."""
        ours = self.values[MODEL]
        return {
            rival: {f"ndcg@{k}": _difference(self._paired(ours[i], values[i])) for i, k in enumerate(self.ks)}
            for rival, values in self.values.items()
            if rival != MODEL
        }

    def per_query(self) -> pl.DataFrame:
        """query, then the model's ndcg@k; null where the query has no value."""
        columns = {f"ndcg@{k}": self.values[MODEL][i] for i, k in enumerate(self.ks)}
        return pl.DataFrame({QUERY: self.dataset.queries, **columns}).fill_nan(None)

    def rows(self) -> pl.DataFrame:
        """Every row that was ranked: its keys and fields, relevance, categories, and `score_of(ranker)` of each."""
        known = self.dataset.keys.with_columns(pl.Series(RELEVANCE, self.dataset.relevance))
        schema = self.dataset.schema
        levels = with_levels(self.dataset.features.select(schema.categorical), schema.features)
        scores = {score_of(ranker): self.scores[ranker] for ranker in self.values}
        return pl.concat([known, levels, pl.DataFrame(scores)], how="horizontal")

    def mean(self, ranker: str, k: int) -> float:
        return float(np.nanmean(self.values[ranker][self.ks.index(k)]))

    def _interval(self, values: Floats) -> Interval:
        return bootstrap_interval(values, clusters=query_users(self.dataset), seed=self.seed)

    def _paired(self, ours: Floats, theirs: Floats) -> Interval:
        return paired_interval(ours, theirs, clusters=query_users(self.dataset), seed=self.seed)


@dataclass(frozen=True)
class Rivals:
    """What the model is held against: `fields` ranks by columns that the table has beside its features."""

    best_feature: str | None
    best_descending: bool
    fields: dict[str, str]
    named: dict[str, str]

    @classmethod
    def choose(
        cls,
        valid: RankingDataset,
        k: int,
        convention: Convention,
        *,
        fields: Mapping[str, str],
        named: Mapping[str, str],
    ) -> Rivals:
        """The best single feature is chosen on `valid`, so that it is as honest a rival on test as the model."""
        name, descending = best_feature(valid, k, convention)
        return cls(name or None, descending, dict(fields), dict(named))

    def scores(self, dataset: RankingDataset) -> dict[str, Floats]:
        """ranker -> (N,) scores. Raises ConfigError or PackageError for a named baseline that cannot score."""
        found = {RANDOM: random_scores(dataset)}
        found |= {ranker: named_scores(dataset, ranker, field) for ranker, field in self.fields.items()}
        if self.best_feature:
            column = dataset.features[self.best_feature]
            found[BEST_FEATURE] = column_scores(column, descending=self.best_descending)
        return found | {name: named_scores(dataset, name, what) for name, what in self.named.items()}


def judge(
    dataset: RankingDataset, scores: Mapping[str, Floats], ks: Sequence[int], convention: Convention, seed: int
) -> Judgement:
    """Per-query ndcg of every ranker; a random order is judged by its exact expectation, whatever `convention.ties`."""
    values = {}
    for ranker, ranking in scores.items():
        rule = replace(convention, ties="average") if ranker == RANDOM else convention
        values[ranker] = ndcg_per_query(ranking, dataset.relevance, dataset.sizes, list(ks), convention=rule)
    return Judgement(dataset, tuple(ks), scores, values, seed)


def query_users(dataset: RankingDataset) -> pl.Series | None:
    """(Q,) user of each query, where known: queries of one user resemble each other, and are drawn together."""
    return dataset.keys[USER].gather(dataset.starts) if USER in dataset.keys.columns else None


def query_counts(dataset: RankingDataset, convention: Convention, prefix: str = "test") -> dict[str, int]:
    """Queries of a part, and how many are empty, thin and trivial."""
    counted = {"empty": count_empty, "thin": count_thin, "trivial": count_trivial}
    counts = {prefix: len(dataset.sizes)}
    for name, count in counted.items():
        counts[f"{prefix}_{name}"] = count(dataset.relevance, dataset.sizes, gain=convention.gain)
    return counts


def warnings(judgement: Judgement, counts: Mapping[str, int], prefix: str = "test") -> list[str]:
    """What a reader must know before believing a figure."""
    total, first = counts[prefix], judgement.ks[0]
    found = []
    if counts[f"{prefix}_trivial"] > total / 5:
        found.append(f"{counts[f'{prefix}_trivial']} of {total} {prefix} queries score 1 whatever the model does")
    if counts[f"{prefix}_empty"] > total / 5:
        found.append(f"{counts[f'{prefix}_empty']} of {total} {prefix} queries have no relevant item")
    if total - counts[f"{prefix}_empty"] and judgement.mean(RANDOM, first) > 0.9:
        found.append(
            f"a random order reaches ndcg@{first} {judgement.mean(RANDOM, first):.3f}: the lists hold few negatives"
        )
    if total - counts[f"{prefix}_empty"] and BEST_FEATURE in judgement.values:
        best, chance = (judgement.mean(ranker, first) for ranker in (BEST_FEATURE, RANDOM))
        if best > 1 - LEAK_MARGIN and chance < 0.9:
            found.append(
                f"best_feature alone reaches ndcg@{first} {best:.3f}: does it hold the label, or what came later?"
            )
    return found


def _difference(interval: Interval) -> dict[str, Any]:
    return {"mean": interval.mean, "low": interval.low, "high": interval.high}
