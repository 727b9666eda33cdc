"""Loops over queries, compiled by Numba for the types that they meet and cached on disk.

A query is not sorted whole where only its top counts: a first pass finds a score that enough items reach, a second
collects those, and only these few are ranked, by counting who is above whom. No branch of it is hard to predict.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pipeline.metrics.compiling import compiled, inlined

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

GAIN_LINEAR, GAIN_EXP2, GAIN_TABLE = 0, 1, 2
IDEAL_NONE, IDEAL_OWN, IDEAL_RETRIEVED, IDEAL_FULL = 0, 1, 2, 3
TIES = ("average", "stable", "reverse", "worst", "best")
TIES_AVERAGE, TIES_STABLE, TIES_REVERSE, TIES_WORST, TIES_BEST = 0, 1, 2, 3, 4

PENDING = -1.0
"""In place of an NDCG that depends on which of several tied items are returned."""

LANES = 16
"""Interleaved parts of a query whose maxima are kept; a multiple of what a vector register holds."""

MOST_COUNTED = 192
"""More items than this are sorted; fewer are ranked by comparing each with each."""
MOST_GRADES = 32
"""A table of at most so many gains has its grades counted instead of sorted."""


class Rules(NamedTuple):
    """A convention in numbers. `table` holds gains per grade (GAIN_TABLE), `discount` those of the deepest cut-off.

    Relevances outside lowest..highest are refused.
    """

    gain: int
    table: Floats
    discount: Floats
    ideal: int
    ties: int
    empty: float
    lowest: float
    highest: float


class Scratch(NamedTuple):
    """Memory of one thread, as long as its longest query (`maxima`: the lanes, `best`: the deepest cut-off)."""

    maxima: Floats
    rows: Ints
    kept: Floats
    places: Ints
    keys: Floats
    gains: Floats
    best: Floats


@compiled
def new_scratch(longest: int, deepest: int) -> Scratch:
    return Scratch(
        np.empty(lanes_for(deepest), np.float64),
        np.empty(longest + 1, np.int64),
        np.empty(longest + 1, np.float64),
        np.empty(longest, np.int64),
        np.empty(longest, np.float64),
        np.empty(longest, np.float64),
        np.empty(deepest, np.float64),
    )


@inlined
def gain_of(value: float, rules: Rules) -> float:
    if rules.gain == GAIN_TABLE:
        return float(rules.table[int(value)])
    if rules.gain == GAIN_EXP2:
        return float(np.exp2(value)) - 1.0
    return float(value)


@inlined
def is_sound(keys: Array, values: Array, rules: Rules) -> bool:
    """Whether all keys are finite, and all values finite and within the bounds."""
    strange = 0
    for row in range(len(keys)):
        strange |= not abs(keys[row]) < np.inf
    for row in range(len(values)):
        strange |= not (rules.lowest <= values[row] <= rules.highest)
    return strange == 0


@compiled
def descending_order(keys: Floats) -> Ints:
    """(n,) indices that sort the keys, highest first, equal ones in the order they have: a merge sort from below."""
    size = len(keys)
    order, spare = np.arange(size), np.empty(size, np.int64)
    width = 1
    while width < size:
        for left in range(0, size, 2 * width):
            middle, end = min(left + width, size), min(left + 2 * width, size)
            a, b = left, middle
            for place in range(left, end):
                if a < middle and (b == end or keys[order[a]] >= keys[order[b]]):
                    spare[place] = order[a]
                    a += 1
                else:
                    spare[place] = order[b]
                    b += 1
        order, spare = spare, order
        width *= 2
    return order


@compiled
def sort_descending(values: Floats) -> None:
    order = descending_order(values)
    held = values.copy()
    for place in range(len(values)):
        values[place] = held[order[place]]


@inlined
def nth_highest(values: Floats, n: int) -> float:
    """The lowest value that fewer than n others exceed."""
    if len(values) > MOST_COUNTED:
        return float(values[descending_order(values)[n - 1]])
    found = np.inf
    for item in range(len(values)):
        value, above = values[item], 0
        for other in range(len(values)):
            above += values[other] > value
        if above < n and value < found:
            found = value
    return found


@inlined
def lanes_for(top: int) -> int:
    """Half as many again as there are places: so many that few more items than these reach the limit."""
    return LANES * (top * 3 // 2 // LANES + 1)


@inlined
def reached_by(keys: Array, top: int, maxima: Floats) -> float:
    """A limit that at least `top` of the keys reach, and few more: the top-th highest of the maxima of the lanes.

    -inf where the list is too short for that to save anything.
    """
    size, width = len(keys), lanes_for(top)
    if size < 2 * width:
        return -np.inf
    for lane in range(width):
        maxima[lane] = keys[lane]
    for base in range(width, size, width):
        block = keys[base : min(base + width, size)]
        for lane in range(len(block)):
            key, highest = block[lane], maxima[lane]
            maxima[lane] = key if key > highest else highest
    return nth_highest(maxima[:width], top)


@inlined
def place_by_counting(kept: Floats, keys: Floats, places: Ints) -> None:
    """Put each kept key behind all that exceed it, and behind its equals that came before it."""
    for place in range(len(kept)):
        keys[place] = np.nan
    for item in range(len(kept)):
        key, place = kept[item], 0
        for other in range(len(kept)):
            place += kept[other] > key
        while keys[place] == key:
            place += 1
        keys[place] = key
        places[item] = place


@compiled
def place_by_sorting(kept: Floats, keys: Floats, places: Ints) -> None:
    """The same as `place_by_counting`."""
    order = descending_order(kept)
    for place in range(len(kept)):
        keys[place] = kept[order[place]]
        places[order[place]] = place


@inlined
def rank_top(keys: Array, values: Array, top: int, scratch: Scratch) -> int:
    """Fill scratch.keys and scratch.gains with the highest keys, best first, and their values.

    Returns how many these are: at least `top`, with all that equal the last of them. Equal keys in input order.
    """
    limit = reached_by(keys, top, scratch.maxima)
    rows, kept = scratch.rows, scratch.kept
    count = 0
    for row in range(len(keys)):
        rows[count] = row
        count += keys[row] >= limit
    for item in range(count):
        kept[item] = keys[rows[item]]
    place_kept(count, scratch)
    for item in range(count):
        scratch.gains[scratch.places[item]] = values[rows[item]]
    return count


@inlined
def place_kept(count: int, scratch: Scratch) -> None:
    if count > MOST_COUNTED:
        place_by_sorting(scratch.kept[:count], scratch.keys, scratch.places)
    else:
        place_by_counting(scratch.kept[:count], scratch.keys, scratch.places)


@inlined
def end_of_block(keys: Floats, place: int, count: int) -> int:
    """The place behind the last key that equals keys[place]."""
    end = place + 1
    while end < count and keys[end] == keys[place]:
        end += 1
    return end


@compiled
def settle_block(gains: Floats, start: int, end: int, ties: int) -> None:
    """Put the gains start..end-1 of tied items into the order of the rule, or the mean in place of each."""
    if ties == TIES_AVERAGE:
        total = 0.0
        for gain in gains[start:end]:
            total += gain
        gains[start:end] = total / (end - start)
        return
    if ties != TIES_REVERSE:
        sort_descending(gains[start:end])
    if ties != TIES_BEST:
        for step in range((end - start) // 2):
            gains[start + step], gains[end - 1 - step] = gains[end - 1 - step], gains[start + step]


@inlined
def fill_top_gains(keys: Array, values: Array, top: int, rules: Rules, scratch: Scratch) -> int:
    """Fill scratch.gains[:top] with the gains of the items with the highest keys, best first.

    scratch.kept holds the gains as they were before tied ones were averaged.
    Returns how many keys are known: all that equal the last of the top are among them.
    """
    count = rank_top(keys, values, top, scratch)
    needed = top if rules.ties == TIES_STABLE else end_of_block(scratch.keys, top - 1, count)
    for place in range(needed):
        scratch.gains[place] = gain_of(scratch.gains[place], rules)
        scratch.kept[place] = scratch.gains[place]
    place = needed if rules.ties == TIES_STABLE else 0
    while place < needed:
        end = end_of_block(scratch.keys, place, needed)
        if end > place + 1:
            settle_block(scratch.gains, place, end, rules.ties)
        place = end
    return count


@inlined
def fill_best_gains(values: Array, rules: Rules, scratch: Scratch) -> None:
    """Fill scratch.best with the gains of the highest values, best first, and zeros where there are no more."""
    best = scratch.best
    filled = 0
    if rules.gain == GAIN_TABLE and len(rules.table) <= MOST_GRADES:
        filled = count_best_gains(values, rules.table, best)
    elif len(values):
        filled = select_best_gains(values, rules, scratch)
    for place in range(filled, len(best)):
        best[place] = 0.0


@inlined
def count_best_gains(values: Array, table: Floats, best: Floats) -> int:
    filled, grade = 0, len(table) - 1
    while grade > 0 and filled < len(best):
        count = 0
        for row in range(len(values)):
            count += values[row] == grade
        end = min(len(best), filled + count)
        for place in range(filled, end):
            best[place] = table[grade]
        filled = end
        grade -= 1
    return filled


@compiled
def select_best_gains(values: Array, rules: Rules, scratch: Scratch) -> int:
    """Values above the limit are ranked; where they are fewer than wanted, the next ones all equal the limit."""
    wanted = min(len(scratch.best), len(values))
    limit = reached_by(values, wanted, scratch.maxima)
    count = 0
    for row in range(len(values)):
        scratch.kept[count] = values[row]
        count += values[row] > limit
    place_kept(count, scratch)
    for place in range(min(count, wanted)):
        scratch.best[place] = gain_of(scratch.keys[place], rules)
    for place in range(count, wanted):
        scratch.best[place] = gain_of(limit, rules)
    return wanted


@inlined
def write_sums(gains: Floats, top: int, cuts: Ints, discount: Floats, out: Floats) -> None:
    """out[c] = DCG at each cut-off."""
    place, total = 0, 0.0
    for c in range(len(cuts)):
        while place < min(cuts[c], top):
            total += gains[place] * discount[place]
            place += 1
        out[c] = total


@inlined
def divide_by_best(best: Floats, cuts: Ints, discount: Floats, out: Floats) -> None:
    """DCG -> NDCG; what the order of summation adds above 1 is cut off."""
    place, total = 0, 0.0
    for c in range(len(cuts)):
        while place < cuts[c]:
            total += best[place] * discount[place]
            place += 1
        out[c] = min(out[c] / total, 1.0) if out[c] > 0 else 0.0


@compiled
def divide_by_retrieved(count: int, top: int, cuts: Ints, rules: Rules, scratch: Scratch, out: Floats) -> None:
    """DCG -> NDCG against the best order of what stands above each cut-off; PENDING where ties leave that open."""
    for c in range(len(cuts)):
        end = min(cuts[c], top)
        if rules.ties == TIES_AVERAGE and end < count and scratch.keys[end] == scratch.keys[end - 1]:
            out[c] = PENDING
            continue
        returned = (scratch.kept if rules.ties == TIES_AVERAGE else scratch.gains)[:end].copy()
        sort_descending(returned)
        total = 0.0
        for place in range(end):
            total += returned[place] * rules.discount[place]
        out[c] = min(out[c] / total, 1.0) if out[c] > 0 else 0.0


@compiled
def holds_relevant(values: Array, rules: Rules) -> bool:
    highest = 0.0
    for row in range(len(values)):
        highest = max(highest, float(values[row]))
    return gain_of(highest, rules) > 0


@compiled
def ndcg_of_queries(
    scores: Array,
    relevance: Array,
    starts: Ints,
    full: Array,
    full_starts: Ints,
    cuts: Ints,
    rules: Rules,
    first: int,
    last: int,
    out: Floats,
) -> int:
    """Fill out[query, c] for the queries first..last-1, up to one that is not sound, which is returned; else -1.

    `cuts` ascend. IDEAL_NONE gives DCG. `full` holds the relevances of IDEAL_FULL, and tells under the other ideals
    whether there are relevant items beside those in the list.
    """
    longest = 1
    for query in range(first, last):
        longest = max(longest, starts[query + 1] - starts[query], full_starts[query + 1] - full_starts[query])
    scratch = new_scratch(longest, cuts[-1])
    for query in range(first, last):
        keys = scores[starts[query] : starts[query + 1]]
        values = relevance[starts[query] : starts[query + 1]]
        known = full[full_starts[query] : full_starts[query + 1]]
        if not (is_sound(keys, values, rules) and is_sound(keys[:0], known, rules)):
            return query
        top = min(cuts[-1], len(keys))
        count = fill_top_gains(keys, values, top, rules, scratch)
        write_sums(scratch.gains, top, cuts, rules.discount, out[query])
        if rules.ideal == IDEAL_NONE:
            continue
        if rules.ideal == IDEAL_RETRIEVED:
            divide_by_retrieved(count, top, cuts, rules, scratch, out[query])
            relevant = holds_relevant(values, rules)
        else:
            fill_best_gains(known if rules.ideal == IDEAL_FULL else values, rules, scratch)
            divide_by_best(scratch.best, cuts, rules.discount, out[query])
            relevant = scratch.best[0] > 0
        if not relevant and not holds_relevant(known, rules):
            out[query] = rules.empty
    return -1
