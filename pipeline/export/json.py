"""LightGBM's JSON dump, which many readers know; proven by reading it with LightGBM's rules and nothing else."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pipeline.booster import dump_model, load_model
from pipeline.export.model import (
    ExportModel,
    Format,
    Outcome,
    read_json,
    refuse_deep,
    write_features,
    write_json,
    write_readme,
)
from pipeline.export.nested import Json, ReadTree, read_tree
from pipeline.forest import MISSING_NAN, MISSING_NONE, MISSING_ZERO, Floats, Forest, Ints, LinearLeaves, Tree

MODEL = "model.json"
MISSING = {"None": MISSING_NONE, "Zero": MISSING_ZERO, "NaN": MISSING_NAN}


def write(model: ExportModel, folder: Path, _version: str | None) -> None:
    refuse_deep(model, "json")
    write_json(folder / MODEL, dump(model))
    write_features(model, folder, dict(zip(model.names, model.forest.names, strict=True)))
    write_readme(folder, "LightGBM's JSON dump", _README)


def dump(model: ExportModel) -> Json:
    """LightGBM's dump, with the numbers that it rounds or clips (infinite thresholds) as the model text has them."""
    dumped = dump_model(load_model(model.text))
    for tree, entry in zip(model.forest.trees, dumped["tree_info"], strict=True):
        for node in read_dumped(entry["tree_structure"]).splits:
            if node["decision_type"] == "<=":
                threshold = float(tree.threshold[node["split_index"]])
                node["threshold"] = float(np.clip(threshold, -np.finfo(float).max, np.finfo(float).max))
    return dumped


def read_dumped(root: Json) -> ReadTree:
    return read_tree(
        root,
        lambda node: (node["left_child"], node["right_child"]) if "split_index" in node else None,
        lambda split: int(split["split_feature"]),
    )


def evaluate(folder: Path, rows: Floats, _version: str | None) -> Outcome:
    """The documented rules of the dump: "<=" or "==" a list of codes, `default_left`, `missing_type`."""
    content = read_json(folder / MODEL)
    trees = tuple(_rebuilt(read_dumped(entry["tree_structure"])) for entry in content["tree_info"])
    forest = Forest(tuple(content["feature_names"]), content["objective"], content["average_output"], trees)
    leaves = forest.leaves(rows)
    return Outcome(forest.score(rows, leaves), leaves)


def _rebuilt(read: ReadTree) -> Tree:
    splits = read.splits
    is_code = np.array([split["decision_type"] == "==" for split in splits], bool)
    codes = [np.array(split["threshold"].split("||"), np.int32) for split in splits if split["decision_type"] == "=="]
    category: Ints = np.where(is_code, np.cumsum(is_code) - 1, -1).astype(np.int32)
    return Tree(
        feature=read.feature,
        threshold=np.array([0.0 if code else split["threshold"] for code, split in zip(is_code, splits, strict=True)]),
        left=read.left,
        right=read.right,
        default_left=read.column("default_left", bool),
        missing=np.array([MISSING[split["missing_type"]] for split in splits], np.uint8),
        category=category,
        codes=tuple(codes),
        value=read.values("leaf_value", float),
        linear=_rebuilt_linear(read.leaves),
    )


def _rebuilt_linear(leaves: tuple[Json, ...]) -> LinearLeaves | None:
    if "leaf_const" not in leaves[0]:
        return None
    return LinearLeaves(
        np.array([leaf["leaf_const"] for leaf in leaves], np.float64),
        tuple(np.array(leaf["leaf_features"], np.int32) for leaf in leaves),
        tuple(np.array(leaf["leaf_coeff"], np.float64) for leaf in leaves),
    )


FORMAT = Format("json", "LightGBM's JSON dump", exact=True, write=write, evaluate=evaluate)

_README = """
`model.json` is what `Booster.dump_model()` gives, with exactly the trees of the package. A split sends x left where
`x <= threshold` (doubles); `decision_type` "==" where x, cut to an integer, is one of the codes in `threshold`
("1||5||7"). NaN follows `default_left` under `missing_type` "NaN"; under "None" it counts as 0; under "Zero" both NaN
and |x| <= 1e-35 follow `default_left`. At "==" NaN goes right. A score is the sum of one leaf per tree, or their mean
where `average_output` is true.

`features.json` maps names (`target_name` is the name in the dump) and gives the codes of categories.
"""
