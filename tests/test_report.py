"""Pages in a real browser: drawn, quiet, asking for nothing, readable on a phone, and deaf to what titles say."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from pipeline import commands
from pipeline.report import Page, render
from pipeline.report.blocks import Cell, Chart, Section, interval, number, table
from tests.browser import Browser, chromium
from tests.factories import ranking_frame, write_config

EVIL = "</script><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">{{ 7 * 7 }}"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose items, titles and feature names are hostile."""
    folder = tmp_path_factory.mktemp("report")
    rng = np.random.default_rng(1)
    frame = ranking_frame(200).rename({"a": 'a"><b onmouseover=alert(1)>'})
    frame = frame.with_columns(
        item=pl.col("item").cast(pl.String) + EVIL,
        title=pl.col("item").cast(pl.String) + EVIL,
        device=pl.Series(np.repeat(rng.choice(["phone", EVIL], 200), 8)),
        user=pl.col("query") // 4,
        brand=pl.Series(rng.choice(["x", "<i>y</i>", EVIL], frame.height)),
    )
    config = write_config(folder, frame, '[features]\ndrop = ["title", "device"]\ncategories = ["brand"]\n')
    commands.train(config, [], folder / "run", overwrite=False)
    commands.compare(
        [f"{folder / 'run'}:random", str(folder / "run")],
        common=False,
        convention=None,
        by=["device"],
        out=folder / "compared",
        overwrite=False,
    )
    frame.write_parquet(folder / "served.parquet")
    commands.monitor(folder / "run" / "package", folder / "served.parquet", None, [], folder / "seen", overwrite=False)
    return folder


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with chromium(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.mark.parametrize("name", ["run", "compared", "seen"])
@pytest.mark.parametrize(("width", "dark"), [(1400, False), (390, True)])
def test_a_page_is_drawn_in_silence_and_asks_for_nothing(
    run: Path, browser: Browser, name: str, width: int, dark: bool
) -> None:
    page = run / name / "report.html"
    assert page.stat().st_size < 6 * 2**20
    browser.open(page, width=width, dark=dark)
    charts = browser.run("return document.querySelectorAll('.chart').length")
    assert charts >= {"run": 8, "compared": 2, "seen": 3}[name]
    assert (
        browser.run("return document.querySelectorAll('.chart .main-svg .plot path, .chart .points path').length") > 0
    )
    assert browser.run("return [...document.querySelectorAll('.chart')].every((c) => c.querySelector('.trace path'))")
    assert browser.run("return document.documentElement.scrollWidth") <= width
    assert browser.run("return getComputedStyle(document.body).backgroundColor") == (
        "rgb(18, 22, 28)" if dark else "rgb(255, 255, 255)"
    )
    assert browser.requests() == {page.as_uri()}
    assert browser.console() == []


@pytest.mark.parametrize("name", ["run", "compared", "seen"])
def test_nothing_is_cut_off_on_paper(run: Path, browser: Browser, name: str) -> None:
    """A4 is 186 mm wide within our margins; Chromium shrinks all of a page of which anything is wider."""
    browser.open(run / name / "report.html", width=703, dark=True)
    browser.run("for (const fold of document.querySelectorAll('details')) fold.open = true")
    browser.lay_out_for_paper()
    assert browser.run("return document.documentElement.scrollWidth") <= 703
    inside = "const [a, b] = [c.querySelector('.main-svg'), c].map((e) => e.getBoundingClientRect())"
    inside = f"return [...document.querySelectorAll('.chart')].every((c) => {{ {inside}; return a.right <= b.right + 1 "
    assert browser.run(f"{inside} && a.bottom <= b.bottom + 1; }})")
    assert browser.run("return getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"


def test_the_table_of_worst_queries_sorts_by_a_click(run: Path, browser: Browser) -> None:
    browser.open(run / "run" / "report.html")
    table = "return [...document.querySelector('#worst table').tBodies[0].rows]"
    read = f"{table}.map((row) => Number(row.cells[2].textContent))"
    click = "document.querySelectorAll('#worst thead th')[2].querySelector('button').click()"
    before = browser.run(read)
    assert len(before) == 10
    browser.run(click)
    assert browser.run(read) == sorted(before)
    browser.run(click)
    assert browser.run(read) == sorted(before, reverse=True)
    assert browser.run("return document.querySelectorAll('#worst thead th')[2].ariaSort") == "descending"


def test_hostile_text_is_shown_and_does_nothing(run: Path, browser: Browser) -> None:
    page = run / "run" / "report.html"
    browser.open(page)
    browser.run("for (const fold of document.querySelectorAll('details')) fold.open = true")
    shown = browser.run("return document.body.textContent")
    assert EVIL in shown
    assert "<i>y</i>" in shown
    labels = browser.run("return [...document.querySelectorAll('.chart text')].map((label) => label.textContent)")
    assert any("<b onmouseover=alert(1)>" in label for label in labels)
    assert browser.run("return document.title") == "run"
    assert browser.run("return document.querySelectorAll('img, b, i, main script').length") == 0
    assert browser.console() == []


def test_what_put_one_item_above_another_sums_to_the_lead(run: Path) -> None:
    text = (run / "run" / "report.html").read_text("utf-8")
    tables = re.findall(r"<caption>Why .*?</table>", text, re.S)
    assert len(tables) == 10
    for each in tables:
        *parts, total = [float(value) for value in re.findall(r'data-sort="([^"]+)"', each)]
        assert sum(parts) == pytest.approx(total, abs=1e-9)


def test_the_report_says_what_the_metrics_say(run: Path) -> None:
    text = (run / "run" / "report.html").read_text("utf-8")
    metrics = json.loads((run / "run" / "metrics.json").read_text("utf-8"))
    for ranker, values in metrics["test"].items():
        assert f"{values['ndcg@10']['mean']:.4f} [" in text, ranker
    assert f"differ by at most {metrics['parity']['max_abs_diff']:.1g}" in text
    assert "gain 2^relevance - 1" in text
    assert "seed = 7" in text


def test_a_page_of_few_words_is_whole_html() -> None:
    chart = Chart("c", {"data": [{"name": "</script>&"}], "layout": {}})
    words = table(("x", "y"), [("<b>", number(None)), (Cell("t"), interval(0.5, None, None))])
    text = render(Page("<t>", "", (), ("<w>",), (Section("s", "S", "", (words, chart)),)))
    assert "<title>&lt;t&gt;</title>" in text
    assert "&lt;w&gt;" in text
    assert "&lt;b&gt;" in text
    assert r"\u003c/script\u003e\u0026" in text
    assert "0.5000" in text
