"""The ranked lists themselves: which row stands where, and which places are tied."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pipeline.metrics.compiling import compiled

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

AVERAGE, STABLE, REVERSE, WORST, BEST = 0, 1, 2, 3, 4


@compiled
def order_of_query(keys: Floats, values: Floats, ties: int) -> Ints:
    """(n,) rows, highest key first; tied ones as the rule says, in input order where they are to be averaged."""
    rows = np.arange(len(keys))
    if ties == REVERSE:
        rows = rows[::-1].copy()
    elif ties == WORST:
        rows = np.argsort(values, kind="mergesort")
    elif ties == BEST:
        rows = np.argsort(-values, kind="mergesort")
    return rows[np.argsort(-keys[rows], kind="mergesort")]


@compiled
def order_of_queries(scores: Floats, relevance: Floats, starts: Ints, ties: int, order: Ints, ends: Ints) -> None:
    """Fill order[starts[q]:starts[q + 1]] with the rows of query q, best first.

    `ends` tells for each place where the block of tied scores that it is part of ends, counted from the query's first
    place; unless ties are averaged they have an order, and each place is a block of its own.
    """
    for query in range(len(starts) - 1):
        start, end = starts[query], starts[query + 1]
        rows = order_of_query(scores[start:end], relevance[start:end], ties)
        last = 0
        for place in range(end - start):
            order[start + place] = start + rows[place]
            if ties != AVERAGE:
                last = place + 1
            elif place >= last:
                last = place + 1
                while last < end - start and scores[start + rows[last]] == scores[start + rows[place]]:
                    last += 1
            ends[start + place] = last
