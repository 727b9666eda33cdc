"""Every kind of leak is planted and found; the bundled logs are free of alarms."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest

from features.log import Log
from pipeline.config import load_config
from pipeline.hindsight import Asked, leaks_in_log
from pipeline.log import read_log
from pipeline.signals import FEWEST_LISTS, agreement, source_of
from tests.factories import ranking_frame

ROOT = Path(__file__).parents[1]
Rankloom = Callable[..., object]
FEW_FEATURES = ["--set", 'features.use=["shown.*","item.p*","query.p*"]', "--set", "features.drop=[]"]


@pytest.fixture(autouse=True)
def _at_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def events_with(tmp_path: Path, change: Callable[[pl.DataFrame], pl.DataFrame]) -> str:
    path = tmp_path / "events.parquet"
    change(pl.read_parquet("data/shop/events.parquet")).write_parquet(path)
    return f"data.events={path}"


def outcome(kind: str, name: str) -> Callable[[pl.DataFrame], pl.DataFrame]:
    """A column of impressions that says whether the item got an event of a kind in its query."""

    def plant(events: pl.DataFrame) -> pl.DataFrame:
        done = (
            events.filter(pl.col("event") == kind).select("query", "item").unique().with_columns(pl.lit(1).alias(name))
        )
        joined = events.join(done, on=["query", "item"], how="left")
        return joined.with_columns(pl.when(pl.col("event") == "impression").then(pl.col(name).fill_null(0)).alias(name))

    return plant


@pytest.mark.parametrize("config", ["configs/shop.toml", "configs/video.toml"])
def test_bundled_logs_have_no_leaks_and_it_is_said_where_was_looked(rankloom: Rankloom, config: str) -> None:
    done = rankloom("check", config, "--leaks")
    assert done.code == 0, done.err
    assert "features, the log and its tables: nothing was found." in done.out


def audit(rankloom: Rankloom, setting: str) -> object:
    """The shop with few features and one setting of its own, looked at for leaks."""
    return rankloom("check", "configs/shop.toml", "--leaks", *FEW_FEATURES, "--set", setting)


def test_a_column_that_is_the_label_is_found_with_its_figures(rankloom: Rankloom, tmp_path: Path) -> None:
    done = audit(rankloom, events_with(tmp_path, outcome("click", "clicked")))
    assert done.code == 0, done.err
    found = done.out.partition("clicked")[2]
    assert "alone ranks the validation queries with ndcg@10 0." in found
    assert 'Do: features.drop = ["*clicked*"]' in done.out


def test_a_column_that_tells_only_the_best_outcome_is_found(rankloom: Rankloom, tmp_path: Path) -> None:
    done = audit(rankloom, events_with(tmp_path, outcome("purchase", "invoiced")))
    assert done.code == 0, done.err
    assert "100.0% of the rows where it is highest are relevant" in done.out
    assert 'features.drop = ["*invoiced*"]' in done.out


def test_a_column_that_only_relevant_rows_have_is_found(rankloom: Rankloom, tmp_path: Path) -> None:
    """An order number, here of a half of the orders, says nothing by its size, and all by being there."""

    def plant(events: pl.DataFrame) -> pl.DataFrame:
        ordered = outcome("cart", "order_id")(events)
        known = (pl.col("order_id") == 1) & (pl.col("query") % 2 == 0)
        return ordered.with_columns(pl.when(known).then(pl.col("query") % 7).alias("order_id"))

    done = audit(rankloom, events_with(tmp_path, plant))
    assert done.code == 0, done.err
    assert "shown.order_id: 100.0% of the rows that have it are relevant" in done.out


def test_a_few_lists_that_happen_to_be_in_the_order_of_a_column_are_no_leak() -> None:
    place = list(range(1, 4))
    for lists, expected in ((FEWEST_LISTS - 1, 0.0), (FEWEST_LISTS, 1.0)):
        keys = pl.DataFrame({"position": place * lists})
        data = SimpleNamespace(keys=keys, sizes=np.full(lists, len(place)))
        assert agreement(data, keys["position"]) == pytest.approx(expected)


def test_the_score_that_made_the_shown_order_is_found(rankloom: Rankloom) -> None:
    done = rankloom("check", "configs/shop.toml", "--leaks", *FEW_FEATURES)
    assert done.code == 0, done.err
    assert "repeats the order that was shown: rank correlation -0.99 with the position" in done.out
    assert "1 suspicion." in done.out


@pytest.fixture(scope="module")
def shop() -> tuple[Log, Asked]:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        log = read_log(load_config(ROOT / "configs" / "shop.toml")).log
    shown = log.events.filter(pl.col("event") == "impression").select("query", "item", "user", "timestamp")
    begin = shown["timestamp"].min()
    days = (pl.col("timestamp") - begin).dt.total_days()
    part = pl.when(days < 30).then(pl.lit("train")).when(days.is_between(32, 39)).then(pl.lit("valid"))
    rows = shown.with_columns(part.when(days > 41).then(pl.lit("test")).alias("part")).drop_nulls("part")
    return log, Asked(rows)


def found_in(shop: tuple[Log, Asked], **tables: pl.DataFrame) -> dict[str, str]:
    log, asked = shop
    changed = Log(**{name: tables.get(name, getattr(log, name)) for name in Log.__dataclass_fields__})
    return {leak.column: leak.found for leak in leaks_in_log(changed, asked)}


def test_a_catalogue_that_counts_the_whole_log_is_found(shop: tuple[Log, Asked]) -> None:
    log, _ = shop
    assert log.items is not None
    totals = log.events.filter(pl.col("event") == "click").group_by("item").agg(pl.len().alias("total_clicks"))
    half = log.events["timestamp"].median()
    early = log.events.filter(pl.col("timestamp") < half).group_by("item").agg(pl.len().alias("early_events"))
    items = log.items.join(totals, on="item", how="left").join(early, on="item", how="left")
    found = found_in(shop, items=items)
    assert set(found) == {"item.total_clicks"}
    assert "after the middle of the log" in found["item.total_clicks"]


def test_a_users_table_of_today_is_found(shop: tuple[Log, Asked]) -> None:
    log, _ = shop
    assert log.users is not None
    last = log.events.group_by("user").agg(pl.col("timestamp").max().alias("last_seen"), pl.len().alias("visits"))
    found = found_in(shop, users=log.users.join(last, on="user", how="left"))
    assert set(found) == {"user.last_seen", "user.visits"}
    assert "the table was written later" in found["user.last_seen"]


def test_items_created_after_they_were_shown_are_found(shop: tuple[Log, Asked]) -> None:
    log, _ = shop
    assert log.items is not None
    found = found_in(shop, items=log.items.with_columns(pl.col("created_at") + timedelta(days=400)))
    assert set(found) == {"item.created_at"}


def test_a_price_that_was_written_over_is_found(shop: tuple[Log, Asked]) -> None:
    log, _ = shop
    assert log.items is not None
    middle = log.events["timestamp"].median()
    raised = pl.col("price") + pl.when(pl.col("timestamp") < middle).then(0).otherwise(500)
    events = log.events.with_columns(raised.alias("price"))
    found = found_in(shop, events=events, items=log.items.with_columns(pl.col("price") + 500))
    assert set(found) == {"item.price"}
    assert "changed after the queries" in found["item.price"]


def test_versions_that_the_event_itself_wrote_are_found(shop: tuple[Log, Asked]) -> None:
    _, asked = shop
    versions = asked.rows.select("user", valid_from="timestamp").drop_nulls().unique().with_columns(orders=pl.lit(1))
    found = found_in(shop, users=versions)
    assert found == {"user.valid_from": found["user.valid_from"]}
    assert "meet a version that begins then" in found["user.valid_from"]


def test_versions_that_begin_after_the_queries_are_found(shop: tuple[Log, Asked]) -> None:
    log, _ = shop
    assert log.users is not None
    late = log.users.with_columns(valid_from=pl.lit(log.events["timestamp"].median()))
    assert "before the first version" in found_in(shop, users=late)["user.valid_from"]


def test_queries_that_go_on_in_the_next_part_are_found(shop: tuple[Log, Asked]) -> None:
    log, _ = shop
    late = pl.when((pl.col("event") == "purchase") & (pl.col("query") % 3 == 0)).then(timedelta(days=12))
    events = log.events.with_columns(pl.col("timestamp") + late.otherwise(timedelta(0)))
    assert "have events after" in found_in(shop, events=events)["split"]


def write_parts(tmp_path: Path, parts: dict[str, pl.DataFrame]) -> list[str]:
    """A config over ready-made parts, and what the command line needs to read it."""
    (tmp_path / "run.toml").write_text("[data]\ntrain = 'x'\n")
    for name, frame in parts.items():
        frame.write_parquet(tmp_path / f"{name}.parquet")
    return [str(tmp_path / "run.toml"), *(w for n in parts for w in ("--set", f"data.{n}={tmp_path / n}.parquet"))]


def test_queries_that_stand_in_two_parts_are_found(rankloom: Rankloom, tmp_path: Path) -> None:
    numbered = pl.col("query")
    train, valid, test = (ranking_frame(40, seed=n).with_columns(numbered + 100 * n) for n in range(3))
    valid = pl.concat([valid, train.filter(pl.col("query") < 10).with_columns(pl.col("query") + 1000)])
    done = rankloom("check", *write_parts(tmp_path, {"train": train, "valid": valid, "test": test}), "--leaks")
    assert done.code == 0, done.err
    assert "10 of 50 queries of valid stand in train too, row by row" in done.out


def test_sessions_that_go_on_in_another_part_are_found(rankloom: Rankloom, tmp_path: Path) -> None:
    start = pl.datetime(2024, 1, 1, time_zone="UTC")
    frame = ranking_frame(90).with_columns(
        user=pl.col("query") // 3,
        timestamp=start + pl.duration(hours=pl.col("query") // 3, minutes=pl.col("query") % 3),
    )
    frame.write_parquet(tmp_path / "table.parquet")
    config = tmp_path / "run.toml"
    config.write_text(
        f'[data]\ntable = "{tmp_path / "table.parquet"}"\n[split]\nby = "hash"\nvalid = 0.2\ntest = 0.2\n'
    )
    done = rankloom("check", config, "--leaks")
    assert done.code == 0, done.err
    assert "go on with a session (30m) that began in another part" in done.out


def test_a_feature_is_made_of_the_longest_field_that_its_name_holds_as_a_word() -> None:
    fields = ("age", "score", "upstream_score", "x")
    found = {
        name: source_of(name, fields) for name in ("query.upstream_score_z", "item.page_max", "shown.x", "a.score")
    }
    assert found == {
        "query.upstream_score_z": "upstream_score",
        "item.page_max": "item.page_max",
        "shown.x": "x",
        "a.score": "score",
    }
