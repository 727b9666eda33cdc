"""What a run's report shows and its metrics do not hold: curves, groups of queries, worst queries, explanations.

Everything is computed here from the run; `pipeline.report` only draws it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from features.columns import QUERY, RULE, TIMESTAMP, USER
from pipeline.booster import load_model, predict
from pipeline.dataset import RankingDataset
from pipeline.evaluate import means_by_convention
from pipeline.explain import Explained, Importance, dependence, explain_rows, rank_importance
from pipeline.metrics import PRESETS, Convention, ndcg_per_query
from pipeline.package import with_levels
from pipeline.reductions import Interval, bootstrap_interval, relevant_per_query, share_of_ties
from pipeline.results import MODEL, RANDOM, query_users
from pipeline.run import Run
from pipeline.strata import Strata, by_activity, by_column, by_relevant, columns_of_queries, group_intervals
from pipeline.worst import WorstQuery, worst_queries

Floats = npt.NDArray[np.float64]

REPETITIONS = 200
"""Of bootstraps that only draw a band."""

DEEPEST = 30
CHECKPOINTS = 20
CURVE_QUERIES = 2_000
EXPLAINED_ROWS = 2_000
DEPENDENCES = 4
LEVELS = 15
BARS = 20
MANY_TIES = 0.1
MORE_MISSING = 0.1


@dataclass(frozen=True)
class Curve:
    """A line: y over x, with the interval of y where it has been drawn."""

    x: tuple[float | str, ...]
    y: tuple[float | None, ...]
    low: tuple[float | None, ...] = ()
    high: tuple[float | None, ...] = ()


@dataclass(frozen=True)
class Group:
    """Queries of one group: how many, the model's ndcg with its interval, and the mean of each rival."""

    name: str
    queries: int
    model: Interval
    rivals: Mapping[str, float | None]


@dataclass(frozen=True)
class Dependence:
    """What a feature adds to the score, over its values: numbers, or its most frequent levels by name."""

    feature: str
    values: tuple[float | str | None, ...]
    shares: tuple[float, ...]


@dataclass(frozen=True)
class Bin:
    """Rows of neighbouring scores: their mean score, and their mean relevance with its interval over queries."""

    score: float
    relevance: Interval


@dataclass(frozen=True)
class PartRow:
    """A part of the data, counted."""

    part: str
    queries: int
    rows: int
    empty: int
    first: str
    last: str


@dataclass(frozen=True)
class Findings:
    """All that a report draws beside `run.metrics`."""

    warnings: tuple[str, ...]
    parts: tuple[PartRow, ...]
    rejected: Mapping[str, int]
    over_k: Mapping[str, Curve]
    learning: Mapping[str, Curve]
    strata: Mapping[str, tuple[Group, ...]]
    distribution: Curve
    worst: tuple[WorstQuery, ...]
    importance: tuple[Importance, ...]
    dependences: tuple[Dependence, ...]
    calibration: tuple[Bin, ...]
    conventions: Mapping[str, tuple[Convention, float | None]]
    missing: Mapping[str, tuple[float, float]]
    origin: Mapping[str, str]


def find(run: Run) -> Findings:
    """Everything a report of this run draws; a sample of rows is explained, evenly spread over the test queries."""
    test, booster = run.datasets.test, load_model(run.ranker.model_text)
    convention = Convention(**run.metrics["convention"])
    explained = explain_rows(booster, spread(test, EXPLAINED_ROWS))
    importance = rank_importance(booster, explained)
    features = [each.feature for each in importance[:DEPENDENCES] if each.shap > 0]
    missing = missing_shares(run)
    return Findings(
        warnings=(*run.warnings, *_warnings(run, missing)),
        parts=tuple(_part(name, getattr(run.datasets, name)) for name in ("train", "valid", "test")),
        rejected=_rejected(run.origin.rejected),
        over_k=curves_over_k(run, convention),
        learning=learning_curves(run, convention),
        strata={strata.name: tuple(groups(run, strata)) for strata in _strata(run, convention)},
        distribution=_distribution(run.test.values[MODEL][0]),
        worst=tuple(worst_queries(run.test, booster, convention, [each.feature for each in importance])),
        importance=tuple(importance[:BARS]),
        dependences=tuple(_dependence(explained, feature) for feature in features),
        calibration=tuple(calibration(test, run.test.scores[MODEL], run.config.seed)),
        conventions=other_conventions(run),
        missing=missing,
        origin=_origin(run),
    )


def spread(dataset: RankingDataset, rows: int) -> RankingDataset:
    """Whole queries, evenly spread over the dataset, of about so many rows; at least one."""
    if dataset.rows <= rows:
        return dataset
    count = max(1, int(len(dataset.sizes) * rows / dataset.rows))
    mask = np.zeros(len(dataset.sizes), np.bool_)
    mask[np.linspace(0, len(dataset.sizes) - 1, count).astype(np.int64)] = True
    return dataset.keep(mask)


def curves_over_k(run: Run, convention: Convention) -> dict[str, Curve]:
    """Mean ndcg@k of every ranker for k from 1 on; with its interval for the model."""
    test, clusters = run.datasets.test, query_users(run.datasets.test)
    ks = tuple(range(1, min(int(test.sizes.max()), max(DEEPEST, *run.config.k)) + 1))
    found = {}
    for ranker in run.test.values:
        rule = replace(convention, ties="average") if ranker == RANDOM else convention
        values = ndcg_per_query(run.test.scores[ranker], test.relevance, test.sizes, list(ks), convention=rule)
        if ranker == MODEL:
            found[ranker] = _banded(ks, values, clusters, run.config.seed)
        else:
            found[ranker] = Curve(tuple(map(float, ks)), tuple(_mean(row) for row in values))
    return found


def learning_curves(run: Run, convention: Convention) -> dict[str, Curve]:
    """LightGBM's ndcg of the watched queries after each round; ours with its interval at some rounds that were kept."""
    ranker, k = run.ranker, run.config.train_k
    history = ranker.history[k]
    found = {"LightGBM's ndcg, every round": Curve(tuple(range(1, len(history) + 1)), tuple(history))}
    watched = run.datasets.valid.keep(run.datasets.valid.has_positive)
    watched = spread(watched, int(CURVE_QUERIES * watched.rows / len(watched.sizes)))
    booster = load_model(ranker.selected_text)
    rounds = tuple(int(r) for r in np.unique(np.linspace(1, ranker.best_iteration, CHECKPOINTS).astype(np.int64)))
    scores = [predict(booster, watched.features, rounds=after) for after in rounds]
    values = np.stack(
        [ndcg_per_query(each, watched.relevance, watched.sizes, k, convention=convention) for each in scores]
    )
    ours = _banded(rounds, values, query_users(watched), run.config.seed)
    return {"ours, with its interval": ours, **found}


def groups(run: Run, strata: Strata) -> Iterator[Group]:
    """The first ndcg@k by group of test queries."""
    found = group_intervals(
        run.test.values[MODEL][0], strata, users=query_users(run.datasets.test), seed=run.config.seed
    )
    for model, (name, mask) in zip(found, strata, strict=True):
        rivals = {ranker: _mean(values[0][mask]) for ranker, values in run.test.values.items() if ranker != MODEL}
        yield Group(name, model.queries, model.interval, rivals)


def calibration(dataset: RankingDataset, scores: Floats, seed: int, bins: int = 10) -> Iterator[Bin]:
    """Mean relevance of rows of equal rank of score, in `bins` groups of the same size."""
    queries = dataset.keys[QUERY]
    for rows in np.array_split(np.argsort(scores, kind="stable"), min(bins, dataset.rows)):
        relevance = bootstrap_interval(
            dataset.relevance[rows], clusters=queries.gather(rows), repetitions=REPETITIONS, seed=seed
        )
        yield Bin(float(scores[rows].mean()), relevance)


def other_conventions(run: Run) -> dict[str, tuple[Convention, float | None]]:
    """The model's first ndcg@k by every preset that needs no more than the candidates."""
    test, k = run.datasets.test, run.config.k[0]
    usable = {name: Convention.named(name) for name in PRESETS}
    if run.datasets.labels.width is not None:
        usable = {name: each for name, each in usable.items() if not isinstance(each.gain, tuple)}
    judged = {name: replace(each, ideal="candidates") if each.ideal == "all" else each for name, each in usable.items()}
    means = means_by_convention(run.test.scores[MODEL], test.relevance, test.sizes, k, judged)
    return {name: (judged[name], means[name]) for name in judged}


def missing_shares(run: Run) -> dict[str, tuple[float, float]]:
    """Share of missing values in training and in test, of the features that miss any."""
    found = {}
    for name in run.datasets.train.schema.names:
        before, after = (_missing(part.features[name]) for part in (run.datasets.train, run.datasets.test))
        if before or after:
            found[name] = (before, after)
    return found


def _warnings(run: Run, missing: Mapping[str, tuple[float, float]]) -> Iterator[str]:
    counts, test = run.metrics["queries"], run.datasets.test
    if counts["test_thin"] > counts["test"] / 2:
        yield f"{counts['test_thin']} of {counts['test']} test queries have fewer than 3 relevant items"
    ties = share_of_ties(run.test.scores[MODEL], test.sizes, run.config.k[0])
    if ties > MANY_TIES:
        yield f"{ties:.0%} of the first {run.config.k[0]} places are held by items whose score is tied"
    full = int((relevant_per_query(test.relevance, test.sizes) == test.sizes).sum())
    if full > counts["test"] / 5:
        yield f"{full} of {counts['test']} test queries have no candidate that is not relevant"
    for name, (before, after) in missing.items():
        if after > before + MORE_MISSING:
            yield f"{name} is missing in {after:.0%} of the test rows, in {before:.0%} of the training rows"


def _part(name: str, dataset: RankingDataset) -> PartRow:
    empty = int((~dataset.has_positive).sum())
    times = dataset.keys[TIMESTAMP].gather(dataset.starts).sort() if TIMESTAMP in dataset.keys.columns else None
    ends = ("", "") if times is None else times.gather([0, len(times) - 1]).dt.strftime("%Y-%m-%d %H:%M")
    return PartRow(name, len(dataset.sizes), dataset.rows, empty, *ends)


def _rejected(rejected: pl.DataFrame | None) -> dict[str, int]:
    if rejected is None or not rejected.height:
        return {}
    return dict(rejected.group_by(RULE).len().sort("len", RULE, descending=[True, False]).iter_rows())


def _strata(run: Run, convention: Convention) -> Iterator[Strata]:
    test = run.datasets.test
    yield by_relevant(relevant_per_query(test.relevance, test.sizes, gain=convention.gain))
    users = query_users(test)
    if users is not None and users.drop_nulls().len():
        yield by_activity(users)
    rows = test.keys.drop(USER, strict=False)
    for column in columns_of_queries(rows, test.starts):
        yield by_column(rows, test.starts, column)


def _distribution(values: Floats, bins: int = 20) -> Curve:
    counts, edges = np.histogram(values[~np.isnan(values)], bins=bins, range=(0.0, 1.0))
    return Curve(tuple((edges[:-1] + edges[1:]) / 2), tuple(int(count) for count in counts))


def _dependence(explained: Explained, feature: str) -> Dependence:
    values, shares = dependence(explained, feature)
    spec = next(spec for spec in explained.dataset.schema.features if spec.name == feature)
    if spec.dtype != "category":
        return Dependence(feature, tuple(values.fill_nan(None).to_list()), tuple(shares.tolist()))
    levels = with_levels(values.to_frame(), [spec])[feature].alias("level").to_frame().with_columns(share=shares)
    common = levels["level"].drop_nulls().value_counts().sort("count", "level", descending=[True, False])
    drawn = common.head(LEVELS).join(levels, on="level", maintain_order="left")
    return Dependence(feature, tuple(drawn["level"].to_list()), tuple(drawn["share"].to_list()))


def _banded(xs: Sequence[int], values: Floats, clusters: pl.Series | None, seed: int) -> Curve:
    found = [bootstrap_interval(row, clusters=clusters, repetitions=REPETITIONS, seed=seed) for row in values]
    low, high = tuple(each.low for each in found), tuple(each.high for each in found)
    return Curve(tuple(map(float, xs)), tuple(each.mean for each in found), low, high)


def _mean(values: Floats) -> float | None:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else None


def _missing(column: pl.Series) -> float:
    absent = column.is_null() if column.dtype.is_integer() else column.is_null() | column.is_nan().fill_null(False)
    return float(absent.mean() or 0.0)  # type: ignore[arg-type]


def _origin(run: Run) -> dict[str, Any]:
    versions = {name: version(name) for name in ("rankloom", "lightgbm", "polars", "numpy")}
    return {
        "seed": str(run.config.seed),
        "trees": str(run.ranker.best_iteration),
        "sha256 of model.txt": hashlib.sha256(run.ranker.model_text.encode()).hexdigest(),
        "fingerprint of the features": run.datasets.train.schema.fingerprint,
        "versions": ", ".join(f"{name} {number}" for name, number in versions.items()),
    }
