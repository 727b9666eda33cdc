"""Slow, obviously right: textbook loops that the fast code is held against. Plain lists in, plain numbers out."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pipeline.metrics import Convention


def gain(relevance: float, convention: Convention) -> float:
    if convention.negative == "zero":
        relevance = max(relevance, 0)
    if isinstance(convention.gain, tuple):
        return convention.gain[int(relevance)]
    return 2.0**relevance - 1 if convention.gain == "exp2" else float(relevance)


def discount(position: int, convention: Convention) -> float:
    if isinstance(convention.discount, tuple):
        return convention.discount[position - 1] if position <= len(convention.discount) else 0.0
    if convention.discount == "log2":
        return 1 / math.log2(position + 1)
    if convention.discount == "ln":
        return 1 / math.log(position + 1)
    if convention.discount == "none":
        return 1.0
    return 1 / position ** float(convention.discount.removeprefix("power:"))


def dcg(ranked: Sequence[float], k: int | None, convention: Convention) -> float:
    return sum(gain(rel, convention) * discount(i, convention) for i, rel in enumerate(ranked[:k], start=1))


def orders(scores: Sequence[float], relevance: Sequence[float], ties: str) -> Iterator[list[int]]:
    """The orders of the items that a rule for ties allows: all of them under "average", else one."""
    rows = range(len(scores))
    if ties == "average":
        blocks = [[row for row in rows if scores[row] == score] for score in sorted(set(scores), reverse=True)]
        for parts in itertools.product(*(itertools.permutations(block) for block in blocks)):
            yield [row for part in parts for row in part]
        return
    second: Callable[[int], float] = {
        "stable": lambda row: row,
        "reverse": lambda row: -row,
        "worst": lambda row: relevance[row],
        "best": lambda row: -relevance[row],
    }[ties]
    yield sorted(rows, key=lambda row: (-scores[row], second(row)))


def mean_over_orders(
    measure: Callable[[list[Any]], float], scores: Sequence[float], relevance: Sequence[float], ties: str
) -> float:
    """Mean of measure(relevances in ranked order) over all orders of tied scores."""
    values = [measure([relevance[row] for row in order]) for order in orders(scores, relevance, ties)]
    return sum(values) / len(values)


def ndcg_of_order(
    ranked: Sequence[float], k: int | None, convention: Convention, full: Sequence[float] | None = None
) -> float:
    """NDCG of relevances in ranked order; `full` are the relevances of all known items."""
    known = list(ranked) + list(full or [])
    if not any(gain(rel, convention) > 0 for rel in known):
        return convention.empty_value
    pool = {
        "candidates": ranked,
        "retrieved": ranked[:k],
        "all": ranked if full is None else full,
    }[convention.ideal]
    best = dcg(sorted(pool, reverse=True), k, convention)
    return dcg(ranked, k, convention) / best if best > 0 else 0.0


def ndcg(
    scores: Sequence[float],
    relevance: Sequence[float],
    k: int | None,
    convention: Convention,
    full: Sequence[float] | None = None,
) -> float:
    return mean_over_orders(
        lambda ranked: ndcg_of_order(ranked, k, convention, full), scores, relevance, convention.ties
    )


def expected_dcg(scores: Sequence[float], relevance: Sequence[float], k: int | None, convention: Convention) -> float:
    """DCG with ties averaged, for lists too long for all orders: each item at each place of its block equally often."""
    total = 0.0
    for row, score in enumerate(scores):
        first = sum(other > score for other in scores)
        places = range(first + 1, first + sum(other == score for other in scores) + 1)
        seen = [discount(place, convention) for place in places if k is None or place <= k]
        total += gain(relevance[row], convention) * sum(seen) / len(places)
    return total


def precision(hits: Sequence[int], k: int | None) -> float:
    return sum(hits[:k]) / (k or len(hits))


def recall(hits: Sequence[int], k: int | None, known: int) -> float:
    return sum(hits[:k]) / known


def reciprocal_rank(hits: Sequence[int], k: int | None) -> float:
    return next((1 / i for i, hit in enumerate(hits[:k], start=1) if hit), 0.0)


def average_precision(hits: Sequence[int], k: int | None, known: int) -> float:
    return sum(sum(hits[:i]) / i for i, hit in enumerate(hits[:k], start=1) if hit) / known


def rbp(hits: Sequence[int], k: int | None, persistence: float) -> float:
    return (1 - persistence) * sum(persistence ** (i - 1) for i, hit in enumerate(hits[:k], start=1) if hit)


def err(grades: Sequence[float], k: int | None, max_grade: float) -> float:
    total, reached = 0.0, 1.0
    for i, grade in enumerate(grades[:k], start=1):
        stops = (2**grade - 1) / 2**max_grade
        total += reached * stops / i
        reached *= 1 - stops
    return total


def auc(scores: Sequence[float], hits: Sequence[int]) -> float:
    pairs = [(a, b) for a, x in zip(scores, hits, strict=True) if x for b, y in zip(scores, hits, strict=True) if not y]
    return sum((a > b) + (a == b) / 2 for a, b in pairs) / len(pairs) if pairs else math.nan


def alpha_dcg(
    gains: Sequence[float], topics: Sequence[set], alpha: float, k: int | None, convention: Convention
) -> float:
    total = 0.0
    seen: list[Any] = []
    for i, (own, about) in enumerate(zip(gains[:k], topics[:k], strict=True), start=1):
        total += own * sum((1 - alpha) ** seen.count(topic) for topic in about) * discount(i, convention)
        seen += about if own > 0 else []
    return total


def best_alpha_dcg(
    gains: Sequence[float], topics: Sequence[set], alpha: float, k: int, convention: Convention
) -> float:
    """By trying all orders."""
    return max(
        alpha_dcg([gains[row] for row in order], [topics[row] for row in order], alpha, k, convention)
        for order in itertools.permutations(range(len(gains)))
    )
