"""What stands over a table of per-query values: means, and in sentences what they rest on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from features.columns import QUERY, RELEVANCE, SCORE
from pipeline.evaluate import convert_empty
from pipeline.judgements import JudgedRun
from pipeline.metrics import Convention
from pipeline.reductions import (
    MIN_RELEVANT,
    Interval,
    bootstrap_interval,
    mean,
    relevant_per_query,
    share_of_ties,
    trivial_queries,
)

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

MOST_TRIVIAL = 0.2
"""A larger share of queries that score 1 anyway draws a warning."""


@dataclass(frozen=True)
class Summary:
    """Means by metric, intervals of NDCG, and sentences to read beside them."""

    ks: tuple[int, ...]
    means: Mapping[str, float | None]
    intervals: Mapping[str, Interval]
    sentences: tuple[str, ...]


def summarise(judged: JudgedRun, values: pl.DataFrame, ks: Sequence[int], convention: Convention) -> Summary:
    """The means of `measure_run`, and in sentences how many queries are behind them and what others would count."""
    columns = {name: values[name].fill_null(np.nan).to_numpy() for name in values.columns if name != QUERY}
    means = {name: mean(column) for name, column in columns.items()}
    intervals = {name: bootstrap_interval(columns[name]) for name in (*(f"ndcg@{k}" for k in ks), "ndcg")}
    sentences = [
        _counted(judged, intervals[f"ndcg@{ks[0]}"].n, convention),
        _tied(judged, ks[0]),
        _empty_otherwise(judged, means[f"ndcg@{ks[0]}"], ks[0], convention),
        _without_absent(judged, columns[f"ndcg@{ks[0]}"], ks[0]),
    ]
    return Summary(tuple(ks), means, intervals, tuple(sentence for sentence in sentences if sentence))


def _relevant(judged: JudgedRun, convention: Convention) -> Ints:
    """(Q,) relevant items of every query, those without rows at the end."""
    present = np.zeros(0, np.int64)
    if len(judged.queries):
        present = relevant_per_query(judged.known[RELEVANCE].to_numpy(), judged.known_sizes, gain=convention.gain)
    return np.concatenate([present, judged.absent["relevant"].to_numpy()])


def _counted(judged: JudgedRun, with_value: int, convention: Convention) -> str:
    relevant = _relevant(judged, convention)
    empty, thin = int((relevant == 0).sum()), int((relevant < MIN_RELEVANT).sum())
    trivial = _trivial(judged, relevant, convention)
    alarm = " Warning: they lift the mean of any ranking." if trivial > MOST_TRIVIAL * len(relevant) else ""
    return (
        f"{with_value} of {len(relevant)} queries have a value; {empty} have no relevant item, "
        f"{thin} have fewer than {MIN_RELEVANT}, {trivial} score 1 however they are ranked.{alarm}"
    )


def _trivial(judged: JudgedRun, relevant: Ints, convention: Convention) -> int:
    """Queries whose items are all equally relevant, and, where the ideal holds more, all there are."""
    if not judged.rows.height:
        return 0
    relevance = judged.rows[RELEVANCE].to_numpy()
    trivial = trivial_queries(relevance, judged.sizes, gain=convention.gain)
    whole = judged.sizes == relevant[: len(judged.sizes)]
    return int((trivial & (whole | (convention.ideal != "all"))).sum())


def _tied(judged: JudgedRun, k: int) -> str:
    if not judged.rows.height:
        return ""
    tied = share_of_ties(judged.rows[SCORE].to_numpy(), judged.sizes, k)
    return f"{tied:.1%} of the first {k} places share their score with another item."


def _empty_otherwise(judged: JudgedRun, value: float | None, k: int, convention: Convention) -> str:
    share = float((_relevant(judged, convention) == 0).mean())
    if not 0 < share < 1 or value is None:
        return ""
    others = ", ".join(
        f"{convert_empty(value, share, given=convention.empty, wanted=wanted):.4f} {words}"
        for wanted, words in (("skip", "left out"), ("zero", "counting 0"), ("one", "counting 1"))
        if wanted != convention.empty
    )
    return f"Queries without a relevant item otherwise: ndcg@{k} {others}."


def _without_absent(judged: JudgedRun, values: Floats, k: int) -> str:
    if not judged.absent.height:
        return ""
    without = mean(values[: len(judged.queries)])
    shown = "without a value" if without is None else f"{without:.4f}"
    return f"Without the {judged.absent.height} queries that retrieved nothing ndcg@{k} is {shown}."
