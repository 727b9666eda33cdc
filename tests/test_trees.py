"""Our reading of a model text: LightGBM's scores bit for bit from sound texts, one sentence for all others."""

from __future__ import annotations

import re

import lightgbm
import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from features.errors import PackageError
from pipeline.booster import load_model
from pipeline.forest import MISSING_NAN, MISSING_NONE, MISSING_ZERO, Forest
from pipeline.trees import parse_model
from tests.export.models import KINDS, make_model, resized

FUZZED = ("categories_missing", "linear_missing", "zero_and_nan")


def frame_of(rows: np.ndarray) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=[f"x{i}" for i in range(rows.shape[1])])


def rows_for(forest: Forest, seed: int = 0) -> np.ndarray:
    """Rows of thresholds, codes, missing and odd values, every feature on its own."""
    rng = np.random.default_rng(seed)
    columns = []
    for feature in range(len(forest.names)):
        thresholds = np.concatenate([tree.threshold[tree.feature == feature] for tree in forest.trees])
        odd = [np.nan, 0.0, -0.0, 1e-35, -1e-36, 1.0, -0.5, 3.7, 40.0, -1.0, 2.0**31, 1e300]
        columns.append(rng.choice(np.concatenate([thresholds[np.isfinite(thresholds)], odd, rng.normal(size=20)]), 400))
    return np.column_stack(columns)


@pytest.mark.parametrize("name", KINDS)
def test_scores_and_leaves_equal_lightgbm_s(name: str) -> None:
    text = make_model(name).text
    forest, booster = parse_model(text), lightgbm.Booster(model_str=text)
    rows = rows_for(forest)
    direct = booster.predict(frame_of(rows), validate_features=False)
    leaves = booster.predict(frame_of(rows), validate_features=False, pred_leaf=True)
    assert np.array_equal(forest.score(rows), direct)
    assert np.array_equal(forest.leaves(rows), np.asarray(leaves).reshape(len(rows), -1))


def test_the_kinds_are_what_they_are_called() -> None:
    forests = {name: parse_model(make_model(name).text) for name in KINDS}
    missing = {name: {int(m) for tree in forest.trees for m in tree.missing} for name, forest in forests.items()}
    assert missing["plain"] == missing["no_missing"] == {MISSING_NONE}
    assert MISSING_NAN in missing["missing"]
    assert missing["zero_missing"] == {MISSING_ZERO}
    assert any(np.isinf(tree.threshold).any() for tree in forests["missing_only"].trees)
    assert all(any(tree.codes for tree in forests[name].trees) for name in KINDS if KINDS[name].category)
    assert any(len(codes) > 1 for tree in forests["categories"].trees for codes in tree.codes)
    assert all(len(codes) == 1 for tree in forests["one_hot"].trees for codes in tree.codes)
    assert any(w.size for tree in forests["linear"].trees if tree.linear for w in tree.linear.coefficients)
    assert forests["rf"].average
    assert not forests["dart"].average
    assert [len(tree.value) for tree in forests["constant"].trees] == [1]
    assert [len(tree.value) for tree in forests["stump"].trees] == [2]
    assert len(forests["early_stopping"].trees) < 50
    assert {int(f) for tree in forests["unused"].trees for f in tree.feature} == {0, 4}
    assert 2.0000000000000004 in np.concatenate([tree.threshold for tree in forests["two_values"].trees])


def test_arrays_are_read_only() -> None:
    tree = parse_model(make_model("categories").text).trees[0]
    for array in (tree.feature, tree.threshold, tree.left, tree.right, tree.value, tree.codes[0]):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


def edited(pattern: str, replacement: str, name: str = "categories_missing") -> str:
    text, count = re.subn(pattern, replacement, make_model(name).text, count=1, flags=re.MULTILINE)
    assert count == 1
    return resized(text)


DAMAGES = {
    "split_feature out of range": (r"^split_feature=\d+", "split_feature=6", "feature outside 0..5"),
    "split_feature negative": (r"^split_feature=\d+", "split_feature=-1", "feature outside 0..5"),
    "child out of range": (r"^left_child=-?\d+", "left_child=11", "children in tree 0 form no tree"),
    "leaf out of range": (r"^right_child=-?\d+", "right_child=-99", "children in tree 0 form no tree"),
    "root as a child": (r"^left_child=-?\d+", "left_child=0", "children in tree 0 form no tree"),
    "huge child": (r"^left_child=-?\d+", "left_child=99999999999", "left_child of tree 0 holds '99999999999'"),
    "more leaves": (r"^num_leaves=\d+", "num_leaves=2000000000", "2000000000 leaves"),
    "one leaf more": (r"^num_leaves=12", "num_leaves=13", "holds 12 numbers, not 13"),
    "no leaves": (r"^num_leaves=\d+", "num_leaves=0", "0 leaves"),
    "more sets": (r"^num_cat=\d+", "num_cat=2000000000", "do not fit their 2000000000 sets"),
    "negative sets": (r"^num_cat=\d+", "num_cat=-1", "-1 category splits"),
    "sets overlap": (r"^cat_boundaries=0", "cat_boundaries=7", "category sets of tree 0 overlap"),
    "a word too large": (r"^cat_threshold=\d+", "cat_threshold=4294967296", "outside its type"),
    "decision unknown": (r"^decision_type=\d+", "decision_type=12", "unknown decision type"),
    "threshold no number": (r"^threshold=\S+", "threshold=nan", "threshold that is no number"),
    "leaf infinite": (r"^leaf_value=\S+", "leaf_value=inf", "leaf_value of tree 0 is not finite"),
    "underscored number": (r"^leaf_value=\S+", "leaf_value=1_0", "leaf_value of tree 0 holds '1_0'"),
    "unknown key": (r"^shrinkage=", "shrinkage2=", "tree 0 holds 'shrinkage2=0.2'"),
    "key twice": (r"^shrinkage=.*$", "num_cat=1", "tree 0 holds 'num_cat=1'"),
    "multiclass": (r"^num_class=1", "num_class=3", "one score per row"),
    "old version": (r"^version=v4", "version=v2", "version 'v2'"),
    "a feature too many": (r"^max_feature_idx=5", "max_feature_idx=6", "7 features are announced, 6"),
    "countless features": (r"^max_feature_idx=5", "max_feature_idx=2147483647", "2147483648 features are announced"),
    "feature info without an end": (r"^feature_infos=\[[^]]*\]", "feature_infos=[1", "feature_infos do not fit"),
    "objective": (r"^objective=lambdarank", "objective=%s%n", "its objective is '%s%n'"),
    "parameter without a colon": (r"^\[boosting: gbdt\]", "[boosting]", "behind the trees stands '[boosting]'"),
    "categorical no JSON": (r"^pandas_categorical:null", "pandas_categorical:[[", "pandas_categorical is no JSON"),
    "not a model": (r"^tree\n", "forest\n", "begins with 'forest'"),
    "no end": (r"^end of trees", "end", "its end is missing"),
    "control character": (r"^num_class=1", "num_class=1\0", "control characters"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_text_is_refused(damage: str) -> None:
    pattern, replacement, message = DAMAGES[damage]
    with pytest.raises(PackageError, match=re.escape(message)):
        parse_model(edited(pattern, replacement))


def test_tree_sizes_must_be_the_bytes_they_stand_for() -> None:
    text = re.sub(r"^tree_sizes=\d+", "tree_sizes=999999999", make_model("plain").text, flags=re.MULTILINE)
    with pytest.raises(PackageError, match="should take 999999999 bytes"):
        parse_model(text)


def test_a_cycle_apart_from_the_root_is_refused() -> None:
    text = make_model("plain").text
    lines = text.split("\n")
    left = next(number for number, line in enumerate(lines) if line.startswith("left_child="))
    right = left + 1
    count = len(lines[left].split(" "))
    leaves = [-(leaf + 1) for leaf in range(count + 1)]
    lines[left] = "left_child=" + " ".join(map(str, [leaves[0], *range(2, count), 1]))
    lines[right] = "right_child=" + " ".join(map(str, leaves[1 : count + 1]))
    with pytest.raises(PackageError, match="form no tree"):
        parse_model(resized("\n".join(lines)))


def check_safe(text: str) -> None:
    """Either refused by us, or LightGBM takes it and agrees; a crash would end the tests."""
    try:
        forest = parse_model(text)
        booster = load_model(text)
    except PackageError as error:
        assert "model text" in str(error)  # noqa: PT017
        return
    rows = rows_for(forest)[:50]
    scores = booster.predict(frame_of(rows), validate_features=False, raw_score=True)
    ours = forest.score(rows) * (len(forest.trees) if forest.average else 1)
    assert np.allclose(scores, ours, rtol=1e-12, equal_nan=True)


@settings(max_examples=150, deadline=None)
@given(data=st.data(), name=st.sampled_from(FUZZED))
def test_a_text_cut_anywhere_is_refused(data: st.DataObject, name: str) -> None:
    text = make_model(name).text
    end = text.index("end of trees")
    with pytest.raises(PackageError, match="damaged model text"):
        parse_model(text[: data.draw(st.integers(0, end))])


@settings(max_examples=150, deadline=None)
@given(data=st.data(), name=st.sampled_from(FUZZED))
def test_a_changed_number_is_refused_or_harmless(data: st.DataObject, name: str) -> None:
    text = make_model(name).text
    spots = [
        match.span() for match in re.finditer(r"-?\d+(\.\d+)?(e-?\d+)?", text[: text.index("feature_importances")])
    ]
    start, stop = data.draw(st.sampled_from(spots))
    odd = [
        "0",
        "-1",
        "1",
        "7",
        "2147483648",
        "-2147483649",
        "1e999",
        "1e-999",
        "nan",
        "inf",
        "",
        "9" * 400,
        "١",
        "0x1p3",
    ]
    check_safe(resized(text[:start] + data.draw(st.sampled_from(odd)) + text[stop:]))


@settings(max_examples=150, deadline=None)
@given(data=st.data(), name=st.sampled_from(FUZZED))
def test_changed_lines_are_refused_or_harmless(data: st.DataObject, name: str) -> None:
    lines = make_model(name).text.split("\n")
    at = data.draw(st.integers(0, len(lines) - 1))
    other = data.draw(st.integers(0, len(lines) - 1))
    change = data.draw(st.sampled_from(["drop", "double", "swap", "noise"]))
    if change == "drop":
        del lines[at]
    elif change == "double":
        lines.insert(other, lines[at])
    elif change == "swap":
        lines[at], lines[other] = lines[other], lines[at]
    else:
        lines[at] = data.draw(st.text(max_size=40))
    check_safe(resized("\n".join(lines)))
