"""Rankings judged per query: of runs beside judgements, and of tables larger than memory.

What a number is (the convention), what it is made of (`explain`), and what it would be under another convention
(`convert_empty`, `means_by_convention`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from features.columns import ITEM, POSITION, QUERY, RELEVANCE, SCORE
from features.errors import ConfigError, DataError
from features.hashing import hash_ids, unit_interval
from pipeline.judgements import JudgedRun
from pipeline.metrics import (
    PRESETS,
    Convention,
    average_precision_per_query,
    discount_values,
    err_per_query,
    gain_values,
    hit_rate_per_query,
    judged_per_query,
    ndcg_per_query,
    nerr_per_query,
    precision_per_query,
    recall_per_query,
    reciprocal_rank_per_query,
)
from pipeline.metrics.conventions import EMPTY_VALUES, MAX_GRADE
from pipeline.metrics.measures import rank_lists
from pipeline.reductions import (
    Interval,
    bootstrap_interval,
    mean,
)

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

ROWS_AT_ONCE = 5_000_000

MOST_DIGITS = 18
"""A longer cut-off may not be an int64."""

AT_CUTS: Mapping[str, Callable[..., Floats]] = {
    "precision": precision_per_query,
    "recall": recall_per_query,
    "hit_rate": hit_rate_per_query,
}
GRADED: Mapping[str, Callable[..., Floats]] = {"err": err_per_query, "nerr": nerr_per_query}
"""What a reader does who stops at a good item: measured where the highest grade of the scale is given."""

UNCUT: Mapping[str, Callable[..., Floats]] = {
    "average_precision": average_precision_per_query,
    "reciprocal_rank": reciprocal_rank_per_query,
}


@dataclass(frozen=True)
class Explanation:
    """One query's NDCG@k, term by term.

    `ranking` and `ideal` have a row per position: item, score (ranking only), relevance, gain, discount, term and the
    sum of the terms so far. Under ties="average" each of several tied items shows the mean gain of them.
    """

    query: Any
    k: int
    value: float
    ranking: pl.DataFrame
    ideal: pl.DataFrame


@dataclass(frozen=True)
class Estimate:
    """NDCG of a large table: per_query (query, then "ndcg@k" each), intervals by name, and what was looked at.

    queries: all of the table; looked_at: those evaluated, a random part unless it is all.
    """

    per_query: pl.DataFrame
    intervals: Mapping[str, Interval]
    queries: int
    looked_at: int


def cutoffs_from(text: str) -> list[int]:
    """ "5,10" -> [5, 10]. Raises ConfigError."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and len(part) <= MOST_DIGITS and int(part) > 0 for part in parts):
        raise ConfigError(
            f"--k is {text[:80]!r}",
            expected=f"whole numbers of at least 1 and at most {MOST_DIGITS} digits, such as 5,10",
            fix="write it so",
        )
    return list(dict.fromkeys(int(part) for part in parts))


def convention_from(name: str | None, by_hand: Mapping[str, str | None]) -> Convention:
    """A preset, or ours, with what was set by hand in its place; tables are written 0,1,3. Raises ConfigError."""
    given: dict[str, Any] = {field: _name_or_table(text) for field, text in by_hand.items() if text is not None}
    try:
        preset = Convention() if name is None else Convention.named(name)
        return replace(preset, **given)
    except ValueError as error:
        raise ConfigError(str(error), expected="a convention that exists", fix="correct the option") from error


def _name_or_table(text: str) -> str | tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        return text


def measure_run(
    judged: JudgedRun,
    ks: Sequence[int],
    convention: Convention,
    *,
    relevant_from: float | None = None,
    max_grade: float | None = None,
) -> pl.DataFrame:
    """query, ndcg@k for each k and uncut, and the binary measures; null where a query has no value.

    With `max_grade`, the highest grade of the scale, ERR and nERR too. Queries without rows come last: 0 where they
    have a relevant item to miss, else what empty ones count. Raises DataError for relevance that the convention has no
    gain for or that is above `max_grade`, ConfigError for a `relevant_from` or `max_grade` that cannot be.
    """
    if relevant_from is not None and not 0 < relevant_from < math.inf:
        raise ConfigError(
            f"the lowest relevant grade is {relevant_from}",
            expected="a finite number above 0, for what nobody judged counts 0",
            fix="choose another",
        )
    if max_grade is not None and not 0 < max_grade <= MAX_GRADE:
        raise ConfigError(
            f"the highest grade is {max_grade}",
            expected=f"a number above 0, up to {MAX_GRADE:g}",
            fix="give the highest grade of the scale",
        )
    columns = {}
    if len(judged.queries):
        try:
            columns = _measured(judged, list(ks), convention, relevant_from)
            columns |= dict(_graded(judged, list(ks), convention, max_grade))
        except ValueError as error:
            raise DataError(
                str(error),
                expected="relevance that the convention and the scale have a place for",
                fix="choose another gain or highest grade",
            ) from error
    names = list(columns) or _names(ks, graded=max_grade is not None)
    present = pl.DataFrame({QUERY: judged.queries, **{name: columns.get(name, []) for name in names}})
    lost = pl.when(pl.col("relevant") > 0).then(0.0).otherwise(convention.empty_value)
    nothing = {name: lost if not name.startswith("judged") else pl.lit(None, pl.Float64) for name in names}
    absent = judged.absent.select(QUERY, **nothing)
    return pl.concat([present, absent], how="vertical_relaxed").fill_nan(None)


def _names(ks: Sequence[int], *, graded: bool) -> list[str]:
    cut = [f"{name}@{k}" for name in ("ndcg", *AT_CUTS, "judged") for k in ks]
    return [*cut, "ndcg", *UNCUT, *(f"{name}@{k}" for name in GRADED if graded for k in ks)]


def _measured(
    judged: JudgedRun, ks: list[int], convention: Convention, relevant_from: float | None
) -> dict[str, Floats]:
    scores, relevance = judged.rows[SCORE].to_numpy(), judged.rows[RELEVANCE].to_numpy()
    known = (judged.known[RELEVANCE].to_numpy(), judged.known_sizes)
    cuts: list[int | None] = [*ks, None]
    ndcg = ndcg_per_query(scores, relevance, judged.sizes, cuts, convention=convention, ideal=known)
    found = {f"ndcg@{k}": ndcg[i] for i, k in enumerate(ks)}
    options: dict[str, Any] = {"convention": convention, "relevant_from": relevant_from, "ideal": known}
    for name, measure in AT_CUTS.items():
        values = measure(scores, relevance, judged.sizes, ks, **options)
        found |= {f"{name}@{k}": values[i] for i, k in enumerate(ks)}
    known_items = judged_per_query(scores, judged.rows["judged"].to_numpy(), judged.sizes, ks, ties=convention.ties)
    found |= {f"judged@{k}": known_items[i] for i, k in enumerate(ks)}
    found["ndcg"] = ndcg[-1]
    return found | {name: measure(scores, relevance, judged.sizes, **options) for name, measure in UNCUT.items()}


def _graded(
    judged: JudgedRun, ks: list[int], convention: Convention, max_grade: float | None
) -> Iterator[tuple[str, Floats]]:
    if max_grade is None:
        return
    scores, relevance = judged.rows[SCORE].to_numpy(), judged.rows[RELEVANCE].to_numpy()
    known = (judged.known[RELEVANCE].to_numpy(), judged.known_sizes)
    for name, measure in GRADED.items():
        values = measure(scores, relevance, judged.sizes, ks, max_grade=max_grade, convention=convention, ideal=known)
        yield from ((f"{name}@{k}", row) for k, row in zip(ks, values, strict=True))


def explain(judged: JudgedRun, query: object, k: int, convention: Convention) -> Explanation:
    """The terms of one query's NDCG@k and of its ideal, so that it can be checked by hand. DataError: no rows of it."""
    rows = judged.rows.filter(pl.col(QUERY).cast(pl.String) == str(query))
    if not rows.height:
        lacking = str(query) in judged.absent[QUERY].cast(pl.String)
        found = f"query {query!r} is judged, but the run lacks it" if lacking else f"no query {query!r} with rows"
        raise DataError(found, expected=f"one of {judged.queries[:5].to_list()} ...", fix="check its id")
    known = judged.known.filter(pl.col(QUERY) == rows[QUERY][0])
    full = (known[RELEVANCE].to_numpy(), [known.height])
    scores, relevance = rows[SCORE].to_numpy(), rows[RELEVANCE].to_numpy()
    value = ndcg_per_query(scores, relevance, [rows.height], k, convention=convention, ideal=full)[0]
    lists = rank_lists(scores, [rows.height], None, ties=convention.ties, values=relevance)
    ranked = rows[lists.order]
    gains = gain_values(convention, ranked[RELEVANCE].to_numpy())
    block = np.searchsorted(np.unique(lists.ends), lists.ends)
    ranked = ranked.with_columns(gain=(np.bincount(block, gains) / np.bincount(block))[block]).head(k)
    pool = {"candidates": rows, "retrieved": ranked, "all": known}[convention.ideal]
    best = pool.sort(RELEVANCE, descending=True, maintain_order=True).head(k)
    best = best.with_columns(gain=gain_values(convention, best[RELEVANCE].to_numpy()))
    return Explanation(
        rows[QUERY][0], k, float(value), _terms(ranked, convention), _terms(best.drop(SCORE, strict=False), convention)
    )


def _terms(frame: pl.DataFrame, convention: Convention) -> pl.DataFrame:
    discounts = pl.Series("discount", discount_values(convention.discount, frame.height))
    return (
        frame.with_columns(discounts, pl.int_range(1, frame.height + 1).alias(POSITION))
        .with_columns(term=pl.col("gain") * pl.col("discount"))
        .with_columns(sum=pl.col("term").cum_sum())
        .select(POSITION, ITEM, pl.col(f"^{SCORE}$"), RELEVANCE, "gain", "discount", "term", "sum")
    )


def convert_empty(value: float, share_empty: float, *, given: str, wanted: str) -> float:
    """A mean NDCG in which empty queries counted as `given`, as it is when they count as `wanted`.

    given, wanted: "skip" (left out), "zero" or "one"; share_empty: of all queries, in [0, 1).
    0.524 from LightGBM ("one") with 3 % empty queries is 0.509 when they are left out.
    """
    for name in (given, wanted):
        if name not in EMPTY_VALUES:
            raise ValueError(f"empty queries cannot count as {name!r}; expected one of {', '.join(EMPTY_VALUES)}")
    if not 0 <= share_empty < 1:
        raise ValueError(f"share_empty is {share_empty}; expected a share in [0, 1)")
    weight = 1 - share_empty
    left_out = value if given == "skip" else (value - share_empty * EMPTY_VALUES[given]) / weight
    if not -1e-12 <= left_out <= 1 + 1e-12:
        raise ValueError(f"a mean of {value} is not possible with {share_empty:.1%} empty queries counting {given}")
    return left_out if wanted == "skip" else weight * left_out + share_empty * EMPTY_VALUES[wanted]


def means_by_convention(
    scores: npt.ArrayLike,
    relevance: npt.ArrayLike,
    groups: npt.ArrayLike,
    k: int | None,
    conventions: Mapping[str, Convention] = PRESETS,
) -> dict[str, float | None]:
    """The same ranking under each convention: mean NDCG@k by name; None where no query has a value."""
    return {
        name: mean(ndcg_per_query(scores, relevance, groups, k, convention=convention))
        for name, convention in conventions.items()
    }


def evaluate_frame(
    source: pl.LazyFrame | pl.DataFrame | Path,
    ks: Sequence[int],
    *,
    convention: Convention,
    sample: float = 1.0,
    width: float | None = None,
    clusters: str | None = None,
    rows_at_once: int = ROWS_AT_ONCE,
    threads: int = 1,
    seed: int = 0,
) -> Estimate:
    """NDCG@k of a table with query, score and relevance that need not fit into memory, its rows in any order.

    Queries are dealt into random parts by a hash of their id, and one part is in memory at a time.
    sample: evaluate only about this share of the queries. width: stop after a part when the interval of the first k is
    narrower. clusters: a column, the same for all rows of a query (its user), by which the bootstrap draws.
    Whole queries only are left out: looking at a random part of a list would be biased.
    """
    lazy = _as_lazy(source)
    columns = [QUERY, SCORE, RELEVANCE, *([clusters] if clusters else [])]
    absent = [name for name in columns if name not in _names_in(lazy)]
    if absent:
        raise DataError(f"no column {', '.join(absent)}", expected=", ".join(columns), fix="add or rename it")
    if not 0 < sample <= 1:
        raise DataError(f"sample is {sample}", expected="a share above 0, at most 1", fix="choose another")
    total = int(lazy.select(pl.col(QUERY).n_unique()).collect(engine="streaming").item())
    found: list[pl.DataFrame] = []
    intervals: dict[str, Interval] = {}
    for part in _parts(lazy.select(columns), sample, rows_at_once, seed):
        found.append(_part_values(part, list(ks), convention, clusters, threads))
        intervals = _intervals(pl.concat(found), ks, clusters, seed)
        first = intervals[f"ndcg@{ks[0]}"].width
        if width is not None and first is not None and first < width:
            break
    per_query = pl.concat(found)
    return Estimate(
        per_query.select(QUERY, *(pl.col(f"ndcg@{k}").fill_nan(None) for k in ks)), intervals, total, per_query.height
    )


def _as_lazy(source: pl.LazyFrame | pl.DataFrame | Path) -> pl.LazyFrame:
    if not isinstance(source, Path):
        return source.lazy()
    if not source.is_file():
        raise DataError(f"no file {source}", expected="a Parquet or CSV file", fix="check the path")
    return pl.scan_csv(source) if ".csv" in source.suffixes else pl.scan_parquet(source)


def _names_in(lazy: pl.LazyFrame) -> list[str]:
    try:
        return lazy.collect_schema().names()
    except (pl.exceptions.PolarsError, OSError) as error:
        reason = str(error).splitlines()[0]
        raise DataError(
            f"it cannot be read: {reason}", expected="a Parquet or CSV file", fix="write it anew"
        ) from error


def _parts(lazy: pl.LazyFrame, sample: float, rows_at_once: int, seed: int) -> Iterator[pl.DataFrame]:
    """Frames of whole queries; a query's place in [0, 1) is a hash of its id."""
    rows = int(lazy.select(pl.len()).collect(engine="streaming").item())
    number = max(1, -(-int(rows * sample) // rows_at_once))
    place = pl.col(QUERY).map_batches(
        lambda ids: pl.Series(unit_interval(hash_ids(ids, seed=seed))), return_dtype=pl.Float64, is_elementwise=True
    )
    for part in range(number):
        low, high = sample * part / number, sample * (part + 1) / number
        frame = lazy.filter((place >= low) & (place < high)).collect(engine="streaming")
        if frame.height:
            yield frame.sort(QUERY, maintain_order=True)


def _part_values(
    part: pl.DataFrame, ks: list[int], convention: Convention, clusters: str | None, threads: int
) -> pl.DataFrame:
    """query, [cluster,] ndcg@k of each query of the part."""
    if part[[QUERY, SCORE, RELEVANCE]].null_count().sum_horizontal().item():
        raise DataError("null among query, score and relevance", expected="none", fix="drop or fill these rows")
    runs = part[QUERY].rle().struct.unnest()
    sizes = runs["len"].to_numpy().astype(np.int64)
    try:
        values = ndcg_per_query(
            part[SCORE].to_numpy(), part[RELEVANCE].to_numpy(), sizes, ks, convention=convention, threads=threads
        )
    except ValueError as error:
        raise DataError(
            str(error), expected="numbers that the convention can take", fix="correct or drop these rows"
        ) from error
    named = {f"ndcg@{k}": values[i] for i, k in enumerate(ks)}
    cluster = {clusters: part[clusters].gather(np.cumsum(sizes) - sizes)} if clusters else {}
    return pl.DataFrame({QUERY: runs["value"], **cluster, **named})


def _intervals(found: pl.DataFrame, ks: Sequence[int], clusters: str | None, seed: int) -> dict[str, Interval]:
    cluster = found[clusters] if clusters else None
    return {f"ndcg@{k}": bootstrap_interval(found[f"ndcg@{k}"].to_numpy(), clusters=cluster, seed=seed) for k in ks}
