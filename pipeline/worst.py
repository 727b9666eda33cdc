"""The queries that a ranker serves worst: its order beside the best one, and why it chose as it did."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from features.columns import ITEM, POSITION, QUERY, USER
from pipeline.booster import Booster
from pipeline.dataset import RankingDataset
from pipeline.explain import Difference, explain_rows, summed, why_above, written
from pipeline.metrics import Convention, gain_values
from pipeline.overlap import ranks
from pipeline.package import with_levels
from pipeline.results import MODEL, Judgement

Floats = npt.NDArray[np.float64]

WORST = 10
ITEMS = 10
"""Items listed of a query: the first by score, and the relevant ones below them."""

FEATURES = 5
REASONS = 8
TEXTS = 3


@dataclass(frozen=True)
class RankedItem:
    """An item of a query: where it stands, where it belongs, where it was shown, and its leading features."""

    item: str
    rank: int
    ideal_rank: int
    shown: int | None
    relevance: float
    score: float
    texts: tuple[str, ...]
    features: tuple[str, ...]


@dataclass(frozen=True)
class WorstQuery:
    """A query with its value; `why`: what put item `above` above the more relevant `below`, which sums to `lead`."""

    query: str
    user: str
    value: float
    relevant: int
    size: int
    text_names: tuple[str, ...]
    feature_names: tuple[str, ...]
    items: tuple[RankedItem, ...]
    above: str
    below: str
    lead: float
    why: tuple[Difference, ...]


def worst_queries(
    judged: Judgement, booster: Booster, convention: Convention, leading: Sequence[str]
) -> Iterator[WorstQuery]:
    """The `WORST` queries of lowest ndcg at the first cut-off, the larger first; `leading`: features in order."""
    values = judged.values[MODEL][0]
    known = np.flatnonzero(~np.isnan(values) & (values < 1))
    order = known[np.lexsort((known, -judged.dataset.sizes[known], values[known]))]
    for query in order[:WORST]:
        mask = np.zeros(len(values), np.bool_)
        mask[query] = True
        one = judged.dataset.keep(mask)
        yield _worst(one, booster, convention, float(values[query]), leading[:FEATURES])


def _worst(
    one: RankingDataset, booster: Booster, convention: Convention, value: float, leading: Sequence[str]
) -> WorstQuery:
    explained, levels = explain_rows(booster, one), with_levels(one.features, one.schema.features)
    scores, gains = explained.scores, gain_values(convention, one.relevance)
    place, ideal = ranks(scores, one.sizes), ranks(gains, one.sizes)
    upper, lower = _swapped(place, gains)
    texts = item_texts(one.keys)
    listed = [row for row in np.argsort(place) if place[row] <= ITEMS or gains[row] > 0]
    user = one.keys[USER][0] if USER in one.keys.columns else None
    return WorstQuery(
        query=str(one.queries[0]),
        user="" if user is None else str(user),
        value=value,
        relevant=int((gains > 0).sum()),
        size=one.rows,
        text_names=tuple(texts),
        feature_names=tuple(leading),
        items=tuple(_item(one, levels, row, place, ideal, scores, texts, leading) for row in listed[: 2 * ITEMS]),
        above=str(one.keys[ITEM][upper]),
        below=str(one.keys[ITEM][lower]),
        lead=float(scores[upper] - scores[lower]),
        why=tuple(summed(why_above(explained, upper, lower, levels), REASONS)),
    )


def item_texts(keys: pl.DataFrame) -> list[str]:
    """Columns of text that tell items of a query apart, such as a title."""
    names = [name for name in keys.columns if keys[name].dtype == pl.String and name not in (QUERY, ITEM, USER)]
    return [name for name in names if keys[name].n_unique() > 1][:TEXTS]


def _swapped(place: npt.NDArray[np.int64], gains: Floats) -> tuple[int, int]:
    """The first item by score that a better one stands below, and the best of those below it."""
    for row in np.argsort(place):
        below = np.flatnonzero((place > place[row]) & (gains > gains[row]))
        if len(below):
            return int(row), int(below[np.lexsort((place[below], -gains[below]))[0]])
    return int(np.argmin(place)), int(np.argmin(place))


def _item(
    one: RankingDataset,
    levels: pl.DataFrame,
    row: int,
    place: npt.NDArray[np.int64],
    ideal: npt.NDArray[np.int64],
    scores: Floats,
    texts: Sequence[str],
    leading: Sequence[str],
) -> RankedItem:
    row = int(row)
    shown = one.keys[POSITION][row] if POSITION in one.keys.columns else None
    return RankedItem(
        item=str(one.keys[ITEM][row]),
        rank=int(place[row]),
        ideal_rank=int(ideal[row]),
        shown=None if shown is None else int(shown),
        relevance=float(one.relevance[row]),
        score=float(scores[row]),
        texts=tuple(written(one.keys[name][row]) for name in texts),
        features=tuple(written(levels[name][row]) for name in leading),
    )
