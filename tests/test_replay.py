"""Online equals offline: features of a request, and a replay of what was served, against the table of a run."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from features.errors import DataError
from features.spec import FeatureSpec
from features.table import Table
from pipeline.config import load_config
from pipeline.log import load_parts, table_of_requests
from pipeline.package import with_levels
from pipeline.replay import compare_features
from pipeline.scorer import Scorer

ROOT = Path(__file__).parents[1]
Rankloom = Callable[..., object]
EVENTS = ROOT / "data" / "shop" / "events.parquet"


@pytest.fixture(autouse=True)
def _at_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small model of all that the shop offers."""
    from pipeline import commands

    out = tmp_path_factory.mktemp("shop") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        quick = ["train.threads=1", "train.rounds=3", "features.drop=[]", "features.custom={saved='1 - price / 100'}"]
        commands.train(ROOT / "configs" / "shop.toml", quick, out, overwrite=False)
    return out / "package"


@pytest.fixture(scope="module")
def offline(package: Path) -> Table:
    """The test part as the run itself made it."""
    manifest = json.loads((package / "manifest.json").read_text())
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        drop = ["features.drop=[]", "features.custom={saved='1 - price / 100'}"]
        parts = load_parts(load_config(ROOT / "configs" / "shop.toml", drop))
    assert {spec.name for spec in parts.test.features} == {spec["name"] for spec in manifest["features"]}
    return parts.test


def requests_of(queries: list[int], path: Path) -> Path:
    """What a server knows of these queries of the log: who asks what, when, and what may be shown at which price."""
    asked = pl.read_parquet("data/shop/queries.parquet").filter(pl.col("query").is_in(queries)).drop("randomised")
    shown = pl.read_parquet(EVENTS).filter(pl.col("event") == "impression")
    shown.select("query", "item", "price", "upstream_score").join(asked, on="query").write_parquet(path)
    return path


def features_of(table: Table, queries: list[int]) -> pl.DataFrame:
    return table.frame.filter(pl.col("query").is_in(queries)).select("query", "item", *table.feature_names)


def test_features_of_requests_equal_those_of_the_table(package: Path, offline: Table, tmp_path: Path) -> None:
    manifest = Scorer.load(package).package.manifest
    config = load_config(ROOT / "configs" / "shop.toml")
    some = offline.frame["query"].unique().sort().gather_every(150).to_list()
    online = table_of_requests(config, manifest.definitions, EVENTS, requests_of(some, tmp_path / "asked.parquet"))
    assert len(some) >= 4
    assert online.feature_names == offline.feature_names
    assert features_of(online, some).equals(features_of(offline, some))


def test_features_of_a_request_do_not_know_what_comes_after_it(package: Path, offline: Table, tmp_path: Path) -> None:
    """A server has only the log before the request; the table was made from all of it."""
    manifest = Scorer.load(package).package.manifest
    query = int(offline.frame["query"].max())  # type: ignore[arg-type]
    time = offline.frame.filter(pl.col("query") == query)["timestamp"][0]
    log = tmp_path / "log.parquet"
    pl.read_parquet(EVENTS).filter(pl.col("timestamp") < time).write_parquet(log)
    config = load_config(ROOT / "configs" / "shop.toml")
    online = table_of_requests(config, manifest.definitions, log, requests_of([query], tmp_path / "asked.parquet"))
    assert features_of(online, [query]).equals(features_of(offline, [query]))


def test_a_new_user_a_new_item_and_new_words_have_features(package: Path, tmp_path: Path) -> None:
    manifest = Scorer.load(package).package.manifest
    config = load_config(ROOT / "configs" / "shop.toml")
    asked = pl.read_parquet(requests_of([5000], tmp_path / "asked.parquet"))
    new = asked.head(3).with_columns(
        user=pl.lit("u99999"), text=pl.lit("zzz qqq"), item=pl.Series(["i99999", *asked["item"][1:3]])
    )
    new.write_parquet(tmp_path / "new.parquet")
    rows = table_of_requests(config, manifest.definitions, EVENTS, tmp_path / "new.parquet").frame
    stranger = rows.filter(pl.col("item") == "i99999").row(0, named=True)
    others = rows.filter(pl.col("item") != "i99999")
    assert (stranger["item.popularity"], stranger["item.price"], stranger["text.title_bm25"]) == (0, None, None)
    assert (others["user.event_count"].to_list(), others["text.title_bm25"].to_list()) == ([0, 0], [0, 0])
    assert others["item.price"].null_count() == 0


def test_requests_as_json_lines_are_those_of_parquet(package: Path, tmp_path: Path) -> None:
    manifest = Scorer.load(package).package.manifest
    config = load_config(ROOT / "configs" / "shop.toml")
    asked = pl.read_parquet(requests_of([5000], tmp_path / "asked.parquet"))
    asked.write_ndjson(tmp_path / "asked.jsonl")
    tables = [
        table_of_requests(config, manifest.definitions, EVENTS, tmp_path / f"asked.{form}")
        for form in ("parquet", "jsonl")
    ]
    assert features_of(tables[0], [5000]).equals(features_of(tables[1], [5000]))


@pytest.mark.parametrize("name", ["user", "timestamp"])
def test_requests_whose_rows_disagree_are_refused(name: str, package: Path, tmp_path: Path) -> None:
    manifest = Scorer.load(package).package.manifest
    config = load_config(ROOT / "configs" / "shop.toml")
    asked = pl.read_parquet(requests_of([5000], tmp_path / "asked.parquet"))
    other = {"user": pl.lit("u99999"), "timestamp": pl.col("timestamp") + pl.duration(seconds=1)}[name]
    later = pl.int_range(pl.len()) > 2
    asked.with_columns(pl.when(later).then(other).otherwise(name).alias(name)).write_parquet(tmp_path / "two.parquet")
    with pytest.raises(DataError, match=f"1 queries have rows of more than one {name}, the first 5000"):
        table_of_requests(config, manifest.definitions, EVENTS, tmp_path / "two.parquet")


def served_rows(offline: Table) -> pl.DataFrame:
    """Sixty lists as they were served, with their features, and no more than ids beside them."""
    lists = offline.frame["query"].unique(maintain_order=True).head(60)
    logged = with_levels(offline.frame, offline.features).filter(pl.col("query").is_in(lists.implode()))
    return logged.select("query", "item", "timestamp", *offline.feature_names)


def test_a_replay_of_what_was_served_as_it_should_finds_no_difference(
    rankloom: Rankloom, package: Path, offline: Table, tmp_path: Path
) -> None:
    served = served_rows(offline)
    served.write_parquet(tmp_path / "served.parquet")
    done = rankloom("monitor", package, "--log", EVENTS, "--served", tmp_path / "served.parquet")
    assert done.code == 0, done.err
    count = len(offline.features)
    assert f"{count} of {count} logged features are equal on all {served.height} rows." in done.out


def test_a_replay_of_features_served_otherwise_names_them_and_raises_an_alarm(
    rankloom: Rankloom, package: Path, offline: Table, tmp_path: Path
) -> None:
    row = pl.int_range(pl.len())
    served = served_rows(offline).with_columns(
        pl.col("item.popularity") + pl.when(row % 10 == 0).then(3).otherwise(0),
        pl.when(row >= 3).then(pl.col("item.price")).alias("item.price"),
        pl.lit("another").alias("item.brand"),
    )
    served.sample(fraction=1, shuffle=True, seed=1).write_parquet(tmp_path / "served.parquet")
    out = tmp_path / "replay"
    done = rankloom("monitor", package, "--log", EVENTS, "--served", tmp_path / "served.parquet", "--out", out)
    assert done.code == 3, done.err
    assert "ALARM: item.popularity differs on 10." in done.out
    assert "ALARM: item.brand differs on 100.0% of the served rows" in done.out
    assert "ALARM: item.price" not in done.out
    content = json.loads((out / "replay.json").read_text())
    found = {each["name"]: each for each in content["features"] if each["differ"]}
    assert set(found) == {"item.popularity", "item.price", "item.brand"}
    assert (found["item.popularity"]["largest"], found["item.price"]["unlogged"]) == (3.0, 3 / served.height)
    calm = ["--set", "monitor.replay_alarm=0.2"]
    again = rankloom("monitor", package, "--log", EVENTS, "--served", tmp_path / "served.parquet", *calm)
    assert "ALARM: item.popularity" not in again.out


def test_served_rows_that_cannot_be_compared_are_refused() -> None:
    frame = pl.DataFrame({"query": [1], "item": [1], "a": [0.5]})
    table = Table(frame, (FeatureSpec("a"),))
    with pytest.raises(DataError, match=r"no feature stands in the served rows; .* such as a"):
        compare_features(frame.drop("a"), table)
    with pytest.raises(DataError, match="no served row could be rebuilt"):
        compare_features(frame.with_columns(item=2), table)


def test_numbers_that_differ_in_the_last_decimals_are_the_same() -> None:
    values = [0.1, 1e-9, 123456.0, float("nan"), None]
    frame = pl.DataFrame({"query": [1] * 5, "item": range(5), "a": pl.Series(values, dtype=pl.Float32)})
    logged = frame.with_columns(a=pl.Series([0.1000001, 0.0, 123456.5, None, None]))
    assert compare_features(logged, Table(frame, (FeatureSpec("a"),)))[0].differ == 0
    off = compare_features(logged.with_columns(a=pl.col("a") + 0.01), Table(frame, (FeatureSpec("a"),)))[0]
    assert (off.differ, off.unlogged, off.unbuilt) == (2 / 5, 0, 0)


def test_served_rows_without_items_are_refused(rankloom: Rankloom, package: Path, tmp_path: Path) -> None:
    served = tmp_path / "served.parquet"
    requests_of([4000], served)
    pl.read_parquet(served).drop("item").write_parquet(served)
    done = rankloom("monitor", package, "--log", EVENTS, "--served", served)
    assert done.code == 2
    assert "has no column item" in done.err


def test_served_rows_without_a_log_are_refused(rankloom: Rankloom, package: Path, tmp_path: Path) -> None:
    done = rankloom("monitor", package, "--data", tmp_path / "x.parquet", "--served", tmp_path / "y.parquet")
    assert done.code == 2
    assert "--served without --log; expected the log to rebuild features from; add --log LOG" in done.err
