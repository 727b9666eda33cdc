"""One HTML file that opens anywhere: no request, no server. It draws what others have found and computes nothing.

Every text is escaped by the template; figures are data that Plotly's own script, which the file carries, draws.
"""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from pipeline.report.blocks import Block, Chart, Fold, Page, Row
from pipeline.report.comparison import comparison_page
from pipeline.report.monitoring import monitor_page
from pipeline.report.run import run_page
from pipeline.report.tuning import tuning_page

__all__ = ["comparison_page", "monitor_page", "run_page", "tuning_page", "write_page"]


def write_page(path: Path, page: Page) -> None:
    """Writes a page as one file that carries all it needs."""
    path.write_text(render(page), "utf-8")


def render(page: Page) -> str:
    """The page as HTML."""
    environment = Environment(
        loader=PackageLoader("pipeline.report"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    own = files("pipeline.report") / "templates"
    figures = {chart.name: chart.figure for section in page.sections for chart in charts_in(section.blocks)}
    return environment.get_template("page.html").render(
        page=page,
        style=_trusted((own / "page.css").read_text("utf-8")),
        script=_trusted((own / "page.js").read_text("utf-8")),
        plotly=_trusted((files("plotly") / "package_data" / "plotly.min.js").read_text("utf-8")) if figures else "",
        figures=_as_data(figures),
    )


def charts_in(blocks: tuple[Block, ...]) -> list[Chart]:
    """All charts, also those within other blocks."""
    found: list[Chart] = []
    for block in blocks:
        if isinstance(block, Chart):
            found.append(block)
        elif isinstance(block, Row | Fold):
            found.extend(charts_in(block.blocks))
    return found


def _trusted(text: str) -> Markup:
    """A file of this or Plotly's package: the only texts that are not escaped."""
    return Markup(text)  # noqa: S704


def _as_data(figures: dict[str, Any]) -> Markup:
    """JSON that may stand in a script element: no sign in it can end the element or begin a tag."""
    text = json.dumps(figures, allow_nan=False, separators=(",", ":"))
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return Markup(text)  # noqa: S704
