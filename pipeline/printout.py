"""Results as a person reads them on a terminal or in a pipe."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from features.spec import FeatureSpec
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


def slice_sentences(metrics: Mapping[str, Any]) -> list[str]:
    """Where what was shown stands beside the model: what logged labels favour, and the judgements that do not."""
    if "shown" not in metrics["test"] or not metrics.get("slices"):
        return []
    sentences = ["Logged labels favour what was shown on top, so against the shown order other judgements count:"]
    for name, judged in metrics["slices"].items():
        first = f"ndcg@{metrics['k'][0]}"
        if "shown" not in judged["test"]:
            continue
        model, shown, lead = (
            judged["test"][MODEL][first],
            judged["test"]["shown"][first],
            judged["diff"]["shown"][first],
        )
        sentences.append(
            f"  by {name} ({model['n']} queries) {first} is {_rounded(model['mean'])} for the model and "
            f"{_rounded(shown['mean'])} for the shown order, ahead by {_with_interval(lead, sign='+')}"
        )
    return sentences


def feature_table(features: Sequence[FeatureSpec]) -> Table:
    """Name, type, what missing means, and how far each feature looks back."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for title in ("feature", "type", "missing means", "looks back"):
        table.add_column(title)
    for spec in features:
        back = "" if spec.lookback_days is None else f"{spec.lookback_days:g} days"
        table.add_row(spec.name, spec.dtype, spec.missing, back)
    return table


def _ranker_name(ranker: str, metrics: Mapping[str, Any]) -> str:
    feature = metrics.get("best_feature_name")
    return f"{ranker} ({feature})" if ranker == BEST_FEATURE and feature else ranker


def _with_interval(value: Mapping[str, Any], sign: str = "") -> str:
    if value["mean"] is None:
        return NO_VALUE
    return f"{value['mean']:{sign}.4f} [{value['low']:{sign}.3f}, {value['high']:{sign}.3f}]"


def _rounded(value: float | None) -> str:
    return NO_VALUE if value is None else f"{value:.4f}"
