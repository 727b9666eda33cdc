"""Ready-made tables: query, item, relevance and feature columns from LETOR, Parquet or CSV files -> Parts."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import combinations
from pathlib import Path

import polars as pl

from features.categories import encode_categories, fit_categories
from features.columns import ITEM, POSITION, QUERY, RELEVANCE, TIMESTAMP, USER
from features.errors import ConfigError, DataError, DatasetError
from features.normalise import normalise_ids, normalise_times
from features.sources import read_tables
from features.spec import FeatureSpec
from features.table import Table
from pipeline.config import Config
from pipeline.dataset import check_ids, check_levels
from pipeline.letor import LetorFile, content_ids, is_letor, read_letor
from pipeline.settings import Data
from pipeline.split import Origin, Parts, split_table

_KEYS = (QUERY, ITEM, RELEVANCE, TIMESTAMP, USER, POSITION)


def load_parts(config: Config) -> Parts:
    """The train, valid and test tables that `[data]` names. Raises DataError or ConfigError."""
    data = config.data
    paths = {name: Path(path) for name in ("table", "train", "valid", "test") if (path := getattr(data, name))}
    if "valid" in paths and "test" not in paths:
        raise ConfigError(
            "data.valid without data.test", expected="all three files, or train and test", fix="name the test file too"
        )
    frames = _read_files(paths, data)
    names = _feature_names(frames, config)
    frames, described = _split(frames, config)
    _check_apart(frames)
    tables = _as_tables(frames, names, config.features.categories)
    origin = Origin(described, continuous=config.relevance.levels is not None)
    return Parts(tables["train"], tables["valid"], tables["test"], origin)


def read_rows(
    path: Path,
    columns: Mapping[str, str],
    *,
    required: Sequence[str] = (QUERY, ITEM),
    letor_width: int = 0,
    time_unit: str | None = None,
) -> pl.DataFrame:
    """One file, LETOR, Parquet, CSV or JSON lines, with our column names, integers or text for ids, and times in UTC.

    LETOR features are called f1, f2, ..., at least up to f<letor_width>; one that no row names is 0 everywhere.
    Raises DataError for a file that is missing, broken or empty, or that lacks a mapped or required column.
    """
    if is_letor(path):
        return _letor_frame(read_letor(path), letor_width)
    ids = [columns.get(name, name) for name in (QUERY, ITEM, USER)]
    frame = _renamed(_read_table(path, text=ids), columns, path)
    if "" in frame.columns:
        raise DataError(
            f"{path} has a column without a name",
            expected="a name for each",
            fix="drop it (pandas writes its index so: to_csv(..., index=False))",
        )
    missing = [name for name in required if name not in frame.columns]
    if missing:
        raise DataError(
            f"{path} has no column {' and '.join(missing)}",
            expected=f"it among {', '.join(frame.columns[:12])}",
            fix="add it, or name it in [data] columns",
        )
    ids = [name for name in (QUERY, ITEM, USER) if name in frame.columns]
    frame = frame.with_columns(normalise_ids(frame[name], what=f"{name} of {path}") for name in ids)
    check_ids(frame, str(path))
    if TIMESTAMP not in frame.columns:
        return frame
    return frame.with_columns(_normalised_times(frame[TIMESTAMP], time_unit, path))


def present_columns(path: Path, columns: Mapping[str, str]) -> dict[str, str]:
    """Of a mapping made for other files, what this file has; LETOR files have no names to map."""
    if is_letor(path) or not path.is_file():
        return {}
    names = _read_table(path).columns
    return {ours: theirs for ours, theirs in columns.items() if theirs in names}


def _read_table(path: Path, *, text: Sequence[str] = ()) -> pl.DataFrame:
    """`text` are columns of a CSV file to be kept as they are spelled: the id 007 is not the id 7."""
    if not path.is_file():
        raise DataError(f"no file {path}", expected="a Parquet, CSV, JSON-lines or LETOR file", fix="check the path")
    try:
        frame = _read_by_suffix(path, text)
    except (pl.exceptions.PolarsError, OSError, UnicodeDecodeError, EOFError) as error:
        reason = str(error).splitlines()[0]
        raise DataError(
            f"{path} cannot be read: {reason}", expected="a Parquet, CSV or JSON-lines file", fix="write it anew"
        ) from error
    if frame.height == 0:
        raise DataError(f"{path} has no rows", expected="at least one query", fix="check how it was written")
    return frame


def _read_by_suffix(path: Path, text: Sequence[str]) -> pl.DataFrame:
    if ".parquet" in path.suffixes:
        return pl.read_parquet(path)
    if ".csv" in path.suffixes:
        return _read_csv(path, text)
    return next(frame for _, frame in read_tables(path))


def _renamed(frame: pl.DataFrame, columns: Mapping[str, str], path: Path) -> pl.DataFrame:
    missing = [theirs for theirs in columns.values() if theirs not in frame.columns]
    if missing:
        raise DataError(
            f"{path} has no column {', '.join(missing)}",
            expected=f"the columns that [data] columns names (found: {', '.join(frame.columns[:12])})",
            fix="correct [data] columns",
        )
    renamed = {theirs: ours for ours, theirs in columns.items() if ours != theirs}
    taken = [ours for ours in renamed.values() if ours in frame.columns and ours not in renamed]
    if taken:
        raise DataError(
            f"{path} has a column {taken[0]} beside the one that [data] columns maps to it",
            expected="one of the two",
            fix="drop or rename the other",
        )
    return frame.rename(renamed)


def _read_csv(path: Path, text: Sequence[str]) -> pl.DataFrame:
    """Polars would rename the second of two equal column names in silence."""
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as file:
        header = next(csv.reader(file), [])
    twice = sorted({name for name in header if header.count(name) > 1})
    if twice:
        raise DataError(
            f"{path} names column {twice[0]!r} twice", expected="each column once", fix="rename or drop one of them"
        )
    kept = dict.fromkeys(set(text) & set(header), pl.String)
    return pl.read_csv(path, infer_schema_length=None, schema_overrides=kept)


def _read_files(paths: dict[str, Path], data: Data) -> dict[str, pl.DataFrame]:
    columns = dict(data.columns)
    frames = _one_type({name: read_rows(path, columns, time_unit=data.time_unit) for name, path in paths.items()})
    width = max(frame.width for frame in frames.values())
    for name, path in paths.items():
        if is_letor(path) and frames[name].width < width:
            frames[name] = _widened(frames[name], width - len((QUERY, ITEM, RELEVANCE)))
    return frames


def _split(frames: dict[str, pl.DataFrame], config: Config) -> tuple[dict[str, pl.DataFrame], str]:
    cut = config.split
    if "valid" in frames:
        return frames, "by files"
    source = frames["table"] if "table" in frames else frames["train"]
    parts, described = split_table(
        Table(source, ()),
        by=cut.by,
        valid=cut.valid,
        test=cut.test,
        gap=config.split_gap,
        with_test="test" not in frames,
    )
    split = {name: table.frame for name, table in parts.items()}
    if "test" not in frames:
        return split, described
    return split | {"test": frames["test"]}, f"test from a file of its own; train and valid {described}"


def _letor_frame(file: LetorFile, width: int) -> pl.DataFrame:
    items = file.items if file.items is not None else content_ids(file.matrix, file.labels, file.queries)
    columns = {f"f{j + 1}": pl.Series(file.matrix[:, j]) for j in range(file.matrix.shape[1])}
    frame = pl.DataFrame({QUERY: file.queries, ITEM: items, RELEVANCE: pl.Series(file.labels)} | columns)
    return _widened(frame, width)


def _widened(frame: pl.DataFrame, width: int) -> pl.DataFrame:
    present = set(frame.columns)
    absent = [name for name in (f"f{j}" for j in range(1, width + 1)) if name not in present]
    return frame.with_columns(pl.lit(0.0, pl.Float32).alias(name) for name in absent)


def _feature_names(frames: dict[str, pl.DataFrame], config: Config) -> list[str]:
    """The columns of the first file that `[features]` asks for; every file must have them."""
    chosen, (part, first) = config.features, next(iter(frames.items()))
    unknown = [name for name in chosen.categories if name not in first.columns]
    if unknown:
        raise ConfigError(
            f"features.categories names {', '.join(unknown)}",
            expected=f"columns of the {part} file",
            fix="correct the names",
        )
    rest = [name for name in first.columns if name not in _KEYS]
    use = ("*",) if chosen.use is None else chosen.use
    for setting, patterns in (("use", use), ("drop", chosen.drop)):
        idle = [pattern for pattern in patterns if not any(fnmatchcase(name, pattern) for name in rest)]
        if idle and rest:
            raise ConfigError(
                f"features.{setting} names {idle[0]!r}, which matches no column",
                expected=f"some of {', '.join(rest[:8])}",
                fix="correct it",
            )
    names = [name for name in rest if _matches(name, use) and not _matches(name, chosen.drop)]
    if not names:
        raise ConfigError(
            f"no feature column among {', '.join(rest[:8]) or 'none'}",
            expected="at least one that features.use matches",
            fix="correct features.use and features.drop",
        )
    for name, frame in frames.items():
        missing = [column for column in (RELEVANCE, *names) if column not in frame.columns]
        if missing:
            raise DataError(
                f"the {name} file has no column {', '.join(missing[:5])}",
                expected=f"{RELEVANCE} and the features of the {part} file",
                fix="add it, or name it in [data] columns",
            )
    return names


def _as_tables(frames: dict[str, pl.DataFrame], names: list[str], categories: tuple[str, ...]) -> dict[str, Table]:
    """Levels of categories come from the training part alone."""
    for frame in frames.values():
        for name in categories:
            check_levels(frame[name])
    levels = {name: fit_categories(frames["train"][name]) for name in categories}
    features = tuple(
        FeatureSpec(name, "category", categories=levels[name]) if name in levels else FeatureSpec(name)
        for name in names
    )
    return {
        part: Table(frame.with_columns(encode_categories(frame[name], levels[name]) for name in levels), features)
        for part, frame in frames.items()
    }


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _one_type(frames: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """Ids of one type in all files: text, where one file holds text and another only numbers."""
    for name in (QUERY, ITEM):
        if len({frame[name].dtype for frame in frames.values()}) > 1:
            frames = {part: frame.with_columns(pl.col(name).cast(pl.String)) for part, frame in frames.items()}
    return frames


def _normalised_times(times: pl.Series, unit: str | None, path: Path) -> pl.Series:
    found, outside = normalise_times(times, unit=unit, what=f"{TIMESTAMP} of {path}")
    unusable = int((found.is_null() | outside).sum())
    if unusable:
        raise DataError(
            f"{unusable} row(s) of {path} without a usable {TIMESTAMP}",
            expected="a time between 1990 and 2100 in every row",
            fix="drop these rows, mend them, or leave the column out",
        )
    return found


def _check_apart(frames: dict[str, pl.DataFrame]) -> None:
    """No query may straddle two parts: its rows would be trained on and judged by at once."""
    for first, second in combinations(("train", "valid", "test"), 2):
        both = frames[first].join(frames[second].select(QUERY).unique(), on=QUERY, how="semi")[QUERY]
        if len(both):
            raise DatasetError(
                f"query {both[0]!r} stands in {first} and in {second} ({both.n_unique()} such queries)",
                expected="each query in one part only",
                fix="split by whole queries",
            )
