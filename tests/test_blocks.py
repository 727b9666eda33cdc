"""Under a limit of memory: the same tables, row for row, in blocks of any size, and nothing left behind."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from features.errors import ConfigError, DataError
from features.room import Room
from features.running import WholeLogError
from pipeline.blocks import PARTS, load_large_parts
from pipeline.config import Config, config_from
from pipeline.dealt import room_for
from pipeline.log import load_parts
from pipeline.simulate import simulate
from pipeline.split import Parts

Rankloom = Callable[..., Any]
WORLDS = {
    "shop": {"tiers": {"purchase": 3, "cart": 2, "click": 1}},
    "video": {"watch": {"event": "watch", "target": "median"}},
}


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("worlds")
    for name in WORLDS:
        simulate(name, 2_000, folder / name, days=30)
    return folder


def config_of(worlds: Path, name: str, **sections: dict[str, Any]) -> dict[str, Any]:
    files = {table: str(worlds / name / f"{table}.parquet") for table in ("events", "items", "users", "queries")}
    raw: dict[str, Any] = {
        "data": files | {"shown": "impression"},
        "relevance": WORLDS[name] | {"window": "1d"},
        "split": {"valid": "6d", "test": "6d"},
        "features": {"custom": {"cheap": "item_popularity / (1 + query_hour)"}},
    }
    for section, values in sections.items():
        raw[section] = raw.get(section, {}) | values
    return raw


def without_refused(raw: dict[str, Any], room: Room) -> Config:
    """The config with what the refusal of its features says."""
    try:
        load_large_parts(config_from(raw, "test"), room, lambda _: None)
    except WholeLogError as error:
        dropped = ast.literal_eval(error.fix.removeprefix("write features.drop = ").partition(", or raise")[0])
        raw["features"]["drop"] = dropped
    return config_from(raw, "test")


def check_same(whole: Parts, config: Config, room: Room) -> None:
    large = load_large_parts(config, room, lambda _: None)
    for part in PARTS:
        tables = list(large.tables(part))
        expected = getattr(whole, part)
        assert all(table.features == expected.features for table in tables)
        found = pl.concat([table.frame for table in tables])
        assert found.schema == expected.frame.schema
        differ = [name for name in found.columns if not found[name].equals(expected.frame[name], null_equal=True)]
        assert not differ, (part, differ)
    assert large.origin.definitions == whole.origin.definitions
    assert large.origin.notes == whole.origin.notes
    assert (large.origin.split, large.origin.rivals) == (whole.origin.split, whole.origin.rivals)
    assert large.origin.continuous == whole.origin.continuous


@pytest.mark.parametrize(
    ("world", "rows", "sections"),
    [
        ("shop", 150, {}),
        ("shop", 700, {"data": {"delay": {"click": "1h", "purchase": "26h"}}}),
        ("shop", 700, {"queries": {"by": "user_day"}}),
        ("shop", 700, {"queries": {"by": "session", "gap": "30m"}}),
        ("shop", 700, {"queries": {"by": "table"}}),
        ("shop", 700, {"candidates": {"from": "sampled", "negatives": 7}}),
        ("video", 700, {}),
        ("video", 700, {"queries": {"by": "session", "gap": "2h"}, "candidates": {"from": "sampled", "negatives": 5}}),
    ],
    ids=["shown", "delay", "user_day", "session", "table", "sampled", "watch", "sampled sessions"],
)
def test_tables_when_built_in_blocks_then_those_of_the_whole_log(worlds, tmp_path, world, sections, rows):
    config = without_refused(config_of(worlds, world, **sections), Room(tmp_path, rows))
    assert len(config.features.drop) < 200
    check_same(load_parts(config), config, Room(tmp_path, rows))


def test_a_query_when_larger_than_a_block_then_one_sentence(worlds, tmp_path):
    config = config_from(config_of(worlds, "shop", memory={"limit": "1GiB"}), "test")
    with pytest.raises(DataError, match=r"query \d+ has \d+ events or candidates; .* at most 12, .* raise memory"):
        load_large_parts(config, Room(tmp_path, 12), lambda _: None)


def test_a_session_column_when_not_mapped_then_one_sentence(worlds, tmp_path):
    raw = config_of(worlds, "shop", queries={"by": "session", "column": "user"}, memory={"limit": "1GiB"})
    with pytest.raises(ConfigError, match=r"queries.column = 'user' with a log larger than memory.limit; .*session"):
        load_large_parts(config_from(raw, "test"), Room(tmp_path, 500), lambda _: None)


@pytest.fixture
def tiny_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every log is larger than memory."""
    monkeypatch.setattr("pipeline.feature_files.room_for", lambda _config, folder: Room(folder, 700))


def config_file(worlds: Path, folder: Path) -> Path:
    files = "".join(
        f'{name} = "{worlds / "shop" / name}.parquet"\n' for name in ("events", "items", "users", "queries")
    )
    path = folder / "shop.toml"
    path.write_text(
        f'[data]\n{files}shown = "impression"\n[relevance]\ntiers = {{ purchase = 3, click = 1 }}\n'
        '[split]\nvalid = "6d"\ntest = "6d"\n[features]\nuse = ["item.category", "item.*_rate*", "query.price*"]\n'
    )
    return path


def test_feature_files_when_written_in_blocks_then_the_same_and_nothing_else_is_left(
    rankloom: Rankloom, worlds, tmp_path, request
):
    config = config_file(worlds, tmp_path)
    assert rankloom("features", config, "--out", tmp_path / "whole").code == 0
    request.getfixturevalue("tiny_room")
    done = rankloom("features", config, "--out", tmp_path / "blocks")
    assert done.code == 0, done.err
    for part in PARTS:
        whole, blocks = (pl.read_parquet(tmp_path / name / f"{part}.parquet") for name in ("whole", "blocks"))
        assert blocks.equals(whole)
        assert blocks.schema == whole.schema
    assert {path.name for path in tmp_path.iterdir()} == {"shop.toml", "whole", "blocks"}


@pytest.mark.usefixtures("tiny_room")
def test_feature_files_when_the_work_fails_then_nothing_is_left(rankloom: Rankloom, worlds, tmp_path):
    config = config_file(worlds, tmp_path)
    done = rankloom("features", config, "--set", 'features.use=["cross.user_item*"]', "--out", tmp_path / "out")
    assert done.code == 2
    assert "look at the whole log at once: cross.user_item_" in done.err
    assert "write features.drop = ['cross.user_item_" in done.err
    assert [path.name for path in tmp_path.iterdir()] == ["shop.toml"]


def test_a_limit_when_none_or_enough_or_too_small(worlds, tmp_path, monkeypatch):
    """A million events take more than the smallest limit with which any block has room."""
    raw = config_of(worlds, "shop")
    monkeypatch.setattr("pipeline.dealt.estimate_rows", lambda _: 10**6)
    rooms = [
        room_for(config_from(raw | {"memory": {"limit": limit}} if limit else raw, "test"), tmp_path)
        for limit in (None, "6GiB", "0.5 GiB")
    ]
    assert rooms[:2] == [None, None]
    assert rooms[2] is not None
    assert rooms[2].rows == (512 - 300) * 2**20 // 2 // 4096
    with pytest.raises(ConfigError, match=r"memory.limit = 100MiB, in which no block .* at least 379MiB"):
        room_for(config_from(raw | {"memory": {"limit": "100MiB"}}, "test"), tmp_path)


def test_a_model_when_trained_from_files_then_that_of_memory(rankloom: Rankloom, worlds, tmp_path, monkeypatch):
    """Bins are those of all rows as long as LightGBM looks at all of them, which it does up to 200,000."""
    config = config_file(worlds, tmp_path)
    quick = ["--set", "train.threads=1", "--set", "train.rounds=20", "--set", "train.params={ min_data_in_leaf = 5 }"]
    assert rankloom("train", config, *quick, "--out", tmp_path / "whole").code == 0
    monkeypatch.setattr("pipeline.commands.room_for", lambda _config, folder: Room(folder, 700))
    done = rankloom("train", config, *quick, "--set", "memory.limit=1GiB", "--out", tmp_path / "blocks")
    assert done.code == 0, done.err
    whole, blocks = ((tmp_path / name / "package" / "model.txt").read_text() for name in ("whole", "blocks"))
    assert blocks.partition("parameters:")[0] == whole.partition("parameters:")[0]
    whole, blocks = (json.loads((tmp_path / name / "metrics.json").read_text()) for name in ("whole", "blocks"))
    for name in ("test", "valid", "queries", "parity", "best_iteration"):
        assert blocks[name] == whole[name]
    assert {path.name for path in tmp_path.iterdir()} == {"shop.toml", "whole", "blocks"}
    refit = rankloom("train", config, *quick, "--set", "train.refit=true", "--out", tmp_path / "refit")
    assert refit.code == 2
    assert "train.refit = true with a log larger than memory.limit" in refit.err
