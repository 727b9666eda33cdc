"""From paths, globs and frames to tables, one per file: Parquet, CSV, TSV, JSON lines, each also as .gz but Parquet.

CSV columns get their type from all of their values, never from the first few; columns asked for as text keep every
character (the id 007 is not the id 7).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import polars as pl

from features.errors import DataError

Source = str | Path | pl.LazyFrame | pl.DataFrame
Sources = Source | Sequence[Source]

_PARQUET: Final = (".parquet", ".pq")
_BYTES_OF_TEXT_ROW: Final = 64
_BYTES_OF_ZIPPED_ROW: Final = 8


@dataclass(frozen=True, slots=True)
class Part:
    """Some rows of a file, the first of which is its row `first`, counted from 0; `is_cut`: it may have more."""

    path: Path
    first: int
    table: pl.DataFrame
    is_cut: bool


def read_tables(sources: Sources, *, text: Collection[str] = ()) -> Iterator[tuple[str, pl.DataFrame]]:
    """The name and the rows of each source, files of a glob in the order of their names.

    `text` are columns of CSV files to be kept as strings. Raises DataError for a glob without files, a missing file,
    an unknown suffix, and a file that cannot be read.
    """
    for source in [sources] if isinstance(sources, Source) else sources:
        if isinstance(source, pl.DataFrame | pl.LazyFrame):
            yield "the given frame", source.lazy().collect()
        else:
            yield from ((path.name, _read_file(path, text)) for path in _expand(source))


def read_in_parts(source: str | Path, *, text: Collection[str] = (), rows: int) -> Iterator[Part]:
    """As `read_tables`, but a Parquet file comes in parts of at most `rows` rows."""
    for path in _expand(source):
        if path.suffix.lower() not in _PARQUET:
            yield Part(path, 0, _read_file(path, text), is_cut=False)
            continue
        for first in range(0, max(_count_rows(path), 1), rows):
            yield Part(path, first, _told(path, _slice_reader(first, rows)), is_cut=True)


def read_column(path: Path, column: str) -> pl.Series:
    """One column of a Parquet file."""
    return _told(path, lambda path: _scan_parquet(path).select(column).collect())[column]


def estimate_rows(source: str | Path) -> int:
    """About how many rows there are: what Parquet files say, and for others a guess from their size."""
    paths = _expand(source)
    return sum(_count_rows(path) if path.suffix.lower() in _PARQUET else _guess_rows(path) for path in paths)


def _slice_reader(first: int, rows: int) -> Callable[[Path], pl.DataFrame]:
    return lambda path: _scan_parquet(path).slice(first, rows).collect()


def _count_rows(path: Path) -> int:
    return int(_told(path, lambda path: _scan_parquet(path).select(pl.len()).collect()).item())


def _guess_rows(path: Path) -> int:
    return path.stat().st_size // (_BYTES_OF_ZIPPED_ROW if path.suffix.lower() == ".gz" else _BYTES_OF_TEXT_ROW)


def _expand(source: str | Path) -> list[Path]:
    path = Path(source)
    if path.is_file():
        return [path]
    if path.is_dir():
        raise DataError(
            f"{source} is a folder", expected="a file, or a glob", fix=f"name its files, as in {path}/*.parquet"
        )
    paths = sorted(found for found in Path(path.anchor).glob(str(path.relative_to(path.anchor))) if found.is_file())
    if not paths:
        raise DataError(f"no file at {source}", expected="a file, or a glob that matches some", fix="check the path")
    return paths


def _read_file(path: Path, text: Collection[str]) -> pl.DataFrame:
    suffixes = [suffix.lower() for suffix in path.suffixes if suffix.lower() != ".gz"]
    reader = _READERS.get(suffixes[-1] if suffixes else "")
    if reader is None:
        raise DataError(
            f"{path.name} is of no known format",
            expected=f"a file that ends in one of {', '.join(_READERS)} (text formats also with .gz)",
            fix="convert or rename it",
        )
    return _told(path, lambda path: reader(path, text))


def _told(path: Path, read: Callable[[Path], pl.DataFrame]) -> pl.DataFrame:
    """What `read` gives; DataError where the file is not what its name says."""
    try:
        return read(path)
    except (pl.exceptions.PolarsError, OSError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DataError(
            f"{path.name} cannot be read ({reason})",
            expected="the format that its name stands for, with at least one row",
            fix="check the file, or write it anew",
        ) from error


def _read_parquet(path: Path, _text: Collection[str]) -> pl.DataFrame:
    return _scan_parquet(path).collect()


def _scan_parquet(path: Path) -> pl.LazyFrame:
    return pl.scan_parquet(path, glob=False)


def _read_csv(path: Path, text: Collection[str], separator: str = ",") -> pl.DataFrame:
    strings = pl.scan_csv(path, separator=separator, infer_schema=False, glob=False).collect()
    return strings.with_columns(_infer_type(column) for column in strings if column.name not in text)


def _read_tsv(path: Path, text: Collection[str]) -> pl.DataFrame:
    return _read_csv(path, text, "\t")


def _read_json_lines(path: Path, _text: Collection[str]) -> pl.DataFrame:
    return pl.scan_ndjson(path, infer_schema_length=None).collect()


def _infer_type(strings: pl.Series) -> pl.Series:
    """Int64, else Float64, else Boolean where every value reads as one; strings otherwise. An empty cell is null."""
    strings = strings.set(strings == "", None)
    for dtype in (pl.Int64, pl.Float64):
        numbers = strings.cast(dtype, strict=False)
        if numbers.null_count() == strings.null_count():
            return numbers
    lower = strings.str.to_lowercase()
    booleans = lower.replace_strict({"true": True, "false": False}, default=None, return_dtype=pl.Boolean)
    return booleans if booleans.null_count() == strings.null_count() else strings


_READERS: dict[str, Callable[[Path, Collection[str]], pl.DataFrame]] = {
    ".parquet": _read_parquet,
    ".pq": _read_parquet,
    ".csv": _read_csv,
    ".tsv": _read_tsv,
    ".jsonl": _read_json_lines,
    ".ndjson": _read_json_lines,
    ".json": _read_json_lines,
}
