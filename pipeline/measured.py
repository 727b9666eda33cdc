"""The figures of `rankloom metrics` as a person reads them."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl
from rich.box import SIMPLE_HEAD
from rich.table import Table

from pipeline.evaluate import AT_CUTS, GRADED, UNCUT, Explanation
from pipeline.judgements import JudgedRun, Policies
from pipeline.metrics import Convention
from pipeline.summaries import Summary

NO_VALUE = "-"

SETTLED = {
    "missing": {"zero": "counted as lists that retrieved nothing", "skip": "left out", "error": "refused"},
    "extra": {"skip": "left out", "error": "refused"},
    "unjudged": {"zero": "counted as not relevant", "skip": "taken out of the lists", "error": "refused"},
    "duplicates": {"error": "refused", "first": "counted once"},
}
SUBJECTS = {
    "missing": "judged queries that the run lacks",
    "extra": "queries that nobody judged",
    "unjudged": "ranked items that nobody judged",
    "duplicates": "repeated items",
}


def measure_table(summary: Summary) -> Table:
    """A row per measure, a column per cut-off; NDCG with its 95 % interval."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("mean over queries")
    for title in (*(f"@{k}" for k in summary.ks), "whole list"):
        table.add_column(title, justify="right", no_wrap=True)
    graded = [name for name in GRADED if f"{name}@{summary.ks[0]}" in summary.means]
    for measure in ("ndcg", *graded, *AT_CUTS, *UNCUT, "judged"):
        names = [*(f"{measure}@{k}" for k in summary.ks), measure]
        table.add_row(measure, *(_cell(name, summary) for name in names), style="bold" if measure == "ndcg" else None)
    return table


def measure_caption(summary: Summary, judged: JudgedRun, convention: Convention, policies: Policies) -> str:
    """The convention in words, what the figures rest on, and each policy with what it met."""
    settled = "; ".join(
        f"{judged.counts[name]} {SUBJECTS[name]}: {words[getattr(policies, name)]}" for name, words in SETTLED.items()
    )
    return "\n".join([f"NDCG: {convention.describe()}.", *summary.sentences, f"Policies: {settled}."])


def explanation_tables(shown: Explanation) -> Iterator[Table | str]:
    """The terms of the ranking and of its ideal, and what they come to."""
    for title, frame in ((f"query {shown.query}, as ranked", shown.ranking), ("its ideal", shown.ideal)):
        yield _terms(title, frame)
    attained, attainable = shown.ranking["sum"][-1], shown.ideal["sum"][-1]
    yield f"NDCG@{shown.k} = {attained:.6f} / {attainable:.6f} = {shown.value:.6f}"


def _terms(title: str, frame: pl.DataFrame) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, title=title, title_justify="left")
    for name in frame.columns:
        table.add_column(name, justify="left" if name == "item" else "right", overflow="fold")
    for row in frame.iter_rows():
        table.add_row(*(f"{value:.6g}" if isinstance(value, float) else str(value) for value in row))
    return table


def _cell(name: str, summary: Summary) -> str:
    value = summary.means.get(name)
    if value is None:
        return NO_VALUE
    interval = summary.intervals.get(name)
    return f"{value:.4f}" if interval is None else f"{value:.4f} [{interval.low:.3f}, {interval.high:.3f}]"
