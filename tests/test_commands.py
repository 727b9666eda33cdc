"""The verbs on the command line: real runs, and every fault one clear sentence, exit code 2, nothing left behind."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from datetime import date
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from features.errors import OutputError
from pipeline.folder import new_folder
from tests.factories import ranking_frame, write_config

Rankloom = Callable[..., object]


def test_train_evaluate_and_rank_agree(rankloom: Rankloom, tmp_path: Path) -> None:
    config = write_config(tmp_path, ranking_frame(80))
    done = rankloom("train", config, "--out", tmp_path / "run")
    assert done.code == 0, done.err
    assert "model ahead by" in done.out
    assert len(done.out.splitlines()) < 30
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert set(metrics["test"]) == {"model", "random", "best_feature"}
    assert set(metrics["diff"]) == {"random", "best_feature"}
    per_query = pl.read_parquet(tmp_path / "run" / "per_query.parquet")
    assert per_query.columns == ["query", "ndcg@10", "ndcg@20"]
    assert per_query["ndcg@10"].mean() == pytest.approx(metrics["test"]["model"]["ndcg@10"]["mean"], abs=1e-15)

    test_part = ranking_frame(80).filter(pl.col("query").is_in(per_query["query"].implode()))
    test_part.write_parquet(tmp_path / "test.parquet")
    package = tmp_path / "run" / "package"
    again = rankloom("evaluate", package, "--data", tmp_path / "test.parquet", "--out", tmp_path / "eval")
    assert again.code == 0, again.err
    evaluated = json.loads((tmp_path / "eval" / "metrics.json").read_text())
    assert evaluated["test"]["model"] == metrics["test"]["model"]
    assert pl.read_parquet(tmp_path / "eval" / "per_query.parquet").equals(per_query)

    ranked = rankloom("rank", package, "--data", tmp_path / "test.parquet", "--top", 2)
    assert ranked.code == 0, ranked.err
    assert ranked.out.splitlines()[0] == "query,item,rank,score"
    assert len(ranked.out.splitlines()) == 1 + 2 * per_query.height


def test_two_runs_and_shuffled_input_give_the_same_bytes(rankloom: Rankloom, tmp_path: Path) -> None:
    frame = ranking_frame(60)
    texts = []
    for name, table in (("a", frame), ("b", frame), ("c", frame.sample(fraction=1.0, shuffle=True, seed=2))):
        (tmp_path / name).mkdir()
        config = write_config(tmp_path / name, table.select(sorted(table.columns, reverse=name == "c")))
        assert rankloom("train", config, "--out", tmp_path / name / "run").code == 0
        texts.append((tmp_path / name / "run" / "package" / "model.txt").read_bytes())
    assert texts[0] == texts[1] == texts[2]


def test_named_baselines_stand_beside_the_model(rankloom: Rankloom, tmp_path: Path) -> None:
    config = write_config(tmp_path, ranking_frame(60))
    assert rankloom("train", config, "--out", tmp_path / "old").code == 0
    rivals = f'[baselines]\nby_a = "a"\nsum = "a + b"\nearlier = "{tmp_path / "old" / "package"}"\n'
    config = write_config(tmp_path, ranking_frame(60), rivals)
    assert rankloom("train", config, "--out", tmp_path / "new").code == 0
    metrics = json.loads((tmp_path / "new" / "metrics.json").read_text())
    assert metrics["diff"]["earlier"]["ndcg@10"] == {"mean": 0.0, "low": 0.0, "high": 0.0}
    assert metrics["test"]["sum"]["ndcg@10"]["mean"] > metrics["test"]["random"]["ndcg@10"]["mean"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f.head(0), "has no rows"),
        (lambda f: f.drop("relevance"), "no column relevance"),
        (lambda f: f.drop("query"), "no column query"),
        (lambda f: f.drop("item"), "no column item"),
        (lambda f: f.with_columns(query=pl.lit(None, pl.Int64)), "without a query id"),
        (lambda f: f.with_columns(query=pl.col("query").cast(pl.Float32)), "is of type Float32"),
        (lambda f: f.with_columns(relevance=pl.lit(None, pl.Float64)), "without a usable relevance"),
        (lambda f: f.with_columns(relevance=-pl.col("relevance")), "without a usable relevance"),
        (lambda f: f.with_columns(relevance=pl.col("relevance") * 0.5), "fractional relevance"),
        (lambda f: f.with_columns(relevance=pl.col("relevance") * 20), "expected grades 0 to 30"),
        (lambda f: f.with_columns(relevance=pl.lit(0)), "without a relevant item"),
        (lambda f: f.with_columns(a=pl.lit(1.0), b=pl.lit(1.0), c=pl.lit(1.0)), "no tree found a split"),
        (lambda f: f.with_columns(a=pl.lit("red")), "feature 'a' is of type String"),
        (lambda f: f.with_columns(a=pl.lit("red").cast(pl.Categorical)), "feature 'a' is of type Categorical"),
        (lambda f: f.with_columns(a=pl.lit(date(2026, 1, 1))), "feature 'a' is of type Date"),
        (lambda f: f.with_columns(a=pl.col("a").cast(pl.Float16)), "feature 'a' is of type Float16"),
        (lambda f: f.with_columns(a=pl.concat_list("a", "b")), "feature 'a' is of type List"),
        (lambda f: f.with_columns(item=pl.lit(1)), "stands more than once"),
        (lambda f: f.select("query", "item", "relevance"), "no feature column"),
    ],
)
def test_a_table_that_cannot_be_used_is_one_sentence(
    rankloom: Rankloom, tmp_path: Path, change: Callable[[pl.DataFrame], pl.DataFrame], message: str
) -> None:
    config = write_config(tmp_path, change(ranking_frame(60)))
    failed = rankloom("train", config, "--out", tmp_path / "run")
    assert failed.code == 2
    assert message in failed.err
    assert failed.err.startswith("error: ")
    assert failed.err.count("\n") == 1
    assert "Traceback" not in failed.err
    assert {path.name for path in tmp_path.iterdir()} == {"table.parquet", "run.toml"}


def test_a_query_above_the_limit_is_named(rankloom: Rankloom, tmp_path: Path) -> None:
    frame = pl.DataFrame({"query": 5, "item": range(10_001), "relevance": 1, "a": np.arange(10_001) * 1.0})
    config = write_config(
        tmp_path,
        pl.concat(
            [frame, ranking_frame(60).select(frame.columns).with_columns(pl.col("query") + 9)], how="vertical_relaxed"
        ),
    )
    failed = rankloom("train", config, "--out", tmp_path / "run")
    assert (failed.code, "query 5" in failed.err, "10001 rows" in failed.err) == (2, True, True)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("query,item,relevance,a,a\n1,1,1,2,3\n", "names column 'a' twice"),
        ("", "cannot be read"),
        ("\x00\x01", "has no rows"),
        ("x,y\n1,2\n", "has no column query and item"),
    ],
)
def test_a_broken_csv_is_one_sentence(rankloom: Rankloom, tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "t.csv").write_text(content)
    (tmp_path / "run.toml").write_text(f'[data]\ntable = "{tmp_path / "t.csv"}"\n')
    failed = rankloom("train", tmp_path / "run.toml", "--out", tmp_path / "run")
    assert failed.code == 2
    assert message in failed.err


def test_broken_parquet_and_missing_files_are_one_sentence(rankloom: Rankloom, tmp_path: Path) -> None:
    (tmp_path / "t.parquet").write_bytes(b"PAR1 not really PAR1")
    (tmp_path / "run.toml").write_text(f'[data]\ntable = "{tmp_path / "t.parquet"}"\n')
    assert "cannot be read" in rankloom("train", tmp_path / "run.toml").err
    failed = rankloom("train", tmp_path / "run.toml", "--set", f"data.table={tmp_path / 'nowhere.parquet'}")
    assert (failed.code, "no file" in failed.err) == (2, True)


def test_one_query_in_two_files_is_refused(rankloom: Rankloom, tmp_path: Path) -> None:
    ranking_frame(40).write_parquet(tmp_path / "train.parquet")
    ranking_frame(5).write_parquet(tmp_path / "test.parquet")
    text = f'[data]\ntrain = "{tmp_path / "train.parquet"}"\ntest = "{tmp_path / "test.parquet"}"\n'
    (tmp_path / "run.toml").write_text(text)
    failed = rankloom("train", tmp_path / "run.toml", "--out", tmp_path / "run")
    assert (failed.code, "stands in" in failed.err) == (2, True)


def test_an_existing_folder_is_kept(rankloom: Rankloom, tmp_path: Path) -> None:
    config = write_config(tmp_path, ranking_frame(60))
    out = tmp_path / "precious"
    out.mkdir()
    (out / "thesis.txt").write_text("years of work")
    for flags in ([], ["--overwrite"]):
        failed = rankloom("train", config, "--out", out, *flags)
        assert failed.code == 2
        assert (out / "thesis.txt").read_text() == "years of work"
    assert rankloom("train", config, "--out", tmp_path / "run").code == 0
    assert rankloom("train", config, "--out", tmp_path / "run").code == 2
    assert rankloom("train", config, "--out", tmp_path / "run", "--overwrite").code == 0


def test_evaluate_without_truth_points_to_rank(rankloom: Rankloom, tmp_path: Path) -> None:
    config = write_config(tmp_path, ranking_frame(60))
    rankloom("train", config, "--out", tmp_path / "run")
    ranking_frame(5).drop("relevance").write_parquet(tmp_path / "t.parquet")
    failed = rankloom("evaluate", tmp_path / "run" / "package", "--data", tmp_path / "t.parquet")
    assert (failed.code, "use rankloom rank" in failed.err) == (2, True)


def test_help_is_light_and_module_is_command() -> None:
    code = "import sys, pipeline.cli; print([m for m in ('lightgbm', 'polars', 'numba', 'optuna') if m in sys.modules])"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"
    helped = subprocess.run([sys.executable, "-m", "pipeline", "--help"], capture_output=True, text=True, check=True)
    assert "Train, judge beside cheap rivals" in helped.stdout


def test_lightgbms_example_from_end_to_end(rankloom: Rankloom, tmp_path: Path, shared_data: Path) -> None:
    letor = shared_data / "letor"
    files = ["--set", f"data.train={letor / 'rank.train'}", "--set", f"data.test={letor / 'rank.test'}"]
    config = Path(__file__).parents[1] / "configs" / "letor.toml"
    means = []
    for seed in (1, 2, 3):
        out = tmp_path / f"run{seed}"
        done = rankloom("train", config, *files, "--set", "convention=lightgbm", "--set", f"seed={seed}", "--out", out)
        assert done.code == 0, done.err
        metrics = json.loads((out / "metrics.json").read_text())
        assert metrics["parity"]["max_abs_diff"] <= 1e-9
        assert metrics["queries"]["test"] == 50
        means.append([metrics["test"]["model"][f"ndcg@{k}"]["mean"] for k in (1, 3)])
    assert (np.mean(means, axis=0) > [0.55, 0.58]).all()


@pytest.mark.parametrize(
    ("change", "text", "message"),
    [
        (lambda f: f.with_columns(colour=pl.lit(0.5)), '[features]\ncategories = ["colour"]\n', "is of type Float64"),
        (lambda f: f.rename({"a": ""}), "", "a column without a name"),
        (lambda f: f, '[features]\ndrop = ["z*"]\n', "features.drop names 'z*'"),
        (lambda f: f, '[features]\nuse = ["a", "bb"]\n', "features.use names 'bb'"),
    ],
)
def test_a_setting_that_does_not_fit_the_table_is_one_sentence(
    rankloom: Rankloom, tmp_path: Path, change: Callable[[pl.DataFrame], pl.DataFrame], text: str, message: str
) -> None:
    config = write_config(tmp_path, change(ranking_frame(60)), text)
    failed = rankloom("train", config, "--out", tmp_path / "run")
    assert (failed.code, message in failed.err) == (2, True), failed.err


def test_a_feature_may_be_called_score(rankloom: Rankloom, tmp_path: Path) -> None:
    config = write_config(tmp_path, ranking_frame(60).rename({"a": "score", "b": "rank"}))
    assert rankloom("train", config, "--out", tmp_path / "run").code == 0
    done = rankloom("evaluate", tmp_path / "run" / "package", "--data", tmp_path / "table.parquet")
    assert done.code == 0, done.err


def test_a_label_among_the_features_draws_a_warning(rankloom: Rankloom, tmp_path: Path) -> None:
    config = write_config(tmp_path, ranking_frame(60).with_columns(copy=pl.col("relevance")))
    done = rankloom("train", config, "--out", tmp_path / "run")
    assert "does it hold the label" in done.out


def write_notes(folder: Path) -> None:
    folder.mkdir()
    (folder / "notes.txt").write_text("mine")


def test_a_folder_that_appears_meanwhile_is_kept(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="is not empty"), new_folder(tmp_path / "run", marker="m"):
        write_notes(tmp_path / "run")
    assert (tmp_path / "run" / "notes.txt").read_text() == "mine"


def test_many_sparse_features_are_read_in_a_moment(rankloom: Rankloom, tmp_path: Path) -> None:
    lines = [f"{i % 2} qid:{i // 4} 1:{i % 7} 20000:1\n" for i in range(160)]
    (tmp_path / "rank.train").write_text("\ufeff" + "".join(lines))
    (tmp_path / "run.toml").write_text(
        f'[data]\ntable = "{tmp_path / "rank.train"}"\n[features]\nuse = ["f1", "f20000"]\n'
    )
    done = rankloom("check", tmp_path / "run.toml")
    assert (done.code, "2 features" in done.out) == (0, True), done.err


def test_a_file_that_exists_is_never_written_over(rankloom: Rankloom, tmp_path: Path) -> None:
    config = write_config(tmp_path, ranking_frame(60))
    assert rankloom("train", config, "--out", tmp_path / "run").code == 0
    table, package = tmp_path / "table.parquet", tmp_path / "run" / "package"
    before = table.read_bytes()
    for out, message in ((table, "exists"), (tmp_path / "x.foo", "neither .parquet nor .csv")):
        failed = rankloom("rank", package, "--data", table, "--out", out)
        assert (failed.code, message in failed.err) == (2, True), failed.err
    assert table.read_bytes() == before


def test_ids_in_a_csv_keep_their_zeros(rankloom: Rankloom, tmp_path: Path) -> None:
    frame = ranking_frame(60).with_columns(item=pl.format("00{}", "item"))
    config = write_config(tmp_path, frame)
    frame.write_csv(tmp_path / "table.csv")
    assert rankloom("train", config, "--out", tmp_path / "run").code == 0
    ranked = rankloom("rank", tmp_path / "run" / "package", "--data", tmp_path / "table.csv", "--top", 1)
    assert ranked.out.splitlines()[1].split(",")[1].startswith("00")
