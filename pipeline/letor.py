"""SVMLight / LETOR files: `label qid:7 1:0.5 3:1.2 # docid = D7`, sparse or dense, plain or .gz.

Group membership comes from `qid:`, or from a file of sizes beside the rows (`rank.train` and `rank.train.query`).
A feature that a row does not name is 0, as everywhere in this format.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from features.errors import DataError, DatasetError
from features.hashing import splitmix64

_CHUNK_LINES = 50_000
_MAX_FEATURE = 100_000


@dataclass(frozen=True)
class LetorFile:
    """`matrix` (N, F) float32, column j = feature id j + 1; `labels` (N,) float64; ids per row, None where unnamed."""

    path: Path
    matrix: npt.NDArray[np.float32]
    labels: npt.NDArray[np.float64]
    queries: pl.Series
    items: pl.Series | None


def is_letor(path: Path) -> bool:
    """Whether the name is none of the table formats (LETOR files have all sorts of endings)."""
    return not {".parquet", ".csv", ".jsonl", ".ndjson"} & {suffix.lower() for suffix in path.suffixes}


def read_letor(path: Path) -> LetorFile:
    """Reads one file. Raises DataError, naming the line, for what is not SVMLight, and for sizes that do not fit."""
    chunks = list(_parse_chunks(path))
    if not chunks:
        raise DataError(f"{path} has no rows", expected="lines such as '2 qid:7 1:0.5 3:1.2'", fix="check the path")
    width = max(chunk.matrix.shape[1] for chunk in chunks)
    matrix = np.vstack([np.pad(chunk.matrix, ((0, 0), (0, width - chunk.matrix.shape[1]))) for chunk in chunks])
    labels = np.concatenate([chunk.labels for chunk in chunks])
    items = _item_ids(pl.concat([chunk.comments for chunk in chunks]))
    queries = _query_ids(path, pl.concat([chunk.queries for chunk in chunks]), matrix, labels)
    return LetorFile(path, matrix, labels, queries, items)


def content_ids(matrix: npt.NDArray[np.float32], labels: npt.NDArray[np.float64], queries: pl.Series) -> pl.Series:
    """(N,) item ids for rows that have none: a hash of the row's features, so that no order of input matters.

    Rows of one query with the very same features are numbered by a hash of their label, the only thing left that tells
    them apart; where that agrees too, they may trade places and nothing changes.
    """
    hashes = _hash_rows(matrix)
    frame = pl.DataFrame({"query": queries, "row": hashes, "label": splitmix64(hashes ^ labels.view(np.uint64))})
    copy = pl.col("label").rank("ordinal").over("query", "row") - 1
    name = pl.col("row").map_elements(lambda value: f"{value:016x}", return_dtype=pl.String)
    suffix = pl.when(pl.col("copy") == 0).then(pl.lit("")).otherwise(pl.format(".{}", "copy"))
    return frame.with_columns(copy=copy).select(item=name + suffix).to_series()


@dataclass(frozen=True)
class _Chunk:
    matrix: npt.NDArray[np.float32]
    labels: npt.NDArray[np.float64]
    queries: pl.Series
    comments: pl.Series


def _parse_chunks(path: Path) -> Iterator[_Chunk]:
    try:
        with (
            gzip.open(path, "rt", encoding="utf-8-sig")
            if path.suffix == ".gz"
            else path.open(encoding="utf-8-sig") as file
        ):
            first = 1
            while lines := list(islice(file, _CHUNK_LINES)):
                numbered = [
                    (first + i, line) for i, line in enumerate(lines) if line.strip() and line.lstrip()[0] != "#"
                ]
                if numbered:
                    yield _parse(path, numbered)
                first += len(lines)
    except FileNotFoundError as error:
        raise DataError(f"no file {path}", expected="an SVMLight file", fix="check the path") from error
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise DataError(
            f"{path} cannot be read: {error}", expected="text, or .gz of it", fix="write it anew"
        ) from error


def _parse(path: Path, numbered: list[tuple[int, str]]) -> _Chunk:
    lines = pl.DataFrame(numbered, schema={"line": pl.UInt32, "text": pl.String}, orient="row").with_row_index("row")
    halves = lines.with_columns(pl.col("text").str.splitn("#", 2).struct.rename_fields(["body", "comment"])).unnest(
        "text"
    )
    words = pl.col("body").str.replace_all(r"\s+", " ").str.strip_chars().str.split(" ")
    tokens = halves.select("row", "line", token=words)
    labels = tokens.select("row", "line", text=pl.col("token").list.first()).with_columns(
        value=pl.col("text").cast(pl.Float64, strict=False)
    )
    _refuse(path, labels.filter(pl.col("value").is_null()), "label")
    pairs = (
        tokens.select("row", "line", text=pl.col("token").list.slice(1))
        .explode("text")
        .drop_nulls("text")
        .with_columns(pl.col("text").str.splitn(":", 2).struct.rename_fields(["key", "number"]).alias("pair"))
        .unnest("pair")
    )
    is_query = pl.col("key") == "qid"
    queries = lines.select("row").join(
        pairs.filter(is_query).unique("row", keep="first", maintain_order=True).select("row", qid="number"),
        on="row",
        how="left",
        maintain_order="left",
    )["qid"]
    values = pairs.filter(~is_query).with_columns(
        id=pl.col("key").cast(pl.Int64, strict=False), value=pl.col("number").cast(pl.Float32, strict=False)
    )
    legal = pl.col("id").is_between(1, _MAX_FEATURE) & pl.col("value").is_not_null()
    _refuse(path, values.filter(~legal.fill_null(False)), "feature")
    _refuse(path, values.filter(pl.struct("row", "id").is_duplicated()), "repeated feature")
    ids = values["id"].to_numpy()
    matrix = np.zeros((lines.height, ids.max(initial=0)), np.float32)
    matrix[values["row"].to_numpy(), ids - 1] = values["value"].to_numpy()
    return _Chunk(matrix, labels["value"].to_numpy(), queries, halves["comment"])


def _refuse(path: Path, broken: pl.DataFrame, what: str) -> None:
    if broken.height:
        line, text = broken.select("line", "text").row(0)
        raise DataError(
            f"{path}, line {line}: {what} {text!r}",
            expected="'label qid:7 1:0.5 3:1.2' with feature ids from 1, each once a line",
            fix="mend that line",
        )


def _item_ids(comments: pl.Series) -> pl.Series | None:
    """Document ids as LETOR writes them in the comment (`#docid = D7 inc = ...`), where every row has one."""
    ids = comments.str.extract(r"docid\s*=\s*(\S+)", 1)
    return None if ids.null_count() else ids.alias("item")


def _query_ids(
    path: Path, named: pl.Series, matrix: npt.NDArray[np.float32], labels: npt.NDArray[np.float64]
) -> pl.Series:
    sizes_path = path.with_name(path.name.removesuffix(".gz") + ".query")
    if named.null_count() == 0:
        if sizes_path.exists():
            _check_blocks(path, named, _read_sizes(sizes_path, len(labels)))
        whole = named.cast(pl.Int64, strict=False)
        return (whole if whole.null_count() == 0 else named).alias("query")
    if named.null_count() < len(named):
        raise DataError(
            f"{path}: {named.null_count()} of {len(named)} rows have no qid",
            expected="a qid in every row, or in none",
            fix="add the missing ones",
        )
    if not sizes_path.exists():
        raise DataError(
            f"{path}: no qid in the rows and no {sizes_path.name} beside it",
            expected="one of the two",
            fix="write the size of each query, one a line, to that file",
        )
    sizes = _read_sizes(sizes_path, len(labels))
    return _name_queries(np.repeat(np.arange(len(sizes)), sizes), matrix, labels)


def _check_blocks(path: Path, named: pl.Series, sizes: npt.NDArray[np.int64]) -> None:
    blocks = named.rle().struct.field("len").to_numpy()
    scattered = named.rle().struct.field("value").value_counts().filter(pl.col("count") > 1).sort("value")
    if scattered.height:
        query, count = scattered.row(0)
        raise DatasetError(
            f"{path}: query {query} appears in {count} blocks",
            expected="contiguous rows per query, as the file comes with group sizes",
            fix="sort the rows by query, or remove the file of sizes",
        )
    if not np.array_equal(blocks, sizes):
        raise DatasetError(
            f"{path}: the blocks of qid do not have the sizes in the file beside it",
            expected="the same queries in both",
            fix="write the sizes anew, in row order, or remove the file of sizes",
        )


def _read_sizes(path: Path, rows: int) -> npt.NDArray[np.int64]:
    words = path.read_text("utf-8", errors="replace").split()
    if not words or not all(word.isdecimal() and int(word) > 0 for word in words):
        raise DatasetError(
            f"{path} holds other things than sizes", expected="one whole number a line", fix="rewrite it"
        )
    sizes = np.array([int(word) for word in words], np.int64)
    if sizes.sum() != rows:
        ids = len(sizes) == rows
        raise DatasetError(
            f"group sizes sum {sizes.sum()}, rows {rows}",
            expected=f"sizes that sum to {rows}" + ("; did you pass ids?" if ids else ""),
            fix="write the number of rows of each query" + (", not the id of each row" if ids else ""),
        )
    return sizes


def _name_queries(
    group: npt.NDArray[np.int64], matrix: npt.NDArray[np.float32], labels: npt.NDArray[np.float64]
) -> pl.Series:
    """Ids for queries that have none: a hash of their rows, in whatever order queries and rows stand."""
    rows = splitmix64(_hash_rows(matrix) ^ splitmix64(labels.view(np.uint64)))
    totals = np.zeros(int(group[-1]) + 1, np.uint64)
    np.add.at(totals, group, rows)
    frame = pl.DataFrame({"hash": splitmix64(totals)})
    copy = pl.int_range(pl.len()).over("hash")
    names = frame.with_columns(copy=copy).select(
        pl.when(pl.col("copy") == 0)
        .then(pl.col("hash").map_elements(lambda value: f"q{value:016x}", return_dtype=pl.String))
        .otherwise(pl.format("q{}.{}", "hash", "copy"))
    )
    return names.to_series().gather(group).alias("query")


def _hash_rows(matrix: npt.NDArray[np.float32]) -> npt.NDArray[np.uint64]:
    """(N, F) -> (N,): zero entries do not count, so that a sparse and a dense writing of a row agree."""
    hashes = np.zeros(len(matrix), np.uint64)
    for column in range(matrix.shape[1]):
        bits = np.ascontiguousarray(matrix[:, column]).view(np.uint32).astype(np.uint64)
        salted = splitmix64(bits ^ np.uint64(column + 1 << 32))
        hashes += np.where(matrix[:, column] == 0, np.uint64(0), salted)
    return splitmix64(hashes)
