"""Vespa's LightGBM import: JSON under `models/`, read as `feature < threshold`.

Source: `LightGBMParser.java` of vespa-engine/vespa. It reads the dump's "<=" as "<", ignores `missing_type`, writes
`default_left` as `!(feature >= threshold)`, so that NaN goes left, and finds the text of categories in
`pandas_categorical`, one list per categorical feature, in order of the features. Which these are, older releases read
from the splits; newer ones from `feature_infos`, where that is an object at all (with an empty one no feature counts
as categorical, and texts are compared with bare codes). It is left out here, so that all releases read the splits.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np

from features.spec import FeatureSpec
from pipeline.export.json import dump, read_dumped
from pipeline.export.model import (
    FEATURES,
    ExportModel,
    Format,
    Outcome,
    map_names,
    missing_directions,
    read_json,
    refuse,
    refuse_deep,
    refuse_linear,
    write_features,
    write_json,
    write_readme,
)
from pipeline.export.nested import Json, ReadTree
from pipeline.forest import Bools, Floats, Ints

MODEL = "model.json"
UNKNOWN_LEVEL = "(unknown)"
"""Stands at code 0 of each list: no split names it, and no document should hold it."""

RANK_FEATURE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\([A-Za-z0-9_.,]*\)(\.[A-Za-z_][A-Za-z0-9_]*)?)?")


def write(model: ExportModel, folder: Path, _version: str | None) -> None:
    for check in (refuse_linear, refuse_deep):
        check(model, "vespa")
    names = map_names(model.names, "A-Za-z0-9_", keep=lambda name: RANK_FEATURE.fullmatch(name) is not None)
    write_json(folder / MODEL, _adapted(model, names))
    write_features(model, folder, names)
    write_readme(folder, "A ranking model for Vespa", _README.format(functions=_functions(names)))


def _adapted(model: ExportModel, names: dict[str, str]) -> Json:
    content = dump(model)
    directions = missing_directions(model, "vespa")
    for number, (tree, entry) in enumerate(zip(model.forest.trees, content["tree_info"], strict=True)):
        above = np.minimum(np.nextafter(tree.threshold, np.inf), np.finfo(float).max)
        read = read_dumped(entry["tree_structure"])
        for node in read.splits:
            index = node["split_index"]
            node["default_left"] = bool(directions[number][index])
            if node["decision_type"] == "<=":
                node["threshold"] = float(above[index])
            else:
                _check_levels(model.features[tree.feature[index]], tree.codes[tree.category[index]])
        for leaf in read.leaves:
            leaf["leaf_value"] = leaf["leaf_value"] / (len(model.forest.trees) if model.forest.average else 1)
    content["average_output"] = False
    content["feature_names"] = [names[name] for name in model.names]
    content["pandas_categorical"] = [_levels(model.features[index]) for index in _split_by_category(model)]
    del content["feature_infos"]
    return content | {"feature_importances": {}}


def _split_by_category(model: ExportModel) -> list[int]:
    """Features that some split asks for a category of, in order: those that Vespa expects a list for."""
    found = [tree.feature[tree.category >= 0] for tree in model.forest.trees]
    return [int(index) for index in np.unique(np.concatenate(found))]


def _levels(feature: FeatureSpec) -> list[str]:
    levels = list(feature.categories or ())
    unknown = UNKNOWN_LEVEL
    while unknown in levels:
        unknown = f"({unknown})"
    return [unknown, *levels]


def _check_levels(feature: FeatureSpec, codes: Ints) -> None:
    """Vespa writes levels into its expressions as they are, between quotes."""
    levels = _levels(feature)
    for code in codes:
        level = levels[code] if 0 < code < len(levels) else None
        if level is None or '"' in level or "\\" in level or not level.isprintable():
            raise refuse(
                "vespa",
                f"a split on {feature.name!r} names {'code ' + str(code) if level is None else 'level ' + repr(level)}",
                fix="rename that level before training"
                if level
                else "leave that feature out, or export to c or python",
            )


def evaluate(folder: Path, rows: Floats, _version: str | None) -> Outcome:
    content = read_json(folder / MODEL)
    trees = [read_dumped(entry["tree_structure"]) for entry in content["tree_info"]]
    lists = dict(zip(_categorical(content, trees), content["pandas_categorical"], strict=False))
    documents = _document_levels(folder)
    leaves = np.column_stack([tree.descend(rows, _rule(tree, lists, documents)) for tree in trees])
    scores = np.zeros(len(rows))
    for index, tree in enumerate(trees):
        scores += tree.values("leaf_value", float)[leaves[:, index]]
    return Outcome(scores, leaves)


def _categorical(content: Json, trees: list[ReadTree]) -> list[int]:
    """The features that Vespa hands the lists of levels to, in order."""
    infos = content.get("feature_infos")
    if isinstance(infos, dict):
        return [i for i, name in enumerate(content["feature_names"]) if infos.get(name, {}).get("values")]
    return sorted({int(split["split_feature"]) for tree in trees for split in tree.splits if _is_category(split)})


def _document_levels(folder: Path) -> dict[int, dict[int, str]]:
    """Per feature, the text that a document holds for each code, by features.json; none for an unknown level."""
    entries = enumerate(read_json(folder / FEATURES)["features"])
    return {i: {code: level for level, code in entry["codes"].items()} for i, entry in entries if "codes" in entry}


def _is_category(split: Json) -> bool:
    return bool(split["decision_type"] == "==")


def _rule(
    tree: ReadTree, lists: dict[int, list[str]], documents: dict[int, dict[int, str]]
) -> Callable[[Ints, Floats], Bools]:
    category = np.array([_is_category(split) for split in tree.splits], bool)
    threshold = np.array([np.nan if _is_category(split) else float(split["threshold"]) for split in tree.splits])
    default_left = tree.column("default_left", bool)

    def goes_left(nodes: Ints, x: Floats) -> Bools:
        left = np.where(default_left[nodes], ~(x >= threshold[nodes]), x < threshold[nodes])
        for node in np.unique(nodes[category[nodes]]):
            at = nodes == node
            split = tree.splits[node]
            feature = int(split["split_feature"])
            left[at] = _in_list(split, lists.get(feature), documents[feature], x[at])
        return left

    return goes_left


def _in_list(split: Json, names: list[str] | None, levels: dict[int, str], codes: Floats) -> Bools:
    """`feature in ["a", "b"]`, where a document without the field holds the empty text.

    A feature without a list of `names` is compared with the bare numbers.
    """
    indices = split["threshold"].split("||")
    listed = set(indices if names is None else (names[int(index)] for index in indices))
    texts = ["" if np.isnan(code) else levels.get(int(code)) for code in codes]
    return np.array([text in listed or (text == "" and split["default_left"]) for text in texts], bool)


def _functions(names: dict[str, str]) -> str:
    """The rank profile's functions that the application has to fill in: names that are no rank feature already."""
    needed = [(name, target) for name, target in names.items() if "(" not in target]
    return "\n".join(f"        function {target}() {{ expression: ... }}  # {name!r}" for name, target in needed)


FORMAT = Format("vespa", "a dump for Vespa's `<`", exact=False, write=write, evaluate=evaluate)

_README = """
1. Copy `model.json` to `models/` of the application package.
2. Give the rank profile one function per feature (or name the features after rank features such as
   `attribute(price)` before training), and use the model:

    rank-profile rankloom {{
{functions}
        first-phase {{ expression: lightgbm("model.json") }}
    }}

Thresholds are the next double above LightGBM's, because Vespa compares with `<`; missing values must be NaN (a single
value numeric attribute that is unset is NaN), and string attributes that are unset are missing categories. Categories
are compared as texts, the levels listed in `features.json`.
"""
