"""Results as a person reads them on a terminal or in a pipe."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from pipeline.metrics import Convention
from pipeline.results import BEST_FEATURE, MODEL

NO_VALUE = "-"


def result_table(metrics: Mapping[str, Any], part: str = "test") -> Table:
    """Rankers by ndcg@k; at the first k also the 95 % interval, and the model's lead over each rival."""
    first, *others = [f"ndcg@{k}" for k in metrics["k"]]
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("ranker")
    for title in (f"{first} [95 %]", "model ahead by [95 %]", *others):
        table.add_column(title, justify="right", no_wrap=True)
    for ranker, values in metrics[part].items():
        lead = metrics["diff"].get(ranker)
        ahead = _with_interval(lead[first], sign="+") if lead else ""
        cells = (_with_interval(values[first]), ahead, *(_rounded(values[name]["mean"]) for name in others))
        table.add_row(_ranker_name(ranker, metrics), *cells, style="bold" if ranker == MODEL else None)
    return table


def result_caption(metrics: Mapping[str, Any]) -> str:
    """What the figures are: the convention in words, and the queries behind them."""
    counts = metrics["queries"]
    scored = next(iter(metrics["test"][MODEL].values()))["n"]
    convention = Convention(**metrics["convention"])
    aside = (
        f"{counts['test_empty']} without a relevant item, {counts['test_thin']} thin, {counts['test_trivial']} trivial"
    )
    return f"{scored} of {counts['test']} test queries have a value ({aside}).\nNDCG: {convention.describe()}."


def _ranker_name(ranker: str, metrics: Mapping[str, Any]) -> str:
    feature = metrics.get("best_feature_name")
    return f"{ranker} ({feature})" if ranker == BEST_FEATURE and feature else ranker


def _with_interval(value: Mapping[str, Any], sign: str = "") -> str:
    if value["mean"] is None:
        return NO_VALUE
    return f"{value['mean']:{sign}.4f} [{value['low']:{sign}.3f}, {value['high']:{sign}.3f}]"


def _rounded(value: float | None) -> str:
    return NO_VALUE if value is None else f"{value:.4f}"
