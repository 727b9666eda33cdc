"""Features are chosen by name, and what is learned of them survives JSON."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import polars as pl
import pytest

from features.columns import POSITION
from features.description import Description, Field, Options
from features.durations import parse_duration
from features.errors import ConfigError
from features.fitted import Fitted
from features.registry import EVERYTHING, FAMILIES, all_features, resolve, select_features
from tests.features.test_time import EVERYTHING_AT_ONCE

SHOP = Description(
    kinds=("click", "impression"),
    shown="impression",
    users=True,
    item_fields=(
        Field("brand", "category"),
        Field("price", "number"),
        Field("title", "text"),
        Field("tags", "list"),
        Field("look", "vector", 2),
    ),
    query_fields=(Field("text", "text"),),
    shown_fields=(Field("price", "number"),),
)


def names(*patterns: str) -> list[str]:
    return [spec.name for spec in resolve(patterns, SHOP)]


def test_resolve_when_globs_and_exclusions_then_in_the_order_of_the_registry():
    assert names("item.click_count", "item.brand") == ["item.click_count", "item.brand"]
    assert names("item.brand", "item.click_count", "item.click_[cr]*") == [
        *("item.click_count", "item.click_count_7d", "item.click_count_30d"),
        *("item.click_rate", "item.click_rate_7d", "item.click_rate_30d"),
        "item.click_rate_above_brand",
        "item.brand",
    ]
    assert names("item.click_count*", "!*_30d") == ["item.click_count", "item.click_count_7d"]


def test_resolve_when_a_pattern_matches_nothing_then_the_nearest_name():
    with pytest.raises(
        ConfigError, match=r"names 'item.clik_count', which matches no feature;.*mean 'item.click_count'"
    ):
        names("item.clik_count")
    with pytest.raises(ConfigError, match="leaves no feature"):
        names("item.brand", "!item.*")


def test_resolve_when_a_family_is_empty_in_this_log_then_it_is_no_mistake():
    without_users = Description(kinds=("click",))
    assert resolve(["item.*", "user.*", "shown.*"], without_users)
    with pytest.raises(ConfigError, match=r"names 'user.click_count'"):
        resolve(["user.click_count"], without_users)


def test_features_when_listed_then_unique_with_window_and_meaning():
    features = all_features(SHOP)
    found = [feature.spec.name for feature in features]
    assert len(found) == len(set(found))
    assert {name.partition(".")[0] for name in found} == set(FAMILIES)
    assert tuple(f"{family}.*" for family in FAMILIES) == EVERYTHING
    assert not [name for name in found if POSITION in name]
    for feature in features:
        days = re.search(r"_(\d+)d$", feature.spec.name)
        assert feature.spec.lookback_days == (float(days[1]) if days else None)
        assert feature.spec.missing


def test_features_when_two_kinds_read_alike_then_still_apart():
    found = [
        spec.name
        for spec in resolve(
            ["item.*_count*"], Description(kinds=("Add to cart", "add_to_cart"), options=Options(windows=()))
        )
    ]
    assert len(found) == len(set(found)) == 3


def test_description_when_read_from_a_log_then_kinds_of_fields():
    description = EVERYTHING_AT_ONCE.fit().description
    assert description.kinds == ("click", "impression", "purchase")
    assert description.item_fields == (
        Field("created_at", "time"),
        Field("category", "category"),
        Field("title", "text"),
        Field("weight", "number"),
        Field("tags", "list"),
        Field("look", "vector", 2),
    )
    assert description.shown_fields == (Field("price", "number"), Field("badge", "category"))
    assert description.interactions == ("click", "purchase")


def test_fitted_when_written_as_json_then_the_same_features_to_the_last_bit():
    fitted = EVERYTHING_AT_ONCE.fit()
    again = Fitted.from_dict(json.loads(json.dumps(fitted.to_dict())))
    assert again == fitted
    assert EVERYTHING_AT_ONCE.table(again).frame.equals(EVERYTHING_AT_ONCE.table(fitted).frame)


def test_fitted_when_asked_for_its_features_then_those_it_names():
    fitted = EVERYTHING_AT_ONCE.fit()
    assert tuple(feature.spec.name for feature in fitted.features()) == fitted.names
    assert fitted.names == tuple(f.spec.name for f in select_features(fitted.names, fitted.description))


@pytest.mark.parametrize("name", ["x[y]", "[abc]", "a*b", "?"])
def test_fitted_when_a_field_is_named_like_a_glob_then_meant_to_the_letter(name):
    world = EVERYTHING_AT_ONCE
    odd = replace(world, items=world.items.with_columns(axb=pl.lit(1.0), a=pl.lit(2.0)).rename({"weight": name}))
    fitted = odd.fit(use=[f"item.{name}", "query.hour"], custom={})
    assert tuple(feature.spec.name for feature in fitted.features()) == fitted.names
    assert f"item.{name}" in odd.table(fitted).feature_names


def test_fitted_when_a_name_is_none_of_the_features_then_the_nearest_is_named():
    fitted = replace(EVERYTHING_AT_ONCE.fit(), names=("item.clik_count",))
    with pytest.raises(ConfigError, match=r"'item.clik_count', which matches no feature.*'item.click_count'"):
        fitted.features()


@pytest.mark.parametrize(("text", "hours"), [("90m", 1.5), ("12h", 12), ("7d", 168), ("2w", 336), ("36s", 0.01)])
def test_duration_when_written_then_its_length(text, hours):
    assert parse_duration(text).total_seconds() / 3600 == hours


@pytest.mark.parametrize("text", ["", "7", "d7", "7 d", "-1d", "0d", "1.5h", "7days", "7D", "40000d", "9" * 30 + "s"])
def test_duration_when_written_otherwise_then_refused(text):
    with pytest.raises(ConfigError, match=r"the duration .*; expected a number above 0 and a unit"):
        parse_duration(text)
