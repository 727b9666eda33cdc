"""Read a LightGBM model text ourselves, and check it to the last index.

LightGBM trusts the text it loads: a child index out of range reads foreign memory, a cycle never ends. Whatever comes
from a disk passes through `parse_model` first; what it accepts is safe to hand to LightGBM, and is what every export
is written from.
"""

from __future__ import annotations

import json
import re
import sys
from itertools import pairwise
from typing import NoReturn, TypeVar

import numpy as np
import numpy.typing as npt

from features.errors import PackageError
from pipeline.forest import Bools, Floats, Forest, Ints, LinearLeaves, Tree

PLAIN_OBJECTIVES = (
    *("lambdarank", "rank_xendcg", "custom"),
    *("regression", "regression_l1", "huber", "fair", "quantile", "mape"),
)
"""Objectives whose score is the sum (or mean) of the trees, without a transformation behind it."""


def parse_model(text: str) -> Forest:
    """Read a LightGBM model text (version 3 or 4). Raises PackageError for anything that is not one, whole and sound.

    Indices are in range, every node and leaf is reached exactly once, counts equal the lengths of their arrays, tree
    sizes equal the bytes they stand for, and every number that decides a score is finite.
    """
    head, blocks, tail = _split_text(text)
    names = _feature_names(head)
    _check_header(head)
    _check_sizes(head, blocks)
    _check_tail(tail)
    trees = tuple(_parse_tree(number, block, len(names)) for number, block in enumerate(blocks))
    return Forest(names, head.get("objective", "custom"), "average_output" in head, trees)


_HEAD_NUMBERS = ("version", "num_class", "num_tree_per_iteration", "label_index", "max_feature_idx", "tree_sizes")
_HEAD_WORDS = ("objective", "average_output", "feature_names", "monotone_constraints", "feature_infos")
_HEAD_KEYS = frozenset(_HEAD_NUMBERS + _HEAD_WORDS)
_NODE_FLOATS = ("split_gain", "internal_value", "internal_weight")
_NODE_INTS = ("split_feature", "decision_type", "left_child", "right_child", "internal_count")
_LEAF_KEYS = ("leaf_value", "leaf_weight", "leaf_count", "leaf_const", "num_features", "leaf_features", "leaf_coeff")
_OTHER_KEYS = ("num_leaves", "num_cat", "threshold", "cat_boundaries", "cat_threshold", "is_linear", "shrinkage")
_TREE_KEYS = frozenset(_NODE_FLOATS + _NODE_INTS + _LEAF_KEYS + _OTHER_KEYS)

_FORBIDDEN = re.compile(r"[\x00-\x09\x0b-\x1f\x7f\ud800-\udfff]")
_NUMBER = re.compile(r"[-+]?(?:[0-9]+(?:\.[0-9]*)?(?:[eE][-+]?[0-9]{1,3})?|inf|nan)")
_INTEGER = re.compile(r"-?[0-9]{1,10}")
_NOT_ZERO = re.compile(r"[-+0.]*[1-9]")
_TRANSFORMED = ("binary", "poisson", "gamma", "tweedie", "cross_entropy", "cross_entropy_lambda")
_OBJECTIVE = re.compile(rf"({'|'.join(PLAIN_OBJECTIVES + _TRANSFORMED)})( [a-z_0-9]+(:[-+.0-9eE]+)?)*")
_FEATURE_INFO = re.compile(r"none|\[[-+.0-9a-z]+:[-+.0-9a-z]+\]|-?[0-9]{1,10}(:-?[0-9]{1,10})*")
_PARAMETER = re.compile(r'\[\w+: [^"\\]*\]')


def _refuse(what: str) -> NoReturn:
    raise PackageError(
        f"damaged model text: {what}",
        expected="a model text as LightGBM writes it",
        fix="take the package from its origin again, or train it again",
    )


def _split_text(text: str) -> tuple[dict[str, str], list[list[str]], list[str]]:
    """Header, the lines of each tree, and what follows "end of trees"."""
    if _FORBIDDEN.search(text):
        _refuse("it holds control characters")
    lines = text.split("\n")
    if lines[0] != "tree":
        _refuse(f"it begins with {lines[0][:40]!r}, not with 'tree'")
    starts = [number for number, line in enumerate(lines) if line.startswith("Tree=")]
    if "end of trees" not in lines or not starts:
        _refuse("it has no trees" if not starts else "its end is missing")
    end = lines.index("end of trees")
    if starts[-1] > end:
        _refuse("trees stand behind 'end of trees'")
    blocks = [lines[start:stop] for start, stop in zip(starts, [*starts[1:], end], strict=True)]
    return _key_values(lines[1 : starts[0]], _HEAD_KEYS, "the header"), blocks, lines[end + 1 :]


def _key_values(lines: list[str], known: frozenset[str], where: str) -> dict[str, str]:
    """`key=value` lines, each key at most once; blank lines are allowed at the end only."""
    while lines and not lines[-1]:
        lines = lines[:-1]
    found: dict[str, str] = {}
    for line in lines:
        key, _, value = line.partition("=")
        if key not in known or key in found:
            _refuse(f"{where} holds {line[:40]!r}")
        found[key] = value
    return found


def _feature_names(head: dict[str, str]) -> tuple[str, ...]:
    names = tuple(head.get("feature_names", "").split(" "))
    count = int(_integers(head, "max_feature_idx", 1, "the header")[0]) + 1
    if len(names) != count or not all(names) or len(set(names)) != len(names):
        _refuse(f"{count} features are announced, {len(names)} distinct names given")
    infos = head.get("feature_infos", "").split(" ")
    if len(infos) != count or not all(_FEATURE_INFO.fullmatch(info) for info in infos):
        _refuse("feature_infos do not fit the features")
    if "monotone_constraints" in head:
        _integers(head, "monotone_constraints", count, "the header")
    return names


def _check_header(head: dict[str, str]) -> None:
    if head.get("version") not in ("v3", "v4"):
        _refuse(f"it is of version {head.get('version', 'unknown')[:20]!r}, not v3 or v4")
    for key in ("num_class", "num_tree_per_iteration"):
        if head.get(key) != "1":
            _refuse(f"{key} is {head.get(key, 'missing')[:20]!r}; a ranker has one score per row")
    _integers(head, "label_index", 1, "the header")
    if head.get("average_output", ""):
        _refuse("average_output holds a value")
    if "objective" in head and not _OBJECTIVE.fullmatch(head["objective"]):
        _refuse(f"its objective is {head['objective'][:40]!r}")


def _check_sizes(head: dict[str, str], blocks: list[list[str]]) -> None:
    """LightGBM jumps through the text by `tree_sizes` without looking where it lands."""
    sizes = _integers(head, "tree_sizes", len(blocks), "the header")
    for number, (size, block) in enumerate(zip(sizes, blocks, strict=True)):
        length = sum(len(line.encode()) + 1 for line in block)
        if size != length or block[0] != f"Tree={number}":
            _refuse(f"tree {number} should take {size} bytes and takes {length}")


def _check_tail(lines: list[str]) -> None:
    section = ""
    for line in lines:
        if line in ("feature_importances:", "parameters:"):
            section = line
        elif line in ("", "end of parameters"):
            section = ""
        elif line.startswith("pandas_categorical:") and not section:
            _check_json(line.partition(":")[2])
        elif not _fits(section, line):
            _refuse(f"behind the trees stands {line[:40]!r}")


def _fits(section: str, line: str) -> bool:
    if section == "parameters:":
        return _PARAMETER.fullmatch(line) is not None
    return section == "feature_importances:" and re.fullmatch(r".+=[0-9]+", line) is not None


def _check_json(text: str) -> None:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        _refuse("pandas_categorical is no JSON")


def _parse_tree(number: int, lines: list[str], features: int) -> Tree:
    where = f"tree {number}"
    values = _key_values(lines[1:], _TREE_KEYS, where)
    leaves, sets = (int(_integers(values, key, 1, where)[0]) for key in ("num_leaves", "num_cat"))
    if leaves < 1 or sets < 0 or leaves > len(values.get("leaf_value", "")) + 1:
        _refuse(f"{where} has {leaves} leaves and {sets} category splits")
    _check_unused(values, leaves, where)
    integers = {key: _integers(values, key, leaves - 1, where) for key in _NODE_INTS[:-1]}
    feature, decision, left, right = integers.values()
    if np.any((feature < 0) | (feature >= features)):
        _refuse(f"{where} splits on a feature outside 0..{features - 1}")
    if np.any((decision < 0) | (decision > 11)):
        _refuse(f"{where} has an unknown decision type")
    _check_children(left, right, where)
    threshold = _numbers(values, "threshold", leaves - 1, where)
    if np.isnan(threshold).any():
        _refuse(f"{where} has a threshold that is no number")
    category = _category_splits(threshold, (decision & 1) > 0, sets, where)
    codes = _parse_codes(values, sets, where)
    return Tree(
        feature=_frozen(feature),
        threshold=_frozen(np.where(category >= 0, 0.0, threshold)),
        left=_frozen(left),
        right=_frozen(right),
        default_left=_frozen((decision & 2) > 0),
        missing=_frozen((decision >> 2).astype(np.uint8)),
        category=_frozen(category),
        codes=codes,
        value=_frozen(_finite(values, "leaf_value", leaves, where)),
        linear=_parse_linear(values, leaves, features, where),
    )


def _check_unused(values: dict[str, str], leaves: int, where: str) -> None:
    """Numbers that decide no score, but that LightGBM reads all the same."""
    for key, count in [("leaf_weight", leaves), ("leaf_count", leaves), *((key, leaves - 1) for key in _NODE_FLOATS)]:
        if values.get(key):
            _numbers(values, key, count, where)
    if values.get("internal_count"):
        _integers(values, "internal_count", leaves - 1, where)
    if "shrinkage" in values:
        _numbers(values, "shrinkage", 1, where)


def _check_children(left: Ints, right: Ints, where: str) -> None:
    """Each node but the root, and each leaf, has exactly one parent, and that parent has a smaller number."""
    children = np.concatenate([left, right])
    wanted = np.concatenate([np.arange(-len(left) - 1, 0), np.arange(1, len(left))]) if len(left) else children
    parents = np.tile(np.arange(len(left)), 2)
    if not np.array_equal(np.sort(children), wanted) or np.any((children >= 0) & (children <= parents)):
        _refuse(f"the children in {where} form no tree")


def _category_splits(threshold: Floats, is_category: Bools, sets: int, where: str) -> Ints:
    """(L - 1,) which of the `sets` each category split uses, written in place of a threshold; -1 elsewhere."""
    if is_category.sum() != sets or not np.array_equal(np.sort(threshold[is_category]), np.arange(sets)):
        _refuse(f"the category splits of {where} do not fit their {sets} sets")
    return np.where(is_category, threshold, -1.0).astype(np.int32)


def _parse_codes(values: dict[str, str], sets: int, where: str) -> tuple[Ints, ...]:
    if not sets:
        return ()
    bounds = _integers(values, "cat_boundaries", sets + 1, where)
    if bounds[0] != 0 or np.any(np.diff(bounds) < 0):
        _refuse(f"the category sets of {where} overlap")
    words = _whole(values, "cat_threshold", int(bounds[-1]), where, np.uint32)
    bits = np.unpackbits(words.astype("<u4").view(np.uint8), bitorder="little")
    return tuple(
        _frozen(np.flatnonzero(bits[32 * start : 32 * stop]).astype(np.int32)) for start, stop in pairwise(bounds)
    )


def _parse_linear(values: dict[str, str], leaves: int, features: int, where: str) -> LinearLeaves | None:
    if values.get("is_linear", "0") == "0":
        return None
    if values["is_linear"] != "1":
        _refuse(f"{where} has is_linear={values['is_linear'][:20]!r}")
    counts = _integers(values, "num_features", leaves, where)
    if np.any((counts < 0) | (counts > features)):
        _refuse(f"the leaf models of {where} use more than {features} features")
    used = _integers(values, "leaf_features", int(counts.sum()), where)
    if np.any((used < 0) | (used >= features)):
        _refuse(f"{where} has a leaf model on a feature outside 0..{features - 1}")
    weights = _normal(values, "leaf_coeff", int(counts.sum()), where)
    stops = np.cumsum(counts)[:-1]
    return LinearLeaves(
        _frozen(_normal(values, "leaf_const", leaves, where)),
        tuple(_frozen(part) for part in np.split(used, stops)),
        tuple(_frozen(part) for part in np.split(weights, stops)),
    )


def _tokens(values: dict[str, str], key: str, count: int, where: str, form: re.Pattern[str]) -> list[str]:
    tokens = [token for token in values.get(key, "").split(" ") if token]
    if len(tokens) != count:
        _refuse(f"{key} of {where} holds {len(tokens)} numbers, not {count}")
    for token in tokens:
        if not form.fullmatch(token):
            _refuse(f"{key} of {where} holds {token[:40]!r}")
    return tokens


def _integers(values: dict[str, str], key: str, count: int, where: str) -> Ints:
    return _whole(values, key, count, where, np.int32)


def _whole(values: dict[str, str], key: str, count: int, where: str, dtype: type[_Scalar]) -> npt.NDArray[_Scalar]:
    numbers = np.array([int(token) for token in _tokens(values, key, count, where, _INTEGER)], np.int64)
    limits = np.iinfo(np.dtype(dtype).name)
    if np.any((numbers < limits.min) | (numbers > limits.max)):
        _refuse(f"{key} of {where} holds a number outside its type")
    return numbers.astype(dtype)


def _numbers(values: dict[str, str], key: str, count: int, where: str) -> Floats:
    return np.array([float(token) for token in _tokens(values, key, count, where, _NUMBER)], np.float64)


def _finite(values: dict[str, str], key: str, count: int, where: str) -> Floats:
    numbers = _numbers(values, key, count, where)
    if not np.isfinite(numbers).all():
        _refuse(f"{key} of {where} is not finite")
    return numbers


def _normal(values: dict[str, str], key: str, count: int, where: str) -> Floats:
    """LightGBM reads leaf models with std::stod, and ends the process where that finds a number too small or large."""
    tokens = _tokens(values, key, count, where, _NUMBER)
    numbers = _finite(values, key, count, where)
    for token, number in zip(tokens, numbers, strict=True):
        if abs(number) < sys.float_info.min and _NOT_ZERO.match(token):
            _refuse(f"{key} of {where} holds {token[:40]!r}, too small for a double")
    return numbers


_Scalar = TypeVar("_Scalar", bound=np.generic)


def _frozen(array: npt.NDArray[_Scalar]) -> npt.NDArray[_Scalar]:
    array.flags.writeable = False
    return array
