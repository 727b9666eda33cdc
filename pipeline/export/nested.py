"""Trees as nested objects, written from a model and read back; and thresholds in float32.

The readers know nothing of LightGBM: they turn what was written into arrays, and each target's file says by which
rule a row descends.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline.forest import Bools, Floats, Ints, Tree, descend

Singles = npt.NDArray[np.float32]
Json = dict[str, Any]

LARGEST = np.finfo(np.float32).max


def round_down(thresholds: Floats | np.float64) -> Singles:
    """The largest finite float32 that is not above each threshold: `x <= t` is `x <= round_down(t)` for float32 x."""
    with np.errstate(over="ignore"):
        nearest = thresholds.astype(np.float32)
    lower = np.where(nearest > thresholds, np.nextafter(nearest, np.float32(-np.inf)), nearest)
    return np.minimum(lower, LARGEST)


def next_above(thresholds: Floats) -> Singles:
    """The smallest float32 above each threshold: `x <= t` is `x < next_above(t)` for float32 x.

    Above the largest float32 there is none that JSON can hold; there it is that number itself.
    """
    with np.errstate(over="ignore"):
        return np.minimum(np.nextafter(round_down(thresholds), np.float32(np.inf)), LARGEST)


def nest(tree: Tree, leaf: Callable[[int], Json], split: Callable[[int, Json, Json], Json]) -> Json:
    """The root of `tree` as an object: `leaf(index)` and `split(node, left, right)` say what one looks like."""
    built: dict[int, Json] = {}
    for node in reversed(range(len(tree.feature))):
        children = (int(tree.left[node]), int(tree.right[node]))
        left, right = (built.pop(child) if child >= 0 else leaf(~child) for child in children)
        built[node] = split(node, left, right)
    return built[0] if built else leaf(0)


@dataclass(frozen=True)
class ReadTree:
    """A tree as its target would hold it: leaves are numbered from left to right, children as in `Tree`."""

    feature: Ints
    left: Ints
    right: Ints
    splits: tuple[Json, ...]
    leaves: tuple[Json, ...]

    def column(self, key: str, dtype: Any) -> npt.NDArray[Any]:
        """(S,) one field of every split, as numbers or booleans (numbers may be written as text)."""
        return np.array([split[key] for split in self.splits]).astype(dtype)

    def values(self, key: str, dtype: Any) -> npt.NDArray[Any]:
        """(L,) one field of every leaf."""
        return np.array([leaf[key] for leaf in self.leaves]).astype(dtype)

    def descend(self, rows: npt.NDArray[Any], goes_left: Callable[[Ints, npt.NDArray[Any]], Bools]) -> Ints:
        return descend(self.feature, self.left, self.right, rows, goes_left)


def read_tree(
    root: Json, children: Callable[[Json], tuple[Json, Json] | None], feature: Callable[[Json], int]
) -> ReadTree:
    """`children(node)` gives (left, right), or None for a leaf; `feature(split)` the column that it compares."""
    splits: list[Json] = []
    leaves: list[Json] = []
    links: list[list[int]] = []
    waiting: list[tuple[Json, int, int]] = [(root, -1, 0)]
    while waiting:
        node, parent, side = waiting.pop()
        pair = children(node)
        if parent >= 0:
            links[parent][side] = ~len(leaves) if pair is None else len(splits)
        if pair is None:
            leaves.append(node)
            continue
        waiting += [(pair[1], len(splits), 1), (pair[0], len(splits), 0)]
        splits.append(node)
        links.append([0, 0])
    sides = np.array(links, np.int32).reshape(-1, 2)
    features = np.array([feature(split) for split in splits], np.int32)
    return ReadTree(features, sides[:, 0], sides[:, 1], tuple(splits), tuple(leaves))
