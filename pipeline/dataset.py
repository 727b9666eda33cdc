"""RankingDataset: the frozen thing that trainer, evaluator and exporter accept.

Whatever would make LightGBM abort, or train on other queries or labels than meant, is refused here, by name:
it has no query ids (only sizes), turns a null label into 0, and ends the process at a column type it cannot read.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from math import inf
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from features.categories import encode_categories
from features.columns import ITEM, QUERY, RELEVANCE
from features.errors import DatasetError, PackageError
from features.spec import FeatureSpec
from features.table import Table, order_rows
from pipeline.labels import LabelRule

MAX_QUERY_ROWS = 10_000
"""LightGBM refuses longer queries when the booster is made (kMaxPosition), whatever the truncation level."""

MAX_ROWS = 2**31 - 1
EXACT_FLOAT32 = 2**24
"""Above this, neighbouring integers share one float32."""


@dataclass(frozen=True)
class FeatureSchema:
    """The ordered features of a model: sorted by name, so that the order of a frame never changes a model."""

    features: tuple[FeatureSpec, ...]

    @classmethod
    def of(cls, features: Sequence[FeatureSpec]) -> FeatureSchema:
        """Sorts the features; raises DatasetError where there are none or two share a name."""
        counts = Counter(feature.name for feature in features)
        twice = sorted(name for name, count in counts.items() if count > 1)
        if twice or not counts:
            raise DatasetError(
                f"features named twice: {', '.join(twice)}" if twice else "no feature column",
                expected="at least one feature, each of its own name",
                fix="rename one of them" if twice else "add feature columns beside query, item and relevance",
            )
        return cls(tuple(sorted(features, key=lambda feature: feature.name)))

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(feature.name for feature in self.features)

    @property
    def categorical(self) -> tuple[str, ...]:
        return tuple(feature.name for feature in self.features if feature.dtype == "category")

    @cached_property
    def fingerprint(self) -> str:
        """sha256 of names, types and levels in order: equal fingerprints mean interchangeable feature frames."""
        content = [asdict(feature) for feature in self.features]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    def select(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The feature columns of `frame` by name, in model order: Float32, and Int32 codes for categories.

        Raises PackageError for a missing column or a category that does not hold codes (see `encode`), DatasetError
        for a type that no feature can have, an infinite value, or an integer that Float32 cannot hold.
        """
        names, known = self.names, set(frame.columns)
        missing = [name for name in names if name not in known]
        if missing:
            raise PackageError(
                f"{len(missing)} feature column(s) missing: {', '.join(missing[:5])}",
                expected=f"the {len(self.names)} features the model was trained on",
                fix="add them under exactly these names (renamed columns are missing ones)",
            )
        chosen = frame[list(names)]
        if chosen.dtypes == self._dtypes and not any(map(_has_infinite, chosen)):
            return chosen
        return pl.DataFrame([_as_feature(frame[feature.name], feature) for feature in self.features])

    @cached_property
    def _dtypes(self) -> list[pl.DataType]:
        return [pl.Int32() if feature.dtype == "category" else pl.Float32() for feature in self.features]

    def encode(self, frame: pl.DataFrame) -> pl.DataFrame:
        """`frame` with the category columns it has turned from levels (text, integers, booleans) into codes."""
        encoded = frame.clone()
        for feature in self.features:
            if feature.dtype == "category" and feature.name in frame.columns:
                codes = _encoded(frame[feature.name], feature)
                encoded.replace_column(frame.get_column_index(feature.name), codes)
        return encoded


@dataclass(frozen=True)
class RankingDataset:
    """Rows grouped by query, in an order that labels and input order cannot influence.

    `keys` (N rows): query, item and what else the table knows (timestamp, user, position ...), no features.
    `features` (N rows): Float32 and Int32 columns in schema order. `sizes` (Q,) int32, summing to N.
    `relevance` (N,) float64 is the truth that metrics use; `labels` (N,) int32 is what LightGBM is given, and
    `gains` the gain of each label. Arrays are read-only.
    """

    keys: pl.DataFrame
    features: pl.DataFrame
    schema: FeatureSchema
    sizes: npt.NDArray[np.int32]
    relevance: npt.NDArray[np.float64]
    labels: npt.NDArray[np.int32]
    gains: tuple[float, ...]

    @classmethod
    def build(
        cls, table: Table, *, labels: LabelRule, part: str, schema: FeatureSchema | None = None
    ) -> RankingDataset:
        """Checks and orders `table`; `part` ("train", "valid", "test") is named in messages. Raises DatasetError."""
        frame = table.frame
        _check_keys(frame, part)
        _check_relevance(frame, part)
        frame = order_rows(frame)
        schema = schema or FeatureSchema.of(table.features)
        sizes = query_sizes(frame[QUERY])
        _check_sizes(frame[QUERY], sizes, part)
        features = schema.select(frame)
        relevance = frame[RELEVANCE].cast(pl.Float64).to_numpy()
        integer = labels.to_labels(relevance, part)
        keys = frame.drop([name for name in schema.names if name in frame.columns])
        return cls(keys, features, schema, frozen(sizes), frozen(relevance), frozen(integer), labels.gains)

    @property
    def rows(self) -> int:
        return self.features.height

    @cached_property
    def starts(self) -> npt.NDArray[np.int64]:
        """(Q,) index of each query's first row."""
        return np.concatenate([[0], np.cumsum(self.sizes[:-1], dtype=np.int64)]).astype(np.int64)

    @cached_property
    def queries(self) -> pl.Series:
        """(Q,) query ids in order."""
        return self.keys[QUERY].gather(self.starts)

    @cached_property
    def has_positive(self) -> npt.NDArray[np.bool_]:
        """(Q,) whether the query has an item whose label has a positive gain: without one there is nothing to learn."""
        return np.maximum.reduceat(np.asarray(self.gains)[self.labels], self.starts) > 0

    def keep(self, mask: npt.NDArray[np.bool_]) -> RankingDataset:
        """The queries where `mask` (Q,) is true, whole and in order. Raises DatasetError where none is left."""
        if mask.all():
            return self
        if not mask.any():
            raise DatasetError(
                "no query is left", expected="at least one query with a relevant item", fix="check the relevance column"
            )
        rows = np.repeat(mask, self.sizes)
        chosen = pl.Series(rows)
        return replace(
            self,
            keys=self.keys.filter(chosen),
            features=self.features.filter(chosen),
            sizes=frozen(self.sizes[mask]),
            relevance=frozen(self.relevance[rows]),
            labels=frozen(self.labels[rows]),
        )

    def joined(self, other: RankingDataset) -> RankingDataset:
        """The queries of `self`, then those of `other` (same schema and gains)."""
        return RankingDataset(
            pl.concat([self.keys, other.keys], how="diagonal_relaxed"),
            pl.concat([self.features, other.features]),
            self.schema,
            frozen(np.concatenate([self.sizes, other.sizes])),
            frozen(np.concatenate([self.relevance, other.relevance])),
            frozen(np.concatenate([self.labels, other.labels])),
            self.gains,
        )


def query_sizes(queries: pl.Series) -> npt.NDArray[np.int32]:
    """Run lengths of a column of query ids, in row order (a count per value would come in another order)."""
    return queries.rle().struct.field("len").cast(pl.Int32).to_numpy()


def check_ids(frame: pl.DataFrame, where: str) -> None:
    """Raises DatasetError where `where` holds query or item ids that are null, or neither integers nor text."""
    for name in [name for name in (QUERY, ITEM) if name in frame.columns]:
        dtype = frame[name].dtype
        if not (dtype.is_integer() or dtype == pl.String):
            raise DatasetError(
                f"{name} ids of type {dtype}", expected="integers or text", fix=f"cast the column of {name} ids"
            )
        nulls = frame[name].null_count()
        if nulls:
            one = "an item id" if name == ITEM else f"a {name} id"
            raise DatasetError(
                f"{nulls} row(s) of {where} without {one}",
                expected=f"{one} in every row",
                fix="drop these rows or give them ids",
            )


def frozen(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The array, contiguous, as a view that nobody can write to."""
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view


def _check_keys(frame: pl.DataFrame, part: str) -> None:
    if frame.height == 0:
        raise DatasetError(
            f"no row in the {part} part", expected="at least one query", fix="check the data and [split]"
        )
    if frame.height > MAX_ROWS:
        raise DatasetError(
            f"{frame.height} rows in the {part} part",
            expected=f"at most {MAX_ROWS}",
            fix="train on a sample of the queries",
        )
    check_ids(frame, f"the {part} part")
    twice = frame.select(QUERY, ITEM).filter(pl.struct(QUERY, ITEM).is_duplicated())
    if twice.height:
        query, item = twice.sort(QUERY, ITEM).row(0)
        raise DatasetError(
            f"item {item!r} stands more than once in query {query!r} ({twice.height} such rows in the {part} part)",
            expected="one row per query and item",
            fix="keep the row of the highest relevance",
        )


def _check_relevance(frame: pl.DataFrame, part: str) -> None:
    column = frame[RELEVANCE]
    if not column.dtype.is_numeric():
        raise DatasetError(f"relevance of type {column.dtype}", expected="numbers", fix="cast the relevance column")
    values = column.cast(pl.Float64)
    bad = values.is_null() | ~values.is_finite() | (values < 0)
    count = int(bad.fill_null(True).sum())
    if count:
        query, item, value = frame.select(QUERY, ITEM, values).filter(bad.fill_null(True)).row(0)
        raise DatasetError(
            f"{count} row(s) of the {part} part without a usable relevance, the first {value} at query {query!r}, "
            f"item {item!r}",
            expected="a finite number of at least 0 in every row",
            fix="drop these rows or give them a relevance (a return is no negative purchase: map it to 0)",
        )


def _check_sizes(queries: pl.Series, sizes: npt.NDArray[np.int32], part: str) -> None:
    largest = int(np.argmax(sizes))
    if sizes[largest] > MAX_QUERY_ROWS:
        query = queries.gather(int(sizes[:largest].sum())).item()
        raise DatasetError(
            f"query {query!r} of the {part} part has {sizes[largest]} rows",
            expected=f"at most {MAX_QUERY_ROWS} (LightGBM's limit)",
            fix="name the right query column in [data] columns, or keep fewer candidates per query",
        )


def _as_feature(column: pl.Series, feature: FeatureSpec) -> pl.Series:
    if feature.dtype == "category":
        return _as_codes(column, feature)
    dtype = column.dtype
    if not (dtype in (pl.Float32, pl.Float64, pl.Boolean, pl.Null) or dtype.is_integer()):
        raise DatasetError(
            f"feature {feature.name!r} is of type {dtype}",
            expected="numbers or booleans",
            fix="cast it, leave it out, or list it in [features] categories if it is text",
        )
    if _is_whole(column) and _largest(column) > EXACT_FLOAT32:
        raise DatasetError(
            f"feature {feature.name!r} holds the whole number {_largest(column)}",
            expected=f"at most {EXACT_FLOAT32} (2^24), above which float32 cannot tell neighbours apart",
            fix="rescale it (dollars for cents, days for seconds), or leave it out if it is an id",
        )
    values = column.cast(pl.Float32)
    if _has_infinite(values):
        raise DatasetError(
            f"feature {feature.name!r} holds an infinite value",
            expected="finite numbers, or null where unknown",
            fix="clip it to the range of float32, or set null",
        )
    return values.alias(feature.name)


def _has_infinite(column: pl.Series) -> bool:
    """The extremes tell, and take a hundredth of the time of asking every value of a short column."""
    return column.max() == inf or column.min() == -inf


def _as_codes(column: pl.Series, feature: FeatureSpec) -> pl.Series:
    if column.dtype == pl.Int32:
        return column.alias(feature.name)
    raise PackageError(
        f"category {feature.name!r} is of type {column.dtype}",
        expected="Int32 codes",
        fix="encode its levels with the schema the model was trained with",
    )


def check_levels(column: pl.Series) -> None:
    """Raises DatasetError for a column that cannot hold the levels of a category: a float has no stable spelling."""
    if not (column.dtype.is_integer() or column.dtype in (pl.String, pl.Boolean, pl.Categorical, pl.Enum, pl.Null)):
        raise DatasetError(
            f"category {column.name!r} is of type {column.dtype}", expected="text or integers", fix="cast it to text"
        )


def _encoded(column: pl.Series, feature: FeatureSpec) -> pl.Series:
    check_levels(column)
    return encode_categories(column, feature.categories or ())


def _is_whole(column: pl.Series) -> bool:
    """Integers, or float64 numbers that all are whole and large, as pandas makes of integers with gaps."""
    if column.dtype != pl.Float64:
        return column.dtype.is_integer()
    known = column.drop_nulls().to_numpy()
    known = known[np.isfinite(known)]
    large = np.abs(known).max(initial=0.0)
    return EXACT_FLOAT32 < large < 2**63 and bool((known == np.floor(known)).all())


def _largest(column: pl.Series) -> int:
    """The largest magnitude in a column of whole numbers."""
    known = column.drop_nulls().to_numpy()
    known = known[np.isfinite(known)] if column.dtype.is_float() else known
    return max(int(known.max(initial=0)), -int(known.min(initial=0)))
