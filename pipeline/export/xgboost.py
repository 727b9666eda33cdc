"""The `model/xgboost+json` definition that both Learning to Rank plugins read, and the rules both share.

Source: `XGBoostJsonParser.java` and `NaiveAdditiveDecisionTree.java` of o19s/elasticsearch-learning-to-rank and of
opensearch-project/opensearch-learning-to-rank-base. Everything is float32; a row goes to `yes` where
`threshold > value`; `children[0]` must be `yes`, `children[1]` `no`; unknown keys are refused, so nothing else is
written. Lucene forbids negative scores: a last tree of one leaf adds what the lowest leaves of all trees could miss.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from enum import Enum
from pathlib import Path

import numpy as np

from pipeline.export.model import (
    FEATURES,
    ExportModel,
    Format,
    Outcome,
    map_names,
    missing_directions,
    read_json,
    refuse,
    refuse_categories,
    refuse_deep,
    refuse_linear,
    require_missing_as_zero,
    write_features,
    write_json,
    write_readme,
)
from pipeline.export.nested import LARGEST, Json, ReadTree, Singles, nest, next_above, read_tree
from pipeline.forest import Bools, Floats, Ints

MODEL, FEATURE_SET = "model.json", "featureset.json"
TYPE = "model/xgboost+json"


class Missing(Enum):
    """What a release does with a feature that has no value."""

    ZERO = "counts as 0"
    RIGHT = "goes right at every split"
    BY_NODE = "goes where the split says"


def plugin_format(name: str, product: str, missing_rule: Callable[[str | None], Missing], note: str = "") -> Format:
    """The format of one plugin: `missing_rule` tells what each of its releases does with missing values."""

    def write(model: ExportModel, folder: Path, version: str | None) -> None:
        write_definition(model, folder, name, missing_rule(version))
        write_readme(folder, f"A ranking model for {product}", _README.format(note=note, host=f"${product.upper()}"))

    def evaluate(folder: Path, rows: Floats, version: str | None) -> Outcome:
        return evaluate_definition(folder, rows, missing_rule(version))

    return Format(
        name,
        f"xgboost+json for {product}'s LTR plugin",
        exact=False,
        write=write,
        evaluate=evaluate,
        blind=blind,
        single=True,
        versions=True,
    )


def write_definition(model: ExportModel, folder: Path, engine: str, missing: Missing) -> None:
    """model.json (the body that creates the model), featureset.json (the body that creates its feature set)."""
    for check in (refuse_linear, refuse_categories, refuse_deep):
        check(model, engine)
    names = map_names(model.names, "A-Za-z0-9_.")
    trees = [
        _tree(model, number, lefts, names, engine, missing)
        for number, lefts in enumerate(missing_directions(model, engine))
    ]
    offset = _offset(model)
    if offset > 0:
        trees.append({"nodeid": 0, "leaf": float(offset)})
    definition = json.dumps({"objective": "rank:ndcg", "splits": trees}, separators=(",", ":"), allow_nan=False)
    body = {"model": {"name": model.name, "model": {"type": TYPE, "definition": definition}}}
    write_json(folder / MODEL, body)
    features = [_feature(names[name]) for name in model.names]
    write_json(folder / FEATURE_SET, {"featureset": {"name": model.name, "features": features}}, indent=1)
    write_features(model, folder, names, offset=float(offset))


def _tree(model: ExportModel, number: int, lefts: Bools, names: dict[str, str], engine: str, missing: Missing) -> Json:
    tree = model.forest.trees[number]
    _check_missing(model, number, lefts, engine, missing)
    thresholds = next_above(tree.threshold).astype(float)
    values = leaf_values(model, number).astype(float)
    depths = _depths(tree.left, tree.right)
    first_leaf = len(tree.feature)

    def split(node: int, left: Json, right: Json) -> Json:
        return {
            "nodeid": node,
            "depth": depths[node],
            "split": names[model.names[tree.feature[node]]],
            "split_condition": float(thresholds[node]),
            "yes": left["nodeid"],
            "no": right["nodeid"],
            "missing": (left if lefts[node] else right)["nodeid"],
            "children": [left, right],
        }

    return nest(tree, lambda leaf: {"nodeid": first_leaf + leaf, "leaf": float(values[leaf])}, split)


def _check_missing(model: ExportModel, number: int, lefts: Bools, engine: str, missing: Missing) -> None:
    if missing is Missing.ZERO:
        require_missing_as_zero(model, engine, number, lefts)
    if missing is not Missing.RIGHT:
        return
    for node in np.flatnonzero(lefts):
        name = model.names[model.forest.trees[number].feature[node]]
        raise refuse(
            engine,
            f"tree {number} sends a missing {name!r} left, and this release sends every missing value right",
            fix="name the --target-version of a release that follows each split",
        )


def leaf_values(model: ExportModel, number: int) -> Singles:
    divisor = len(model.forest.trees) if model.forest.average else 1
    return (model.forest.trees[number].value / divisor).astype(np.float32)


def _offset(model: ExportModel) -> np.float32:
    """What keeps every score at or above 0, rounding of the float32 sum included."""
    values = [leaf_values(model, number).astype(float) for number in range(len(model.forest.trees))]
    lowest = float(np.sum([value.min() for value in values]))
    if lowest >= 0:
        return np.float32(0)
    slack = len(values) * 2.0**-23 * float(np.sum([np.abs(value).max() for value in values]))
    return np.float32(np.nextafter(np.float32(slack - lowest), np.float32(np.inf)))


def _depths(left: Ints, right: Ints) -> list[int]:
    depths = [0] * len(left)
    for node, children in enumerate(zip(left, right, strict=True)):
        for child in children:
            if child >= 0:
                depths[child] = depths[node] + 1
    return depths


def _feature(name: str) -> Json:
    """A proposal: the value of a field of that name, and no value where the document has none."""
    value = {
        "function_score": {
            "query": {"exists": {"field": name}},
            "field_value_factor": {"field": name},
            "boost_mode": "replace",
        }
    }
    return {"name": name, "params": [], "template_language": "mustache", "template": value}


def blind(model: ExportModel, rows: Floats) -> Bools:
    """(N,) rows that hold the largest float32 itself: JSON has no threshold above it."""
    found: Bools = (rows[:, list(model.used)] == LARGEST).any(axis=1)
    return found


def evaluate_definition(folder: Path, rows: Floats, missing: Missing) -> Outcome:
    body = read_json(folder / MODEL)["model"]["model"]
    features = read_json(folder / FEATURE_SET)["featureset"]["features"]
    columns = {feature["name"]: index for index, feature in enumerate(features)}
    values = rows.astype(np.float32)
    if missing is Missing.ZERO:
        values = np.where(np.isnan(values), np.float32(0), values)
    scores, leaves = np.zeros(len(rows), np.float32), []
    for root in json.loads(body["definition"])["splits"]:
        tree = read_tree(root, _children, lambda split: columns[split["split"]])
        leaves.append(tree.descend(values, _rule(tree, missing)))
        scores += tree.values("leaf", np.float32)[leaves[-1]]
    return Outcome(scores.astype(np.float64), np.column_stack(leaves), offset=read_json(folder / FEATURES)["offset"])


def _children(node: Json) -> tuple[Json, Json] | None:
    if "leaf" in node:
        return None
    yes, no = node["children"]
    if (yes["nodeid"], no["nodeid"]) != (node["yes"], node["no"]):
        raise ValueError(f"split {node['nodeid']} does not name its children in order")
    return yes, no


def _rule(tree: ReadTree, missing: Missing) -> Callable[[Ints, Singles], Bools]:
    threshold = tree.column("split_condition", np.float32)
    left = tree.column("missing", int) == tree.column("yes", int)
    if missing is not Missing.BY_NODE:
        return lambda nodes, x: threshold[nodes] > x
    return lambda nodes, x: np.where(np.isnan(x), left[nodes], threshold[nodes] > x)


_README = """
`featureset.json` proposes a field of the same name for each feature; adapt its queries, which must give exactly the
value that the model was trained on, and no score where it is missing. {note}Then:

    curl -XPUT  "{host}/_ltr"
    curl -XPUT  "{host}/_ltr/_featureset/rankloom" -H 'Content-Type: application/json' \\
         --data-binary @featureset.json
    curl -XPOST "{host}/_ltr/_featureset/rankloom/_createmodel" -H 'Content-Type: application/json' \\
         --data-binary @model.json

    "rescore": {{"window_size": 200, "query": {{"rescore_query": {{"sltr": {{"params": {{}}, "model": "rankloom"}}}}}}}}

Everything is float32 there and compared with `<`: each threshold is the next float32 above LightGBM's, so no Float32
value moves. A last tree of one leaf keeps scores from becoming negative (`offset` in `features.json`). Queries cannot
give negative values: shift features that have them before training.
"""
