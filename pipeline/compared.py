"""A comparison as a person reads it on a terminal or in a pipe."""

from __future__ import annotations

from collections.abc import Iterator

from rich.box import SIMPLE_HEAD
from rich.table import Table

from pipeline.compare import BESIDE, EVERY, Comparison, Tested
from pipeline.printout import NO_VALUE
from pipeline.strata import FEW


def comparison_tables(found: Comparison) -> Iterator[Table]:
    """Means, tests over all queries, tests by group, and what the lists are like beside being right."""
    yield _means(found)
    yield _tests([test for test in found.tests if test.group == EVERY], "metric")
    yield _tests([test for test in found.tests if test.group != EVERY], f"ndcg@{found.ks[0]} by group")


def comparison_caption(found: Comparison) -> str:
    return (
        f"{found.queries} queries, {found.rows} candidates. NDCG: {found.convention.describe()}.\n"
        "Differences are against the first, with 95 % intervals; p: t-test, Wilcoxon, randomisation (users as units), "
        "Holm: the last corrected for all tests here; findable: the smallest difference found in 80 % of such trials.\n"
        f"Beside them {BESIDE}."
    )


def _means(found: Comparison) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("")
    for name in found.names:
        table.add_column(name, justify="right")
    for block in (found.means, found.beside, {found.names[0]: {}, **found.overlap}):
        for metric in block[found.names[-1]]:
            table.add_row(metric, *(_rounded(block[name].get(metric)) for name in found.names))
    return table


def _tests(tests: list[Tested], what: str) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("ranking")
    table.add_column(what)
    for title in ("difference [95 %]", "won/tied/lost", "units", "p t", "p W", "p R", "Holm", "findable"):
        table.add_column(title, justify="right", no_wrap=True)
    for test in tests:
        table.add_row(*test_cells(test, what == "metric"))
    return table


def test_cells(test: Tested, is_whole: bool) -> list[str]:
    """One test as text."""
    result, value = test.contrast, test.contrast.difference
    queries = result.wins + result.ties + result.losses
    label = test.metric if is_whole else test.group + (f" (few: {queries})" if queries < FEW else "")
    spread = "" if value.low is None else f" [{value.low:+.4f}, {value.high:+.4f}]"
    measured = NO_VALUE if value.mean is None else f"{value.mean:+.4f}{spread}"
    chances = (result.p_t, result.p_wilcoxon, result.p_random, test.p)
    counts = f"{result.wins}/{result.ties}/{result.losses}"
    found = [_chance(p) for p in chances]
    return [test.name, label, measured, counts, str(result.units), *found, _rounded(result.smallest)]


def _chance(p: float | None) -> str:
    if p is None:
        return "too few"
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def _rounded(value: float | None) -> str:
    return NO_VALUE if value is None else f"{value:.4f}"
