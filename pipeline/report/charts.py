"""Figures as Plotly reads them: plain data and layout. Colours are CSS variables, which the page resolves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.findings import Bin, Curve, Dependence
from pipeline.report.blocks import Chart
from pipeline.results import MODEL

Trace = dict[str, Any]

RIVAL_COLOURS = 6


def colours(names: Sequence[str]) -> dict[str, str]:
    """The model in its own colour, the others by their place."""
    others = [name for name in names if name != MODEL]
    found = {name: f"var(--rival-{place % RIVAL_COLOURS + 1})" for place, name in enumerate(others)}
    return {MODEL: "var(--model)", **found}


def lines(
    name: str,
    curves: Mapping[str, Curve],
    *,
    x: str,
    y: str,
    caption: str = "",
    thin: Sequence[str] = (),
    palette: Mapping[str, str] | None = None,
) -> Chart:
    """A line per curve, with a band where it has an interval; `thin` ones are drawn dotted."""
    shades = palette or colours(tuple(curves))
    traces: list[Trace] = []
    for label, curve in curves.items():
        colour = shades[label]
        if curve.low:
            traces.append(_band(curve, colour))
        style = {"color": colour, "width": 3 if label == MODEL else 2, "dash": "dot" if label in thin else "solid"}
        mode = "lines" if len(curve.x) > 1 else "markers"
        traces.append({"type": "scatter", "mode": mode, "name": label, "x": curve.x, "y": curve.y, "line": style})
    return Chart(name, {"data": traces, "layout": _axes(x, y)}, caption)


def columns(name: str, curve: Curve, *, x: str, y: str, caption: str = "") -> Chart:
    """Upright bars."""
    trace = {"type": "bar", "x": curve.x, "y": curve.y, "marker": {"color": "var(--model)"}, "name": y}
    layout = _axes(x, y) | {"bargap": 0.08, "showlegend": False}
    return Chart(name, {"data": [trace], "layout": layout}, caption, height=300)


def bars(name: str, labels: Sequence[str], values: Sequence[float], *, x: str, caption: str = "") -> Chart:
    """Lying bars, the first on top."""
    trace = {
        "type": "bar",
        "orientation": "h",
        "x": list(values),
        "y": list(labels),
        "marker": {"color": "var(--model)"},
        "name": x,
    }
    layout = _axes(x, "") | {"showlegend": False, "bargap": 0.25}
    layout["yaxis"] = {"autorange": "reversed", "automargin": True, "type": "category"}
    return Chart(name, {"data": [trace], "layout": layout}, caption, height=90 + 22 * len(labels))


def dots(name: str, found: Dependence) -> Chart:
    """What a feature adds to the score over its values, a dot per row."""
    trace = {
        "type": "scatter",
        "mode": "markers",
        "x": found.values,
        "y": found.shares,
        "marker": {"size": 5, "opacity": 0.45, "color": "var(--model)"},
        "name": found.feature,
    }
    layout = _axes(found.feature, "adds to the score") | {"showlegend": False}
    layout["shapes"] = [_level(0.0)]
    return Chart(name, {"data": [trace], "layout": layout}, height=280)


def calibration(name: str, found: Sequence[Bin], *, caption: str) -> Chart:
    """Mean relevance over mean score, with its interval."""
    known = [each for each in found if each.relevance.mean is not None]
    means = [each.relevance.mean or 0.0 for each in known]
    above = [(each.relevance.high or 0.0) - mean for each, mean in zip(known, means, strict=True)]
    below = [mean - (each.relevance.low or 0.0) for each, mean in zip(known, means, strict=True)]
    errors = {"type": "data", "symmetric": False, "array": above, "arrayminus": below, "color": "var(--model)"}
    trace = {
        "type": "scatter",
        "mode": "lines+markers",
        "x": [each.score for each in known],
        "y": means,
        "error_y": errors,
        "line": {"color": "var(--model)", "width": 2},
        "name": "relevance",
    }
    layout = _axes("score", "mean relevance") | {"showlegend": False}
    return Chart(name, {"data": [trace], "layout": layout}, caption, height=300)


def with_level(chart: Chart, level: float) -> Chart:
    """The same chart with a dashed line at y = level."""
    layout = chart.figure["layout"] | {"shapes": [_level(level)]}
    return Chart(chart.name, chart.figure | {"layout": layout}, chart.caption, chart.height)


def _band(curve: Curve, colour: str) -> Trace:
    """The area between low and high: out along the one, back along the other."""
    return {
        "type": "scatter",
        "mode": "lines",
        "x": [*curve.x, *reversed(curve.x)],
        "y": [*curve.high, *reversed(curve.low)],
        "fill": "toself",
        "fillcolor": colour,
        "opacity": 0.16,
        "line": {"width": 0},
        "hoverinfo": "skip",
        "showlegend": False,
    }


def _level(y: float) -> dict[str, Any]:
    line = {"color": "var(--muted)", "width": 1, "dash": "dash"}
    return {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": y, "y1": y, "line": line}


def _axes(x: str, y: str) -> dict[str, Any]:
    return {"xaxis": {"title": {"text": x}}, "yaxis": {"title": {"text": y}, "automargin": True}}
