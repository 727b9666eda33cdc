"""Ranked lists beside judgements: what the one has and the other lacks is settled by an explicit policy each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from features.columns import ITEM, QUERY, RELEVANCE, SCORE
from features.errors import ConfigError, DataError
from pipeline.metrics import Convention
from pipeline.metrics.arrays import EXACT
from pipeline.readymade import read_rows
from pipeline.trec import read_qrels, read_run

Ints = npt.NDArray[np.int64]

TABLES = (".parquet", ".csv")

CHOICES = {
    "missing": ("zero", "skip", "error"),
    "extra": ("skip", "error"),
    "unjudged": ("zero", "skip", "error"),
    "duplicates": ("error", "first"),
}


@dataclass(frozen=True)
class Policies:
    """What counts how where a run and its judgements do not cover each other.

    missing: judged queries that the run lacks: "zero" counts them as lists that retrieved nothing, "skip" leaves them
        out, "error" refuses them. extra: queries of the run that nobody judged: "skip" or "error".
    unjudged: items of the run without a judgement: "zero" counts them as not relevant, "skip" takes them out and closes
        the gaps (condensed lists), "error" refuses them.
    duplicates: items that stand twice in one query: "error", or "first": the best place of a run, the first judgement.
    """

    missing: str = "zero"
    extra: str = "skip"
    unjudged: str = "zero"
    duplicates: str = "error"

    def __post_init__(self) -> None:
        for name, choices in CHOICES.items():
            if getattr(self, name) not in choices:
                raise ConfigError(
                    f"{name} is {getattr(self, name)!r}", expected=f"one of {', '.join(choices)}", fix="choose one"
                )


@dataclass(frozen=True)
class JudgedRun:
    """Queries by id, their rows in the order of the input (under trec_eval by item), and all that is judged.

    rows: query, item, score, relevance (0 where nobody judged it) and judged. sizes: (Q,) rows of each query.
    known: query, item, relevance of all judged items, retrieved or not, in the order of `queries`; known_sizes: (Q,).
    absent: judged queries without any row, with `relevant`, how many relevant items they miss.
    counts: what each policy met with.
    """

    queries: pl.Series
    rows: pl.DataFrame
    sizes: Ints
    known: pl.DataFrame
    known_sizes: Ints
    absent: pl.DataFrame
    counts: Mapping[str, int] = field(default_factory=dict)


def read_judged(truth: Path, run: Path | None) -> tuple[pl.DataFrame, pl.DataFrame]:
    """(judgements, run): TREC files, or tables with query, item and relevance, and with query, item and score.

    One table may hold all four: a null score is an item not retrieved, a null relevance one that nobody judged.
    """
    if run is None:
        table = _read_table(truth, (RELEVANCE, SCORE))
        return table.filter(pl.col(RELEVANCE).is_not_null()), table.filter(pl.col(SCORE).is_not_null())
    judgements = _read_table(truth, (RELEVANCE,)) if _is_table(truth) else read_qrels(truth)
    ranked = _read_table(run, (SCORE,)) if _is_table(run) else read_run(run)
    return _same_ids(judgements, ranked)


def judge_run(judgements: pl.DataFrame, run: pl.DataFrame, policies: Policies, convention: Convention) -> JudgedRun:
    """Raises DataError for what a policy refuses, and for numbers that the convention cannot take."""
    as_trec = convention == Convention.named("trec_eval")
    judgements = _checked(judgements.select(QUERY, ITEM, RELEVANCE), RELEVANCE, convention)
    run = _checked(run.select(QUERY, ITEM, SCORE), SCORE, convention)
    _check_range(run, as_trec=as_trec)
    if as_trec:
        run = run.with_columns(pl.col(SCORE).cast(pl.Float32))
    judgements, repeated = _without_duplicates(judgements, policies, "judgements", best=None)
    run, again = _without_duplicates(run, policies, "the run", best=SCORE)
    queries = judgements[QUERY].unique().sort()
    retrieved = run[QUERY].unique()
    extra = retrieved.filter(~retrieved.is_in(queries.implode()))
    missing = queries.filter(~queries.is_in(retrieved.implode()))
    _refuse(policies.extra, len(extra), f"query {_first(extra)} of the run has no judgement", "--extra skip")
    _refuse(policies.missing, len(missing), f"the run lacks the judged query {_first(missing)}", "--missing zero")
    rows = run.join(judgements, on=[QUERY, ITEM], how="left", maintain_order="left")
    rows = rows.filter(pl.col(QUERY).is_in(queries.implode())).sort(
        QUERY, *([ITEM] if as_trec else []), maintain_order=True
    )
    unjudged = int(rows[RELEVANCE].null_count())
    rows = _settle_unjudged(rows, policies)
    if policies.missing == "skip":
        queries = queries.filter(queries.is_in(retrieved.implode()))
    counts = {
        "judged queries": judgements[QUERY].n_unique(),
        "missing": len(missing),
        "extra": len(extra),
        "unjudged": unjudged,
        "duplicates": repeated + again,
    }
    return _assembled(rows, judgements, queries, convention, counts)


def _assembled(
    rows: pl.DataFrame, judgements: pl.DataFrame, queries: pl.Series, convention: Convention, counts: dict[str, int]
) -> JudgedRun:
    present = queries.filter(queries.is_in(rows[QUERY].unique().implode()))
    worthless = sum(gain == 0 for gain in convention.gain) - 1 if isinstance(convention.gain, tuple) else 0
    relevant = judgements.group_by(QUERY).agg((pl.col(RELEVANCE) > worthless).sum().cast(pl.Int64).alias("relevant"))
    absent = queries.filter(~queries.is_in(present.implode())).to_frame().join(relevant, on=QUERY, how="left")
    known = judgements.filter(pl.col(QUERY).is_in(present.implode())).sort(QUERY, maintain_order=True)
    return JudgedRun(present, rows, _sizes(rows), known, _sizes(known), absent.sort(QUERY), counts)


def _sizes(frame: pl.DataFrame) -> Ints:
    return frame[QUERY].rle().struct.field("len").to_numpy().astype(np.int64)


def _is_table(path: Path) -> bool:
    return any(suffix in TABLES for suffix in path.suffixes)


def _read_table(path: Path, columns: tuple[str, ...]) -> pl.DataFrame:
    frame = read_rows(path, {}, required=(QUERY, ITEM, *columns))
    text = [name for name in columns if not frame[name].dtype.is_numeric()]
    if text:
        raise DataError(
            f"{text[0]} of {path} is {frame[text[0]].dtype}", expected="numbers", fix="write the column as numbers"
        )
    return frame.select(QUERY, ITEM, *columns)


def _same_ids(judgements: pl.DataFrame, run: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Ids as text where one side has text and the other numbers."""
    for name in (QUERY, ITEM):
        if judgements[name].dtype != run[name].dtype:
            judgements, run = (frame.with_columns(pl.col(name).cast(pl.String)) for frame in (judgements, run))
    return judgements, run


def _checked(frame: pl.DataFrame, name: str, convention: Convention) -> pl.DataFrame:
    value = pl.col(name)
    strange = value.is_null() | ~value.cast(pl.Float64).is_finite()
    if name == RELEVANCE and convention.negative == "refuse":
        strange = strange | (value < 0)
    faults = frame.filter(strange)
    if not faults.height:
        return frame
    query, item, number = faults.row(0)
    expected = "numbers that are not negative" if name == RELEVANCE else "finite numbers"
    raise DataError(
        f"{name} {number} of item {item} in query {query} ({faults.height} such rows)",
        expected=expected,
        fix="correct it, or take --convention trec_eval, which counts negative relevance as 0"
        if isinstance(number, int | float) and number < 0
        else "correct or drop these rows",
    )


def _check_range(run: pl.DataFrame, *, as_trec: bool) -> None:
    """Scores must fit the type they are ranked by: float32 as in trec_eval, else float64, which integers can exceed."""
    score = pl.col(SCORE)
    if as_trec:
        lost, holder = score.cast(pl.Float32).is_infinite(), "numbers that the float32 of trec_eval can hold"
    elif run[SCORE].dtype.is_integer():
        lost, holder = (score > EXACT) | (score < -EXACT), "whole numbers up to 2^53, or fractions"
    else:
        return
    faults = run.filter(lost)
    if faults.height:
        query, item, number = faults.row(0)
        raise DataError(
            f"score {number} of item {item} in query {query} ({faults.height} such rows)",
            expected=holder,
            fix="scale the scores" + (", or take another convention" if as_trec else ""),
        )


def _without_duplicates(
    frame: pl.DataFrame, policies: Policies, what: str, *, best: str | None
) -> tuple[pl.DataFrame, int]:
    keys = frame.select(QUERY, ITEM)
    twice = keys.is_duplicated()
    surplus = frame.height - keys.n_unique()
    if surplus and policies.duplicates == "error":
        query, item = keys.filter(twice).row(0)
        raise DataError(
            f"{what} hold item {item} of query {query} twice ({surplus} such rows)",
            expected="each item of a query once",
            fix="drop them, or take --duplicates first",
        )
    if not surplus:
        return frame, 0
    numbered = frame.with_row_index("row")
    ordered = numbered if best is None else numbered.sort(best, descending=True, maintain_order=True)
    return ordered.unique([QUERY, ITEM], keep="first", maintain_order=True).sort("row").drop("row"), surplus


def _settle_unjudged(rows: pl.DataFrame, policies: Policies) -> pl.DataFrame:
    unknown = rows.filter(pl.col(RELEVANCE).is_null())
    if unknown.height:
        query, item, *_ = unknown.row(0)
        _refuse(policies.unjudged, unknown.height, f"item {item} of query {query} is not judged", "--unjudged zero")
    rows = rows.with_columns(pl.col(RELEVANCE).is_not_null().alias("judged"))
    if policies.unjudged == "skip":
        return rows.filter("judged")
    return rows.with_columns(pl.col(RELEVANCE).fill_null(0))


def _refuse(policy: str, count: int, found: str, remedy: str) -> None:
    if policy == "error" and count:
        raise DataError(
            f"{found} ({count} such)", expected="none, as asked for", fix=f"mend the files, or take {remedy}"
        )


def _first(queries: pl.Series) -> Any:
    return queries.sort()[0] if len(queries) else None
