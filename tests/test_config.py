"""The config: the contract's shape is accepted, everything else is refused at once and by name."""

from __future__ import annotations

import json
import tomllib
from ctypes import byref, c_int64, create_string_buffer
from datetime import timedelta
from pathlib import Path

import pytest
from lightgbm.basic import _LIB

from features.errors import ConfigError
from pipeline.config import config_from, load_config
from pipeline.params import ALIASES, ELSEWHERE, param_problems

CONTRACT = """
k = [10, 20]
seed = 7
[data]
events = "data/shop/events.parquet"
items = "data/shop/items.parquet"
shown = "impression"
columns = { user = "customer", timestamp = "at" }
max_rejected = 0.01
[queries]
by = "query"
[relevance]
tiers = { purchase = 3, cart = 2, click = 1 }
window = "2d"
[candidates]
from = "shown"
[features]
use = ["item.*", "user.*", "cross.*", "query.*"]
[features.custom]
discount_share = "1 - price / list_price"
[split]
valid = "7d"
test = "7d"
gap = "2d"
[train]
objective = "lambdarank"
rounds = 1000
early_stopping = 50
params = { learning_rate = 0.05, num_leaves = 31 }
refit = false
[baselines]
newest = "-item_age_days"
[tune]
trials = 50
[tune.space]
num_leaves = { low = 8, high = 255, log = true }
[export]
formats = ["lightgbm"]
[monitor]
psi_alarm = 0.2
[memory]
limit = "6GiB"
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "run.toml"
    path.write_text(text)
    return path


def test_the_contract_is_read(tmp_path: Path) -> None:
    config = load_config(written(tmp_path, CONTRACT))
    assert config.split.valid == timedelta(days=7)
    assert config.candidates.source == "shown"
    assert config.train_k == 10
    assert config.resolved_convention().gain == "exp2"


def test_the_resolved_config_reads_back_equal(tmp_path: Path) -> None:
    config = load_config(written(tmp_path, CONTRACT), ["split.gap=60h", "split.test=0.2", "train.refit=true"])
    assert config_from(tomllib.loads(config.to_toml()), "again") == config


def test_two_lines_are_a_config() -> None:
    config = config_from({"data": {"table": "t.parquet"}}, "test")
    assert (config.k, config.seed, config.train.objective) == ((10, 20), 7, "lambdarank")


def test_all_problems_are_named_at_once(tmp_path: Path) -> None:
    text = 'seeed = 1\n[data]\ntable = "t"\n[train]\nrouns = 5\nobjective = "pairwise"\n[split]\nvalid = "soon"\n'
    with pytest.raises(ConfigError) as caught:
        load_config(written(tmp_path, text))
    message = str(caught.value)
    assert "seeed is not known (did you mean seed?)" in message
    assert "train.rouns is not known (did you mean rounds?)" in message
    assert "train.objective = 'pairwise'" in message
    assert "'soon' is no length of time" in message


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ({}, "data is missing"),
        ({"data": {}}, "exactly one of events, table and train"),
        ({"data": {"table": "t", "train": "u"}}, "found table and train"),
        ({"data": {"table": "t"}, "k": []}, "k = "),
        ({"data": {"table": "t"}, "k": [0]}, "k.0 = 0"),
        ({"data": {"table": "t"}, "k": [5, 5]}, "names a cut-off twice"),
        ({"data": {"table": "t"}, "convention": "lightgmb"}, "expected one of"),
        ({"data": {"table": "t"}, "convention": "trec_eval"}, "needs an ideal"),
        ({"data": {"table": "t"}, "convention": {"gain": [1.0, 0.0]}}, "gain"),
        ({"data": {"events": "e"}}, "a log needs a .relevance. rule"),
        ({"data": {"events": "e"}, "relevance": {"tiers": {"click": 1}}}, "data.shown names the event kind"),
        (
            {"data": {"table": "t"}, "features": {"zone": "Europe/Lisbon"}},
            "zone, session_gap, recent or channels would be ignored",
        ),
        ({"data": {"events": "e"}, "features": {"zone": "Nowhere/Land"}}, "'Nowhere/Land' is no time zone"),
        ({"data": {"events": "e"}, "features": {"windows": ["7 days"]}}, "duration '7 days'"),
        ({"data": {"events": "e"}, "features": {"windows": ["7d", "7d"]}}, "names a window twice"),
        ({"data": {"events": "e"}, "features": {"windows": "7d"}}, "no list of windows"),
        ({"data": {"table": "t"}, "relevance": {"tiers": {}, "column": "v"}}, "one rule says what is relevant"),
        ({"data": {"table": "t"}, "memory": {"limit": "lots"}}, "memory.limit"),
        ({"data": {"table": "t"}, "split": {"valid": 7}}, "no length of time"),
    ],
)
def test_what_cannot_be_is_refused(raw: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        config_from(raw, "test")


@pytest.mark.parametrize(
    ("setting", "message"),
    [("seed", "section.key=value"), ("=3", "section.key=value"), ("seed.x=1", "seed to be a section")],
)
def test_a_broken_setting_is_refused(tmp_path: Path, setting: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_config(written(tmp_path, 'seed = 3\n[data]\ntable = "t"\n'), [setting])


def test_settings_override_and_need_no_quotes(tmp_path: Path) -> None:
    path = written(tmp_path, '[data]\ntable = "t"\n')
    config = load_config(path, ["data.table=/data/my table.csv", "train.params.num_leaves=7", "k=[3]"])
    assert config.data.table == "/data/my table.csv"
    assert config.train.params == {"num_leaves": 7}
    assert config.k == (3,)


@pytest.mark.parametrize("content", ["[data", 'x = "\\xff"'])
def test_broken_toml_is_one_sentence(tmp_path: Path, content: str) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load_config(written(tmp_path, content))


def test_a_missing_config_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no config at"):
        load_config(tmp_path / "nowhere.toml")


@pytest.mark.parametrize(
    ("params", "objective", "message"),
    [
        ({"num_leafs": 3}, "lambdarank", "did you mean num_leaves"),
        ({"eta": 0.1}, "lambdarank", "write learning_rate"),
        ({"n_estimators": 9}, "lambdarank", "no parameter that changes a ranking model"),
        ({"seed": 1}, "lambdarank", "set seed at the top"),
        ({"label_gain": [0, 1]}, "lambdarank", "set [train] gain"),
        ({"bagging_fraction": 0.5}, "lambdarank", "set bagging_freq = 1"),
        ({"bagging_fraction": 0.8, "bagging_freq": 1}, "lambdarank", "use a smaller fraction"),
        ({"lambdarank_truncation_level": 9}, "rank_xendcg", "ignored by objective rank_xendcg"),
        ({"drop_rate": 0.1}, "lambdarank", 'set boosting = "dart"'),
    ],
)
def test_parameters_that_lightgbm_would_ignore_are_refused(
    params: dict[str, object], objective: str, message: str
) -> None:
    assert any(message in problem for problem in param_problems(params, objective))


def test_parameters_that_count_are_taken() -> None:
    params = {"num_leaves": 7, "bagging_freq": 1, "bagging_fraction": 0.5, "lambdarank_norm": False}
    assert param_problems(params, "lambdarank") == []


def test_names_and_aliases_are_lightgbms_own() -> None:
    """LightGBM's own list of parameters is the oracle, so that an upgrade that renames one is noticed."""
    size = 1 << 20
    buffer, needed = create_string_buffer(size), c_int64(0)
    assert _LIB.LGBM_DumpParamAliases(c_int64(size), byref(needed), buffer) == 0
    theirs = json.loads(buffer.value)
    assert ALIASES.keys() | ELSEWHERE.keys() <= theirs.keys()
    for name, aliases in ALIASES.items():
        assert set(aliases) == set(theirs[name]), name


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ({"data": {"table": "t"}, "baselines": {"model": "a"}}, "takes the name of a ranker"),
        ({"data": {"table": "t", "columns": {"usr": "x"}}}, "did you mean user"),
        ({"data": {"table": "t"}, "queries": {"column": "x"}}, "names a session"),
        (
            {"data": {"table": "t"}, "features": {"custom": {"x": "a + b"}}},
            "would be ignored: the data is a ready-made",
        ),
        ({"data": {"table": "t"}, "relevance": {"tiers": {"click": 1}}}, "would be ignored"),
        ({"data": {"table": "t"}, "export": {"formats": ["nope"]}}, "input should be 'lightgbm'"),
        ({"data": {"table": "t"}, "k": 5}, "no list of cut-offs"),
        ({"data": {"table": "t"}, "relevance": {"window": "99999999999w"}}, "longer than any log"),
        ({"data": {"table": "t"}, "relevance": {"watch": {"target": 0}}}, "greater than 0"),
        ({"data": {"table": "t"}, "relevance": {"watch": {"target": True}}}, "valid"),
        ({"data": {"table": "t"}, "train": {"params": {"learning_rate": float("inf")}}}, "is not a finite number"),
        ({"data": {"table": "t"}, "train": {"params": {"bagging_fraction": "half"}}}, "is not a finite number"),
        ({"data": {"table": "t"}, "train": {"params": {"monotone_penalty": 1}}}, "no parameter that changes"),
    ],
)
def test_what_would_be_ignored_or_break_later_is_refused_at_once(raw: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        config_from(raw, "test")
