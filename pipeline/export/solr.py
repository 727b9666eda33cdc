"""Solr's MultipleAdditiveTreesModel: float32, `value <= threshold + 1e-6f`, no categories.

Source: `MultipleAdditiveTreesModel.java` and `StandardNormalizer.java` of apache/solr. The slack of 1e-6 is added to
the float32 threshold when the model is loaded, in float32. It is taken off again here; where that leaves no float32
threshold that means the right thing (small features, mostly), the feature is scaled by a power of two, which Solr's
StandardNormalizer does without rounding, until the slack is lost in rounding. Numbers are written as texts, because
Solr's setters take texts or floats, and its JSON reader makes doubles.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from pipeline.export.model import (
    ExportModel,
    Format,
    Outcome,
    map_names,
    missing_directions,
    parse_version,
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
from pipeline.export.nested import LARGEST, Json, ReadTree, Singles, nest, read_tree, round_down
from pipeline.forest import ZERO, Bools, Floats, Ints

MODEL, STORE, WRAPPER = "model.json", "feature-store.json", "wrapper.json"
SLACK = np.float32(1e-6)
NULLS_SINCE = (9, 2)
"""SOLR-16596: before it, a missing value is 0."""
ZOOKEEPER_BYTES = 1_000_000
"""ZooKeeper's default buffer holds a little over a megabyte (jute.maxbuffer)."""


def write(model: ExportModel, folder: Path, version: str | None) -> None:
    for check in (refuse_linear, refuse_categories, refuse_deep):
        check(model, "solr")
    nulls = parse_version(version, default=NULLS_SINCE) >= NULLS_SINCE
    names = map_names(model.names, "A-Za-z0-9_.")
    write_json(folder / MODEL, _model(model, names, nulls=nulls))
    write_json(folder / STORE, [_feature(model, name, names[name], nulls=nulls) for name in model.names], indent=1)
    write_features(model, folder, names)
    large = (folder / MODEL).stat().st_size > ZOOKEEPER_BYTES
    if large:
        write_json(folder / WRAPPER, _wrapper(model), indent=1)
    upload = _LARGE if large else _SMALL
    write_readme(folder, "A ranking model for Solr", _README.format(upload=upload, blind=_blind_words(model, names)))


def blind(model: ExportModel, rows: Floats) -> Bools:
    """(N,) rows with a value so near zero that Solr's slack cannot tell on which side of a threshold it lies."""
    found = np.zeros(len(rows), bool)
    for feature, low, high in _blind_ranges(model):
        found |= (rows[:, feature] > low) & (rows[:, feature] <= high)
    return found


def _blind_ranges(model: ExportModel) -> list[tuple[int, np.float32, np.float32]]:
    """(feature, low, high): values above `low` and up to `high` go left in LightGBM and right in Solr, at one split."""
    ranges = []
    for feature in model.used:
        wanted, scale = _wanted(model, feature), np.float32(_scale(model, feature))
        reached = (_take_off_slack(wanted * scale) + SLACK) / scale
        moved = reached != wanted
        ranges += [(feature, low, high) for low, high in zip(reached[moved], wanted[moved], strict=True)]
    return ranges


def _blind_words(model: ExportModel, names: dict[str, str]) -> str:
    lines = [
        f"- `{names[model.names[feature]]}`: above {low:.9g}, up to {high:.9g}"
        for feature, low, high in _blind_ranges(model)
    ]
    return "\n".join([_BLIND, *lines]) if lines else ""


def _model(model: ExportModel, names: dict[str, str], *, nulls: bool) -> Json:
    scales = np.array([_scale(model, index) for index in range(len(model.features))], np.float32)
    params: Json = {"isNullSameAsZero": False} if nulls else {}
    params["trees"] = [
        {"weight": "1", "root": _tree(model, number, lefts, names, scales, nulls=nulls)}
        for number, lefts in enumerate(missing_directions(model, "solr"))
    ]
    return {
        "class": "org.apache.solr.ltr.model.MultipleAdditiveTreesModel",
        "name": model.name,
        "store": model.name,
        "features": [_declared(names[name], float(scale)) for name, scale in zip(model.names, scales, strict=True)],
        "params": params,
    }


def _declared(name: str, scale: float) -> Json:
    if scale == 1:
        return {"name": name}
    norm = {"class": "org.apache.solr.ltr.norm.StandardNormalizer", "params": {"avg": "0", "std": repr(1 / scale)}}
    return {"name": name, "norm": norm}


def _tree(
    model: ExportModel, number: int, lefts: Bools, names: dict[str, str], scales: Singles, *, nulls: bool
) -> Json:
    tree = model.forest.trees[number]
    thresholds = _take_off_slack(round_down(tree.threshold) * scales[tree.feature])
    values = (tree.value / (len(model.forest.trees) if model.forest.average else 1)).astype(np.float32)
    if not nulls:
        require_missing_as_zero(model, "solr before 9.2", number, lefts)

    def split(node: int, left: Json, right: Json) -> Json:
        missing = {"missing": "left" if lefts[node] else "right"} if nulls else {}
        name = names[model.names[tree.feature[node]]]
        return {"feature": name, "threshold": str(thresholds[node]), **missing, "left": left, "right": right}

    return nest(tree, lambda leaf: {"value": str(values[leaf])}, split)


def _wanted(model: ExportModel, feature: int) -> Singles:
    """The distinct float32 thresholds of a feature, rounded so that no float32 value moves."""
    found = [tree.threshold[tree.feature == feature] for tree in model.forest.trees]
    return np.unique(round_down(np.concatenate(found)))


def _scale(model: ExportModel, feature: int) -> float:
    """The smallest power of two by which every threshold of the feature can be written without being moved."""
    wanted = _wanted(model, feature)
    wanted = wanted[np.abs(wanted) > ZERO]
    largest = float(np.abs(wanted).max(initial=0.0))
    scale = 1.0
    while np.any(_take_off_slack(wanted * np.float32(scale)) + SLACK != wanted * np.float32(scale)):
        scale *= 2
        if scale * largest > float(LARGEST):
            raise refuse(
                "solr",
                f"the thresholds of {model.names[feature]!r} reach from {np.abs(wanted).min():g} to {largest:g}, "
                f"and Solr adds 1e-6 to each",
                fix="give the feature a narrower range (its logarithm, say) and train again",
            )
    return scale


def _take_off_slack(wanted: Singles) -> Singles:
    """Float32 thresholds t whose t + 1e-6f, in float32, is `wanted`; where there is none, the nearest below it."""
    guess = (wanted.astype(np.float64) - float(SLACK)).astype(np.float32)
    with np.errstate(over="ignore"):
        below, above = np.nextafter(guess, np.float32(-np.inf)), np.nextafter(guess, np.float32(np.inf))
        best = np.nextafter(below, np.float32(-np.inf))
    for candidate in (below, guess, above):
        best = np.where(candidate + SLACK <= wanted, candidate, best)
    return best


def _feature(model: ExportModel, name: str, target: str, *, nulls: bool) -> Json:
    """How Solr may come by the value; what belongs to the query comes with the request (efi)."""
    by_request = name.startswith(("query", "user"))
    params = {"value": f"${{{target}}}", "required": False} if by_request else {"field": target}
    default: Json = {"defaultValue": "NaN"} if nulls else {}
    kind = "ValueFeature" if by_request else "FieldValueFeature"
    return {
        "store": model.name,
        "name": target,
        "class": f"org.apache.solr.ltr.feature.{kind}",
        "params": {**params, **default},
    }


def _wrapper(model: ExportModel) -> Json:
    return {
        "class": "org.apache.solr.ltr.model.DefaultWrapperModel",
        "name": model.name,
        "params": {"resource": f"models/{MODEL}"},
    }


def evaluate(folder: Path, rows: Floats, _version: str | None) -> Outcome:
    content = read_json(folder / MODEL)
    columns = {entry["name"]: index for index, entry in enumerate(content["features"])}
    nulls = content["params"].get("isNullSameAsZero") is False
    values = _normalised(content["features"], rows if nulls else np.where(np.isnan(rows), 0.0, rows))
    scores, leaves = np.zeros(len(rows), np.float32), []
    for entry in content["params"]["trees"]:
        tree = read_tree(
            entry["root"],
            lambda node: (node["left"], node["right"]) if "feature" in node else None,
            lambda split: columns[split["feature"]],
        )
        leaves.append(tree.descend(values, _rule(tree)))
        scores += np.float32(entry["weight"]) * tree.values("value", np.float32)[leaves[-1]]
    return Outcome(scores.astype(np.float64), np.column_stack(leaves))


def _normalised(features: list[Json], rows: Floats) -> Singles:
    values = rows.astype(np.float32)
    for index, entry in enumerate(features):
        if "norm" in entry:
            params = entry["norm"]["params"]
            with np.errstate(over="ignore"):
                values[:, index] = (values[:, index] - np.float32(params["avg"])) / np.float32(params["std"])
    return values


def _rule(tree: ReadTree) -> Callable[[Ints, Singles], Bools]:
    threshold = tree.column("threshold", np.float32) + SLACK
    missing_left = np.array([split.get("missing") == "left" for split in tree.splits], bool)
    return lambda nodes, x: np.where(np.isnan(x), missing_left[nodes], x <= threshold[nodes])


FORMAT = Format(
    "solr",
    "Solr's MultipleAdditiveTreesModel",
    exact=False,
    write=write,
    evaluate=evaluate,
    blind=blind,
    single=True,
    versions=True,
)

_SMALL = """
    curl -XPUT "$SOLR/schema/model-store" --data-binary @model.json -H 'Content-type:application/json'
"""

_LARGE = """
`model.json` is larger than ZooKeeper's buffer. Copy it to `models/` in the instance directory of every node (or into
a folder named by a <lib> line of solrconfig.xml), and upload the wrapper that names it:

    curl -XPUT "$SOLR/schema/model-store" --data-binary @wrapper.json -H 'Content-type:application/json'
"""

_README = """
`feature-store.json` proposes where each value comes from (a field of the document, or `efi.NAME` of the request for
names that begin with "query" or "user"): adapt it, then, with SOLR=http://localhost:8983/solr/COLLECTION,

    curl -XPUT "$SOLR/schema/feature-store" --data-binary @feature-store.json -H 'Content-type:application/json'
{upload}
    rq={{!ltr model=rankloom reRankDocs=200 efi.NAME=VALUE}}

A feature that is missing must reach the model as NaN (`defaultValue`, Solr 9.2 and newer). Thresholds are float32,
less the 1e-6 that Solr adds to each; features with a `norm` are scaled by a power of two, which rounds nothing.
{blind}
"""

_BLIND = """
Where a threshold is all but zero, no float32 plus 1e-6 meets it. These values go the wrong way (right) at such a
split; no example of the package holds one, and `parity.json` counts the made-up rows that were left out for it
(`rows_the_target_cannot_tell_apart`):
"""
