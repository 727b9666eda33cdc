"""The one case without a closed form: the ideal of what was retrieved, where tied scores lie across the cut-off.

Which of the tied items are returned then decides the ideal too. The expected value of DCG / ideal is the sum over all
that can be returned, which are few as long as the tied items have few different gains.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from pipeline.metrics.arrays import Array
from pipeline.metrics.conventions import Floats

MOST_OUTCOMES = 100_000


def expected_ndcg(scores: Array, gains: Floats, cut: int, discount: Floats) -> float:
    """Mean, over all orders of tied scores, of DCG@cut / DCG of the best order of the `cut` returned items.

    scores, gains: (n,) of one query, n > cut. Raises ValueError where there are more than MOST_OUTCOMES ways
    to fill the cut-off, which takes many tied items of many different gains.
    """
    edge = np.sort(scores)[-cut]
    above, tied = scores > edge, gains[scores == edge]
    drawn = cut - int(above.sum())
    levels, counts = np.unique(tied, return_counts=True)
    _check_outcomes(counts.tolist(), drawn)
    certain = _expected_dcg(scores[above], gains[above], discount)
    share = discount[cut - drawn : cut].sum() / drawn
    expected = 0.0
    for chosen, ways in _draws(counts.tolist(), drawn):
        returned = np.repeat(levels, chosen)
        ideal = float(np.sort(np.concatenate([gains[above], returned]))[::-1] @ discount[:cut])
        if ideal > 0:
            expected += ways / math.comb(len(tied), drawn) * (certain + returned.sum() * share) / ideal
    return min(float(expected), 1.0)


def _expected_dcg(scores: Array, gains: Floats, discount: Floats) -> float:
    if not len(scores):
        return 0.0
    _, block = np.unique(-scores, return_inverse=True)
    means = np.bincount(block, gains) / np.bincount(block)
    return float(means[np.sort(block)] @ discount[: len(block)])


def _draws(counts: list[int], drawn: int) -> Iterator[tuple[list[int], int]]:
    """How many of each kind `drawn` items can be, and in how many ways."""
    if len(counts) == 1:
        yield [drawn], math.comb(counts[0], drawn)
        return
    others = sum(counts[1:])
    for number in range(max(0, drawn - others), min(counts[0], drawn) + 1):
        for rest, ways in _draws(counts[1:], drawn - number):
            yield [number, *rest], ways * math.comb(counts[0], number)


def _check_outcomes(counts: list[int], drawn: int) -> None:
    outcomes = np.zeros(drawn + 1)
    outcomes[0] = 1
    for count in counts:
        outcomes = np.convolve(outcomes, np.ones(min(count, drawn) + 1))[: drawn + 1]
    if outcomes[drawn] > MOST_OUTCOMES:
        raise ValueError(
            f"{sum(counts)} tied items with {len(counts)} different gains lie across the cut-off: too many ways to fill"
            " it for an exact average under ideal='retrieved'; choose the ties 'stable', 'worst' or 'best'"
        )
