"""Loops over queries, compiled by Numba and cached on disk.

A query's top k is found by insertion, without sorting what lies below it. All functions are plain loops over
contiguous arrays; they release the interpreter, so threads can share the queries between them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np
import numpy.typing as npt

GAIN_LINEAR, GAIN_EXP2, GAIN_TABLE = 0, 1, 2
IDEAL_NONE, IDEAL_OWN, IDEAL_RETRIEVED, IDEAL_FULL = 0, 1, 2, 3
TIES_AVERAGE, TIES_STABLE, TIES_REVERSE, TIES_WORST, TIES_BEST = 0, 1, 2, 3, 4
TIES = ("average", "stable", "reverse", "worst", "best")


class Rules(NamedTuple):
    """A convention in numbers. `table` holds gains per grade (GAIN_TABLE), `discount` those of the deepest cut-off."""

    gain: int
    table: npt.NDArray[np.float64]
    discount: npt.NDArray[np.float64]
    ideal: int
    ties: int
    empty: float


SORT_FROM = 64
"""From this many wanted positions on, a full sort is cheaper than insertion."""

_compiled = numba.njit(cache=True, nogil=True, error_model="numpy")


@_compiled
def gain_of(value, rules):
    if value <= 0:
        return 0.0
    if rules.gain == GAIN_TABLE:
        return rules.table[int(value)]
    if rules.gain == GAIN_EXP2:
        return np.exp2(float(value)) - 1.0
    return float(value)


@_compiled
def _insert_top(scores, relevance, start, end, top, keys, rows, ties):
    """Fill rows[:top] with the rows of the highest scores, best first."""
    found = 0
    for step in range(end - start):
        row = end - 1 - step if ties == TIES_REVERSE else start + step
        score = scores[row]
        if found == top and not _precedes(score, row, keys[top - 1], rows[top - 1], relevance, ties):
            continue
        place = found if found < top else top - 1
        while place > 0 and _precedes(score, row, keys[place - 1], rows[place - 1], relevance, ties):
            keys[place] = keys[place - 1]
            rows[place] = rows[place - 1]
            place -= 1
        keys[place] = score
        rows[place] = row
        found = min(found + 1, top)


@_compiled
def _precedes(score, row, other_score, other_row, relevance, ties):
    if score != other_score:
        return score > other_score
    if ties == TIES_WORST:
        return relevance[row] < relevance[other_row]
    if ties == TIES_BEST:
        return relevance[row] > relevance[other_row]
    return False


@_compiled
def _sort_top(scores, relevance, start, end, top, keys, rows, ties):
    """The same as `_insert_top`, by one stable sort of the whole query."""
    size = end - start
    order = np.empty(size, np.int64)
    for step in range(size):
        order[step] = size - 1 - step if ties == TIES_REVERSE else step
    if ties in (TIES_WORST, TIES_BEST):
        sign = 1.0 if ties == TIES_WORST else -1.0
        order = np.argsort(sign * relevance[start:end], kind="mergesort")
    order = order[np.argsort(-scores[start:end][order], kind="mergesort")]
    for place in range(top):
        rows[place] = start + order[place]
        keys[place] = scores[rows[place]]


@_compiled
def _average_ties(scores, relevance, start, end, top, keys, gains, rules):
    """Give each position of a block of tied scores the mean gain of the whole block, in and below the top."""
    place = 0
    while place < top:
        last = place + 1
        while last < top and keys[last] == keys[place]:
            last += 1
        total, count = 0.0, 0
        if last == top:
            for row in range(start, end):
                if scores[row] == keys[place]:
                    total += gain_of(relevance[row], rules)
                    count += 1
        else:
            for other in range(place, last):
                total += gains[other]
            count = last - place
        for other in range(place, last):
            gains[other] = total / count
        place = last


@_compiled
def _best_gains(values, start, end, top, best, rules):
    """Fill best[:top] with the highest gains, best first, and zeros behind."""
    wanted = min(top, end - start)
    if wanted >= SORT_FROM:
        ordered = np.sort(values[start:end])
        for place in range(wanted):
            best[place] = gain_of(ordered[end - start - 1 - place], rules)
    else:
        kept = np.empty(max(wanted, 1), values.dtype)
        for row in range(start, end):
            value = values[row]
            place = min(row - start, wanted - 1)
            if row - start >= wanted and value <= kept[wanted - 1]:
                continue
            while place > 0 and kept[place - 1] < value:
                kept[place] = kept[place - 1]
                place -= 1
            kept[place] = value
        for place in range(wanted):
            best[place] = gain_of(kept[place], rules)
    best[wanted:top] = 0.0


@_compiled
def _retrieved_ideal(gains, top, discount):
    """DCG of gains[:top] in their best order."""
    ordered = np.sort(gains[:top])
    total = 0.0
    for place in range(top):
        total += ordered[top - 1 - place] * discount[place]
    return total


@_compiled
def _best_gain(values, start, end, rules):
    if start == end:
        return 0.0
    highest = values[start]
    for row in range(start + 1, end):
        highest = max(highest, values[row])
    return gain_of(highest, rules)


@_compiled
def _write_sums(gains, top, cuts, discount, query, out):
    """out[c, query] = DCG at each cut-off."""
    place, total = 0, 0.0
    for c in range(len(cuts)):
        while place < min(cuts[c], top):
            total += gains[place] * discount[place]
            place += 1
        out[c, query] = total


@_compiled
def _divide_by_ideal(best, cuts, discount, query, out):
    """Turn DCG into NDCG; what the order of summation adds above 1 is cut off."""
    place, total = 0, 0.0
    for c in range(len(cuts)):
        while place < cuts[c]:
            total += best[place] * discount[place]
            place += 1
        out[c, query] = min(out[c, query] / total, 1.0) if out[c, query] > 0 else 0.0


@_compiled
def _divide_by_retrieved(gains, top, cuts, discount, query, out):
    """Turn DCG into NDCG against the best order of what stands above each cut-off."""
    for c in range(len(cuts)):
        returned = min(cuts[c], top)
        total = _retrieved_ideal(gains, returned, discount)
        out[c, query] = min(out[c, query] / total, 1.0) if out[c, query] > 0 else 0.0


@_compiled
def ndcg_of_queries(scores, relevance, starts, full, full_starts, cuts, rules, first, last, out):
    """Fill out[c, q] for the queries first..last-1.

    `cuts` ascend, `discount` and `table` cover what is used; `ideal` IDEAL_NONE gives DCG.
    `full` holds the relevances of IDEAL_FULL, and tells elsewhere whether relevant items exist that are not in the list.
    """
    deepest = cuts[-1]
    keys = np.empty(deepest, scores.dtype)
    rows = np.empty(deepest, np.int64)
    gains = np.empty(deepest, np.float64)
    best = np.empty(deepest, np.float64)
    for query in range(first, last):
        start, end = starts[query], starts[query + 1]
        top = min(deepest, end - start)
        if top < SORT_FROM:
            _insert_top(scores, relevance, start, end, top, keys, rows, rules.ties)
        else:
            _sort_top(scores, relevance, start, end, top, keys, rows, rules.ties)
        for place in range(top):
            gains[place] = gain_of(relevance[rows[place]], rules)
        if rules.ties == TIES_AVERAGE:
            _average_ties(scores, relevance, start, end, top, keys, gains, rules)
        _write_sums(gains, top, cuts, rules.discount, query, out)
        if rules.ideal == IDEAL_NONE:
            continue
        full_start, full_end = full_starts[query], full_starts[query + 1]
        if rules.ideal == IDEAL_FULL:
            _best_gains(full, full_start, full_end, deepest, best, rules)
        else:
            _best_gains(relevance, start, end, deepest, best, rules)
        if best[0] <= 0 and _best_gain(full, full_start, full_end, rules) <= 0:
            out[:, query] = rules.empty
        elif rules.ideal == IDEAL_RETRIEVED:
            _divide_by_retrieved(gains, top, cuts, rules.discount, query, out)
        else:
            _divide_by_ideal(best, cuts, rules.discount, query, out)


@_compiled
def first_uncovered(full, full_starts, relevance, starts):
    """The first query whose list holds a positive relevance more often than `full` does, or -1."""
    for query in range(len(starts) - 1):
        known = np.sort(full[full_starts[query] : full_starts[query + 1]])
        held = np.sort(relevance[starts[query] : starts[query + 1]])
        other = len(known) - 1
        for row in range(len(held) - 1, -1, -1):
            if held[row] <= 0:
                break
            while other >= 0 and known[other] > held[row]:
                other -= 1
            if other < 0 or known[other] < held[row]:
                return query
            other -= 1
    return -1
