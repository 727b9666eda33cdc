"""`compare`: rankings on the same queries, refused otherwise, and sentences that say no more than the data."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from features.errors import ConfigError, DataError
from pipeline.arms import Arm, align, read_arm
from pipeline.compare import EVERY, compare, named_convention
from pipeline.metrics import Convention, ndcg_per_query
from pipeline.run import METRICS, RANKED
from tests.factories import ranking_frame, write_config

Rankloom = Callable[..., object]


def rows(queries: int = 40, items: int = 6, *, seed: int = 0) -> pl.DataFrame:
    """Ranked rows: `good` knows the relevance, `noise` does not; three queries per user."""
    frame = ranking_frame(queries, items, seed=seed).drop("b", "c")
    rng = np.random.default_rng(seed + 1)
    return frame.with_columns(
        pl.col("relevance").cast(pl.Float64),
        user=pl.col("query") // 3,
        popularity=pl.col("item").cast(pl.Float32),
        device=pl.Series(np.repeat(rng.choice(["phone", "desk"], queries), items)),
        **{
            "item.brand": pl.col("item").cast(pl.String).str.slice(0, 1),
            "score.model": pl.col("relevance") + pl.Series(rng.normal(size=frame.height)),
            "score.random": pl.lit(0.0),
        },
    )


def write_run(folder: Path, frame: pl.DataFrame, *, convention: Convention | None = None) -> Path:
    """As much of a run's folder as compare reads."""
    folder.mkdir(parents=True)
    settled = (convention or Convention()).to_dict()
    (folder / METRICS).write_text(json.dumps({"k": [3, 5], "seed": 7, "convention": settled}))
    frame.write_parquet(folder / RANKED)
    return folder


def arm(name: str, frame: pl.DataFrame, scores: np.ndarray | None = None) -> Arm:
    metrics = {"k": [3, 5], "seed": 7, "convention": Convention().to_dict()}
    return Arm(name, "model", frame, frame["score.model"].to_numpy() if scores is None else scores, metrics)


def main_test(found: object, name: str, metric: str = "ndcg@3") -> object:
    return next(test for test in found.tests if (test.name, test.metric, test.group) == (name, metric, EVERY))


def test_compare_on_the_command_line_takes_runs_and_their_rivals(rankloom: Rankloom, tmp_path: Path) -> None:
    config = write_config(tmp_path, ranking_frame(120))
    assert rankloom("train", config, "--out", tmp_path / "run").code == 0
    rivals = [f"{tmp_path / 'run'}:{name}" for name in ("random", "best_feature")]
    done = rankloom("compare", rivals[0], tmp_path / "run", rivals[1], "--out", tmp_path / "cmp")
    assert done.code == 0, done.err
    assert "ranks better than" in done.out
    found = json.loads((tmp_path / "cmp" / "comparison.json").read_text())
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    for name, ranker in zip(found["names"], ("random", "model", "best_feature"), strict=True):
        assert found["means"][name]["ndcg@10"] == pytest.approx(metrics["test"][ranker]["ndcg@10"]["mean"], abs=1e-12)
    assert (tmp_path / "cmp" / "report.html").is_file()
    again = rankloom("compare", tmp_path / "run", f"{tmp_path / 'run'}:model")
    assert "rank alike: no query differs" in again.out


def test_order_of_rows_and_of_queries_changes_nothing() -> None:
    frame = rows()
    other = frame.with_columns(pl.col("score.model") + pl.col("a"))
    found = compare([arm("a", frame), arm("b", other)])
    shuffled = compare([arm("a", frame), arm("b", other.sample(fraction=1.0, shuffle=True, seed=5))])
    assert found == shuffled


def test_cut_offs_beyond_every_list_are_said_to_be_no_cut() -> None:
    frame = rows()
    longest = frame.group_by("query").len()["len"].max()
    short, long = arm("a", frame), arm("b", frame)
    assert compare([short, long]).notes == ()
    beyond = replace(short, metrics={**short.metrics, "k": [2, longest]})
    (note,) = compare([beyond, long]).notes
    assert note == f"no query has more than {longest} candidates: at k = {longest} whole lists are judged"


def test_other_queries_and_candidates_are_refused_and_the_common_part_offered() -> None:
    frame = rows()
    fewer = frame.filter((pl.col("query") != 3) & ~((pl.col("query") == 5) & (pl.col("item") == 1)))
    with pytest.raises(DataError, match=r"add --common to compare on the 39 queries with 233 candidates"):
        compare([arm("a", frame), arm("b", fewer)])
    found = compare([arm("a", frame), arm("b", fewer)], common=True)
    assert (found.queries, found.rows) == (39, 233)
    assert "compared on the 39 queries" in found.notes[-1]
    with pytest.raises(DataError, match="same test part"):
        compare([arm("a", frame), arm("b", frame.with_columns(pl.col("query") + 100))], common=True)


def test_another_judgement_of_the_same_pair_is_refused() -> None:
    frame = rows()
    with pytest.raises(DataError, match=r"40 of 240 candidates have another relevance"):
        align([arm("a", frame), arm("b", frame.with_columns(pl.col("relevance") + (pl.col("item") == 0)))], common=True)


def test_what_is_no_run_and_no_ranker_is_one_sentence(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", rows())
    assert read_arm(f"{folder}:random").ranker == "random"
    with pytest.raises(ConfigError, match="has no ranker 'modle'; expected one of model, random"):
        read_arm(f"{folder}:modle")
    with pytest.raises(DataError, match=r"holds no metrics.json and no ranked.parquet"):
        read_arm(str(tmp_path))
    with pytest.raises(ConfigError, match="two or more, each once"):
        compare([read_arm(str(folder))])
    with pytest.raises(ConfigError, match="the convention 'sklaern'"):
        named_convention("sklaern")


def test_runs_of_different_conventions_are_judged_by_one(tmp_path: Path) -> None:
    frame = rows()
    a = read_arm(str(write_run(tmp_path / "a", frame)))
    b = read_arm(str(write_run(tmp_path / "b", frame, convention=Convention.named("sklearn"))))
    found = compare([a, b])
    assert "judged anew by that of" in found.notes[0]
    assert main_test(found, b.name).contrast.p_random == 1.0
    by_sklearn = compare([a, b], convention=named_convention("sklearn"))
    sizes = np.full(40, 6)
    expected = ndcg_per_query(a.scores, frame["relevance"], sizes, 3, convention=Convention.named("sklearn"))
    assert by_sklearn.means[a.name]["ndcg@3"] == pytest.approx(np.nanmean(expected), abs=1e-12)


def test_groups_sum_to_all_queries_and_are_corrected_together() -> None:
    frame = rows(90)
    better = arm("b", frame, frame["relevance"].to_numpy() + 0.0)
    found = compare([arm("a", frame), better], by=["device"])
    for kind in ("relevant items: ", "device: "):
        counted = [test.contrast for test in found.tests if test.group.startswith(kind)]
        assert sum(c.wins + c.ties + c.losses for c in counted) == sum(
            getattr(main_test(found, "b").contrast, name) for name in ("wins", "ties", "losses")
        )
    assert main_test(found, "b").p > main_test(found, "b").contrast.p_random
    assert "b ranks better than a" in found.conclusions[0]
    with pytest.raises(ConfigError, match="column item does not group queries"):
        compare([arm("a", frame), better], by=["item"])
    with pytest.raises(ConfigError, match="no column divice"):
        compare([arm("a", frame), better], by=["divice"])


def test_one_query_is_too_few_and_noise_proves_nothing() -> None:
    one = rows(1, seed=3)
    assert (
        "too few to conclude anything"
        in compare([arm("a", one), arm("b", one, -one["score.model"].to_numpy())]).conclusions[0]
    )
    frame = rows(60)
    rng = np.random.default_rng(8)
    noisy = [arm(name, frame, rng.normal(size=frame.height)) for name in "ab"]
    conclusion = compare(noisy).conclusions[0]
    assert "cannot be told from a" in conclusion
    assert "would mostly have gone unseen" in conclusion


def test_auc_that_rises_while_ndcg_falls_is_pointed_out() -> None:
    """One of ten items is excellent, three are good: b puts the good ones on top, and the excellent one fourth."""
    relevance = np.tile([4.0, 1, 1, 1, 0, 0, 0, 0, 0, 0], 60)
    a = np.tile([9.0, 1, 2, 3, 4, 5, 6, 7, 8, 0], 60)
    b = np.tile([6.0, 9, 8, 7, 5, 4, 3, 2, 1, 0], 60)
    frame = pl.DataFrame(
        {"query": np.repeat(np.arange(60), 10), "item": np.tile(np.arange(10), 60), "relevance": relevance}
    )
    found = compare([arm("a", frame, a), arm("b", frame, b)])
    assert main_test(found, "b").contrast.difference.mean < 0 < main_test(found, "b", "auc").contrast.difference.mean
    assert "the classic sign of having learned only what is popular" in found.conclusions[1]


def test_what_nobody_judged_is_counted_and_left_out_on_condensed_lists() -> None:
    """b ranks an unjudged item first: judged@3 says so, and without it the two lists are the same."""
    queries = 20
    frame = pl.DataFrame(
        {
            "query": np.repeat(np.arange(queries), 4),
            "item": np.tile(np.arange(4), queries),
            "relevance": np.tile([0.0, 2, 1, 0], queries),
            "judged": np.tile([False, True, True, True], queries),
        }
    )
    a, b = np.tile([0.0, 3, 2, 1], queries), np.tile([9.0, 3, 2, 1], queries)
    found = compare([arm("a", frame, a), arm("b", frame, b)])
    assert (found.beside["a"]["judged@3"], found.beside["b"]["judged@3"]) == (1.0, pytest.approx(2 / 3))
    assert main_test(found, "b").contrast.difference.mean < 0
    assert found.means["b"]["condensed ndcg@3"] == found.means["a"]["condensed ndcg@3"] == 1.0


def test_the_lists_of_both_are_described() -> None:
    found = compare([arm("a", rows()), arm("b", rows(), rows()["popularity"].to_numpy() * -1.0)])
    assert set(found.beside["b"]) == {
        f"{name}@{k}{by}"
        for k in (3, 5)
        for name, by in (("coverage", ""), ("novelty", ""), ("diversity", " (item.brand)"))
    }
    assert found.beside["b"]["coverage@3"] == 0.5
    assert found.beside["b"]["novelty@3"] > found.beside["a"]["novelty@3"]
    assert 0 < found.overlap["b"]["shared@3"] < 1
