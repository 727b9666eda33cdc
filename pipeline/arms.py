"""Rankings to compare, read from what runs keep, and brought onto the same rows in the same order."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from features.columns import ITEM, QUERY, RELEVANCE, USER
from features.errors import ConfigError, DataError
from features.log import align_ids
from pipeline.dataset import query_sizes
from pipeline.results import MODEL, RANDOM, score_of
from pipeline.run import METRICS, RANKED

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Arm:
    """One ranking: the rows of a run's test part, and the scores (N,) of one of its rankers."""

    name: str
    ranker: str
    rows: pl.DataFrame
    scores: Floats
    metrics: Mapping[str, Any]


@dataclass(frozen=True)
class Aligned:
    """The same rows in the same order for all: `rows` as in the first run, `scores[name]` (N,), `sizes` (Q,)."""

    rows: pl.DataFrame
    sizes: npt.NDArray[np.int32]
    scores: Mapping[str, Floats]
    averaged: frozenset[str]
    """Rankings whose ties are averaged whatever the convention: an order drawn at random."""
    notes: tuple[str, ...] = ()

    @property
    def starts(self) -> npt.NDArray[np.int64]:
        return np.cumsum(self.sizes, dtype=np.int64) - self.sizes

    @property
    def relevance(self) -> Floats:
        return self.rows[RELEVANCE].to_numpy()

    @property
    def users(self) -> pl.Series | None:
        return self.rows[USER].gather(self.starts) if USER in self.rows.columns else None

    def only(self, mask: npt.NDArray[np.bool_]) -> Aligned:
        """The rows (N,) where `mask` is true."""
        rows = self.rows.filter(pl.Series(mask))
        scores = {name: values[mask] for name, values in self.scores.items()}
        return replace(self, rows=rows, sizes=query_sizes(rows[QUERY]), scores=scores)


def read_arm(text: str) -> Arm:
    """A run's folder (its model), or `folder:ranker` for another of its rankers. Raises DataError or ConfigError."""
    folder, ranker = Path(text), MODEL
    if not folder.exists() and ":" in text:
        head, _, ranker = text.rpartition(":")
        folder = Path(head)
    absent = [name for name in (METRICS, RANKED) if not (folder / name).is_file()]
    if absent:
        raise DataError(
            f"{folder} holds no {' and no '.join(absent)}",
            expected="the folder of a run, or of evaluate --out",
            fix="check the path, or run rankloom train or evaluate with --out",
        )
    metrics = json.loads((folder / METRICS).read_text("utf-8"))
    rows = pl.read_parquet(folder / RANKED)
    if score_of(ranker) not in rows.columns:
        known = ", ".join(name.removeprefix(score_of("")) for name in rows.columns if name.startswith(score_of("")))
        raise ConfigError(f"{folder} has no ranker {ranker!r}", expected=f"one of {known}", fix="name one of these")
    return Arm(text, ranker, rows, rows[score_of(ranker)].to_numpy(), metrics)


def align(arms: Sequence[Arm], *, common: bool) -> Aligned:
    """The rows that all have, in the order of the first. Raises DataError where they differ and `common` is not set.

    `common` keeps the queries, and within them the candidates, that all rankings have.
    """
    first = arms[0]
    joined = first.rows.with_columns(pl.Series(_column(0), first.scores))
    for place, arm in enumerate(arms[1:], start=1):
        joined = _join(joined, first, arm, _column(place))
    lost = [_difference(first, arm, joined.height) for arm in arms[1:] if _differs(first, arm, joined.height)]
    if joined.height == 0:
        raise DataError(lost[0], expected="runs over the same queries", fix="compare runs of the same test part")
    kept = f"{joined[QUERY].n_unique()} queries with {joined.height} candidates that all have"
    if lost and not common:
        raise DataError(
            lost[0],
            expected="the same queries and candidates, as ndcg over fewer candidates is higher",
            fix=f"add --common to compare on the {kept}",
        )
    notes = (*lost, f"compared on the {kept}") if lost else ()
    scores = {arm.name: joined[_column(place)].to_numpy() for place, arm in enumerate(arms)}
    averaged = frozenset(arm.name for arm in arms if arm.ranker == RANDOM)
    rows = joined.drop([_column(place) for place in range(len(arms))])
    return Aligned(rows, query_sizes(rows[QUERY]), scores, averaged, notes)


def _column(place: int) -> str:
    return score_of(f"_{place}")


def _join(joined: pl.DataFrame, first: Arm, arm: Arm, column: str) -> pl.DataFrame:
    theirs = arm.rows.select(QUERY, ITEM, pl.col(RELEVANCE).alias("_relevance"), pl.Series(column, arm.scores))
    for name in (QUERY, ITEM):
        joined, theirs = align_ids(joined, theirs, name)
    both = joined.join(theirs, on=[QUERY, ITEM], how="inner", maintain_order="left")
    other = int((both[RELEVANCE] != both["_relevance"]).sum())
    if other:
        raise DataError(
            f"{other} of {both.height} candidates have another relevance in {first.name} than in {arm.name}",
            expected="runs that were judged by the same rule on the same log",
            fix="evaluate both packages on the same data first",
        )
    return both.drop("_relevance")


def _differs(first: Arm, arm: Arm, height: int) -> bool:
    return not first.rows.height == arm.rows.height == height


def _difference(first: Arm, arm: Arm, height: int) -> str:
    ours, theirs = first.rows[QUERY].n_unique(), arm.rows[QUERY].n_unique()
    return (
        f"{first.name} has {ours} queries with {first.rows.height} candidates, {arm.name} {theirs} with "
        f"{arm.rows.height}, and {height} candidates are in both"
    )
