"""Search engines: thresholds in their arithmetic, missing values by release, names, sizes, their parsers' grammar."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from features.errors import ConfigError, ExportError
from features.spec import FeatureSpec
from pipeline.export import FORMATS, export_model, opensearch, solr, vespa
from pipeline.export.model import map_names, parse_version
from pipeline.export.nested import next_above, round_down
from pipeline.export.xgboost import Missing
from tests.export.models import AWKWARD, BRANDS, make_model

singles = st.floats(width=32, allow_nan=False, allow_infinity=False)
doubles = st.floats(allow_nan=False, allow_infinity=False, min_value=-3e38, max_value=3e38)


@settings(deadline=None)
@given(doubles, singles)
@example(2.0000000000000004, 2.0)
@example(1e-35, float(np.float32(1e-35)))
@example(-1e-46, 0.0)
def test_rounding_moves_no_float32(threshold: float, x: float) -> None:
    """Against `x <= threshold` in doubles, at a float32 of choice and at those next to the threshold."""
    wanted = np.array([threshold])
    down, above = round_down(wanted)[0], next_above(wanted)[0]
    assert down.dtype == above.dtype == np.float32
    around = [np.nextafter(np.float32(threshold), np.float32(side)) for side in (-np.inf, np.inf)]
    for value in (np.float32(x), np.float32(threshold), *around, down, above):
        if np.isfinite(value):
            left = float(value) <= threshold
            assert left == (value <= down)
            assert left == (value < above)


def test_thresholds_beyond_float32_stay_finite() -> None:
    huge = np.array([np.inf, 1e300, 3.4e38, -1e300])
    assert np.isfinite(next_above(huge)[:3]).all()
    assert np.isfinite(round_down(huge)[:3]).all()
    assert round_down(huge)[0] == np.finfo(np.float32).max


@settings(deadline=None)
@given(singles)
def test_solr_s_slack_is_taken_off_down_to_the_nearest_threshold_below(wanted: float) -> None:
    threshold = solr._take_off_slack(np.array([wanted], np.float32))[0]
    reached = threshold + np.float32(1e-6)
    assert reached <= np.float32(wanted)
    following = np.nextafter(threshold, np.float32(np.inf)) + np.float32(1e-6)
    assert following > np.float32(wanted) or following == reached or reached == np.float32(wanted)


@settings(deadline=None)
@given(st.floats(min_value=64, max_value=2.0**100, width=32), st.sampled_from([1, -1]))
def test_solr_s_slack_vanishes_from_64_on(size: float, sign: int) -> None:
    """Half an ulp below 64 is 1.9e-6: a slack of 1e-6 is lost in rounding, which is why scaling ends there."""
    wanted = np.array([sign * size], np.float32)
    assert (solr._take_off_slack(wanted) + np.float32(1e-6) == wanted).all()


def read(path: Path) -> Any:
    return json.loads(path.read_text("utf-8"))


def splits_in(node: dict[str, Any], *keys: str) -> list[dict[str, Any]]:
    """Every node below and with this one, however its children are called."""
    children = [node[key] for key in keys if isinstance(node.get(key), dict)] + node.get("children", [])
    return [node, *(inner for child in children for inner in splits_in(child, *keys))]


def test_solr_features_of_small_values_are_scaled_by_a_power_of_two(tmp_path: Path) -> None:
    export_model(make_model("tiny"), "solr", tmp_path / "out")
    features = read(tmp_path / "out" / "model.json")["features"]
    norms = {entry["name"]: float(entry["norm"]["params"]["std"]) for entry in features if "norm" in entry}
    assert {"item.price", "user.age"} <= norms.keys()
    assert all(np.log2(std) == np.round(np.log2(std)) and std < 1 for std in norms.values())
    assert norms["user.age"] < norms["item.price"]


def test_solr_writes_texts_where_its_setters_want_them(tmp_path: Path) -> None:
    export_model(make_model("missing"), "solr", tmp_path / "out")
    model = read(tmp_path / "out" / "model.json")
    assert model["params"]["isNullSameAsZero"] is False
    for tree in model["params"]["trees"]:
        assert tree["weight"] == "1"
        for node in splits_in(tree["root"], "left", "right"):
            if "value" in node:
                assert node.keys() == {"value"}
                assert isinstance(node["value"], str)
            else:
                assert node.keys() == {"feature", "threshold", "missing", "left", "right"}
                assert isinstance(node["threshold"], str)
                assert node["missing"] in ("left", "right")
    store = read(tmp_path / "out" / "feature-store.json")
    assert [entry["name"] for entry in store] == [entry["name"] for entry in model["features"]]
    assert {entry["params"]["defaultValue"] for entry in store} == {"NaN"}
    assert {entry["class"].rpartition(".")[2] for entry in store} == {"FieldValueFeature", "ValueFeature"}


def test_solr_before_9_2_takes_missing_for_zero_or_refuses(tmp_path: Path) -> None:
    export_model(make_model("no_missing"), "solr", tmp_path / "old", "9.1")
    model = read(tmp_path / "old" / "model.json")
    assert "isNullSameAsZero" not in model["params"]
    assert '"missing"' not in (tmp_path / "old" / "model.json").read_text()
    with pytest.raises(ExportError, match=r"tree \d+ sends a missing '.*' elsewhere than zero; .*solr before 9.2"):
        export_model(make_model("missing"), "solr", tmp_path / "refused", "8.11")


def test_a_solr_model_too_large_for_zookeeper_gets_a_wrapper(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    export_model(make_model("plain"), "solr", tmp_path / "small")
    assert not (tmp_path / "small" / "wrapper.json").exists()
    monkeypatch.setattr(solr, "ZOOKEEPER_BYTES", 1000)
    export_model(make_model("plain"), "solr", tmp_path / "large")
    wrapper = read(tmp_path / "large" / "wrapper.json")
    assert wrapper["class"] == "org.apache.solr.ltr.model.DefaultWrapperModel"
    assert wrapper["params"] == {"resource": "models/model.json"}
    assert "wrapper.json" in (tmp_path / "large" / "README.md").read_text()


@pytest.mark.parametrize("target", ["elasticsearch", "opensearch"])
def test_the_plugins_parsers_take_the_definition(target: str, tmp_path: Path) -> None:
    """Their grammar: exact keys, `yes` first and `no` second among children, objective known, features of the set."""
    export_model(make_model("missing"), target, tmp_path / "out")
    body = read(tmp_path / "out" / "model.json")["model"]
    assert body["model"]["type"] == "model/xgboost+json"
    names = {entry["name"] for entry in read(tmp_path / "out" / "featureset.json")["featureset"]["features"]}
    definition = json.loads(body["model"]["definition"])
    assert definition.keys() == {"objective", "splits"}
    assert definition["objective"] == "rank:ndcg"
    for tree in definition["splits"]:
        nodes = splits_in(tree)
        assert len({node["nodeid"] for node in nodes}) == len(nodes)
        for node in nodes:
            if "leaf" in node:
                assert node.keys() == {"nodeid", "leaf"}
                continue
            wanted = {"nodeid", "depth", "split", "split_condition", "yes", "no", "missing", "children"}
            assert node.keys() == wanted
            assert [child["nodeid"] for child in node["children"]] == [node["yes"], node["no"]]
            assert node["missing"] in (node["yes"], node["no"])
            assert node["split"] in names


@pytest.mark.parametrize("name", ["missing", "dart", "rf", "large"])
def test_lucene_never_sees_a_negative_score(name: str, tmp_path: Path) -> None:
    model = make_model(name)
    report = export_model(model, "elasticsearch", tmp_path / "out")
    lowest = sum(float(tree.value.min()) for tree in model.forest.trees)
    lowest /= len(model.forest.trees) if model.forest.average else 1
    assert report["offset"] >= -lowest
    assert report["offset"] == pytest.approx(max(0.0, -lowest), rel=1e-3)
    rows = model.examples.cast(float).to_numpy()
    assert FORMATS["elasticsearch"].evaluate(tmp_path / "out", rows, None).scores.min() >= 0


def test_the_threshold_that_integers_meet(tmp_path: Path) -> None:
    """Trained on 1 and 3 the threshold is 2.0000000000000004: what is served as 2 must go left under `<` too."""
    export_model(make_model("two_values"), "elasticsearch", tmp_path / "out")
    definition = json.loads(read(tmp_path / "out" / "model.json")["model"]["model"]["definition"])
    nodes = [node for tree in definition["splits"] for node in splits_in(tree)]
    written = {np.float32(node["split_condition"]) for node in nodes if node.get("split") == "item.price"}
    assert written == {np.nextafter(np.float32(2), np.float32(3))}


@pytest.mark.parametrize(
    ("version", "rule"),
    [
        (None, Missing.BY_NODE),
        ("4.0.0", Missing.BY_NODE),
        ("3.8", Missing.BY_NODE),
        ("3.7.1", Missing.RIGHT),
        ("3.2", Missing.RIGHT),
        ("3.1.0", Missing.ZERO),
        ("2.19", Missing.ZERO),
    ],
)
def test_opensearch_s_three_ways_with_missing_values(version: str | None, rule: Missing) -> None:
    assert opensearch.missing_rule(version) is rule


def test_releases_that_send_missing_values_elsewhere_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="left, and this release sends every missing value right"):
        export_model(make_model("missing"), "opensearch", tmp_path / "out", "3.5")
    with pytest.raises(ExportError, match="elsewhere than zero"):
        export_model(make_model("missing"), "elasticsearch", tmp_path / "out", "8.8")
    report = export_model(make_model("no_missing"), "opensearch", tmp_path / "out", "2.19")
    assert report["target_version"] == "2.19"
    assert report["rows"]["missing"] > 0


def test_a_target_version_is_numbers() -> None:
    assert parse_version("3.10.1", default=(1,)) > parse_version("3.8", default=(1,))
    with pytest.raises(ConfigError, match="target version 'latest'; expected numbers and dots"):
        parse_version("latest", default=(1,))


def test_vespa_lists_levels_only_for_the_categories_that_splits_name(tmp_path: Path) -> None:
    """Its importer gives the lists, in order, to the features with category splits: one unused would shift them all."""
    model = make_model("categories")
    unused = replace(model.features[0], dtype="category", categories=("x", "y"))
    assert 0 in model.used
    export_model(model, "vespa", tmp_path / "out")
    content = read(tmp_path / "out" / "model.json")
    assert content["pandas_categorical"] == [["(unknown)", *BRANDS]]
    assert vespa._levels(replace(unused, categories=("(unknown)",))) == ["((unknown))", "(unknown)"]


@pytest.mark.parametrize("name", ["categories", "one_hot", "categories_missing", "rf_categories"])
def test_vespa_of_any_release_finds_the_categories_by_their_splits(name: str, tmp_path: Path) -> None:
    """Newer releases trust `feature_infos` where it is an object, `{}` too, and then see no category at all."""
    model, out = make_model(name), tmp_path / "out"
    export_model(model, "vespa", out)
    content = read(out / "model.json")
    assert not isinstance(content.get("feature_infos"), dict)
    rows = model.examples.cast(float).fill_null(np.nan).to_numpy()
    right = vespa.evaluate(out, rows, None).scores
    scores = model.forest.score(rows)
    assert right == pytest.approx(scores, abs=1e-12)
    filled = {target: {"values": [1]} for target in content["feature_names"] if target == "brand"}
    for infos, alike in (({}, False), (filled, True), ([], True)):
        (out / "model.json").write_text(json.dumps(content | {"feature_infos": infos}))
        assert np.array_equal(vespa.evaluate(out, rows, None).scores, right) is alike


@pytest.mark.parametrize("level", ['say "hi"', "back\\slash", "line\nbreak"])
def test_vespa_levels_that_would_leave_their_quotes_are_refused(level: str, tmp_path: Path) -> None:
    model = make_model("one_hot")
    brands = tuple(level if brand == _first_split_level(model) else brand for brand in BRANDS)
    features = tuple(replace(f, categories=brands) if f.dtype == "category" else f for f in model.features)
    with pytest.raises(ExportError, match="a split on 'brand' names level"):
        export_model(replace(model, features=features), "vespa", tmp_path / "out")


def _first_split_level(model: Any) -> str:
    return BRANDS[next(codes for tree in model.forest.trees for codes in tree.codes)[0] - 1]


def test_vespa_keeps_rank_features_and_maps_the_rest(tmp_path: Path) -> None:
    export_model(make_model("names"), "vespa", tmp_path / "out")
    names = read(tmp_path / "out" / "model.json")["feature_names"]
    assert names == ["say__hi______", "a_b_2", "a_b", "prix_d__t___", "line_break", "attribute(price)"]
    entries = read(tmp_path / "out" / "features.json")["features"]
    assert {entry["name"]: entry["target_name"] for entry in entries} == dict(zip(AWKWARD, names, strict=True))
    readme = (tmp_path / "out" / "README.md").read_text()
    assert all(f"function {name}()" in readme for name in names[:-1])
    assert "function attribute" not in readme


@settings(deadline=None)
@given(st.lists(st.text(min_size=1, max_size=8), min_size=1, max_size=12, unique=True))
@example(["a b", "a_b", "a_b_2", "a,b"])
@example(["attribute(x)", "attribute x ", "1st", "_1st"])
def test_names_are_mapped_one_to_one(names: list[str]) -> None:
    mapped = map_names(names, "A-Za-z0-9_", keep=lambda name: vespa.RANK_FEATURE.fullmatch(name) is not None)
    assert list(mapped) == names
    assert len(set(mapped.values())) == len(names)
    assert all(vespa.RANK_FEATURE.fullmatch(name) for name in mapped.values())


def test_a_tree_deeper_than_json_readers_go_is_refused(tmp_path: Path) -> None:
    reports = export_model(chain(310), "all", tmp_path / "out")
    for target in ("json", "vespa", "solr", "elasticsearch", "opensearch"):
        assert "tree 0 is 310 levels deep" in reports[target]["refused"]
        assert "max_depth of at most 300" in reports[target]["refused"]
    for target in ("c", "python", "onnx", "lightgbm"):
        assert reports[target]["max_abs_diff"] == 0.0


def chain(depth: int) -> Any:
    """A tree that is one long staircase: x <= 0.5, x <= 1.5, ..."""
    model = make_model("stump")
    numbers = range(depth)
    lines = {
        "num_leaves": [depth + 1],
        "num_cat": [0],
        "split_feature": [0] * depth,
        "threshold": [depth - i - 0.5 for i in numbers],
        "decision_type": [2] * depth,
        "left_child": [*range(1, depth), -1],
        "right_child": [-(i + 2) for i in numbers],
        "leaf_value": [i * 0.25 for i in range(depth + 1)],
        "is_linear": [0],
        "shrinkage": [1],
    }
    tree = "Tree=0\n" + "".join(f"{key}={' '.join(map(str, values))}\n" for key, values in lines.items()) + "\n\n"
    head = model.text[: model.text.index("tree_sizes=")]
    tail = model.text[model.text.index("end of trees") :]
    features = (FeatureSpec("item.price"), *model.features[1:])
    return replace(model, text=f"{head}tree_sizes={len(tree)}\n\n{tree}{tail}", features=features)
