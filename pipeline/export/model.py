"""What an export starts from, what a format is, and how names and refusals look the same in all of them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from features.columns import QUERY
from features.errors import ConfigError, ExportError
from features.spec import FeatureSpec
from pipeline.dataset import FeatureSchema
from pipeline.forest import Bools, Floats, Forest, Ints
from pipeline.package import Package
from pipeline.trees import PLAIN_OBJECTIVES, parse_model

MAX_DEPTH = 300
"""Levels of a tree in a nested format: Jackson stops at a thousand levels of JSON, and a split takes up to three."""

FEATURES = "features.json"
README = "README.md"


@dataclass(frozen=True)
class ExportModel:
    """A model text with its ordered features, and rows that it is known to score: codes, in model order.

    `queries` (N,) says which rows are ranked against each other.
    """

    text: str
    features: tuple[FeatureSpec, ...]
    examples: pl.DataFrame
    queries: npt.NDArray[np.int64]
    fingerprint: str
    name: str = "rankloom"

    @classmethod
    def of(cls, package: Package) -> ExportModel:
        examples = package.schema.select(package.schema.encode(package.examples))
        queries = package.examples[QUERY].rle_id().to_numpy().astype(np.int64)
        return cls(package.model_text, package.schema.features, examples, queries, package.manifest.fingerprint)

    @cached_property
    def forest(self) -> Forest:
        """Raises PackageError for a damaged text, ExportError for one that no format can express."""
        forest = parse_model(self.text)
        if len(forest.names) != len(self.features):
            raise ExportError(
                f"the model text has {len(forest.names)} features, the list {len(self.features)}",
                expected="the features that the model was trained on, in order",
                fix="take both from the same package",
            )
        objective = forest.objective.split(" ")[0]
        if objective not in PLAIN_OBJECTIVES or "sqrt" in forest.objective:
            raise ExportError(
                f"the model was trained with objective {forest.objective!r}, which transforms its scores",
                expected="lambdarank, rank_xendcg or a plain regression",
                fix="train it with one of these",
            )
        return forest

    @cached_property
    def schema(self) -> FeatureSchema:
        return FeatureSchema(self.features)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(feature.name for feature in self.features)

    @property
    def used(self) -> tuple[int, ...]:
        """Indices of the features that some split (or linear leaf) looks at."""
        used = [tree.feature for tree in self.forest.trees]
        linear = [tree.linear for tree in self.forest.trees if tree.linear is not None]
        used += [features for leaves in linear for features in leaves.features]
        return tuple(int(index) for index in np.unique(np.concatenate(used)))


@dataclass(frozen=True)
class Outcome:
    """What an evaluator made of N rows: (N,) scores and, where it can tell, (N, T) leaves, numbered from the left.

    `offset` is what the target adds to every score, where it does.
    """

    scores: Floats
    leaves: Ints | None = None
    offset: float = 0.0


def no_blind_rows(_model: ExportModel, rows: Floats) -> Bools:
    return np.zeros(len(rows), bool)


@dataclass(frozen=True)
class Format:
    """A target. To be registered in `pipeline.export.FORMATS` is all it takes to be exported, proven and tested.

    `write(model, folder, version)` writes the files, or raises ExportError for what the target cannot express.
    `evaluate(folder, rows, version)` scores (N, F) rows with what was written, by the target's own rules or runtime.
    `exact` formats must equal LightGBM bit for bit, on any double; the others take Float32 values and known codes, must
    fall into the same leaves, and may differ by what rounding a sum can lose (in float32 where `single` is set).
    `blind(model, rows)` marks rows whose values the target is known not to tell apart: no row of a package may be one.
    `versions`: whether a target version can be asked for.
    """

    name: str
    summary: str
    exact: bool
    write: Callable[[ExportModel, Path, str | None], None]
    evaluate: Callable[[Path, Floats, str | None], Outcome]
    blind: Callable[[ExportModel, Floats], Bools] = no_blind_rows
    single: bool = False
    versions: bool = False


def refuse(format_name: str, found: str, *, fix: str) -> ExportError:
    """The one sentence for what a target cannot express."""
    return ExportError(found, expected=f"a model that {format_name} can express", fix=fix)


def refuse_linear(model: ExportModel, format_name: str) -> None:
    for number, tree in enumerate(model.forest.trees):
        if tree.linear is not None:
            raise refuse(
                format_name,
                f"tree {number} has linear models in its leaves (linear_tree)",
                fix="train with linear_tree = false, or export to c or python",
            )


def refuse_categories(model: ExportModel, format_name: str) -> None:
    for number, tree in enumerate(model.forest.trees):
        for node in np.flatnonzero(tree.category >= 0):
            name = model.names[tree.feature[node]]
            raise refuse(
                format_name,
                f"tree {number} splits on categories of {name!r}",
                fix="leave that feature out, or turn it into numbers (a rate or a count per level), and train again",
            )


def refuse_deep(model: ExportModel, format_name: str) -> None:
    for number, tree in enumerate(model.forest.trees):
        depth = tree.depth()
        if depth > MAX_DEPTH:
            raise refuse(
                format_name,
                f"tree {number} is {depth} levels deep, and JSON readers stop at a few hundred",
                fix=f"train with max_depth of at most {MAX_DEPTH}",
            )


def missing_directions(model: ExportModel, format_name: str) -> list[Bools]:
    """Per tree, whether each split sends a missing value left, for targets where zero is a number like any other.

    Raises ExportError where zero_as_missing sends zero against its threshold: that takes a rule no target has.
    """
    for number, tree in enumerate(model.forest.trees):
        against = tree.zero_goes_left() != (tree.threshold >= 0)
        for node in np.flatnonzero(against & (tree.category < 0)):
            raise refuse(
                format_name,
                f"tree {number} treats zero as missing in {model.names[tree.feature[node]]!r} (zero_as_missing)",
                fix="train with zero_as_missing = false, or export to c, python or onnx",
            )
    return [tree.missing_goes_left() for tree in model.forest.trees]


def require_missing_as_zero(model: ExportModel, format_name: str, number: int, lefts: Bools) -> None:
    """For targets that know no missing value: a split must send it where zero goes."""
    tree = model.forest.trees[number]
    for node in np.flatnonzero(lefts != (tree.threshold >= 0)):
        raise refuse(
            format_name,
            f"tree {number} sends a missing {model.names[tree.feature[node]]!r} elsewhere than zero",
            fix="name a newer --target-version, or fill missing values with 0 before training",
        )


def parse_version(text: str | None, *, default: tuple[int, ...]) -> tuple[int, ...]:
    """ "3.8" -> (3, 8). Raises ConfigError."""
    if text is None:
        return default
    if not re.fullmatch(r"[0-9]{1,4}(\.[0-9]{1,4})*", text):
        raise ConfigError(f"target version {text!r}", expected="numbers and dots", fix="write it as in 3.8 or 9.2.1")
    return tuple(int(part) for part in text.split("."))


def map_names(names: Sequence[str], pattern: str, keep: Callable[[str], bool] = lambda _name: False) -> dict[str, str]:
    """Our name -> a name that the target takes, one to one: characters outside `pattern` become "_".

    Where two names would meet, the later one gets a number. Names for which `keep` is true stay as they are.
    """
    found: dict[str, str] = {}
    taken = {name for name in names if keep(name)}
    for name in names:
        plain = name if keep(name) else re.sub(f"[^{pattern}]", "_", name)
        plain = plain if keep(name) or re.match("[A-Za-z_]", plain) else f"_{plain}"
        unique, number = plain, 2
        while not keep(name) and unique in taken:
            unique, number = f"{plain}_{number}", number + 1
        taken.add(unique)
        found[name] = unique
    return found


def write_features(
    model: ExportModel, folder: Path, names: Mapping[str, str] | None = None, *, offset: float = 0.0
) -> None:
    """features.json: the features in order, our name and the target's, type, what missing means, levels by code.

    `offset` is what the target adds to every score.
    """
    entries = [
        {
            "name": feature.name,
            "target_name": feature.name if names is None else names[feature.name],
            "dtype": feature.dtype,
            "missing": feature.missing,
            "used": index in model.used,
            **({"codes": category_codes(feature)} if feature.dtype == "category" else {}),
        }
        for index, feature in enumerate(model.features)
    ]
    content = {"fingerprint": model.fingerprint, "offset": offset, "features": entries}
    write_json(folder / FEATURES, content, indent=1)


def category_codes(feature: FeatureSpec) -> dict[str, int]:
    """Level -> code; what is not listed has code 0, what is missing has none."""
    return {level: code for code, level in enumerate(feature.categories or (), start=1)}


def write_json(path: Path, content: Any, *, indent: int | None = None) -> None:
    separators = None if indent else (",", ":")
    text = json.dumps(content, indent=indent, separators=separators, ensure_ascii=False, allow_nan=False)
    path.write_text(text + "\n", "utf-8")


def read_json(path: Path) -> Any:
    return json.loads(path.read_text("utf-8"))


def write_readme(folder: Path, title: str, text: str) -> None:
    made = f"Written by rankloom {version('rankloom')}. `parity.json` says how it was proven."
    (folder / README).write_text(f"# {title}\n\n{text.strip()}\n\n{made}\n", "utf-8")
