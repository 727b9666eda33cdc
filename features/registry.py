"""The ordered list of all features. A family that stands here is found by its names, and tested by the suite."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Final

from features.context import Feature
from features.covisit import covisit_features
from features.cross import cross_features
from features.description import Description
from features.errors import ConfigError
from features.item import item_features
from features.levels import level_features
from features.lists import list_features
from features.names import listed, nearest
from features.query import query_features
from features.recent import recent_features
from features.session import session_features
from features.shown import shown_features
from features.spec import FeatureSpec
from features.text import text_features
from features.user import user_features
from features.vector import vector_features

Family = Callable[[Description], Iterator[Feature]]

FAMILIES: Final[dict[str, Family]] = {
    "item": item_features,
    "user": user_features,
    "cross": cross_features,
    "field": level_features,
    "query": query_features,
    "shown": shown_features,
    "text": text_features,
    "session": session_features,
    "recent": recent_features,
    "covisit": covisit_features,
    "vector": vector_features,
    "list": list_features,
}
"""Families by the first part of their features' names."""

EVERYTHING: Final = tuple(f"{family}.*" for family in FAMILIES)
STANDARD: Final = ("*", "!field.*")
"""What a log gives where nobody chooses: `field.*` counts as much again for each field with levels, and has gained
nothing on any log that was tried.
"""


def all_features(log: Description) -> tuple[Feature, ...]:
    """Every feature that the log offers, in the order of the families; a field never takes a feature's name.

    A column of the user's that is called like a feature of ours is named with `_field` at the end.
    """
    found: dict[str, Feature] = {}
    for family in FAMILIES.values():
        for feature in family(log):
            name = feature.spec.name
            while name in found:
                name += "_field"
            found[name] = replace(feature, spec=replace(feature.spec, name=name))
    return tuple(found.values())


def select_features(patterns: Sequence[str], log: Description) -> tuple[Feature, ...]:
    """The features whose names match: `patterns` are names or globs, those that start with ! take away.

    In the order of the registry, each once. Raises ConfigError for a pattern that matches nothing, but for a whole
    family (`user.*`) of which this log has none, and where no feature is left.
    """
    features = all_features(log)
    names = [feature.spec.name for feature in features]
    for pattern in patterns:
        _check_matches(pattern.removeprefix("!"), names)
    wanted = [pattern for pattern in patterns if not pattern.startswith("!")]
    unwanted = [pattern.removeprefix("!") for pattern in patterns if pattern.startswith("!")]
    chosen = tuple(f for f in features if _matches(f.spec.name, wanted) and not _matches(f.spec.name, unwanted))
    if not chosen:
        raise ConfigError(
            f"features.use = {list(patterns)} leaves no feature", expected=f"some of {listed(names)}", fix="widen it"
        )
    return chosen


def find_features(names: Sequence[str], log: Description) -> tuple[Feature, ...]:
    """The features of exactly these names, in the order of the names; ConfigError for one that there is not."""
    found = {feature.spec.name: feature for feature in all_features(log)}
    for name in names:
        if name not in found:
            raise _no_feature(name, list(found))
    return tuple(found[name] for name in names)


def resolve(patterns: Sequence[str], log: Description) -> tuple[FeatureSpec, ...]:
    """The specs of `select_features`; the categories of category features are known once they are fitted."""
    return tuple(feature.spec for feature in select_features(patterns, log))


def _check_matches(pattern: str, names: Sequence[str]) -> None:
    if pattern not in EVERYTHING and not any(_matches(name, [pattern]) for name in names):
        raise _no_feature(pattern, names)


def _no_feature(pattern: str, names: Sequence[str]) -> ConfigError:
    near = nearest(pattern, [*names, *EVERYTHING])
    return ConfigError(
        f"features.use or features.drop names {pattern!r}, which matches no feature",
        expected=f"names or globs of the log's features, such as {listed(names)}",
        fix=f"did you mean {near!r}?" if near else "list them with `rankloom features`",
    )


def _matches(name: str, patterns: Iterable[str]) -> bool:
    """Whether the name is one of the patterns, brackets and all, or fits one as a glob."""
    return any(name == pattern or fnmatchcase(name, pattern) for pattern in patterns)
