"""The simulated shop and video feed: what is written follows the rules of the world, and is the same everywhere."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from features.errors import ConfigError, OutputError
from pipeline.simulate import STEPS, Settings, simulate, stream
from pipeline.simulate.draws import Draws
from pipeline.simulate.shop import Shop
from pipeline.simulate.video import VideoFeed

ROOT = Path(__file__).parent.parent
KINDS = ("shop", "video")
WORLDS = {"shop": Shop, "video": VideoFeed}
BUNDLED_EVENTS = {"shop": 64_000, "video": 58_000}
"""As asked for in data/README.md."""
FILES = ("events", "items", "queries", "truth", "users")

Tables = dict[str, pl.DataFrame]


def make(kind: str, block: int = 4_096, **settings: Any) -> Tables:
    """A world in memory."""
    world = WORLDS[kind](Settings(**settings))
    events, queries, truth = (pl.concat(parts) for parts in zip(*stream(world, block), strict=True))
    return {"events": events, "items": world.items, "queries": queries, "truth": truth, "users": world.users}


@lru_cache(maxsize=4)
def large(kind: str) -> Tables:
    return make(kind, events=200_000)


def shown(tables: Tables) -> pl.DataFrame:
    """Impressions with their truth, the fields of their query, and whether the item was acted upon."""
    events = tables["events"]
    acted = events.filter(pl.col("event") != "impression").select("query", "item").unique().with_columns(acted=True)
    fields = tables["queries"].select("query", "randomised")
    return (
        events.filter(pl.col("event") == "impression")
        .join(tables["truth"], on=["query", "item"], validate="1:1", maintain_order="left")
        .join(fields, on="query", validate="m:1", maintain_order="left")
        .join(acted, on=["query", "item"], how="left", validate="1:1", maintain_order="left")
        .with_columns(pl.col("acted").fill_null(value=False))
    )


def shop_tiers(events: pl.DataFrame) -> pl.DataFrame:
    """The strongest event of each shown item: 0 impression, 1 click, 2 cart, 3 purchase."""
    tiers = {"impression": 0.0, "click": 1.0, "cart": 2.0, "purchase": 3.0}
    return (
        events.with_columns(logged=pl.col("event").replace_strict(tiers))
        .group_by("query", "item")
        .agg(pl.col("logged").max())
    )


def watched_shares(tables: Tables) -> pl.DataFrame:
    """min(1, seconds watched / duration) of each shown clip, 0 where it was not watched."""
    durations = tables["items"].select("item", "duration")
    share = (pl.col("value").sum() / pl.col("duration").first()).clip(0, 1)
    return tables["events"].join(durations, on="item").group_by("query", "item").agg(logged=share)


LOGGED: dict[str, Callable[[Tables], pl.DataFrame]] = {
    "shop": lambda tables: shop_tiers(tables["events"]),
    "video": watched_shares,
}


@pytest.mark.parametrize("kind", KINDS)
def test_simulate_with_the_documented_command_makes_the_committed_files(kind: str, tmp_path: Path) -> None:
    simulate(kind, BUNDLED_EVENTS[kind], tmp_path / kind)
    for name in FILES:
        committed = pl.read_parquet(ROOT / "data" / kind / f"{name}.parquet")
        assert_frame_equal(pl.read_parquet(tmp_path / kind / f"{name}.parquet"), committed, check_exact=True)


def test_bundled_data_stays_below_one_mebibyte() -> None:
    assert sum(file.stat().st_size for file in (ROOT / "data").rglob("*.parquet")) < 2**20


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("block", [1, 7, 1_000_000])
def test_rows_do_not_depend_on_the_block_size(kind: str, block: int) -> None:
    whole = make(kind, events=2_000, days=3)
    for name, table in make(kind, block, events=2_000, days=3).items():
        assert_frame_equal(table, whole[name], check_exact=True)


@pytest.mark.parametrize("kind", KINDS)
def test_another_seed_makes_another_world(kind: str) -> None:
    one, other = (make(kind, events=2_000, seed=seed) for seed in (1, 2))
    assert all(not one[name].equals(other[name]) for name in FILES)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("events", [1_000, 30_000, 200_000])
def test_log_has_about_as_many_events_as_asked_for(kind: str, events: int) -> None:
    assert make(kind, events=events)["events"].height == pytest.approx(events, rel=0.05)


@pytest.mark.parametrize("kind", KINDS)
def test_log_is_in_time_order_and_actions_come_within_two_days(kind: str) -> None:
    tables = large(kind)
    events = tables["events"].join(tables["queries"].select("query", asked="timestamp"), on="query", validate="m:1")
    late = events.select("event", delay=pl.col("timestamp") - pl.col("asked"))
    assert tables["events"]["timestamp"].is_sorted()
    assert tables["queries"]["timestamp"].is_sorted()
    assert (late.filter(pl.col("event") == "impression")["delay"].dt.total_seconds() == 0).all()
    assert late.filter(pl.col("event") != "impression")["delay"].dt.total_seconds().is_between(1, 2 * 86_400 - 1).all()


def test_purchases_come_minutes_to_days_after_the_query() -> None:
    events = large("shop")["events"]
    hours = (
        events.with_columns(asked=pl.col("timestamp").min().over("query"))
        .filter(pl.col("event") == "purchase")
        .select((pl.col("timestamp") - pl.col("asked")).dt.total_seconds() / 3600)
        .to_series()
    )
    assert (hours < 1).mean() > 0.5
    assert 0.05 < (hours > 6).mean() < 0.3


@pytest.mark.parametrize("kind", KINDS)
def test_queries_lie_within_the_days_asked_for(kind: str) -> None:
    times = make(kind, events=5_000, days=10)["queries"]["timestamp"]
    assert times.dt.date().n_unique() == 10


@pytest.mark.parametrize("kind", KINDS)
def test_only_shown_items_are_acted_upon_and_truth_covers_exactly_the_shown(kind: str) -> None:
    tables = large(kind)
    pairs = tables["events"].filter(pl.col("event") == "impression").select("query", "item")
    assert not pairs.is_duplicated().any()
    assert tables["events"].join(pairs, on=["query", "item"], how="anti").is_empty()
    assert_frame_equal(tables["truth"].select("query", "item"), pairs, check_row_order=False)


@pytest.mark.parametrize("kind", KINDS)
def test_lists_run_from_position_one_and_only_some_are_in_random_order(kind: str) -> None:
    rows = shown(large(kind)).sort("query", "position")
    lists = rows.group_by("query", maintain_order=True).agg(
        pl.col("position"),
        pl.col("randomised").first(),
        by_policy=(pl.col("upstream_score").diff().drop_nulls() <= 0).all(),
    )
    assert all(positions == list(range(1, len(positions) + 1)) for positions in lists["position"].to_list())
    assert lists["position"].list.len().is_between(8, 12).all()
    assert lists.filter(~pl.col("randomised"))["by_policy"].all()
    assert not lists.filter(pl.col("randomised"))["by_policy"].any()
    assert lists["randomised"].mean() == pytest.approx(0.1, abs=0.01)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bias", [0.0, 1.0, 1.7])
def test_propensity_is_one_over_position_to_the_bias(kind: str, bias: float) -> None:
    rows = shown(make(kind, events=2_000, bias=bias))
    expected = rows["position"].cast(pl.Float64).to_numpy() ** -bias
    np.testing.assert_allclose(rows["propensity"].to_numpy(), expected, rtol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_relevant_items_are_acted_upon_as_often_as_their_position_is_examined(kind: str) -> None:
    """Where the truth is above 0 an examined item is acted upon for certain, so the share is the examination curve."""
    relevant = shown(large(kind)).filter(pl.col("relevance") > 0)
    for position, rows in relevant.partition_by("position", as_dict=True).items():
        chance = 1 / float(position[0])
        four_deviations = 4 * (chance * (1 - chance) / rows.height) ** 0.5
        assert rows["acted"].mean() == pytest.approx(chance, abs=four_deviations + 1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_click_through_by_position_falls_like_the_examination_curve_where_the_order_is_random(kind: str) -> None:
    """Random order makes every position equally attractive: what is left of the click-through is examination."""
    rows = shown(large(kind)).filter(pl.col("randomised"))
    attractive = (rows["relevance"] > 0).mean()
    for position, shown_there in rows.partition_by("position", as_dict=True).items():
        chance = attractive / float(position[0])
        four_deviations = 4 * (chance * (1 - chance) / shown_there.height) ** 0.5
        assert shown_there["acted"].mean() == pytest.approx(chance, abs=four_deviations)


@pytest.mark.parametrize("kind", KINDS)
def test_logged_relevance_is_the_true_one_where_acted_upon_and_nothing_elsewhere(kind: str) -> None:
    tables = large(kind)
    rows = shown(tables).join(LOGGED[kind](tables), on=["query", "item"], validate="1:1")
    expected = rows["relevance"].to_numpy() * rows["acted"].to_numpy()
    np.testing.assert_allclose(rows["logged"].to_numpy(), expected, rtol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_without_bias_the_log_tells_the_truth(kind: str) -> None:
    tables = make(kind, events=5_000, bias=0)
    rows = LOGGED[kind](tables).join(tables["truth"], on=["query", "item"], validate="1:1")
    np.testing.assert_allclose(rows["logged"].to_numpy(), rows["relevance"].to_numpy(), rtol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_a_fifth_of_the_visitors_is_anonymous_in_queries_and_events_alike(kind: str) -> None:
    tables = large(kind)
    owners = tables["queries"].select("query", owner="user")
    joined = tables["events"].join(owners, on="query", validate="m:1")
    assert joined["user"].eq_missing(joined["owner"]).all()
    assert 0.2 < tables["queries"]["user"].null_count() / tables["queries"].height < 0.25


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_shown_before_its_release_and_nobody_comes_before_signup(kind: str) -> None:
    tables = large(kind)
    events = tables["events"].join(tables["items"], on="item", validate="m:1")
    visits = tables["queries"].drop_nulls("user").join(tables["users"], on="user", validate="m:1")
    start = tables["queries"]["timestamp"][0]
    assert (events["created_at"] <= events["timestamp"]).all()
    assert (visits["signup"] <= visits["timestamp"]).all()
    assert events.filter(pl.col("created_at") > start)["item"].n_unique() > 50
    assert visits.filter(pl.col("signup") > start)["user"].n_unique() > 50


def test_shop_actions_follow_each_other_and_a_purchase_is_at_the_price_shown() -> None:
    events = large("shop")["events"]
    wide = events.pivot("event", index=["query", "item"], values="timestamp").drop_nulls("purchase")
    assert wide.height > 100
    assert wide.select((pl.col("click") < pl.col("cart")) & (pl.col("cart") < pl.col("purchase"))).to_series().all()
    paid = events.filter(pl.col("event") == "purchase").select("query", "item", "value")
    prices = events.filter(pl.col("event") == "impression").select("query", "item", "price")
    bought = paid.join(prices, on=["query", "item"], validate="1:1")
    assert (bought["value"] == bought["price"]).all()


def test_shop_prices_move_and_never_exceed_the_list_price() -> None:
    tables = large("shop")
    listed = tables["items"].select("item", listed="price")
    offers = tables["events"].drop_nulls("price").join(listed, on="item", validate="m:1")
    assert (offers["price"] <= offers["listed"]).all()
    assert offers.group_by("item").agg(pl.col("price").n_unique())["price"].median() > 1


def test_some_clips_are_taken_up_again_or_watched_beyond_their_end() -> None:
    tables = large("video")
    durations = tables["items"].select("item", "duration")
    plays = tables["events"].filter(pl.col("event") == "watch").join(durations, on="item", validate="m:1")
    sums = plays.group_by("query", "item").agg(pl.len(), pl.col("value").sum(), pl.col("duration").first())
    assert 0.05 < (sums["len"] == 2).mean() < 0.2
    assert sums["len"].max() == 2
    assert 0 < (sums["value"] > sums["duration"]).mean() < 0.1
    assert plays["value"].min() >= 1


def test_shop_words_price_freshness_and_taste_all_move_the_true_relevance() -> None:
    """Each alone leaves its mark: the world holds signal beyond popularity."""
    tables = large("shop")
    items = tables["items"].select("item", "category", "brand", "created_at", listed="price")
    texts = tables["queries"].select("query", "text")
    rows = shown(tables).join(items, on="item", validate="m:1").join(texts, on="query", validate="m:1")
    true = pl.col("relevance")

    def mean(condition: pl.Expr) -> float:
        return float(rows.filter(condition).select(true.mean()).item())

    names_category = pl.col("text").str.ends_with(pl.col("category"))
    names_brand = pl.col("text").str.starts_with(pl.col("brand").str.to_lowercase())
    named = (
        pl.col("text").str.split(" ").list.first().is_in(tables["items"]["brand"].unique().str.to_lowercase().implode())
    )
    dear = pl.col("price") > pl.col("price").median().over("category")
    on_sale = pl.col("price") < pl.col("listed")
    fresh = pl.col("timestamp") - pl.col("created_at") < pl.duration(days=7)
    assert mean(names_category) > 1.2 * mean(~names_category)
    assert mean(names_brand) > 1.2 * mean(named & ~names_brand)
    assert mean(~dear) > 1.1 * mean(dear)
    assert mean(on_sale) > 1.1 * mean(~on_sale)
    assert mean(fresh) > 1.05 * mean(~fresh)


@pytest.mark.parametrize(
    ("kind", "group"), [("shop", "category"), ("shop", "brand"), ("video", "topic"), ("video", "creator")]
)
def test_what_a_user_liked_early_is_liked_late(kind: str, group: str) -> None:
    """Tastes last: rates of (user, group) in two halves of the log, each less the rate of the group, agree."""
    tables = large(kind)
    half = tables["queries"]["timestamp"].median()
    rows = shown(tables).drop_nulls("user").join(tables["items"].select("item", group), on="item", validate="m:1")
    centred = rows.with_columns(pl.col("relevance") - pl.col("relevance").mean().over(group))
    rates = centred.group_by("user", group).agg(
        early=pl.col("relevance").filter(pl.col("timestamp") < half).mean(),
        late=pl.col("relevance").filter(pl.col("timestamp") >= half).mean(),
        seen=pl.len(),
    )
    often = rates.drop_nulls().filter(pl.col("seen") >= 20)
    assert often.select(pl.corr("early", "late")).item() > 0.25


@pytest.mark.parametrize("kind", KINDS)
def test_a_stronger_policy_puts_better_items_on_top(kind: str) -> None:
    weak, strong = (shown(make(kind, events=20_000, policy=policy)) for policy in (0.0, 1.0))
    top = pl.col("position") == 1
    assert strong.filter(top)["relevance"].mean() > 1.3 * weak.filter(top)["relevance"].mean()


def test_draws_are_uniform_and_bell_shaped() -> None:
    draws, number = Draws("test", 7), np.arange(200_000)
    uniform, bell = draws.uniform("a", number), draws.bell("b", number)
    assert uniform.mean() == pytest.approx(1 / 2, abs=4 * (1 / 12 / 200_000) ** 0.5)
    assert uniform.var() == pytest.approx(1 / 12, rel=0.02)
    assert bell.mean() == pytest.approx(0, abs=4 / 200_000**0.5)
    assert bell.var() == pytest.approx(1, rel=0.02)
    assert (np.abs(bell) < 1).mean() == pytest.approx(0.68, abs=0.02)
    assert abs(np.corrcoef(bell[1:], bell[:-1])[0, 1]) < 0.01


def test_draws_depend_on_stream_keys_and_seed_but_not_on_company() -> None:
    draws, number = Draws("test", 7), np.arange(100)
    values = draws.uniform("a", number, number[::-1])
    np.testing.assert_array_equal(values[40:60], draws.uniform("a", number[40:60], number[::-1][40:60]))
    assert not np.any(values == draws.uniform("b", number, number[::-1]))
    assert not np.any(values[:50] == draws.uniform("a", number[::-1], number)[:50])
    assert not np.any(values == Draws("test", 8).uniform("a", number, number[::-1]))


@pytest.mark.slow
def test_memory_does_not_grow_with_the_log(tmp_path: Path) -> None:
    """Twelve blocks need little more than two: the log of the larger world alone is above 100 MB as a frame."""
    script = (
        "import resource, sys; from pathlib import Path; from pipeline.simulate import simulate;"
        "simulate('shop', int(sys.argv[1]), Path(sys.argv[2]));"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)"
    )
    small, large = (
        float(
            subprocess.run(
                [sys.executable, "-c", script, str(events), str(tmp_path / str(events))],
                check=True,
                capture_output=True,
                text=True,
                cwd=ROOT,
            ).stdout
        )
        for events in (400_000, 2_400_000)
    )
    assert large < 1.4 * small


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"events": 999}, "events = 999; expected a number from 1000 to"),
        ({"seed": -1}, "seed = -1; expected a number from 0 to"),
        ({"bias": -0.5}, r"bias = -0\.5; expected a number from 0 to 10"),
        ({"bias": float("nan")}, "bias = nan"),
        ({"policy": 1.5}, r"policy = 1\.5; expected a number from 0 to 1"),
        ({"days": 0}, "days = 0; expected a number from 1 to"),
        ({"kind": "zoo"}, "'zoo'; expected shop or video"),
    ],
)
def test_simulate_refuses_what_cannot_be_simulated(settings: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        simulate(**{"kind": "shop", "events": 1_000, "out": tmp_path / "out"} | settings)
    assert not list(tmp_path.iterdir())


def test_simulate_replaces_only_what_it_wrote(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    simulate("shop", 1_000, ours)
    theirs.mkdir()
    (theirs / "thesis.tex").touch()
    with pytest.raises(OutputError, match="is not empty; expected a new or empty folder"):
        simulate("shop", 1_000, ours)
    with pytest.raises(OutputError, match=r"holds no truth\.parquet"):
        simulate("shop", 1_000, theirs, overwrite=True)
    simulate("video", 1_000, ours, overwrite=True)
    assert sorted(file.stem for file in ours.iterdir()) == list(FILES)
    assert "duration" in pl.read_parquet(ours / "items.parquet").columns


def test_a_broken_off_simulation_leaves_nothing_behind(tmp_path: Path) -> None:
    def give_up(step: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        simulate("shop", 1_000, tmp_path / "out", progress=give_up)
    assert not list(tmp_path.iterdir())


def test_progress_takes_every_step_once_and_the_counts_are_those_of_the_files(tmp_path: Path) -> None:
    steps: list[int] = []
    made = simulate("video", 300_000, tmp_path / "out", progress=steps.append)
    assert steps == list(range(1, STEPS + 1))
    rows = {
        name: pl.scan_parquet(tmp_path / "out" / f"{name}.parquet").select(pl.len()).collect().item() for name in FILES
    }
    assert asdict(made) == rows


def test_the_verb_writes_a_world_and_says_what_is_in_it(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pipeline", "simulate", "video", "--events", "1000", "--seed", "3"]
    done = subprocess.run([*command, "--out", "feed"], check=True, capture_output=True, text=True, cwd=tmp_path)
    assert "events" in done.stdout
    assert pl.read_parquet(tmp_path / "feed" / "events.parquet").equals(make("video", events=1_000, seed=3)["events"])
    again = subprocess.run([*command, "--out", "feed"], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert again.returncode == 2
    assert again.stderr.startswith("error: feed is not empty")
