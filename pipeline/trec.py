"""TREC files, checked line by line: judgements (qrels) and ranked lists (runs), plain or .gz.

A qrels line is `query iteration document relevance`, a run line `query Q0 document rank score tag`, with anything
behind. Fields are parted by white space; ids may hold any other character, '#' included. As trec_eval does, the order
of a run is that of its scores: its ranks are not looked at.
"""

from __future__ import annotations

import gzip
import math
import zlib
from collections.abc import Iterator
from pathlib import Path

import polars as pl

from features.columns import ITEM, QUERY, RELEVANCE, SCORE
from features.errors import DataError

QRELS_LINE = "query iteration document relevance"
RUN_LINE = "query Q0 document rank score tag"
RUN_FIELDS = (5, math.inf)
"""The tag may be missing; whatever follows it is ignored."""

ENCODING = "utf-8-sig"
"""A byte order mark at the start is no part of the first id."""


def read_qrels(path: Path) -> pl.DataFrame:
    """query, item (text) and relevance (Int64; Float64 where some are fractions), in the order of the file."""
    frame = _read(path, RELEVANCE, place=3, form=QRELS_LINE, fields=(4, 4))
    whole = (frame[RELEVANCE].floor() == frame[RELEVANCE]).all() and (frame[RELEVANCE].abs() < 2.0**53).all()
    return frame.with_columns(pl.col(RELEVANCE).cast(pl.Int64)) if whole else frame


def read_run(path: Path) -> pl.DataFrame:
    """query, item (text) and score (Float64), in the order of the file."""
    return _read(path, SCORE, place=4, form=RUN_LINE, fields=RUN_FIELDS)


def _read(path: Path, name: str, *, place: int, form: str, fields: tuple[int, float]) -> pl.DataFrame:
    queries, items, numbers = [], [], []
    least, most = fields
    for line, found in _lines(path):
        if not least <= len(found) <= most:
            raise _line_error(path, line, f"has {len(found)} fields: {' '.join(found)[:80]!r}", form)
        number = _number(found[place])
        if not math.isfinite(number):
            raise _line_error(path, line, f"has {found[place]!r} for a {name}", form)
        queries.append(found[0])
        items.append(found[2])
        numbers.append(number)
    if not numbers:
        raise DataError(f"{path} is empty", expected=f"lines of '{form}'", fix="check how it was written")
    return pl.DataFrame({QUERY: queries, ITEM: items, name: pl.Series(numbers, dtype=pl.Float64)})


def _lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    """(line number from 1, fields) of every line that is not blank."""
    if not path.is_file():
        raise DataError(f"no file {path}", expected="a qrels or run file", fix="check the path")
    number = 0
    try:
        with gzip.open(path, "rt", encoding=ENCODING) if path.suffix == ".gz" else path.open(encoding=ENCODING) as file:
            for number, line in enumerate(file, start=1):
                fields = line.split()
                if fields:
                    yield number, fields
    except (OSError, EOFError, UnicodeDecodeError, zlib.error) as error:
        raise DataError(
            f"{path} cannot be read behind line {number}: {error}",
            expected="UTF-8 text, plain or .gz",
            fix="write it anew",
        ) from error


def _number(text: str) -> float:
    """NaN for what is no number."""
    try:
        return float(text) if "_" not in text else math.nan
    except ValueError:
        return math.nan


def _line_error(path: Path, line: int, fault: str, form: str) -> DataError:
    return DataError(f"line {line} of {path} {fault}", expected=f"'{form}'", fix="correct that line")
