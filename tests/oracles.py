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
