"""The page of a search: what it found before the page of the run that came of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pipeline.findings import Curve
from pipeline.report import charts
from pipeline.report.blocks import Block, Cell, Cells, Chart, Fold, Page, Row, Section, Text, interval, number, table
from pipeline.results import MODEL
from pipeline.tune import Tried, columns_of

DEFAULT = "default"
SLICES, CURVES = 6, 5
STATES = {"complete": "finished", "pruned": "pruned", "failed": "failed"}


def tuning_page(
    page: Page,
    metrics: Mapping[str, Any],
    tried: Sequence[Tried],
    influence: Mapping[str, float],
    verdict: Sequence[str],
) -> Page:
    """`page`, that of the run, with the search in front; `influence`: parameter -> share of the variance explained."""
    done = [trial for trial in tried if trial.value is not None]
    sections = (_worth(metrics, verdict), _history(metrics, tried), _parameters(done, influence), _trials(tried))
    counts = metrics["tune"]["trials"]
    lead = (
        f"The best of {sum(counts.values())} trials, {counts['pruned']} of them ended early, chosen on the validation "
        "queries and judged on test queries that the search has never seen."
    )
    return replace(page, lead=lead, sections=(*sections, *page.sections))


def _worth(metrics: Mapping[str, Any], verdict: Sequence[str]) -> Section:
    found = metrics["tune"]
    name = found["metric"]
    rows: list[Cells] = []
    for ranker, value in ((MODEL, found["chosen_value"]), (DEFAULT, found["default_value"])):
        judged = metrics["test"].get(ranker)
        if judged is not None:
            test = interval(*(judged[name][part] for part in ("mean", "low", "high")))
            rows.append((Cell("tuned" if ranker == MODEL else DEFAULT, strong=ranker == MODEL), number(value), test))
    head = ("settings", "aim on the validation queries", f"{name} on test [95 %]")
    luck = (
        "The settings were chosen on the validation queries, so their value there flatters them; "
        "test decides whether the search was worth it."
    )
    return Section("search", "What the search was worth", luck, (table(head, rows), *(Text(line) for line in verdict)))


def _history(metrics: Mapping[str, Any], tried: Sequence[Tried]) -> Section:
    done = [trial for trial in tried if trial.value is not None]
    best: list[float] = []
    for trial in done:
        best.append(max(trial.value or 0.0, best[-1] if best else trial.value or 0.0))
    numbers = [trial.number for trial in done]
    cut = [trial.number for trial in tried if trial.state == "pruned"]
    floor = min((trial.value or 0.0 for trial in done), default=0.0)
    traces = [
        _points("finished", numbers, [trial.value for trial in done], "var(--model)"),
        _points("pruned", cut, [floor] * len(cut), "var(--rival-1)", symbol="x-thin-open"),
        {
            "type": "scatter",
            "mode": "lines",
            "name": "best so far",
            "x": numbers,
            "y": best,
            "line": {"color": "var(--rival-2)", "shape": "hv"},
        },
    ]
    axes = {"xaxis": {"title": {"text": "trial"}}, "yaxis": {"title": {"text": "aim"}}}
    history = Chart("tune-history", {"data": traces, "layout": axes}, "Pruned trials, which have no value, lie below.")
    top = sorted(done, key=lambda trial: -(trial.value or 0.0))[:CURVES]
    curves = {
        f"trial {trial.number}{' (default)' if trial.is_default else ''}": Curve(
            tuple(float(point[0]) for point in trial.outcome["curve"]),
            tuple(point[1] for point in trial.outcome["curve"]),
        )
        for trial in top
    }
    palette = {name: f"var(--rival-{place + 2})" if place else "var(--model)" for place, name in enumerate(curves)}
    learning = charts.lines(
        "tune-curves",
        curves,
        x="trees",
        y="best ndcg so far",
        palette=palette,
        caption="Learning curves of the best trials, as LightGBM counts under each trial's own gains.",
    )
    seconds = metrics["timings"]
    intro = f"The search took {seconds['search']:.0f} s, the final fits {seconds['final fits']:.0f} s."
    return Section("history", "Trials in order", intro, (Row((history, learning)),))


def _parameters(done: Sequence[Tried], influence: Mapping[str, float]) -> Section:
    if not influence:
        return Section("parameters", "Parameters", "Too few trials were finished to tell what mattered.", ())
    names = list(influence)
    bars = charts.bars(
        "tune-influence",
        names,
        [influence[name] for name in names],
        x="share of the variance",
        caption="What of the spread between finished trials a parameter explains by itself, beyond chance.",
    )
    columns = columns_of(done)
    values = [trial.value for trial in done]
    slices = tuple(_slice(place, name, columns[name], values) for place, name in enumerate(names[:SLICES]))
    rows = tuple(Row(slices[place : place + 2]) for place in range(0, len(slices), 2))
    intro = "Only finished trials are drawn; those that were pruned would lie lower."
    return Section("parameters", "Parameters", intro, (bars, *rows, _parallel(names[:SLICES], columns, values)))


def _slice(place: int, name: str, column: Sequence[Any], values: Sequence[float | None]) -> Block:
    had = [i for i, value in enumerate(column) if value is not None]
    x = [_plain(column[i]) for i in had]
    trace = _points(name, x, [values[i] for i in had], "var(--model)")
    layout: dict[str, Any] = {
        "xaxis": {"title": {"text": name}},
        "yaxis": {"title": {"text": "aim"}},
        "showlegend": False,
    }
    if not all(isinstance(value, int | float) for value in x):
        layout["xaxis"]["type"] = "category"
    elif min(x) > 0 and max(x) > 30 * min(x):
        layout["xaxis"]["type"] = "log"
    return Chart(f"tune-slice-{place}", {"data": [trace], "layout": layout}, height=260)


def _parallel(names: Sequence[str], columns: Mapping[str, Sequence[Any]], values: Sequence[float | None]) -> Chart:
    """A line per trial over all parameters, drawn plainly: Plotly's own kind needs WebGL, or links to a site."""
    known = sorted(value for value in values if value is not None)
    border = known[-max(1, len(known) // 4)]
    heights = [_heights(columns[name]) for name in names] + [_heights(list(values))]
    axes = [*names, "aim"]
    traces = []
    for i, value in sorted(enumerate(values), key=lambda trial: trial[1] or 0.0):
        good = (value or 0.0) >= border
        said = [*(f"{name} {_plain(columns[name][i])}" for name in names), f"aim {value:.4f}"]
        line = {"color": "var(--model)" if good else "var(--rival-1)", "width": 2 if good else 1}
        points = {"x": axes, "y": [height[i] for height in heights], "text": said}
        look = {"opacity": 0.9 if good else 0.4, "hoverinfo": "text", "showlegend": False}
        traces.append({"type": "scatter", "mode": "lines", **points, "line": line, **look})
    layout = {"xaxis": {"type": "category"}, "yaxis": {"showticklabels": False}}
    caption = (
        "A line per finished trial, the best quarter in colour; each axis runs from its lowest value to its highest."
    )
    return Chart("tune-parallel", {"data": traces, "layout": layout}, caption, height=380)


def _heights(column: Sequence[Any]) -> list[float | None]:
    """Places of values between the lowest (0) and the highest (1); what a trial did not have is left open."""
    known = [value for value in column if value is not None]
    if not all(isinstance(value, int | float) for value in known):
        levels = sorted({str(value) for value in known})
        column = [None if value is None else levels.index(str(value)) for value in column]
        known = [value for value in column if value is not None]
    low, high = min(known), max(known)
    return [None if value is None else (value - low) / ((high - low) or 1) for value in column]


def _trials(tried: Sequence[Tried]) -> Section:
    rows: list[Cells] = [
        (
            number(trial.number, "d"),
            STATES[trial.state] + (f" (as {trial.same_as})" if trial.same_as is not None else ""),
            number(trial.value),
            number((trial.outcome.get("rounds") or [None])[-1], "d"),
            number(trial.seconds, ".1f"),
            trial.reason or _words(trial),
        )
        for trial in tried
    ]
    trials = Fold(
        f"All {len(rows)} trials", (table(("trial", "end", "aim", "trees", "seconds", "settings"), rows, left=2),)
    )
    return Section("trials", "All trials", "Click a column to sort by it.", (trials,))


def _words(trial: Tried) -> str:
    if trial.setting is None:
        return ""
    shown = {"objective": trial.setting.objective, "gain": trial.setting.gain, **trial.setting.params}
    return ", ".join(f"{name} {_plain(value)}" for name, value in shown.items() if value is not None)


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.4g}")
    return value if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _points(name: str, x: Sequence[Any], y: Sequence[Any], colour: str, symbol: str = "circle") -> dict[str, Any]:
    marker = {"color": colour, "size": 7, "symbol": symbol}
    return {"type": "scatter", "mode": "markers", "name": name, "x": list(x), "y": list(y), "marker": marker}
