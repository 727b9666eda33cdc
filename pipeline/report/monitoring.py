"""The page of what `monitor` found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pipeline.findings import Curve
from pipeline.monitor import Drift, Monitored, alarm_sentences, largest, moved_most, remarks
from pipeline.report import charts
from pipeline.report.blocks import Block, Cells, Fold, Page, Row, Section, interval, number, table

DRAWN = 6

INDEX = (
    "The population stability index compares where a feature, or the score, lies on a day with where it lay in "
    "training; the dashed line is the level of its alarm. Days of few queries have none. Some columns move by "
    "themselves, and their level is higher by what they moved while the model was judged."
)


def monitor_page(found: Monitored, title: str) -> Page:
    """ndcg day by day, and what moved."""
    raised = alarm_sentences(found)
    days = [day for day in found.days if day is not None]
    span = f"{days[0]} to {days[-1]}" if days else "rows without a time"
    return Page(
        title=title,
        lead=f"Served lists, {span}, against what the package was when it was made.",
        figures=tuple(_figures(found, len(raised))),
        warnings=(*raised, *remarks(found)),
        sections=(_quality(found), _drift(found)),
        warnings_title="Alarms" if raised else "Worth a look",
    )


def _figures(found: Monitored, raised: int) -> Iterator[tuple[str, str, str]]:
    yield "alarms", str(raised), "features, score or metric beyond their level"
    queries = sum(each.queries for each in found.quality)
    if queries:
        yield "queries", f"{queries:,}", "served and judged"
    if found.expected.mean is not None:
        yield f"{found.metric} when made", f"{found.expected.mean:.3f}", "on the test part of its run"


def _quality(found: Monitored) -> Section:
    if not found.quality:
        return Section("quality", "Quality by day", "Nothing says what was relevant.", ())
    days = tuple(str(each.day or "all") for each in found.quality)
    model = [each.model for each in found.quality]
    curves = {
        "model": _curve(
            days, [each.mean for each in model], [each.low for each in model], [each.high for each in model]
        )
    }
    served = [each.served for each in found.quality if each.served is not None]
    if served:
        curves["served order"] = _curve(days, [each.mean for each in served])
    chart = charts.lines(
        "quality",
        curves,
        x="",
        y=found.metric,
        caption="The band is a 95 % interval; dashed: the package's test value.",
    )
    rows: list[Cells] = [
        (
            day,
            number(each.queries, "d"),
            interval(each.model.mean, each.model.low, each.model.high),
            number(None if each.served is None else each.served.mean),
        )
        for day, each in zip(days, found.quality, strict=True)
    ]
    head = ("day", "queries", f"{found.metric} of the package's order [95 %]", "of the served order")
    intro = "The package's own order of what was served, judged by what people did then, and the order they saw."
    drawn = chart if found.expected.mean is None else charts.with_level(chart, found.expected.mean)
    return Section("quality", "Quality by day", intro, (drawn, table(head, rows)))


def _drift(found: Monitored) -> Section:
    moved = moved_most(found)
    drawn = [_chart(each, found, place) for place, each in enumerate(moved[:DRAWN])]
    rows: list[Cells] = [_row(each) for each in moved]
    head = ("feature or score", "largest PSI", "alarm above", "missing", "in training", "unseen levels", "in training")
    blocks: list[Block] = [Row(tuple(drawn[place : place + 2])) for place in range(0, len(drawn), 2)]
    return Section("drift", "Drift", INDEX, (*blocks, Fold("All features", (table(head, rows),))))


def _chart(each: Drift, found: Monitored, place: int) -> Block:
    days = tuple(str(day or "all") for day in found.days)
    chart = charts.lines(f"drift-{place}", {"model": _curve(days, each.index)}, x="", y="PSI", caption=each.name)
    return charts.with_level(chart, each.level)


def _row(each: Drift) -> Cells:
    top = largest(each)
    missing, unknown = max(each.missing, default=0.0), max(each.unknown, default=0.0)
    shares = (missing, each.missing_before, unknown, each.unknown_before)
    strong = top > each.level
    return (
        each.name,
        number(top, ".3f", strong=strong),
        number(each.level, ".3f"),
        *(number(s, ".1%") for s in shares),
    )


def _curve(
    days: Sequence[str],
    values: Sequence[float | None],
    low: Sequence[float | None] = (),
    high: Sequence[float | None] = (),
) -> Curve:
    return Curve(tuple(days), tuple(values), tuple(low), tuple(high))
