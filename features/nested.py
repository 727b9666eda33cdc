"""Lists and vectors in the cells of a column, as arrays.

A vector is a list of floats (or an array of fixed size) with as many numbers in every cell, all of them finite. An
empty list where a vector is expected stands for none.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from features.errors import DataError

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]
Matrix = npt.NDArray[np.float32]


def is_vector(dtype: pl.DataType) -> bool:
    """Whether a column of this type holds vectors."""
    if isinstance(dtype, pl.Array):
        return dtype.inner.is_numeric()
    return isinstance(dtype, pl.List) and dtype.inner.is_float()


def size_of_vectors(column: pl.Series) -> int | None:
    """The dimension of the vectors of a column, None where it holds none. Raises DataError as `read_vectors`."""
    sizes = _sizes(column).drop_nulls().unique().sort()
    if len(sizes) == 0:
        return None
    read_vectors(column, int(sizes[0]))
    return int(sizes[0])


def read_vectors(column: pl.Series, size: int) -> tuple[Matrix, Bools]:
    """(K,) vectors -> (K + 1, size), zeros where there is none, and (K + 1,) whether there is one.

    The last stands for none: its number is -1.
    Raises DataError for another dimension, and for what is null, NaN, infinite or no number in Float32.
    """
    sizes = _sizes(column)
    if ((sizes != size) & sizes.is_not_null()).any():
        found = ", ".join(str(other) for other in sizes.drop_nulls().unique().sort()[:3])
        raise DataError(
            f"the vectors {column.name!r} are of dimension {found}",
            expected=f"{size} numbers in each, or null",
            fix="mend the column, or write it as whole numbers or text where it is a list",
        )
    flat = _lists(column).drop_nulls().explode(empty_as_null=False).cast(pl.Float32, strict=False)
    if flat.null_count() or not flat.is_finite().all():
        raise DataError(
            f"the vectors {column.name!r} hold values that are null, NaN or infinite",
            expected="finite numbers",
            fix="mend the column, or write null for a vector that is not known",
        )
    known = np.append(sizes.is_not_null().to_numpy(), False)
    matrix = np.zeros((len(known), size), np.float32)
    matrix[known] = flat.to_numpy().reshape(-1, size)
    return matrix, known


@dataclass(frozen=True, slots=True)
class Lists:
    """(K,) lists of codes, one after another in `codes`, each value of a list once.

    `starts`, `sizes` (K + 1,): where each begins, and how many values it holds. `known` (K + 1,): whether there is a
    list; an empty one is known. The last stands for none: its number is -1.
    """

    codes: Ints
    starts: Ints
    sizes: Ints
    known: Bools

    @property
    def top(self) -> int:
        """The largest code, 0 where there is none."""
        return int(self.codes.max(initial=0))

    def gather(self, which: Ints) -> tuple[Ints, Ints]:
        """(M,) numbers of lists, -1 for none -> the codes of all of them, and for each code the place in `which`."""
        sizes = self.sizes[which]
        owners = np.repeat(np.arange(len(which)), sizes)
        begins = np.cumsum(sizes) - sizes
        places = self.starts[which[owners]] + np.arange(len(owners)) - begins[owners]
        return self.codes[places], owners


def read_lists(*columns: pl.Series) -> tuple[Lists, ...]:
    """Columns of lists -> their values as codes from 0, equal where the values are, as text; nulls are no values."""
    texts = [_lists(column).cast(pl.List(pl.String)).list.drop_nulls().list.unique() for column in columns]
    values = [text.drop_nulls().explode(empty_as_null=False).alias("value") for text in texts]
    levels = pl.concat(values).unique().to_frame().with_row_index("code")
    return tuple(_coded(text, value, levels) for text, value in zip(texts, values, strict=True))


def _coded(text: pl.Series, values: pl.Series, levels: pl.DataFrame) -> Lists:
    codes = values.to_frame().join(levels, on="value", how="left", maintain_order="left")["code"]
    sizes = np.append(text.list.len().fill_null(0).cast(pl.Int64).to_numpy(), 0)
    known = np.append(text.is_not_null().to_numpy(), False)
    return Lists(codes.cast(pl.Int64).to_numpy(), np.cumsum(sizes) - sizes, sizes, known)


def _sizes(column: pl.Series) -> pl.Series:
    """(K,) numbers in each vector, null where there is none."""
    sizes = _lists(column).list.len()
    return sizes.set(sizes == 0, None)


def _lists(column: pl.Series) -> pl.Series:
    if isinstance(column.dtype, pl.Array):
        return column.arr.to_list()
    if not isinstance(column.dtype, pl.List):
        raise DataError(
            f"field {column.name!r} is of type {column.dtype}", expected="lists", fix="keep its type as it was"
        )
    return column
