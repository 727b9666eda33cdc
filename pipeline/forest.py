"""A model as frozen arrays, with LightGBM's rule at a node (`include/LightGBM/tree.h`) in NumPy.

What every export is written from, and what every export is held against: `Forest.score` equals LightGBM's own scores
to the last bit, so its leaves are LightGBM's leaves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]

MISSING_NONE, MISSING_ZERO, MISSING_NAN = 0, 1, 2
ZERO = float(np.float32(1e-35))
"""LightGBM's kZeroThreshold, a float32: under missing type "zero" every |x| up to it counts as missing."""


@dataclass(frozen=True, slots=True, eq=False)
class LinearLeaves:
    """The linear model of each leaf: `constant` (L,), and per leaf the feature indices and their coefficients."""

    constant: Floats
    features: tuple[Ints, ...]
    coefficients: tuple[Floats, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Tree:
    """One tree of L leaves and L - 1 splits; node 0 is the root, a child c >= 0 is node c, c < 0 is leaf ~c.

    A numeric split sends x left where x <= threshold (infinite where it only parts missing from present). Before
    that, a missing x goes by `default_left`: NaN under missing type "nan", NaN and |x| <= `ZERO` under "zero"; under
    "none" NaN counts as 0. A category split sends x left where trunc(x) is in `codes[category[node]]`; NaN, negative
    and unlisted codes go right.
    """

    feature: Ints
    threshold: Floats
    left: Ints
    right: Ints
    default_left: Bools
    missing: npt.NDArray[np.uint8]
    category: Ints
    """(L - 1,) index into `codes`, -1 at numeric splits."""
    codes: tuple[Ints, ...]
    """Sorted codes that go left, one array per category split."""
    value: Floats
    linear: LinearLeaves | None

    def goes_left(self, nodes: Ints, x: Floats) -> Bools:
        """(N,) nodes and the values there of their features -> (N,) whether each goes left."""
        missing = self.missing[nodes]
        blank = np.isnan(x)
        number = np.where(blank, 0.0, x)
        left = number <= self.threshold[nodes]
        absent = np.where(missing == MISSING_NAN, blank, (missing == MISSING_ZERO) & (np.abs(number) <= ZERO))
        left = np.where(absent, self.default_left[nodes], left)
        category = self.category[nodes]
        for split in np.unique(category[category >= 0]):
            at = category == split
            left[at] = np.isin(np.trunc(x[at]), self.codes[split]) & (x[at] > -1)
        return left

    def leaves(self, rows: Floats) -> Ints:
        """(N, F) feature values -> (N,) leaf index of each row."""
        return descend(self.feature, self.left, self.right, rows, self.goes_left)

    def outputs(self, rows: Floats, leaves: Ints) -> Floats:
        """(N,) what the tree adds to the score of rows that fell into `leaves`."""
        if self.linear is None:
            return self.value[leaves]
        result = np.empty(len(rows))
        for leaf in np.unique(leaves):
            at = np.flatnonzero(leaves == leaf)
            result[at] = self._linear_output(self.linear, int(leaf), rows[at])
        return result

    def _linear_output(self, linear: LinearLeaves, leaf: int, rows: Floats) -> Floats:
        """(N,) linear model of one leaf; the plain leaf value where a feature that it uses is missing."""
        total = np.full(len(rows), linear.constant[leaf])
        with np.errstate(over="ignore", invalid="ignore"):
            for feature, weight in zip(linear.features[leaf], linear.coefficients[leaf], strict=True):
                total += weight * rows[:, feature]
        blank = np.isnan(rows[:, linear.features[leaf]]).any(axis=1)
        return np.where(blank, self.value[leaf], total)

    def preorder(self) -> list[int]:
        """The leaf indices from left to right, as a reader of nested formats meets them."""
        order, stack = [], [0 if len(self.feature) else -1]
        while stack:
            node = stack.pop()
            if node < 0:
                order.append(~node)
            else:
                stack += [int(self.right[node]), int(self.left[node])]
        return order

    def depth(self) -> int:
        """Splits on the longest way from the root to a leaf."""
        depths = np.zeros(len(self.feature), np.int64)
        for node in range(len(self.feature)):
            inner = [child for child in (self.left[node], self.right[node]) if child >= 0]
            depths[inner] = depths[node] + 1
        return int(depths.max(initial=-1)) + 1

    def zero_goes_left(self) -> Bools:
        """(L - 1,) where each numeric split sends x = 0."""
        return np.where(self.missing == MISSING_ZERO, self.default_left, self.threshold >= 0)

    def missing_goes_left(self) -> Bools:
        """(L - 1,) where each split sends NaN."""
        left = np.where(self.missing == MISSING_NAN, self.default_left, self.zero_goes_left())
        return left & (self.category < 0)


def descend(
    feature: Ints, left: Ints, right: Ints, rows: npt.NDArray[Any], goes_left: Callable[[Ints, npt.NDArray[Any]], Bools]
) -> Ints:
    """(N,) leaf of each row in a tree whose splits follow `goes_left(nodes, values of their features)`."""
    node = np.full(len(rows), 0 if len(feature) else -1, np.int32)
    waiting = np.flatnonzero(node >= 0)
    while waiting.size:
        at = node[waiting]
        node[waiting] = np.where(goes_left(at, rows[waiting, feature[at]]), left[at], right[at])
        waiting = waiting[node[waiting] >= 0]
    return ~node


@dataclass(frozen=True, slots=True, eq=False)
class Forest:
    """All trees of a model. `names` are the feature names as the text spells them, in order."""

    names: tuple[str, ...]
    objective: str
    average: bool
    trees: tuple[Tree, ...]

    @property
    def nodes(self) -> int:
        return sum(len(tree.feature) for tree in self.trees)

    def leaves(self, rows: Floats) -> Ints:
        """(N, F) -> (N, T) leaf of each row in each tree."""
        return np.column_stack([tree.leaves(rows) for tree in self.trees])

    def score(self, rows: Floats, leaves: Ints | None = None) -> Floats:
        """(N, F) -> (N,) scores, summed in LightGBM's order, so that they equal its own to the last bit."""
        leaves = self.leaves(rows) if leaves is None else leaves
        total = np.zeros(len(rows))
        for index, tree in enumerate(self.trees):
            total += tree.outputs(rows, leaves[:, index])
        return total / len(self.trees) if self.average else total
