"""Every split as one plain comparison, `column <= threshold`, for targets that know nothing of LightGBM's rules.

What LightGBM decides at each node (is the value missing, does missing mean NaN or zero, which way does it go) depends
only on the feature and on the node's settings. So a row is first expanded into one column per feature and setting,
with missing values already turned into what makes the comparison come out right, and the trees are left with
comparisons of numbers and look-ups of codes.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np

from pipeline.forest import MISSING_NONE, MISSING_ZERO, ZERO, Floats, Forest, Ints, Tree

MAX_CODE = 2**31
"""Codes from here on do not fit LightGBM's int and are in no set."""


class Treatment(Enum):
    """What becomes of a value before it is compared: minus infinity goes left of every threshold, NaN right of all."""

    NUMBER = "NaN is 0"
    LEFT = "NaN goes left"
    RIGHT = "NaN goes right"
    ZERO_LEFT = "NaN and zero go left"
    ZERO_RIGHT = "NaN and zero go right"
    CODE = "a category code, -1 where there is none"


@dataclass(frozen=True, slots=True)
class Column:
    feature: int
    treatment: Treatment


@dataclass(frozen=True)
class Splits:
    """The distinct columns that a forest compares, and for each tree the index of the column at each of its splits."""

    columns: tuple[Column, ...]
    by_tree: tuple[Ints, ...]


def plan_splits(forest: Forest) -> Splits:
    index: dict[Column, int] = {}
    by_tree = []
    for tree in forest.trees:
        columns = [Column(int(feature), _treatment(tree, node)) for node, feature in enumerate(tree.feature)]
        by_tree.append(np.array([index.setdefault(column, len(index)) for column in columns], np.int32))
    return Splits(tuple(index), tuple(by_tree))


def expand(rows: Floats, column: Column) -> Floats:
    """(N, F) feature values -> (N,) values of one column."""
    x = rows[:, column.feature]
    blank = np.isnan(x)
    if column.treatment is Treatment.CODE:
        return np.where((x > -1) & (x < MAX_CODE), np.trunc(np.where(blank, -1.0, x)), -1.0)
    if column.treatment is Treatment.NUMBER:
        return np.where(blank, 0.0, x)
    absent = blank | (np.abs(x) <= ZERO) if column.treatment in _ZEROS else blank
    return np.where(absent, -np.inf if column.treatment in _LEFTS else np.nan, x)


_ZEROS = (Treatment.ZERO_LEFT, Treatment.ZERO_RIGHT)
_LEFTS = (Treatment.LEFT, Treatment.ZERO_LEFT)


def _treatment(tree: Tree, node: int) -> Treatment:
    if tree.category[node] >= 0:
        return Treatment.CODE
    if tree.missing[node] == MISSING_NONE:
        return Treatment.NUMBER
    left = bool(tree.default_left[node])
    if tree.missing[node] == MISSING_ZERO:
        return Treatment.ZERO_LEFT if left else Treatment.ZERO_RIGHT
    return Treatment.LEFT if left else Treatment.RIGHT
