"""One row per (query, item), grouped by query, in an order that the labels cannot influence."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Final

import polars as pl
from polars import selectors

from features.categories import encode_categories
from features.columns import POPULARITY, RELEVANCE
from features.context import Context, Feature
from features.custom import evaluate_expression
from features.fitted import Fitted
from features.item import popularity
from features.log import Log
from features.past import Past
from features.registry import all_features
from features.rows import join_rows, order_rows
from features.spec import FeatureSpec

__all__ = ["Table", "build_table", "order_rows"]

_MANY: Final = 100_000
"""Rows from which on features are worth a thread each."""


@dataclass(frozen=True, slots=True)
class Table:
    """The rows that compete, query by query, and what each feature column means.

    `frame` is in the order of `order_rows` and holds `query`, `item`, a column per feature (Float32, categories Int32
    codes), and where known `timestamp` (of the query, UTC), `user`, `position` and `relevance` (Float64, never null;
    absent when scoring). Further columns are fields: kept for baselines and strata, never fed to a model.
    """

    frame: pl.DataFrame
    features: tuple[FeatureSpec, ...]

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the feature columns, in the order of `features`."""
        return tuple(spec.name for spec in self.features)

    @property
    def labelled(self) -> bool:
        """Whether the rows carry a relevance."""
        return RELEVANCE in self.frame.columns


def build_table(
    log: Log,
    queries: pl.DataFrame,
    candidates: pl.DataFrame,
    fitted: Fitted,
    *,
    relevance: pl.DataFrame | None = None,
    past: Past | None = None,
) -> Table:
    """The candidates of the queries with the features of `fitted`, each as of strictly before its query.

    The same for training, evaluation and requests. `queries`, `candidates` and `relevance` as in
    `features.rows.join_rows`. Beside the features the frame keeps the fields of queries and of what was shown, but no
    lists and vectors, and `popularity`: the item's events before the query, other than being shown. With the `past` of
    a log in files, tables are to be built in order of time.
    """
    rows = join_rows(log, queries, candidates, relevance)
    context = Context(log, rows, fitted.description, fitted.rates, queries, past)
    columns = [popularity(context).alias(POPULARITY)]
    specs = []
    for spec, column in _build_features(context, fitted):
        specs.append(spec)
        columns.append(column)
    for name, text in fitted.custom.items():
        specs.append(FeatureSpec(f"custom.{name}", missing="the expression gives no finite number"))
        columns.append(_custom(specs[-1].name, text, context))
    return Table(rows.select(~selectors.nested()).with_columns(columns), tuple(specs))


def _build_features(context: Context, fitted: Fitted) -> list[tuple[FeatureSpec, pl.Series]]:
    """In several threads where there are many rows; not where the past is followed, which goes forward only."""
    finish = partial(_finish, context=context, fitted=fitted)
    if context.past is not None or context.rows.height < _MANY:
        return [finish(feature) for feature in fitted.features()]
    with ThreadPoolExecutor(pl.thread_pool_size()) as pool:
        return list(pool.map(finish, fitted.features()))


def _finish(feature: Feature, context: Context, fitted: Fitted) -> tuple[FeatureSpec, pl.Series]:
    """The column in its final type, categories as the codes that training fixed, and the spec that knows them."""
    spec, values = feature.spec, feature.build(context)
    if spec.dtype == "float32":
        return spec, values.cast(pl.Float32).alias(spec.name)
    levels = fitted.levels[spec.name]
    known = FeatureSpec(spec.name, "category", spec.missing, spec.lookback_days, levels)
    return known, encode_categories(values, levels).alias(spec.name)


def _custom(name: str, text: str, context: Context) -> pl.Series:
    """An expression may read any feature of the registry, whether or not it is used, and any field."""
    readers = _field_readers(context)
    for feature in all_features(context.description):
        readers[feature.spec.name] = partial(feature.build, context)
    return evaluate_expression(name, text, lambda column: readers[column](), readers)


def _field_readers(context: Context) -> dict[str, Callable[[], pl.Series]]:
    """Fields by their bare name, no lists or vectors; what was logged with the impression wins, then items, queries,
    users.
    """
    log = context.description
    tables = [
        (context.user_field, log.user_fields),
        (context.query_field, log.query_fields),
        (context.item_field, log.item_fields),
        (context.shown_field, log.shown_fields),
    ]
    return {
        field.name: partial(read, field.name)
        for read, fields in tables
        for field in fields
        if field.kind not in ("list", "vector")
    }
