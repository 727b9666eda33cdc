"""Loops for alpha-NDCG: what an item is worth falls with each earlier item on the same subtopic.

`topics[firsts[row]:firsts[row + 1]]` are the subtopics of a row: sorted, distinct codes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline.metrics.compiling import compiled, inlined

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@inlined
def worth(row: int, gains: Floats, firsts: Ints, topics: Ints, kept: Floats) -> float:
    total = 0.0
    for place in range(firsts[row], firsts[row + 1]):
        total += kept[topics[place]]
    return float(total * gains[row])


@inlined
def take(row: int, gains: Floats, firsts: Ints, topics: Ints, kept: Floats, alpha: float) -> None:
    """What is not relevant has told the reader nothing, and makes nothing redundant."""
    if gains[row] <= 0:
        return
    for place in range(firsts[row], firsts[row + 1]):
        kept[topics[place]] *= 1.0 - alpha


@compiled
def precedes(row: int, other: int, gains: Floats, firsts: Ints, topics: Ints) -> bool:
    """An order of rows by what they are: by their subtopics, then by gain. Rows that are the same may swap places."""
    size, other_size = firsts[row + 1] - firsts[row], firsts[other + 1] - firsts[other]
    for step in range(min(size, other_size)):
        topic, other_topic = topics[firsts[row] + step], topics[firsts[other] + step]
        if topic != other_topic:
            return bool(topic < other_topic)
    if size != other_size:
        return bool(size < other_size)
    return bool(gains[row] > gains[other])


@compiled
def greedy_order(
    start: int, end: int, wanted: int, gains: Floats, firsts: Ints, topics: Ints, kept: Floats, alpha: float
) -> Ints:
    """The `wanted` rows worth most, each given those before it: the ideal of alpha-NDCG (Clarke et al. 2008)."""
    chosen = np.empty(wanted, np.int64)
    free = np.ones(end - start, np.bool_)
    for place in range(wanted):
        best, most = -1, -1.0
        for row in range(start, end):
            if not free[row - start]:
                continue
            value = worth(row, gains, firsts, topics, kept)
            if value > most or (value == most and precedes(row, best, gains, firsts, topics)):
                best, most = row, value
        chosen[place] = best
        free[best - start] = False
        take(best, gains, firsts, topics, kept, alpha)
    forget(chosen, firsts, topics, kept)
    return chosen


@compiled
def forget(rows: Ints, firsts: Ints, topics: Ints, kept: Floats) -> None:
    for row in rows:
        for place in range(firsts[row], firsts[row + 1]):
            kept[topics[place]] = 1.0


@compiled
def sums_at_cuts(
    rows: Ints, gains: Floats, firsts: Ints, topics: Ints, kept: Floats, alpha: float, discount: Floats, cuts: Ints
) -> Floats:
    """(C,) alpha-DCG of the rows in this order; `cuts` ascend."""
    sums = np.empty(len(cuts))
    total, place = 0.0, 0
    for c in range(len(cuts)):
        while place < min(cuts[c], len(rows)):
            total += worth(rows[place], gains, firsts, topics, kept) * discount[place]
            take(rows[place], gains, firsts, topics, kept, alpha)
            place += 1
        sums[c] = total
    forget(rows, firsts, topics, kept)
    return sums


@compiled
def alpha_ndcg_of_queries(
    order: Ints,
    gains: Floats,
    firsts: Ints,
    topics: Ints,
    alpha: float,
    discount: Floats,
    starts: Ints,
    cuts: Ints,
    out: Floats,
) -> None:
    """Fill out[c, q]; NaN where no item of a query is worth anything. `cuts` ascend."""
    kept = np.ones(1 + (topics.max() if len(topics) else 0))
    for query in range(len(starts) - 1):
        start, end = starts[query], starts[query + 1]
        wanted = min(cuts[-1], end - start)
        best = greedy_order(start, end, wanted, gains, firsts, topics, kept, alpha)
        attainable = sums_at_cuts(best, gains, firsts, topics, kept, alpha, discount, cuts)
        attained = sums_at_cuts(order[start : start + wanted], gains, firsts, topics, kept, alpha, discount, cuts)
        for c in range(len(cuts)):
            out[c, query] = min(attained[c] / attainable[c], 1.0) if attainable[c] > 0 else np.nan
