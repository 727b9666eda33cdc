"""From a raw log to a package and back: real runs on the bundled data, and every fault one clear sentence."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import polars as pl
import pytest

from pipeline.config import load_config

ROOT = Path(__file__).parents[1]
QUICK = ["--set", "train.threads=1", "--set", "train.rounds=60"]
Rankloom = Callable[..., object]


@pytest.fixture(autouse=True)
def _at_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """The paths in the bundled configs are relative to the project."""
    monkeypatch.chdir(ROOT)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from pipeline import commands

    out = tmp_path_factory.mktemp("shop") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        commands.train(ROOT / "configs" / "shop.toml", ["train.threads=1"], out, overwrite=False)
    return out


def metrics_of(run: Path) -> dict[str, dict[str, dict[str, dict[str, float]]]]:
    return json.loads((run / "metrics.json").read_text())  # type: ignore[no-any-return]


def test_the_shop_model_beats_its_cheap_rivals(shop: Path) -> None:
    metrics = metrics_of(shop)
    for rival in ("random", "popularity", "best_feature"):
        assert metrics["diff"][rival]["ndcg@10"]["low"] > 0, rival
    assert metrics["parity"]["max_abs_diff"] <= 1e-9  # type: ignore[operator]


def test_the_shop_model_beats_the_shown_order_where_position_has_no_say(shop: Path) -> None:
    slices = metrics_of(shop)["slices"]
    assert set(slices) == {"true relevance", "true relevance of randomised queries"}
    assert slices["true relevance"]["diff"]["shown"]["ndcg@10"]["low"] > 0  # type: ignore[index]
    assert slices["true relevance of randomised queries"]["diff"]["shown"]["ndcg@10"]["mean"] > 0  # type: ignore[index]


def test_the_video_model_beats_its_cheap_rivals(rankloom: Rankloom, tmp_path: Path) -> None:
    done = rankloom("train", "configs/video.toml", "--set", "train.threads=1", "--out", tmp_path / "run")
    assert done.code == 0, done.err
    assert "Relevance is continuous: linear gain" in done.out
    metrics = metrics_of(tmp_path / "run")
    for rival in ("random", "popularity", "best_feature"):
        assert metrics["diff"][rival]["ndcg@10"]["low"] > 0, rival
    assert metrics["slices"]["true relevance"]["diff"]["shown"]["ndcg@10"]["low"] > 0  # type: ignore[index]
    assert metrics["parity"]["level_error"] == 0.005
    assert metrics["parity"]["level_ndcg_diff"] < 0.005  # type: ignore[operator]


def test_a_package_builds_its_features_from_a_log_itself(rankloom: Rankloom, shop: Path, tmp_path: Path) -> None:
    done = rankloom("evaluate", shop / "package", "--events", "data/shop/events.parquet", "--out", tmp_path / "eval")
    assert done.code == 0, done.err
    assert metrics_of(tmp_path / "eval")["test"]["model"] == metrics_of(shop)["test"]["model"]
    assert "64357 events read, 64357 kept" in done.out
    asked, closed, test = (pl.read_parquet("data/shop/queries.parquet").height, 5094, 745)
    assert f"{test} queries" in done.out
    assert f"{asked - closed} open queries, {closed - test} earlier queries" in done.out


def test_tables_of_the_features_verb_train_the_same_model(rankloom: Rankloom, shop: Path, tmp_path: Path) -> None:
    assert rankloom("features", "configs/shop.toml", "--out", tmp_path / "tables").code == 0
    scored = rankloom(
        "evaluate", shop / "package", "--data", tmp_path / "tables" / "test.parquet", "--out", tmp_path / "e"
    )
    assert scored.code == 0, scored.err
    assert metrics_of(tmp_path / "e")["test"]["model"] == metrics_of(shop)["test"]["model"]


def test_requests_are_ranked_as_the_test_part_was(rankloom: Rankloom, shop: Path, tmp_path: Path) -> None:
    """Online equals offline: the features of a request, built from the log alone, give the score of its table row."""
    queries = pl.read_parquet("data/shop/queries.parquet").tail(300).head(5)
    shown = pl.read_parquet("data/shop/events.parquet").filter(pl.col("event") == "impression")
    requests = shown.select("query", "item", "price").join(queries, on="query").drop("randomised")
    requests.write_parquet(tmp_path / "requests.parquet")
    out = tmp_path / "ranked.parquet"
    arguments = ["--events", "data/shop/events.parquet", "--queries", tmp_path / "requests.parquet", "--out", out]
    done = rankloom("rank", shop / "package", *arguments)
    assert done.code == 0, done.err
    ranked = pl.read_parquet(out)
    assert rankloom("features", "configs/shop.toml", "--out", tmp_path / "tables").code == 0
    from pipeline.scorer import Scorer

    table = pl.read_parquet(tmp_path / "tables" / "test.parquet").filter(
        pl.col("query").is_in(queries["query"].implode())
    )
    offline = Scorer.load(shop / "package").rank(table)
    assert ranked.height > 20
    assert ranked.equals(offline.filter(pl.col("rank") <= 10))


def test_shuffled_input_files_give_the_same_model(rankloom: Rankloom, tmp_path: Path) -> None:
    events = pl.read_parquet("data/shop/events.parquet")
    half = events.height // 2
    shuffled = events.sample(fraction=1.0, shuffle=True, seed=4)
    (tmp_path / "parts").mkdir()
    shuffled.head(half).write_parquet(tmp_path / "parts" / "b.parquet")
    shuffled.tail(-half).write_parquet(tmp_path / "parts" / "a.parquet")
    texts = []
    for name, source in (("one", "data/shop/events.parquet"), ("two", tmp_path / "parts" / "*.parquet")):
        out = tmp_path / name
        assert rankloom("train", "configs/shop.toml", *QUICK, "--set", f"data.events={source}", "--out", out).code == 0
        texts.append((out / "package" / "model.txt").read_bytes())
    assert texts[0] == texts[1]


def test_the_gap_defaults_to_the_window_of_the_labels() -> None:
    assert load_config(ROOT / "configs" / "shop.toml").split_gap == timedelta(days=2)


def events_frame() -> pl.DataFrame:
    return pl.read_parquet("data/shop/events.parquet")


@pytest.mark.parametrize(
    ("change", "settings", "message"),
    [
        (lambda e: e.drop("item"), [], "has no column 'item'"),
        (lambda e: e.drop("timestamp"), [], "has no column 'timestamp'"),
        (lambda e: e.drop("event"), [], "has no column 'event'"),
        (lambda e: e.drop("query"), [], "queries.by = 'query', and the log has no 'query'"),
        (lambda e: e.head(0), [], "holds no rows"),
        (lambda e: e.with_columns(pl.col("timestamp").dt.epoch("us")), ["data.time_unit=s"], "microseconds|us"),
        (lambda e: e.with_columns(item=pl.lit(None, pl.String)), [], "rejected|null"),
        (lambda e: e.filter(pl.col("event") == "impression"), [], "click|purchase|cart"),
        (lambda e: e.filter(pl.col("event") != "impression"), [], "impression"),
        (lambda e: e.with_columns(pl.col("item").cast(pl.Categorical).to_physical() * 1.5), [], "item"),
        (lambda e: e, ["split.valid=300d"], "no query is left to train on"),
        (lambda e: e, ["features.use=['item.clicks']"], "did you mean"),
        (lambda e: e, ["relevance.tiers={buy=3}"], "buy"),
        (lambda e: e, ["data.items=data/shop/nowhere.parquet"], "no file at"),
        (lambda e: e, ["features.custom={x='nothing / 2'}"], "nothing"),
    ],
)
def test_a_log_that_cannot_be_used_is_one_sentence(
    rankloom: Rankloom,
    tmp_path: Path,
    change: Callable[[pl.DataFrame], pl.DataFrame],
    settings: list[str],
    message: str,
) -> None:
    change(events_frame()).write_parquet(tmp_path / "events.parquet")
    flags = [flag for setting in settings for flag in ("--set", setting)]
    source = f"data.events={tmp_path / 'events.parquet'}"
    failed = rankloom("train", "configs/shop.toml", *QUICK, "--set", source, *flags, "--out", tmp_path / "run")
    assert failed.code == 2, failed.out
    assert "Traceback" not in failed.err
    assert failed.err.count("\n") == 1
    assert any(part in failed.err for part in message.split("|")), failed.err
    assert [path.name for path in tmp_path.iterdir()] == ["events.parquet"]


def test_duplicate_items_in_the_catalogue_are_refused(rankloom: Rankloom, tmp_path: Path) -> None:
    items = pl.read_parquet("data/shop/items.parquet")
    pl.concat([items, items.head(2)]).write_parquet(tmp_path / "items.parquet")
    failed = rankloom("check", "configs/shop.toml", "--set", f"data.items={tmp_path / 'items.parquet'}")
    assert (failed.code, "4 rows share their item" in failed.err) == (2, True)


def test_a_few_bad_rows_are_set_aside_and_counted(rankloom: Rankloom, tmp_path: Path) -> None:
    events = events_frame()
    broken = events.head(20).with_columns(item=pl.lit(None, pl.String))
    pl.concat([events, broken]).write_parquet(tmp_path / "events.parquet")
    source = f"data.events={tmp_path / 'events.parquet'}"
    done = rankloom("train", "configs/shop.toml", *QUICK, "--set", source, "--out", tmp_path / "run")
    assert done.code == 0, done.err
    assert "20 " in done.out.splitlines()[0]
    assert pl.read_parquet(tmp_path / "run" / "rejected.parquet").height == 20


def test_evaluate_refuses_a_log_that_was_trained_on(rankloom: Rankloom, shop: Path, tmp_path: Path) -> None:
    early = events_frame().sort("timestamp").head(20_000)
    early.write_parquet(tmp_path / "events.parquet")
    failed = rankloom("evaluate", shop / "package", "--events", tmp_path / "events.parquet")
    assert (failed.code, "up to which the model was trained" in failed.err) == (2, True)


def test_evaluate_and_rank_want_one_source(rankloom: Rankloom, shop: Path) -> None:
    for verb in ("evaluate", "rank"):
        failed = rankloom(verb, shop / "package")
        assert (failed.code, "neither --data nor --events" in failed.err) == (2, True)
    failed = rankloom("rank", shop / "package", "--events", "data/shop/events.parquet")
    assert (failed.code, "--queries" in failed.err) == (2, True)


def test_deskdrop_sessions_from_end_to_end(rankloom: Rankloom, tmp_path: Path, shared_data: Path) -> None:
    log = pl.read_csv(shared_data / "deskdrop" / "interactions.csv.gz").filter(
        pl.col("timestamp").is_between(1_464_000_000, 1_466_000_000)
    )
    log.write_csv(tmp_path / "log.csv")
    settings = ["--set", "split.valid=5d", "--set", "split.test=8d", "--set", f"data.events={tmp_path / 'log.csv'}"]
    done = rankloom("train", "configs/deskdrop.toml", *QUICK, *settings, "--out", tmp_path / "run")
    assert done.code == 0, done.err
    duplicates = log.height - log.unique().height
    assert duplicates > 0
    assert f"{duplicates} duplicate" in done.out
    assert "Candidates are sampled (50 negatives a query)" in done.out
    features = json.loads((tmp_path / "run" / "package" / "manifest.json").read_text())["features"]
    assert not any(name["name"].endswith(("_rank", "_z")) for name in features)


def test_movielens_ratings_in_halves_switch_to_the_linear_gain(
    rankloom: Rankloom, tmp_path: Path, shared_data: Path
) -> None:
    log = pl.read_csv(shared_data / "movielens" / "ratings.csv").filter(pl.col("userId") < 120)
    log.write_csv(tmp_path / "ratings.csv")
    source = f"data.events={tmp_path / 'ratings.csv'}"
    done = rankloom("train", "configs/movielens.toml", *QUICK, "--set", source, "--out", tmp_path / "run")
    assert done.code == 0, done.err
    assert "linear gain" in done.out


def test_otto_sessions_after_the_documented_flattening(rankloom: Rankloom, tmp_path: Path, shared_data: Path) -> None:
    nested = pl.read_ndjson(shared_data / "otto" / "sessions.jsonl")
    nested.explode("events").unnest("events").write_parquet(tmp_path / "otto.parquet")
    (tmp_path / "otto.toml").write_text(f"""
[data]
events = "{tmp_path / "otto.parquet"}"
columns = {{ item = "aid", timestamp = "ts", event = "type", user = "session" }}
[queries]
by = "session"
gap = "30m"
[relevance]
tiers = {{ orders = 3, carts = 2, clicks = 1 }}
[candidates]
from = "sampled"
negatives = 20
[split]
valid = 0.25
test = 0.25
[train]
params = {{ min_data_in_leaf = 5 }}
""")
    done = rankloom("train", tmp_path / "otto.toml", *QUICK, "--out", tmp_path / "run")
    assert done.code == 0, done.err
    assert "862 events read" in done.out
