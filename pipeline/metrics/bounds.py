"""NDCG of a very long list, looked at only as far down as the answer needs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pipeline.metrics.arrays import as_relevance, check_relevance, check_single
from pipeline.metrics.conventions import Convention, check_convention, discount_values, gain_values
from pipeline.metrics.ndcg import DEFAULT, cg_per_query, dcg_per_query

FIRST_LOOK = 256
DEEPER = 8


class Bounds(NamedTuple):
    """The NDCG lies in [low, high]; `looked_at` positions were ranked to know that."""

    low: float
    high: float
    looked_at: int


def ndcg_bounds(
    scores: npt.ArrayLike,
    relevance: npt.ArrayLike,
    k: int | None = None,
    *,
    tolerance: float,
    convention: Convention = DEFAULT,
) -> Bounds:
    """NDCG@k of one list to within `tolerance`: stops as soon as what can still come is smaller.

    Below the positions looked at, the gains not met yet add at most their sum times the next discount.
    The ideal is that of the candidates. An empty list has the convention's value (NaN under "skip").
    """
    check_single(k)
    check_convention(convention)
    if convention.ideal == "retrieved":
        raise ValueError("bounds are not defined for ideal='retrieved'; the ideal changes with every position")
    if not tolerance >= 0:
        raise ValueError(f"tolerance is {tolerance}; expected a number of at least 0")
    truth = as_relevance(relevance)
    check_relevance(truth, convention)
    total = float(gain_values(convention, truth).sum())
    depth = len(truth) if k is None else min(k, len(truth))
    looked = min(FIRST_LOOK, depth)
    while True:
        bounds = _bounds(scores, truth, looked, depth, total, convention)
        if looked == depth or bounds.high - bounds.low <= tolerance:
            return bounds
        looked = min(looked * DEEPER, depth)


def _bounds(
    scores: npt.ArrayLike, truth: npt.ArrayLike, looked: int, depth: int, total: float, convention: Convention
) -> Bounds:
    if total <= 0:
        return Bounds(convention.empty_value, convention.empty_value, looked)
    rows = [len(np.atleast_1d(truth))]
    next_discount = 0.0 if looked == depth else float(discount_values(convention.discount, looked + 1)[-1])
    ends = []
    for order in (scores, truth):
        reached = float(dcg_per_query(order, truth, rows, looked, convention=convention)[0])
        rest = total - float(cg_per_query(order, truth, rows, looked, convention=convention)[0])
        ends.append((reached, reached + max(rest, 0.0) * next_discount))
    (low, high), (ideal_low, ideal_high) = ends
    return Bounds(low / ideal_high, min(high / ideal_low, 1.0), looked)
