"""Loops over the places of ranked lists, where places may be tied.

A list is a sequence of blocks of tied places; within a block every order is equally likely, so each measure is an
expected value in closed form (McSherry and Najork 2008). Lists without ties are made of blocks of one place.

`values` are those of the rows in ranked order; `ends[place]` is where the block of the place ends.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline.metrics.compiling import compiled, inlined

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

MEASURES = ("weighted_sum", "reciprocal_rank", "no_hit", "average_precision", "stopped", "pairs")
WEIGHTED_SUM, RECIPROCAL_RANK, NO_HIT, AVERAGE_PRECISION, STOPPED = 0, 1, 2, 3, 4


@inlined
def block_sum(values: Floats, start: int, end: int) -> float:
    total = 0.0
    for place in range(start, end):
        total += values[place]
    return total


@inlined
def weighted_sum(values: Floats, ends: Ints, weights: Floats, cut: int) -> float:
    """Sum over places of value * weight."""
    total, start = 0.0, 0
    while start < cut:
        end = ends[start]
        mean = block_sum(values, start, end) / (end - start)
        for place in range(start, min(end, cut)):
            total += mean * weights[place]
        start = end
    return total


@inlined
def first_hit(hits: Floats, ends: Ints, cut: int) -> tuple[float, float]:
    """(expected 1 / position of the first hit, probability that there is none) among the first `cut` places."""
    expected, missed, start = 0.0, 1.0, 0
    while start < cut and missed > 0:
        end = ends[start]
        left = block_sum(hits, start, end)
        for place in range(start, min(end, cut)):
            chance = min(left / (end - place), 1.0)
            expected += missed * chance / (place + 1)
            missed *= 1.0 - chance
        start = end
    return expected, missed


@inlined
def summed_precision(hits: Floats, ends: Ints, cut: int) -> float:
    """Sum over the hits among the first `cut` places of the precision at their position."""
    total, above, start = 0.0, 0.0, 0
    while start < cut:
        end = ends[start]
        inside, size = block_sum(hits, start, end), end - start
        for place in range(start, min(end, cut)):
            before = (place - start) * (inside - 1) / (size - 1) if size > 1 else 0.0
            total += inside / size * (above + 1 + before) / (place + 1)
        above += inside
        start = end
    return total


@compiled
def stopped(chances: Floats, ends: Ints, cut: int) -> float:
    """Expected 1 / position at which a reader stops who stops at an item with its chance (Chapelle et al. 2009).

    surviving[j] is the mean, over all choices of j of the block's items, of the chance to pass them all.
    """
    expected, reached, start = 0.0, 1.0, 0
    while start < cut and reached > 0:
        end = ends[start]
        steps = min(end, cut) - start
        surviving = np.zeros(steps + 1)
        surviving[0] = 1.0
        passed = 1.0
        for item in range(start, end):
            chosen_from = item - start + 1
            passing = 1.0 - chances[item]
            passed *= passing
            for j in range(min(steps, chosen_from), 0, -1):
                left_out, taken = chosen_from - j, j * passing
                surviving[j] = (left_out * surviving[j] + taken * surviving[j - 1]) / chosen_from
        for j in range(steps):
            expected += reached * (surviving[j] - surviving[j + 1]) / (start + j + 1)
        reached *= passed
        start = end
    return expected


@inlined
def ordered_pairs(hits: Floats, ends: Ints) -> float:
    """Share of pairs of a hit and a miss in the right order, tied ones counted half; NaN without any."""
    right, misses_above, start = 0.0, 0.0, 0
    positives = block_sum(hits, 0, len(hits))
    negatives = len(hits) - positives
    while start < len(hits):
        end = ends[start]
        inside = block_sum(hits, start, end)
        misses = end - start - inside
        right += inside * (negatives - misses_above - misses / 2)
        misses_above += misses
        start = end
    return right / (positives * negatives)


@compiled
def measure_queries(
    measure: int, values: Floats, ends: Ints, starts: Ints, cuts: Ints, weights: Floats, out: Floats
) -> None:
    """Fill out[c, q] with the measure at each cut-off."""
    for query in range(len(starts) - 1):
        start, end = starts[query], starts[query + 1]
        own, blocks = values[start:end], ends[start:end]
        for c in range(len(cuts)):
            cut = min(cuts[c], end - start)
            if measure == WEIGHTED_SUM:
                out[c, query] = weighted_sum(own, blocks, weights, cut)
            elif measure == RECIPROCAL_RANK:
                out[c, query] = first_hit(own, blocks, cut)[0]
            elif measure == NO_HIT:
                out[c, query] = first_hit(own, blocks, cut)[1]
            elif measure == AVERAGE_PRECISION:
                out[c, query] = summed_precision(own, blocks, cut)
            elif measure == STOPPED:
                out[c, query] = stopped(own, blocks, cut)
            else:
                out[c, query] = ordered_pairs(own, blocks)
