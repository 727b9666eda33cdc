"""Rows that would show a wrong export: real ones, and those that stand exactly where rounding and rules differ.

All are (N, F) float64, NaN where missing, codes for categories. Those of `KINDS` hold only what a feature frame can:
Float32 numbers, and codes from 0 (unknown) to the last level. Those of `WILD` hold any double, and any code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import polars as pl

from features.spec import FeatureSpec
from pipeline.export.model import ExportModel
from pipeline.export.nested import LARGEST, round_down
from pipeline.forest import ZERO, Floats, Ints, Tree

KINDS = ("real", "random", "threshold", "missing", "zero", "category", "large")
WILD = ("threshold64", "code")
REAL = "real"

BUDGET = 20_000_000
"""Rows times trees that one export is proven on: seconds, even for the slowest evaluator."""
ROWS_PER_SPLIT = 7
RANDOM_ROWS = 500
GROUP = 20
"""Rows that are ranked against each other, where they come from no query."""
SEED = 20_240_607


@dataclass(frozen=True)
class Rows:
    """(N, F) values, the kind of each row, and the group (query) that it is ranked in.

    `splits` are the distinct conditions of the model, `probed` those that rows were put upon (all, within `BUDGET`).
    """

    values: Floats
    kinds: npt.NDArray[np.str_]
    groups: npt.NDArray[np.int64]
    splits: int
    probed: int

    def where(self, mask: npt.NDArray[np.bool_]) -> Rows:
        return replace(self, values=self.values[mask], kinds=self.kinds[mask], groups=self.groups[mask])

    def counts(self) -> dict[str, int]:
        return {kind: int((self.kinds == kind).sum()) for kind in KINDS + WILD}


def probe_rows(model: ExportModel) -> Rows:
    """All rows that a format has to get right, the same for every run (seeded)."""
    rng = np.random.default_rng(SEED)
    real = model.examples.cast(pl.Float64).to_numpy()
    base = np.vstack([real, _random_rows(model, real, rng)])
    chosen, distinct = _distinct_splits(model, rng)
    parts = [(REAL, real), ("random", base[len(real) :])]
    for kind, values_of in _SINGLE_VALUES.items():
        parts.append((kind, _one_by_one(model, base, values_of, rng)))
    parts += _on_splits(model, chosen, base, rng).items()
    kinds = np.concatenate([np.full(len(rows), kind) for kind, rows in parts])
    groups = np.concatenate(
        [model.queries, model.queries.max(initial=0) + 1 + np.arange(len(kinds) - len(real)) // GROUP]
    )
    return Rows(np.vstack([rows for _, rows in parts]), kinds, groups, distinct, len(chosen))


def _random_rows(model: ExportModel, real: Floats, rng: np.random.Generator) -> Floats:
    """Each feature drawn by itself from real values, thresholds and noise around both, a tenth of it missing."""
    columns = []
    for index, feature in enumerate(model.features):
        if feature.dtype == "category":
            drawn = rng.integers(0, len(feature.categories or ()) + 1, RANDOM_ROWS).astype(np.float64)
        else:
            thresholds = [tree.threshold[tree.feature == index] for tree in model.forest.trees]
            known = np.concatenate([real[:, index], *thresholds, [0.0, 1.0]])
            drawn = rng.choice(known[np.isfinite(known)], RANDOM_ROWS)
            drawn = drawn * np.where(rng.random(RANDOM_ROWS) < 0.5, 1.0, rng.normal(1.0, 0.1, RANDOM_ROWS))
            drawn = np.clip(drawn, -LARGEST, LARGEST).astype(np.float32).astype(np.float64)
        columns.append(np.where(rng.random(RANDOM_ROWS) < 0.1, np.nan, drawn))
    return np.column_stack(columns)


def _missing_values(_feature: FeatureSpec) -> list[float]:
    return [np.nan]


def _zero_values(feature: FeatureSpec) -> list[float]:
    return [] if feature.dtype == "category" else [0.0, -0.0, *(sign * x for sign in (1, -1) for x in _TINY)]


def _category_values(feature: FeatureSpec) -> list[float]:
    return (
        [float(code) for code in range(len(feature.categories or ()) + 1)][:100] if feature.dtype == "category" else []
    )


def _large_values(feature: FeatureSpec) -> list[float]:
    return (
        [] if feature.dtype == "category" else [2.0**24, 2.0**24 + 2, -(2.0**24), -(2.0**24) - 2, 2.0**100, -(2.0**100)]
    )


def _code_values(feature: FeatureSpec) -> list[float]:
    """Codes that no frame should hold: fractional, negative, beyond the last level, beyond every integer."""
    if feature.dtype != "category":
        return []
    last = len(feature.categories or ())
    return [
        -0.5,
        0.5,
        last + 0.999,
        last + 1.0,
        last + 32.0,
        -1.0,
        -1.5,
        2.0**24 + 1,
        2.0**31 - 1,
        2.0**31,
        -(2.0**31),
        1e300,
    ]


_TINY = tuple(float(np.float32(x)) for x in (ZERO, ZERO / 2, ZERO * 2, 1e-45, 1e-30))
_SINGLE_VALUES: dict[str, Callable[[FeatureSpec], list[float]]] = {
    "missing": _missing_values,
    "zero": _zero_values,
    "category": _category_values,
    "large": _large_values,
    "code": _code_values,
}


def _one_by_one(
    model: ExportModel, base: Floats, values_of: Callable[[FeatureSpec], list[float]], rng: np.random.Generator
) -> Floats:
    """For each feature that the model uses and each of its values, a random row with just that value replaced."""
    changes = [(index, value) for index in model.used for value in values_of(model.features[index])]
    rows = base[rng.integers(0, len(base), len(changes))]
    for row, (index, value) in zip(rows, changes, strict=True):
        row[index] = value
    return rows


def _distinct_splits(model: ExportModel, rng: np.random.Generator) -> tuple[list[tuple[int, int]], int]:
    """(tree, node) of one split per distinct condition, at most as many as `BUDGET` allows; and how many there are."""
    places = [(number, node) for number, tree in enumerate(model.forest.trees) for node in range(len(tree.feature))]
    rng.shuffle(places)
    found: dict[tuple[float, ...], tuple[int, int]] = {}
    for number, node in places:
        tree = model.forest.trees[number]
        condition = (float(tree.feature[node]), float(tree.threshold[node]), int(tree.missing[node]))
        own = (number, node) if tree.category[node] >= 0 else (int(tree.default_left[node]),)
        found.setdefault((*condition, *own), (number, node))
    most = max(100, BUDGET // len(model.forest.trees) // ROWS_PER_SPLIT)
    return list(found.values())[:most], len(found)


def _on_splits(
    model: ExportModel, chosen: list[tuple[int, int]], base: Floats, rng: np.random.Generator
) -> dict[str, Floats]:
    """For each split, rows that reach it and stand on its threshold, beside it, inside and outside its set."""
    rows: dict[str, list[Floats]] = {"threshold": [], "threshold64": []}
    for number, node in sorted(chosen):
        tree = model.forest.trees[number]
        row = _reaching(tree, node, base[rng.integers(len(base))])
        for kind, values in _values_at(tree, node, model.features[tree.feature[node]]).items():
            copies = np.tile(row, (len(values), 1))
            copies[:, tree.feature[node]] = values
            rows[kind].append(copies)
    empty = np.empty((0, len(model.features)))
    return {kind: np.vstack([empty, *parts]) for kind, parts in rows.items()}


def _values_at(tree: Tree, node: int, feature: FeatureSpec) -> dict[str, list[float]]:
    if tree.category[node] >= 0:
        inside = tree.codes[tree.category[node]]
        outside = np.setdiff1d(np.arange(len(feature.categories or ()) + 1), inside)
        known = inside[inside <= len(feature.categories or ())]
        return {"threshold": [float(code) for code in (*known[:1], *known[-1:], *outside[:1], *outside[-1:])]}
    threshold = tree.threshold[node]
    if not np.isfinite(threshold):
        return {"threshold": [0.0, np.nan]}
    down = round_down(threshold)
    up = np.nextafter(down, np.float32(np.inf))
    singles = [np.nextafter(down, np.float32(-np.inf)), down, up, np.nextafter(up, np.float32(np.inf))]
    doubles = [np.nextafter(threshold, -np.inf), threshold, np.nextafter(threshold, np.inf)]
    values = {"threshold": singles, "threshold64": doubles}
    return {kind: [float(x) for x in those if np.isfinite(x)] for kind, those in values.items()}


def _reaching(tree: Tree, node: int, row: Floats) -> Floats:
    """A copy of `row`, changed where needed so that it comes by `node` (if Float32 values and known codes can)."""
    row = row.copy()
    low: dict[int, float] = {}
    high: dict[int, float] = {}
    for above, goes_left in _path(tree, node):
        feature = int(tree.feature[above])
        if tree.category[above] >= 0:
            _choose_code(row, feature, tree.codes[tree.category[above]], inside=goes_left)
        elif goes_left:
            high[feature] = min(high.get(feature, np.inf), float(tree.threshold[above]))
        else:
            low[feature] = max(low.get(feature, -np.inf), float(tree.threshold[above]))
    for feature in low.keys() | high.keys():
        row[feature] = _between(row[feature], low.get(feature, -np.inf), high.get(feature, np.inf))
    return row


def _path(tree: Tree, node: int) -> Iterator[tuple[int, bool]]:
    """The splits from `node` up to the root, each with the side that `node` lies on."""
    while node:
        above = np.flatnonzero((tree.left == node) | (tree.right == node))[0]
        yield int(above), bool(tree.left[above] == node)
        node = int(above)


def _choose_code(row: Floats, feature: int, codes: Ints, *, inside: bool) -> None:
    if inside and row[feature] not in codes:
        row[feature] = codes[0] if codes.size else np.nan
    elif not inside and row[feature] in codes:
        row[feature] = np.nan


def _between(x: float, low: float, high: float) -> float:
    """`x` if low < x <= high, else a float32 that is, far from both ends if it can; NaN above an infinite `low`."""
    if low < x <= high:
        return x
    if low == np.inf:
        return np.nan
    below = low if np.isfinite(low) else min(high, 0.0) - abs(high) - 1
    above = high if np.isfinite(high) else max(low, 0.0) + abs(low) + 1
    middle = float(np.float32(below / 2 + above / 2)) if np.isfinite(below + above) else 0.0
    return middle if low < middle <= high else float(round_down(np.float64(high)))
