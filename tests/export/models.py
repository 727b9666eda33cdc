"""Small models of every kind that LightGBM can make of a ranking, each with rows it was trained on."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import lightgbm
import numpy as np
import polars as pl

from features.spec import FeatureSpec
from pipeline.export import ExportModel

ROWS, GROUP, TREES = 600, 30, 8
BRANDS = tuple(f"brand {letter}" for letter in "abcdefghijklmnopqrstuvwxyz")


@dataclass(frozen=True)
class Kind:
    """How one kind of model comes about: parameters, and what is done to the plain features."""

    what: str
    params: dict[str, Any] = field(default_factory=dict)
    change: Callable[[np.ndarray, np.random.Generator], None] = lambda _x, _rng: None
    names: tuple[str, ...] = ("item.price", "item.clicks", "query.length", "user.age", "brand", "item.stock")
    category: bool = False
    stop_early: bool = False


def _blank(x: np.ndarray, rng: np.random.Generator) -> None:
    x[rng.random(x.shape) < 0.15] = np.nan


def _blank_and_zero(x: np.ndarray, rng: np.random.Generator) -> None:
    _zero(x, rng)
    _blank(x, rng)


def _zero(x: np.ndarray, rng: np.random.Generator) -> None:
    x[rng.random(x.shape) < 0.3] = 0.0


def _tiny(x: np.ndarray, _rng: np.random.Generator) -> None:
    x[:, 0] *= 1e-7
    x[:, 3] *= 1e-12


def _large(x: np.ndarray, _rng: np.random.Generator) -> None:
    x[:, 0] = 16_000_000 + np.round(x[:, 0] * 1000)
    x[:, 3] *= 1e25


def _wide(x: np.ndarray, rng: np.random.Generator) -> None:
    x[:, 0] = np.where(rng.random(len(x)) < 0.5, x[:, 0] * 1e-14, x[:, 0] * 1e36)


def _constant(x: np.ndarray, _rng: np.random.Generator) -> None:
    x[:, [1, 2, 3, 5]] = 1.0


def _two_values(x: np.ndarray, _rng: np.random.Generator) -> None:
    x[:, 0] = np.where(x[:, 0] > 0, 3.0, 1.0)


def _half_missing(x: np.ndarray, rng: np.random.Generator) -> None:
    x[:, 0] = np.where(rng.random(len(x)) < 0.5, np.nan, 1.0 + (x[:, 0] > 0))
    x[:, 1] = np.where(rng.random(len(x)) < 0.5, np.nan, 2.0)


RF = {"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.6}
AWKWARD = ('say "hi" */ {', "a b", "a_b", "prix d'été 🙂", "line\nbreak", "attribute(price)")

KINDS: dict[str, Kind] = {
    "plain": Kind("gbdt, nothing missing"),
    "missing": Kind("values missing (missing type NaN)", change=_blank),
    "missing_only": Kind("splits that only part missing from present", change=_half_missing),
    "no_missing": Kind("use_missing = false, values missing", {"use_missing": False}, _blank),
    "zero_missing": Kind("zero_as_missing", {"zero_as_missing": True}, _zero),
    "zero_and_nan": Kind("zero_as_missing, values missing", {"zero_as_missing": True}, _blank_and_zero),
    "categories": Kind("category splits, many against many", {"max_cat_to_onehot": 1}, category=True),
    "one_hot": Kind("category splits, one against all", {"max_cat_to_onehot": 64}, category=True),
    "categories_missing": Kind("category splits, values missing", change=_blank, category=True),
    "categories_zero": Kind("category splits, zero_as_missing", {"zero_as_missing": True}, _zero, category=True),
    "dart": Kind("dart", {"boosting": "dart", "drop_rate": 0.5}, _blank),
    "rf": Kind("random forest", RF, _blank),
    "rf_categories": Kind("random forest, category splits", RF, _blank, category=True),
    "goss": Kind("goss", {"data_sample_strategy": "goss", "top_rate": 0.3, "other_rate": 0.3}, _blank),
    "linear": Kind("linear_tree", {"linear_tree": True}),
    "linear_missing": Kind(
        "linear_tree, values missing, category splits", {"linear_tree": True}, _blank, category=True
    ),
    "monotone": Kind("monotone constraints", {"monotone_constraints": [1, -1, 0, 0, 0, 0]}, _blank),
    "interaction": Kind("interaction constraints", {"interaction_constraints": [[0, 1], [2, 3, 4, 5]]}),
    "xendcg": Kind("rank_xendcg", {"objective": "rank_xendcg"}, _blank),
    "regression": Kind("plain regression", {"objective": "regression"}, _blank),
    "early_stopping": Kind("early stopping", {"learning_rate": 1.0}, _blank, stop_early=True),
    "extra_trees": Kind("extra_trees, bagging", {"extra_trees": True, "bagging_fraction": 0.7, "bagging_freq": 1}),
    "stump": Kind("one tree of two leaves", {"num_leaves": 2, "num_iterations": 1}),
    "constant": Kind("trees of one leaf", {"objective": "regression", "min_data_in_leaf": ROWS}),
    "unused": Kind("features that no split uses", change=_constant),
    "two_values": Kind("a threshold one ulp above what is served (1, 3 -> 2.0000000000000004)", change=_two_values),
    "tiny": Kind("values around 1e-7 and 1e-12", change=_tiny),
    "large": Kind("integers near 2^24, values around 1e25", change=_large),
    "wide": Kind("one feature from 1e-14 to 1e36", change=_wide),
    "names": Kind("names with quotes, spaces, line breaks, emoji", change=_blank, names=AWKWARD),
    "names_categories": Kind("such names, category splits", change=_blank, names=AWKWARD, category=True),
}

SETTINGS = {
    "objective": "lambdarank",
    "num_leaves": 12,
    "min_data_in_leaf": 5,
    "min_data_in_bin": 1,
    "min_data_per_group": 5,
    "cat_smooth": 1.0,
    "cat_l2": 1.0,
    "learning_rate": 0.2,
    "num_threads": 1,
    "deterministic": True,
    "seed": 1,
    "verbosity": -1,
}


@cache
def make_model(name: str) -> ExportModel:
    kind = KINDS[name]
    rng = np.random.default_rng(sorted(KINDS).index(name))
    x, labels = _data(kind, rng)
    text = _train(kind, x, labels)
    features = tuple(_spec(kind, index) for index in range(x.shape[1]))
    frame = pl.DataFrame([_column(feature, x[:120, index]) for index, feature in enumerate(features)])
    return ExportModel(text, features, frame, np.arange(120) // GROUP, f"fingerprint of {name}")


def _data(kind: Kind, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    x = rng.normal(size=(ROWS, 6))
    x[:, 1] = rng.poisson(1.5, ROWS)
    x[:, 4] = rng.integers(1, len(BRANDS) + 1, ROWS)
    gain = x[:, 0] + 0.5 * x[:, 1] + np.sin(2.5 * x[:, 4]) - x[:, 3] * x[:, 2] + rng.normal(size=ROWS) / 3
    labels = np.digitize(gain, np.quantile(gain, [0.5, 0.75, 0.9, 0.97]))
    brands = x[:, 4].copy()
    kind.change(x, rng)
    if kind.category:
        x[:, 4] = np.where(np.isnan(x[:, 4]), np.nan, brands)
    return x.astype(np.float32).astype(np.float64), labels


def _train(kind: Kind, x: np.ndarray, labels: np.ndarray) -> str:
    settings = {**SETTINGS, **kind.params}
    rounds = settings.pop("num_iterations", TREES)
    half = ROWS // 2
    parts = (slice(0, half), slice(half, ROWS)) if kind.stop_early else (slice(0, ROWS),)
    sets = [_dataset(kind, x[part], labels[part], settings) for part in parts]
    if not kind.stop_early:
        return lightgbm.train(settings, sets[0], rounds).model_to_string()
    stop = lightgbm.early_stopping(2, verbose=False)
    booster = lightgbm.train({**settings, "metric": "ndcg"}, sets[0], 50, valid_sets=[sets[1]], callbacks=[stop])
    return booster.model_to_string(num_iteration=booster.best_iteration)


def _dataset(kind: Kind, x: np.ndarray, labels: np.ndarray, settings: dict[str, Any]) -> lightgbm.Dataset:
    groups = [GROUP] * (len(labels) // GROUP)
    categories = [4] if kind.category else []
    return lightgbm.Dataset(x, labels, group=groups, categorical_feature=categories, params=settings)


def _spec(kind: Kind, index: int) -> FeatureSpec:
    if kind.category and index == 4:
        return FeatureSpec(kind.names[index], "category", categories=BRANDS)
    return FeatureSpec(kind.names[index])


def _column(feature: FeatureSpec, values: np.ndarray) -> pl.Series:
    column = pl.Series(feature.name, values, nan_to_null=True)
    return column.cast(pl.Int32 if feature.dtype == "category" else pl.Float32)


def resized(text: str) -> str:
    """The text with tree_sizes that fit its trees, so that only the edit itself is wrong."""
    blocks = re.findall(r"^Tree=.*?(?=^Tree=|^end of trees)", text, flags=re.MULTILINE | re.DOTALL)
    sizes = " ".join(str(len(block.encode())) for block in blocks)
    return re.sub(r"^tree_sizes=.*$", f"tree_sizes={sizes}", text, flags=re.MULTILINE)
