"""What comes in from outside: arrays are checked once, here, and every fault names its index."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline.metrics.conventions import MAX_GAIN, MAX_GRADE, Convention, check_convention

Array = npt.NDArray[Any]
Ints = npt.NDArray[np.int64]
Cuts = int | Sequence[int | None] | None
Ragged = tuple[npt.ArrayLike, npt.ArrayLike]
"""(values, sizes): the values of all queries end to end, and how many belong to each."""

EXACT = 2**53
"""All whole numbers up to here are float64 too."""

_RELEVANCE_TYPES = {
    np.dtype(kept): np.dtype(used)
    for used, keeps in {
        np.int32: (np.bool_, np.int8, np.uint8, np.int16, np.uint16, np.int32),
        np.int64: (np.uint32, np.uint64, np.int64),
        np.float32: (np.float16, np.float32),
        np.float64: (np.float64,),
    }.items()
    for kept in keeps
}


def as_scores(scores: npt.ArrayLike, name: str = "scores") -> Array:
    """(N,) numbers -> contiguous float32 or float64, without a copy where it already is; other types become float64.

    Raises ValueError for integers beyond 2^53, which could become ties.
    """
    values = _one_dimensional(scores, name)
    if values.dtype.kind in "iu":
        beyond = (values > EXACT) | (values < -EXACT)
        if beyond.any():
            index = int(beyond.argmax())
            raise ValueError(f"{name}[{index}] is {values[index]}; float64 holds whole numbers only up to 2^53")
    wanted = np.float32 if values.dtype in (np.float16, np.float32) else np.float64
    return np.ascontiguousarray(values, dtype=wanted)


def as_relevance(relevance: npt.ArrayLike, name: str = "relevance") -> Array:
    """(N,) numbers -> contiguous int32, int64, float32 or float64, the nearest that holds them."""
    values = _one_dimensional(relevance, name)
    if values.dtype == np.uint64 and values.size and values.max() > np.iinfo(np.int64).max:
        raise ValueError(f"{name}[{int(values.argmax())}] is {values.max()}, too large for a relevance")
    return np.ascontiguousarray(values, dtype=_RELEVANCE_TYPES.get(values.dtype, np.dtype(np.float64)))


def as_starts(groups: npt.ArrayLike, rows: int, *, name: str = "groups", smallest: int = 1) -> Ints:
    """Sizes of Q queries -> the (Q + 1,) rows at which they start; the sizes must sum to `rows`."""
    sizes = np.asarray(groups)
    if sizes.ndim != 1:
        raise ValueError(f"{name} has {sizes.ndim} dimensions; expected one size per query")
    if not sizes.size:
        raise ValueError(f"{name} is empty; expected one size per query")
    if sizes.dtype.kind not in "iu":
        raise ValueError(f"{name} holds {sizes.dtype}; expected integer sizes of queries")
    too_small = sizes < smallest
    if too_small.any():
        index = int(too_small.argmax())
        raise ValueError(f"{name}[{index}] is {sizes[index]}; a query has at least {smallest} rows")
    if sizes.max() > rows or int(sizes.sum(dtype=np.int64)) != rows:
        total = sum(int(size) for size in sizes)
        raise ValueError(f"{name} sum to {total}, but there are {rows} rows; sizes are expected, not ids of queries")
    starts = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=starts[1:])
    return starts


def as_lists(scores: npt.ArrayLike, relevance: npt.ArrayLike, groups: npt.ArrayLike) -> tuple[Array, Array, Ints]:
    """(N,) scores, (N,) relevance, and the rows at which the Q queries of `groups` start."""
    score, truth = as_scores(scores), as_relevance(relevance)
    if len(score) != len(truth):
        raise ValueError(f"there are {len(score)} scores and {len(truth)} relevances")
    return score, truth, as_starts(groups, len(score))


def as_cuts(k: Cuts, longest: int) -> tuple[Ints, bool]:
    """Cut-offs -> ((C,) int64 in the order given, whether k was a sequence). None means no cut: the longest list."""
    given, several = listed_cuts(k)
    if not given:
        raise ValueError("k is empty; expected at least one cut-off")
    return np.array([_one_cut(cut, longest) for cut in given], np.int64), several


def listed_cuts(k: Any) -> tuple[list[Any], bool]:
    """The cut-offs as they were given, and whether k was a sequence."""
    return (list(k), True) if np.ndim(k) else ([k], False)


def check_single(k: Any) -> None:
    """Raise ValueError for several cut-offs where one value is asked for."""
    if np.ndim(k):
        raise ValueError(f"k is {k!r}; expected one cut-off, or None")


def as_ids(values: npt.ArrayLike, name: str) -> Array:
    """Ids that can be compared -> an array. Raises ValueError for None, naming its index, and for mixed types."""
    ids = np.asarray(values)
    if ids.dtype.kind == "O":
        for index, value in enumerate(ids.ravel()):
            if value is None:
                raise ValueError(f"{name}[{index}] is None; expected an id, one of its own where there is none")
            if type(value) is not type(ids.flat[0]):
                raise ValueError(f"{name}[{index}] is {value!r}; expected ids of one type")
    return ids


def check_finite(values: Array, name: str) -> None:
    """Raise ValueError naming the first entry that is NaN or infinite."""
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        index = int(np.argmin(np.isfinite(values)))
        raise ValueError(f"{name}[{index}] is {values[index]}; expected a finite number")


def check_relevance(values: Array, convention: Convention, name: str = "relevance") -> None:
    """Raise ValueError naming the first relevance that is not finite, negative (where refused) or beyond the gains."""
    check_convention(convention)
    check_finite(values, name)
    if not values.size:
        return
    if convention.negative == "refuse" and values.min() < 0:
        index = int(np.argmax(values < 0))
        raise ValueError(f"{name}[{index}] is {values[index]}; relevance must not be negative")
    limit = largest_relevance(convention)
    if values.max() > limit:
        index = int(np.argmax(values > limit))
        raise ValueError(f"{name}[{index}] is {values[index]}; the gains end at {limit:g}")
    if isinstance(convention.gain, tuple) and values.dtype.kind == "f" and (values != np.floor(values)).any():
        index = int(np.argmax(values != np.floor(values)))
        raise ValueError(f"{name}[{index}] is {values[index]}; a table of gains takes whole grades only")


def full_relevance(ideal: Ragged | None, relevance: Array, starts: Ints, convention: Convention) -> tuple[Array, Ints]:
    """The relevances of all known items; none where no `ideal` is given."""
    if ideal is None:
        return relevance[:0], np.zeros(len(starts), np.int64)
    if not isinstance(ideal, tuple | list) or len(ideal) != 2:
        raise ValueError("ideal is no pair; expected (values, sizes of queries)")
    values, sizes = ideal
    full = as_relevance(values, "ideal")
    full_starts = as_starts(sizes, len(full), name="sizes of ideal", smallest=0)
    if len(full_starts) != len(starts):
        raise ValueError(f"ideal has {len(full_starts) - 1} queries, groups has {len(starts) - 1}")
    check_relevance(full, convention, "ideal")
    _check_cover(full, full_starts, relevance, starts)
    return full, full_starts


def _check_cover(full: Array, full_starts: Ints, relevance: Array, starts: Ints) -> None:
    """Every positive relevance of a list must be among those of its ideal, as often as in the list."""
    narrow = np.float32 if np.float32 in (full.dtype, relevance.dtype) else np.float64
    values = np.concatenate([relevance, full]).astype(narrow)
    queries = np.concatenate([_query_of_rows(starts), _query_of_rows(full_starts)])
    surplus = np.repeat([1, -1], [len(relevance), len(full)])
    order = np.lexsort((values, queries))
    values, queries, surplus = values[order], queries[order], surplus[order]
    firsts = np.flatnonzero(np.r_[True, (np.diff(values) != 0) | (np.diff(queries) != 0)])
    lacking = (np.add.reduceat(surplus, firsts) > 0) & (values[firsts].astype(np.float64) > 0)
    if lacking.any():
        first = firsts[lacking.argmax()]
        raise ValueError(
            f"ideal of query {queries[first]} has too few items of relevance {values[first]:g}; it must cover the list"
        )


def _query_of_rows(starts: Ints) -> Ints:
    return np.repeat(np.arange(len(starts) - 1), np.diff(starts))


def largest_relevance(convention: Convention) -> float:
    """The largest relevance that has a gain."""
    if isinstance(convention.gain, tuple):
        return len(convention.gain) - 1
    return MAX_GRADE if convention.gain == "exp2" else MAX_GAIN


def _one_dimensional(values: npt.ArrayLike, name: str) -> Array:
    array = np.asarray(values)
    if array.ndim != 1:
        raise ValueError(f"{name} has {array.ndim} dimensions; expected one")
    if not array.size:
        return array.astype(np.float64)
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{name} holds {array.dtype}; expected numbers")
    return array


def _one_cut(k: Any, longest: int) -> int:
    if k is None:
        return max(longest, 1)
    if isinstance(k, bool):
        raise ValueError("k is a bool; expected a whole number of at least 1, or None")
    try:
        cut = operator.index(k)
    except TypeError:
        raise ValueError(f"k is {k!r}; expected a whole number of at least 1, or None") from None
    if cut < 1:
        raise ValueError(f"k is {cut}; expected at least 1")
    if cut > np.iinfo(np.int64).max:
        raise ValueError("k is above 2^63 - 1; expected None for the whole list")
    return min(cut, max(longest, 1))
