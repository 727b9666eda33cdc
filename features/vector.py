"""How near the vector of an item lies to that of the user, of the query, and to the mean of the user's last items."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
import polars as pl

from features.columns import ITEM, QUERY, USER
from features.context import SHOWN, Context, Feature, numbers
from features.description import Description, Field
from features.nested import Bools, Matrix, read_vectors
from features.pooled import RECENT, Pooled, Side, blocks, of_candidates, of_side
from features.sequences import query_numbers
from features.spec import FeatureSpec
from features.windows import Floats, Ints

_AT_ONCE: Final = 2**22
"""Numbers held at once: bounds the memory, and changes nothing else."""
_PRODUCTS: Final = ("cosine", "dot")
_REDUCTIONS: Final[Mapping[str, Callable[[Matrix], Floats]]] = {
    "norm": lambda matrix: np.sqrt(np.einsum("ij,ij->i", matrix, matrix, dtype=np.float64)),
    "mean": lambda matrix: np.mean(matrix, axis=1, dtype=np.float64),
    "min": lambda matrix: np.min(matrix, axis=1).astype(np.float64),
    "max": lambda matrix: np.max(matrix, axis=1).astype(np.float64),
}
"""(K, size) vectors -> (K,) numbers."""


def vector_features(log: Description) -> Iterator[Feature]:
    """`vector.*`: of each vector of the item, or of what was shown, its norm, mean, least and largest number, and its
    cosine and dot product with every vector of the user and the query that has as many numbers, and with the mean of
    the vectors of the user's last items.
    """
    for table, fields in ((ITEM, log.item_fields), (SHOWN, log.shown_fields)):
        for field in fields:
            if field.kind == "vector":
                own = field.name if table == ITEM else f"{SHOWN}_{field.name}"
                yield from _reductions(own, table, field)
                for label, side, other in _others(log, field):
                    yield from _products(f"vector.{own}_{label}", table, field, side, other)
                if table == ITEM and log.users:
                    yield from _products(f"vector.{own}_{RECENT}", table, field, RECENT, field)


def _others(log: Description, field: Field) -> Iterator[tuple[str, Side, Field]]:
    """What a vector is compared with; in names, a vector that is called as it is goes without saying."""
    sides: tuple[tuple[Side, tuple[Field, ...]], ...] = (("user", log.user_fields), ("query", log.query_fields))
    for side, fields in sides:
        for other in fields:
            if other.kind == "vector" and other.size == field.size:
                yield side if other.name == field.name else f"{side}_{other.name}", side, other


def _reductions(own: str, table: str, field: Field) -> Iterator[Feature]:
    for what in _REDUCTIONS:
        spec = FeatureSpec(f"vector.{own}_{what}", missing=f"no {field.name}")
        yield Feature(spec, partial(_reduced, table=table, field=field, what=what))


def _products(name: str, table: str, field: Field, side: Side, other: Field) -> Iterator[Feature]:
    whose = {USER: "the user", QUERY: "the query", RECENT: "the user's last items"}[side]
    for what in _PRODUCTS:
        spec = FeatureSpec(f"{name}_{what}", missing=f"no {field.name}, no {other.name} of {whose}, or one is zero")
        yield Feature(spec, partial(_product, table=table, field=field, side=side, other=other, what=what))


def _reduced(context: Context, table: str, field: Field, what: str) -> pl.Series:
    vectors = _Vectors.of(of_candidates(context, table, field.name), field.size)
    return _finite(_REDUCTIONS[what](vectors.matrix)[vectors.which], vectors.known[vectors.which])


def _product(context: Context, table: str, field: Field, side: Side, other: Field, what: str) -> pl.Series:
    key = f"vector {table} {field.name} {side} {other.name}"
    return context.once(key, lambda: _compare(context, table, field, side, other))[what]


def _compare(context: Context, table: str, field: Field, side: Side, other: Field) -> Mapping[str, pl.Series]:
    """Cosine and dot product at once."""
    own = _Vectors.of(of_candidates(context, table, field.name), field.size)
    others = _Vectors.of(of_side(context, side, other.name), other.size)
    query = query_numbers(context)
    dots, norms = np.zeros(len(query)), np.zeros(len(query))
    for rows, queries in blocks(query, _AT_ONCE // (field.size * others.which.shape[1])):
        mine = own.matrix[own.which[rows]].astype(np.float64)
        theirs = others.mean(others.which[queries])[query[rows] - queries.start]
        dots[rows] = _row_by_row(mine, theirs)
        norms[rows] = np.sqrt(_row_by_row(mine, mine)) * np.sqrt(_row_by_row(theirs, theirs))
    known = norms > 0
    return {"dot": _finite(dots, known), "cosine": _finite(dots / np.where(known, norms, 1), known)}


@dataclass(frozen=True, slots=True)
class _Vectors:
    """`matrix` (K, size) and `known` (K,) as in `features.nested.read_vectors`, `which` as in `Pooled`."""

    matrix: Matrix
    known: Bools
    which: Ints

    @classmethod
    def of(cls, pooled: Pooled, size: int) -> _Vectors:
        matrix, known = read_vectors(pooled.values, size)
        return cls(matrix, known, pooled.which)

    def mean(self, which: Ints) -> Floats:
        """(M, n) numbers of vectors -> (M, size) the mean of those that there are."""
        count = np.maximum(self.known[which].sum(axis=1), 1)
        mean: Floats = self.matrix[which].astype(np.float64).sum(axis=1) / count[:, None]
        return mean


def _row_by_row(first: Floats, second: Floats) -> Floats:
    """(M, size) and (M, size) -> (M,) dot products."""
    products: Floats = np.einsum("ij,ij->i", first, second)
    return products


def _finite(values: Floats, known: Bools) -> pl.Series:
    """As Float32, null where not known or too large for it."""
    inside: Bools = np.abs(values) <= np.finfo(np.float32).max
    return numbers(np.where(inside, values, 0.0), known & inside)
