"""A section of features with its reasons: each reason from data made to give it, and `train` takes what is written."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from features.log import make_log
from pipeline.tempo import suggest_gap, suggest_windows
from tests.factories import ranking_frame, write_config

ROOT = Path(__file__).parents[1]
Rankloom = Callable[..., object]
START = datetime(2024, 1, 1, tzinfo=UTC)


def test_the_section_of_the_shop_is_taken_by_train_as_it_is(
    rankloom: Rankloom, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    few = ["features.custom={ saved = '1 - price / 100' }", "split.valid=12d", "split.test=12d"]
    arguments = [word for setting in few for word in ("--set", setting)]
    out = tmp_path / "suggested.toml"
    done = rankloom("features", "configs/shop.toml", "--suggest", *arguments, "--out", out)
    assert done.code == 0, done.err
    text = out.read_text()
    section = tomllib.loads(text)["features"]
    assert section["custom"] == {"saved": "1 - price / 100"}
    assert '"*upstream_score*",  # as the config has it' in text
    assert all(" # " in line for line in text.splitlines() if line.startswith(("    ", "windows", "session_gap")))
    quick = ["--set", "train.rounds=3", "--set", "train.threads=1", "--set", f"include={out}"]
    trained = rankloom("train", "configs/shop.toml", *arguments[2:], *quick, "--out", tmp_path / "run")
    assert trained.code == 0, trained.err
    names = set(pl.read_parquet(tmp_path / "run" / "package" / "examples.parquet").columns)
    assert names > {"item.popularity", "custom.saved", "text.title_bm25"}
    assert not names & {*section["drop"], "shown.upstream_score", "item.price_log"}
    again = rankloom("features", "configs/shop.toml", "--suggest", "--out", out)
    assert "suggested.toml exists; expected a new file in a folder that exists" in again.err
    nowhere = rankloom("features", "configs/shop.toml", "--suggest", "--out", tmp_path / "nowhere" / "x.toml")
    assert "there is no folder" in nowhere.err


def test_what_the_config_drops_stays_dropped_as_it_may_not_be_readable(rankloom: Rankloom, tmp_path: Path) -> None:
    frame = ranking_frame(80, 10).with_columns(ean=pl.int_range(pl.len()) + 10**12)
    config = write_config(tmp_path, frame, "")
    refused = rankloom("features", config, "--suggest")
    assert refused.code == 2
    done = rankloom("features", config, "--suggest", "--set", 'features.drop=["ean"]')
    assert done.code == 0, done.err
    assert '"ean",  # as the config has it' in done.out


def ready_made(tmp_path: Path) -> Path:
    frame = ranking_frame(80, 10)
    rows = frame.height
    many = [f"s{number % 400}" for number in range(rows)]
    frame = frame.with_columns(
        always=pl.lit(4.0),
        seldom=pl.when(pl.int_range(rows) < 3).then(1.0),
        doubled=pl.col("a") * 2 + 1,
        same=pl.col("b"),
        seller=pl.Series(many),
        truth=pl.col("relevance") * 1.0,
        of_query=pl.col("query") % 7,
        shop_id=pl.int_range(rows) * 7919 % 1009,
    )
    return write_config(tmp_path, frame, '[features]\ncategories = ["seller"]\n[split]\nby = "hash"\n')


def test_each_reason_to_drop_is_given_for_the_column_that_has_it(rankloom: Rankloom, tmp_path: Path) -> None:
    config = ready_made(tmp_path)
    done = rankloom("features", config, "--suggest")
    assert done.code == 0, done.err
    reasons = dict(line.strip().split(",  # ", 1) for line in done.out.splitlines() if line.startswith("    "))
    found = {name.strip('"'): why for name, why in reasons.items()}
    kept = found.pop("*")
    assert kept == "4 features, 1 of them equal for all items of a query: they act only together with others"
    assert found["always"] == "constant in training: 4"
    assert found["doubled"] == "in the same order as a"
    assert found["same"] == "equal to b"
    assert "missing in" in found["seldom"]
    assert "an id in disguise" in found["seller"]
    assert "an id in disguise" in found["shop_id"]
    assert "a leak? alone ranks the validation queries" in found["truth"]
    assert set(found) == {"always", "doubled", "same", "seldom", "seller", "shop_id", "truth"}
    section = tomllib.loads(done.out)["features"]
    assert (section["use"], section["categories"]) == (["*"], ["seller"])
    (tmp_path / "suggested.toml").write_text(done.out)
    checked = rankloom("check", config, "--set", f"include={tmp_path / 'suggested.toml'}")
    assert "\n4 features; " in checked.out, checked.err


def log_of(seconds: list[float], users: int = 1, items: int = 5):
    """Clicks at these seconds after the start, of every user."""
    times = [START + timedelta(seconds=second) for second in seconds] * users
    frame = pl.DataFrame({"timestamp": times, "user": np.repeat(np.arange(users), len(seconds))})
    return make_log(frame.with_columns(item=pl.int_range(pl.len()) % items, event=pl.lit("click")))


@pytest.mark.parametrize(("pause", "longest"), [(60, "15m"), (20 * 60, "4h")])
def test_the_silence_that_ends_a_session_lies_between_short_and_long_pauses(pause: float, longest: str) -> None:
    rng = np.random.default_rng(0)
    pauses = np.where(np.arange(2000) % 5, rng.lognormal(np.log(pause), 0.7, 2000), rng.lognormal(11.3, 0.4, 2000))
    gap, why = suggest_gap(log_of(list(np.cumsum(pauses))))
    hours = {"10m": 1 / 6, "15m": 0.25, "30m": 0.5, "1h": 1.0, "2h": 2.0, "4h": 4.0, "8h": 8.0}
    assert pause * 3 < hours[str(gap)] * 3600 < 60_000
    assert "pauses of about this length are rarest" in why
    assert longest in hours


def test_the_silence_is_the_usual_one_where_nothing_tells() -> None:
    even = np.exp(np.random.default_rng(0).uniform(np.log(30), np.log(100_000), 1000))
    assert suggest_gap(log_of(list(np.cumsum(even))))[0] == "30m"
    assert suggest_gap(log_of([1.0, 2.0]))[1] == "the usual: only 1 pauses of users to learn from"


@pytest.mark.parametrize(
    ("days", "per_day", "expected"),
    [(100, 1, ["1d", "7d", "30d"]), (1, 400, ["1h", "6h"]), (40, 0.05, ["7d"]), (0.1, 10, ["7d", "30d"])],
)
def test_windows_fit_the_log_thrice_and_hold_something(days: float, per_day: float, expected: list[str]) -> None:
    count = max(2, int(days * per_day * 5))
    seconds = list(np.linspace(0, days * 86_400, count))
    windows, why = suggest_windows(log_of(seconds), START + timedelta(days=days + 1))
    assert list(windows) == expected, why
    assert "days of training" in why


def test_tables_need_a_folder(rankloom: Rankloom, tmp_path: Path) -> None:
    done = rankloom("features", ready_made(tmp_path))
    assert (done.code, done.err) == (
        2,
        "error: no --out; expected a folder for the tables; add --out DIR, or --suggest\n",
    )
