"""`monitor`: what moved is named on its day, what moves by itself is not, and a scheduler can read the exit code."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from features.spec import FeatureSpec
from pipeline import commands
from pipeline.drift import BINS, Days, Histogram, fit_histogram, shares, stability_index
from pipeline.monitor import Monitored, alarm_sentences
from pipeline.reductions import Interval
from pipeline.simulate import simulate
from tests.factories import dataset_of, ranking_frame, write_config

Rankloom = Callable[..., Any]

CONFIG = """
[data]
events = "{folder}/past.parquet"
items = "{folder}/shop/items.parquet"
users = "{folder}/shop/users.parquet"
queries = "{folder}/shop/queries.parquet"
shown = "impression"
[relevance]
tiers = {{ purchase = 3, cart = 2, click = 1 }}
window = "1d"
[features]
drop = ["*upstream_score*"]
[train]
rounds = 40
params = {{ learning_rate = 0.1, num_leaves = 7, min_data_in_leaf = 50 }}
"""


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, date]:
    """A package made on the first five weeks of a simulated shop, and the first day of its service."""
    folder = tmp_path_factory.mktemp("monitor")
    simulate("shop", 60_000, folder / "shop", seed=11, days=49)
    events = pl.read_parquet(folder / "shop" / "events.parquet")
    start = events["timestamp"].min().date() + timedelta(days=35)
    events.filter(pl.col("timestamp").dt.date() < start).write_parquet(folder / "past.parquet")
    (folder / "shop.toml").write_text(CONFIG.format(folder=folder))
    commands.train(folder / "shop.toml", [], folder / "run", overwrite=False)
    return folder, start


def served(shop: tuple[Path, date], **change: pl.Expr) -> Path:
    """The whole log with some columns changed."""
    folder, _ = shop
    events = pl.read_parquet(folder / "shop" / "events.parquet").with_columns(**change)
    events.write_parquet(folder / "served.parquet")
    return folder / "served.parquet"


def test_calm_service_raises_no_alarm(rankloom: Rankloom, shop: tuple[Path, date], tmp_path: Path) -> None:
    folder, start = shop
    done = rankloom("monitor", folder / "run" / "package", "--log", served(shop), "--out", tmp_path / "out")
    assert done.code == 0, done.out + done.err
    found = json.loads((tmp_path / "out" / "monitor.json").read_text())
    assert found["alarms"] == []
    assert len(found["drift"]) > 80
    judged = {day["day"]: day for day in found["quality"]}
    assert str(start + timedelta(days=3)) in judged
    inside = [day["model"]["low"] <= found["expected"]["mean"] <= day["model"]["high"] for day in judged.values()]
    assert np.mean(inside) > 0.7
    assert (tmp_path / "out" / "report.html").is_file()


def test_prices_that_jump_on_day_ten_are_the_only_alarms(
    rankloom: Rankloom, shop: tuple[Path, date], tmp_path: Path
) -> None:
    folder, start = shop
    tenth = start + timedelta(days=9)
    jumped = pl.col("timestamp") >= datetime.combine(tenth, time(), UTC)
    log = served(shop, price=pl.when(jumped).then(pl.col("price") * 2).otherwise(pl.col("price")))
    done = rankloom("monitor", folder / "run" / "package", "--log", log, "--out", tmp_path / "out")
    assert done.code == 3
    assert "ALARM: shown.price has moved: PSI" in done.out
    alarms = json.loads((tmp_path / "out" / "monitor.json").read_text())["alarms"]
    moved = {alarm["what"] for alarm in alarms}
    assert "shown.price" in moved
    assert [name for name in moved if "price" not in name] == []
    assert min(alarm["day"] for alarm in alarms) == str(tenth)
    quiet = rankloom("monitor", folder / "run" / "package", "--log", log, "--set", "monitor.psi_alarm=5")
    assert quiet.code == 0
    assert "No alarm: nothing lies beyond its level." in quiet.out
    assert re.search(r"ndcg@10 was 0\.\d{4} \[.*\] on the package's own test queries", quiet.out)


def test_a_log_without_anything_new_is_one_sentence(rankloom: Rankloom, shop: tuple[Path, date]) -> None:
    folder, _ = shop
    failed = rankloom("monitor", folder / "run" / "package", "--log", folder / "past.parquet")
    assert failed.code == 2
    assert "bring a longer log" in failed.err


def test_a_ready_made_table_is_monitored_without_times_and_without_truth(rankloom: Rankloom, tmp_path: Path) -> None:
    frame = ranking_frame(300)
    assert rankloom("train", write_config(tmp_path, frame), "--out", tmp_path / "run").code == 0
    package = tmp_path / "run" / "package"
    later = ranking_frame(120, seed=5)
    later.write_parquet(tmp_path / "later.parquet")
    assert rankloom("monitor", package, "--data", tmp_path / "later.parquet").code == 0
    moved = later.drop("relevance").with_columns(pl.col("a") + 1, b=pl.lit(None, pl.Float64))
    moved.write_parquet(tmp_path / "moved.parquet")
    alarmed = rankloom("monitor", package, "--data", tmp_path / "moved.parquet")
    assert alarmed.code == 3
    assert "b is missing in 100% of the rows (0% in training)" in alarmed.out
    raised = [line.split()[1] for line in alarmed.out.splitlines() if line.startswith("ALARM")]
    assert raised[0] == "b"
    assert set(raised) == {"a", "b", "score"}


def test_quality_that_falls_below_the_test_value_is_an_alarm(rankloom: Rankloom, tmp_path: Path) -> None:
    assert rankloom("train", write_config(tmp_path, ranking_frame(300)), "--out", tmp_path / "run").code == 0
    package, table = tmp_path / "run" / "package", tmp_path / "turned.parquet"
    ranking_frame(120, seed=5).with_columns(relevance=3 - pl.col("relevance")).write_parquet(table)
    alarmed = rankloom("monitor", package, "--data", table)
    assert alarmed.code == 3
    assert "ALARM: ndcg@10 is 0." in alarmed.out
    assert rankloom("monitor", package, "--data", table, "--set", "monitor.ndcg_alarm=0.9").code == 0


def test_one_of_log_and_data_is_asked_for(rankloom: Rankloom, tmp_path: Path) -> None:
    failed = rankloom("monitor", tmp_path)
    assert (failed.code, "neither --data nor --log" in failed.err) == (2, True)


def test_stability_index_is_its_formula_for_large_counts() -> None:
    before, after = np.array([500_000, 300_000, 200_000]), np.array([200_000, 300_000, 500_000])
    expected = (0.2 - 0.5) * np.log(0.2 / 0.5) + (0.5 - 0.2) * np.log(0.5 / 0.2)
    assert stability_index(before, after) == pytest.approx(expected, rel=1e-4)
    assert stability_index(before, before * 7) == pytest.approx(0.0, abs=1e-9)


def test_a_small_sample_of_the_same_column_stays_below_the_alarm() -> None:
    rng = np.random.default_rng(0)
    fitted = fit_histogram(pl.Series(rng.lognormal(size=50_000)), FeatureSpec("x"))
    samples = [fitted.bins(pl.Series(rng.lognormal(size=300))) for _ in range(50)]
    assert max(fitted.index(np.bincount(sample, minlength=len(fitted.counts))) for sample in samples) < 0.1


def test_bins_hold_equal_shares_and_missing_and_unknown_apart() -> None:
    fitted = fit_histogram(pl.Series(np.arange(10_000.0)), FeatureSpec("x"))
    assert fitted.counts[:2] == (0, 0)
    assert max(fitted.counts) <= 10_000 / BINS + 1
    assert shares(np.bincount(fitted.bins(pl.Series([None, float("nan"), 1.0, 2.0])))) == (0.5, 0.0)
    spec = FeatureSpec("c", "category", categories=("x", "y"))
    codes = fit_histogram(pl.Series([1, 2, 2, None], dtype=pl.Int32), spec)
    assert codes.counts == (1, 0, 1, 2)
    assert codes.bins(pl.Series([0, None, 1, 2], dtype=pl.Int32)).tolist() == [1, 0, 2, 3]
    assert Histogram.from_dict(json.loads(json.dumps(fitted.to_dict()))) == fitted


def test_days_that_the_log_holds_in_part_or_of_few_queries_are_not_judged() -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    hours = [*range(12, 24), *range(24, 72), *range(72, 82)]
    times = [start + timedelta(hours=hour, minutes=minute) for hour in hours for minute in (0, 15, 30, 59)]
    frame = pl.DataFrame({"query": range(len(times)), "item": 1, "relevance": 1, "timestamp": times, "a": 1.0})
    days = Days.of(dataset_of(frame))
    assert days.queries.tolist() == [48, 96, 96, 40]
    assert days.enough.tolist() == [False, True, True, False]
    assert Days.of(dataset_of(frame.drop("timestamp").head(20))).enough.tolist() == [False]


def test_columns_of_one_value_and_of_none_can_be_fitted() -> None:
    for column in (pl.Series([5.0] * 5_000), pl.Series([None] * 5_000, dtype=pl.Float32)):
        fitted = fit_histogram(column, FeatureSpec("x"))
        counts = np.bincount(fitted.bins(column), minlength=len(fitted.counts))
        assert fitted.index(counts) == pytest.approx(0.0, abs=1e-2)
        assert fitted.index(np.bincount(fitted.bins(pl.Series([9.0] * 100)), minlength=len(fitted.counts))) > 1


def test_nothing_found_says_nothing() -> None:
    assert alarm_sentences(Monitored("ndcg@10", Interval(None, None, None, 0), (None,), (), (), ())) == []
