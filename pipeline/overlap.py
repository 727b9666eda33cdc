"""How much two rankings of the same candidates have in common at their top."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

PERSISTENCE = 0.9
"""Of rank-biased overlap: a reader goes on to the next item with this probability."""


def ranks(scores: Floats, sizes: npt.NDArray[np.int32]) -> Ints:
    """(N,) rank of each row in its query, 1 = highest score; tied rows keep their order, as in `Scorer.rank`."""
    query = np.repeat(np.arange(len(sizes)), sizes)
    order = np.lexsort((np.arange(len(scores)), -scores, query))
    places = np.empty(len(scores), np.int64)
    starts = np.cumsum(sizes, dtype=np.int64) - sizes
    places[order] = np.arange(len(scores)) - np.repeat(starts, sizes) + 1
    return places


def top_overlap(a: Floats, b: Floats, sizes: npt.NDArray[np.int32], k: int) -> tuple[Floats, Floats]:
    """(Q,) shares of the two top-k lists that they have in common, and (Q,) rank-biased overlaps of the lists.

    Rank-biased overlap is RBO_ext of Webber, Moffat and Zobel (2010), eq. 32, over lists of depth k: overlaps near the
    top count more. Both are 1 for equal lists and 0 for disjoint ones. A query of fewer items is as deep as it is long.
    """
    query = np.repeat(np.arange(len(sizes)), sizes)
    met = np.maximum(ranks(a, sizes), ranks(b, sizes))
    inside = met <= k
    counts = np.bincount(query[inside] * k + met[inside] - 1, minlength=len(sizes) * k)
    common = np.cumsum(counts.reshape(len(sizes), k), axis=1).astype(np.float64)
    depth = np.minimum(sizes, k).astype(np.int64)
    agreement = common / np.arange(1, k + 1)
    last = agreement[np.arange(len(sizes)), depth - 1]
    weights = np.where(np.arange(1, k + 1) <= depth[:, None], PERSISTENCE ** np.arange(1, k + 1), 0.0)
    biased = last * PERSISTENCE**depth + (1 - PERSISTENCE) / PERSISTENCE * (agreement * weights).sum(axis=1)
    return last, biased
