"""What a page is made of: plain values, so that the template alone knows HTML and escapes everything."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar


@dataclass(frozen=True)
class Cell:
    """`sort`: the number that the column sorts by, where the text is not one; `bar`: -1 .. 1, drawn behind the text."""

    text: str
    sort: float | None = None
    strong: bool = False
    bar: float | None = None


@dataclass(frozen=True)
class Table:
    """`numeric`: the columns that are set flush right."""

    kind: ClassVar[str] = "table"
    head: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    numeric: frozenset[int] = frozenset()
    caption: str = ""


@dataclass(frozen=True)
class Chart:
    """`figure`: Plotly's data and layout; colours are named as CSS variables, "var(--model)", and follow the theme."""

    kind: ClassVar[str] = "chart"
    name: str
    figure: dict[str, Any]
    caption: str = ""
    height: int = 360


@dataclass(frozen=True)
class Text:
    kind: ClassVar[str] = "text"
    text: str


@dataclass(frozen=True)
class Code:
    kind: ClassVar[str] = "code"
    text: str


@dataclass(frozen=True)
class Row:
    """Blocks side by side, where there is room."""

    kind: ClassVar[str] = "row"
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Fold:
    """Blocks that open on a click."""

    kind: ClassVar[str] = "fold"
    summary: str
    blocks: tuple[Block, ...]


Block = Table | Chart | Text | Code | Row | Fold


@dataclass(frozen=True)
class Section:
    """A heading, a sentence on how to read what follows, and the blocks."""

    name: str
    title: str
    intro: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Page:
    """`figures`: the few numbers that count, each with its label and a word on it."""

    title: str
    lead: str
    figures: tuple[tuple[str, str, str], ...]
    warnings: tuple[str, ...]
    sections: tuple[Section, ...]
    warnings_title: str = "Before you believe a figure"


Cells = tuple[Cell | str, ...]
"""A row of a table as it is written down: a text stands for a cell."""


def table(head: tuple[str, ...], rows: list[Cells], *, left: int = 1, caption: str = "") -> Table:
    """A table whose first `left` columns are text and the others numbers."""
    cells = tuple(tuple(cell if isinstance(cell, Cell) else Cell(cell) for cell in row) for row in rows)
    return Table(head, cells, frozenset(range(left, len(head))), caption)


def number(value: float | None, form: str = ".4f", *, strong: bool = False) -> Cell:
    """A number as it is printed; a dash where there is none."""
    return Cell("–" if value is None else f"{value:{form}}", value, strong)


def interval(mean: float | None, low: float | None, high: float | None, form: str = ".4f") -> Cell:
    """A mean with its interval, where it has one; sorted by the mean."""
    if mean is None or low is None or high is None:
        return number(mean, form)
    return Cell(f"{mean:{form}} [{low:{form[:-2]}3f}, {high:{form[:-2]}3f}]", mean)
