"""The space of a search: what is drawn is what LightGBM will use, and what it would not is refused by name."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from features.errors import ConfigError
from pipeline.config import Config, config_from
from pipeline.params import LAMBDARANK_ONLY, POSITION_BIAS, param_problems
from pipeline.space import USUAL, Dimension, Range, Setting, build_space


def config(space: dict[str, Any], **train: Any) -> Config:
    return config_from({"data": {"table": "t.parquet"}, "train": train, "tune": {"space": space}}, "test")


def drawer(rng: random.Random) -> Any:
    def draw(name: str, dimension: Dimension) -> Any:
        if isinstance(dimension, tuple):
            return rng.choice(dimension)
        value = rng.uniform(dimension.low, dimension.high)
        return round(value) if isinstance(dimension.low, int) else value

    return draw


EVERYTHING = config({}).search_space()


def test_a_config_without_a_space_searches_the_usual_one() -> None:
    assert set(config({}).search_space().dimensions) == set(USUAL)


def test_a_named_space_is_searched_and_nothing_else() -> None:
    space = config({"num_leaves": {"low": 4, "high": 8}, "sigmoid": True}).search_space()
    assert space.dimensions == {"num_leaves": Range(low=4, high=8), "sigmoid": Range(low=0.5, high=2.0, log=True)}


@pytest.mark.parametrize(
    ("space", "train", "message"),
    [
        ({"num_leafs": True}, {}, "did you mean num_leaves"),
        ({"num_leaves": {"low": 1, "high": 8}}, {}, "num_leaves = 1 is not taken by LightGBM"),
        ({"num_leaves": {"low": 9, "high": 8}}, {}, "low = 9 is above high = 8"),
        ({"lambda_l1": {"low": 0, "high": 8, "log": True}}, {}, "needs a low above 0"),
        ({"num_leaves": {"low": 9, "hi": 8}}, {}, "num_leaves: high"),
        ({"num_leaves": 31}, {}, "31 is no range"),
        ({"num_leaves": []}, {}, "has no choice"),
        ({"bagging_fraction": True}, {}, "never be used: set bagging_freq = 1 beside it"),
        ({"bagging_fraction": [0.8], "bagging_freq": [1]}, {}, "above 0.5"),
        ({"sigmoid": True}, {"objective": "rank_xendcg"}, "never be used: it belongs to lambdarank"),
        ({"objective": ["regression"]}, {}, "objective is one of lambdarank and rank_xendcg"),
        ({"objective": {"low": 1, "high": 2}}, {}, "objective takes a list of choices"),
        ({"path_smooth": True, "min_data_in_leaf": [1, 5]}, {}, "path_smooth needs min_data_in_leaf of at least 2"),
        ({"top_rate": True}, {}, "top_rate has no usual range"),
        ({"seed": [1, 2]}, {}, "set seed at the top of the config"),
        ({POSITION_BIAS: True}, {"objective": "rank_xendcg"}, "never be used: it belongs to lambdarank"),
        ({POSITION_BIAS: [-1.0]}, {}, f"{POSITION_BIAS} = -1.0 is not taken by LightGBM"),
        ({"lambdarank_position_bias": [0.1]}, {}, "no parameter that changes a ranking model"),
    ],
)
def test_what_lightgbm_would_reject_or_ignore_is_refused(
    space: dict[str, Any], train: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        config(space, **train)


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32))
def test_every_setting_drawn_is_one_that_lightgbm_uses_whole(seed: int) -> None:
    setting = EVERYTHING.draw(drawer(random.Random(seed)))
    assert param_problems(setting.params, setting.objective) == []
    if setting.params["max_depth"] > 0:
        assert setting.params["num_leaves"] <= 2 ** setting.params["max_depth"]
    if setting.objective == "rank_xendcg":
        assert not set(LAMBDARANK_ONLY) & set(setting.params)
    assert ("bagging_fraction" in setting.params) == (setting.params["bagging_freq"] > 0)


def test_a_condition_that_is_off_takes_the_parameter_of_the_config_along() -> None:
    train = {"params": {"bagging_freq": 1, "bagging_fraction": 0.5, "lambdarank_norm": False}}
    space = config({"bagging_freq": [0], "objective": ["rank_xendcg"]}, **train).search_space()
    assert space.draw(lambda _, dimension: dimension[0]).params == {"bagging_freq": 0}  # type: ignore[index]


def test_a_bag_is_not_searched_under_goss() -> None:
    space = {"data_sample_strategy": ["bagging", "goss"], "bagging_freq": [1], "bagging_fraction": [0.5]}
    drawn = config(space).search_space().draw(lambda name, dim: "goss" if name == "data_sample_strategy" else dim[0])  # type: ignore[index]
    assert drawn.params == {"data_sample_strategy": "goss"}


def test_caps_follow_the_data() -> None:
    space = config({"num_leaves": {"low": 8, "high": 2000}, "lambdarank_truncation_level": True, "cat_smooth": True})
    capped = space.search_space().capped(1000, 12, categories=False)
    assert capped.dimensions["num_leaves"] == Range(low=8, high=1000 // 50)
    assert capped.dimensions["lambdarank_truncation_level"] == Range(low=10, high=12, log=True)
    assert "cat_smooth" not in capped.dimensions


def test_the_default_is_pictured_by_the_nearest_point() -> None:
    space = build_space(
        {"lambda_l1": Range(low=0.1, high=1.0), "max_bin": (63, 255)}, Setting("lambdarank", None, {}), 10
    )
    assert space.nearest({}) == {"lambda_l1": 0.1, "max_bin": 255}


def test_settings_are_equal_by_what_they_say() -> None:
    one = Setting("lambdarank", (0.0, 1.0), {"a": 1, "b": 2})
    assert one.key == Setting("lambdarank", (0.0, 1.0), {"b": 2, "a": 1}).key
    assert Setting.from_plain(one.to_plain()) == one
