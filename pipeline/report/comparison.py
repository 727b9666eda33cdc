"""The page of a comparison."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pipeline.compare import BESIDE, EVERY, Comparison, Tested
from pipeline.report.blocks import Cell, Cells, Chart, Page, Section, Table, Text, interval, number, table
from pipeline.significance import Contrast
from pipeline.strata import FEW

TESTS = (
    "Differences are against the first ranking, with 95 % intervals. Users are the units of the tests: queries of one "
    "user resemble each other. Holm corrects the randomisation test for all tests on this page. Findable is the "
    "smallest difference that so many units would have shown in 80 % of such comparisons."
)


def comparison_page(found: Comparison, title: str) -> Page:
    """What differs between rankings, and what may be concluded."""
    whole = [test for test in found.tests if test.group == EVERY]
    grouped = [test for test in found.tests if test.group != EVERY]
    first = f"ndcg@{found.ks[0]}"
    return Page(
        title=title,
        lead=f"{found.queries:,} queries with {found.rows:,} candidates; {found.names[0]} is the reference.",
        figures=tuple(_figures(found, first)),
        warnings=found.notes,
        sections=(
            Section("conclusion", "What may be concluded", "", tuple(Text(line) for line in found.conclusions)),
            Section("tests", "Differences", TESTS, (_forest("all-queries", whole, "metric"), _tests(whole, "metric"))),
            Section(
                "groups",
                f"{first} by group",
                "Every query stands in one group of each kind.",
                (_forest("by-group", grouped, "group"), _tests(grouped, "group")),
            ),
            Section(
                "lists",
                "What the lists are like",
                f"NDCG: {found.convention.describe()}. Beside it {BESIDE}.",
                (_lists(found),),
            ),
        ),
    )


def _figures(found: Comparison, first: str) -> Iterator[tuple[str, str, str]]:
    for name in found.names:
        value = found.means[name][first]
        yield name, "–" if value is None else f"{value:.3f}", first


def _tests(tests: Sequence[Tested], what: str) -> Table:
    head = ("ranking", what, "difference [95 %]", "won", "tied", "lost", "units", "t", "Wilcoxon", "random", "Holm")
    rows = [_row(test, what) for test in tests]
    return table((*head, "findable"), rows, left=2)


def _row(test: Tested, what: str) -> Cells:
    result = test.contrast
    value = result.difference
    counts = tuple(number(count, "d") for count in (result.wins, result.ties, result.losses, result.units))
    chances = tuple(_chance(p) for p in (result.p_t, result.p_wilcoxon, result.p_random, test.p))
    label = test.metric if what == "metric" else test.group + (" (few)" if _queries(result) < FEW else "")
    measured = interval(value.mean, value.low, value.high, "+.4f")
    return (test.name, label, measured, *counts, *chances, number(result.smallest))


def _queries(result: Contrast) -> int:
    return result.wins + result.ties + result.losses


def _chance(p: float | None) -> Cell:
    if p is None:
        return Cell("too few", 2.0)
    return Cell("<0.001" if p < 0.001 else f"{p:.3f}", p, strong=p < 0.05)


def _forest(name: str, tests: Sequence[Tested], what: str) -> Chart:
    """Each difference as a point with its interval."""
    known = [test for test in tests if test.contrast.difference.low is not None]
    traces = [
        _points(arm, place, [test for test in known if test.name == arm], what)
        for place, arm in enumerate(dict.fromkeys(test.name for test in known))
    ]
    labels = {test.metric if what == "metric" else test.group for test in known}
    zero = {"type": "line", "yref": "paper", "y0": 0, "y1": 1, "x0": 0, "x1": 0, "line": {"color": "var(--muted)"}}
    layout = {
        "xaxis": {"title": {"text": "difference from the first"}},
        "yaxis": {"range": [len(labels) - 0.5, -0.5], "type": "category", "automargin": True},
        "shapes": [zero],
        "scattermode": "group",
    }
    return Chart(name, {"data": traces, "layout": layout}, height=110 + 42 * len(labels))


def _points(arm: str, place: int, tests: Sequence[Tested], what: str) -> dict[str, Any]:
    values = [test.contrast.difference for test in tests]
    means = [value.mean or 0.0 for value in values]
    colour = "var(--model)" if place == 0 else f"var(--rival-{place + 1})"
    errors = {
        "type": "data",
        "symmetric": False,
        "array": [(value.high or 0.0) - mean for value, mean in zip(values, means, strict=True)],
        "arrayminus": [mean - (value.low or 0.0) for value, mean in zip(values, means, strict=True)],
        "color": colour,
    }
    labels = [test.metric if what == "metric" else test.group for test in tests]
    marker = {"color": colour, "size": 9}
    return {
        "type": "scatter",
        "mode": "markers",
        "name": arm,
        "x": means,
        "y": labels,
        "error_x": errors,
        "marker": marker,
    }


def _lists(found: Comparison) -> Table:
    overlap = {found.names[0]: dict[str, float | None](), **found.overlap}
    rows: list[Cells] = [
        (metric, *(number(block[name].get(metric)) for name in found.names))
        for block in (found.means, found.beside, overlap)
        for metric in block[found.names[-1]]
    ]
    return table(("mean of", *found.names), rows)
