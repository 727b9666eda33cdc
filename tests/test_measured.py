"""`rankloom metrics` on the command line: figures, files, and every fault one clear sentence with exit code 2."""

from __future__ import annotations

from collections.abc import Callable
from math import log2
from pathlib import Path

import polars as pl
import pytest

from pipeline.evaluate import convention_from, cutoffs_from
from pipeline.metrics import Convention, ndcg_of_items

Rankloom = Callable[..., object]

QRELS = "q1 0 a 2\nq1 0 b 1\nq2 0 a 1\nq3 0 a 0\n"
RUN = "q1 Q0 x 1 9 t\nq1 Q0 a 2 8 t\nq1 Q0 b 3 7 t\nq3 Q0 a 1 1 t\nq9 Q0 a 1 1 t\n"


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    (tmp_path / "qrels.txt").write_text(QRELS)
    (tmp_path / "run.txt").write_text(RUN)
    return tmp_path / "qrels.txt", tmp_path / "run.txt"


def test_figures_files_and_terms_agree(rankloom: Rankloom, files, tmp_path: Path) -> None:
    out = tmp_path / "values.parquet"
    done = rankloom("metrics", *files, "--convention", "trec_eval", "--k", "2,3", "--per-query", out, "--explain", "q1")
    assert done.code == 0, done.err
    values = pl.read_parquet(out)
    assert values.columns[:3] == ["query", "ndcg@2", "ndcg@3"]
    ideal = 2 + 1 / log2(3)
    expected = {"q1": 2 / log2(3) / ideal, "q2": 0.0, "q3": 0.0}
    assert dict(values.select("query", "ndcg@2").iter_rows()) == pytest.approx(expected)
    relevance = {"a": 2, "b": 1}
    whole = ndcg_of_items(["x", "a", "b"], relevance, convention=Convention.named("trec_eval"))
    assert values["ndcg"][0] == pytest.approx(whole)
    assert f"{sum(expected.values()) / 3:.4f} [" in done.out
    assert "(as trec_eval)" in done.out
    for sentence in (
        "1 judged queries that the run lacks: counted as lists that retrieved nothing",
        "1 queries that nobody judged: left out",
        "1 ranked items that nobody judged: counted as not relevant",
        "0 repeated items: refused",
        f"NDCG@3 = {2 / log2(3) + 1 / 2:.6f} / {ideal:.6f} = {whole:.6f}",
    ):
        assert sentence in done.out


def test_skipped_queries_are_null_in_the_file_and_a_dash_on_the_screen(rankloom: Rankloom, tmp_path: Path) -> None:
    table = pl.DataFrame({"query": [1, 1], "item": [1, 2], "score": [1.0, 2.0], "relevance": [0, 0]})
    table.write_csv(tmp_path / "table.csv")
    done = rankloom("metrics", tmp_path / "table.csv", "--per-query", tmp_path / "values.csv")
    assert done.code == 0, done.err
    assert "0 of 1 queries have a value" in done.out
    assert "nan" not in done.out.lower()
    assert pl.read_csv(tmp_path / "values.csv")["ndcg@10"].to_list() == [None]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--convention", "lgbm"], "convention is 'lgbm'; expected one of lightgbm, xgboost"),
        (["--gain", "0,2,1"], r"gain[2] is 1.0, below gain[1] = 2.0"),
        (["--ties", "random"], "ties is 'random'"),
        (["--k", "5,x"], "--k is '5,x'"),
        (["--k", "0"], "--k is '0'"),
        (["--k", "9" * 20], f"--k is '{'9' * 20}'; expected whole numbers of at least 1 and at most 18 digits"),
        (["--k", "9" * 5000], "--k is '999"),
        (["--relevant-from", "0"], "the lowest relevant grade is 0.0; expected a finite number above 0"),
        (["--relevant-from", "nan"], "the lowest relevant grade is nan"),
        (["--missing", "drop"], "missing is 'drop'; expected one of zero, skip, error"),
        (["--missing", "error"], "the run lacks the judged query q2"),
        (["--extra", "error"], "query q9 of the run has no judgement"),
        (["--unjudged", "error"], "item x of query q1 is not judged"),
        (["--explain", "q7"], "no query 'q7' with rows"),
        (["--explain", "q2"], "query 'q2' is judged, but the run lacks it"),
        (["--gain", "0,1"], "the gains end at 1"),
    ],
)
def test_faults_are_one_sentence(rankloom: Rankloom, files, options, message, tmp_path: Path) -> None:
    done = rankloom("metrics", *files, *options, "--per-query", tmp_path / "left.parquet")
    assert done.code == 2
    assert message in done.err
    assert done.err.count("\n") == 1
    assert not (tmp_path / "left.parquet").exists()


def test_many_queries_that_cannot_go_wrong_draw_a_warning(rankloom: Rankloom, tmp_path: Path) -> None:
    table = pl.DataFrame({"query": [1, 2, 3, 3], "item": [1, 1, 1, 2], "score": [1.0] * 4, "relevance": [1, 2, 0, 1]})
    table.write_parquet(tmp_path / "table.parquet")
    out = rankloom("metrics", tmp_path / "table.parquet").out
    assert "2 score 1 however they are ranked. Warning: they lift the mean of any ranking." in out


def test_a_place_that_cannot_be_written_to_is_one_sentence(rankloom: Rankloom, files, tmp_path: Path) -> None:
    done = rankloom("metrics", *files, "--per-query", tmp_path / "absent" / "values.parquet")
    assert done.code == 2
    assert "cannot write" in done.err


def test_missing_and_broken_files_are_one_sentence(rankloom: Rankloom, files, tmp_path: Path) -> None:
    (tmp_path / "bad.txt").write_text("q1 0 a\n")
    for arguments, message in (
        ((tmp_path / "absent.txt", files[1]), "no file"),
        ((tmp_path / "bad.txt", files[1]), "line 1 of"),
        ((files[1], files[1]), "has 6 fields"),
        ((files[0], files[0]), "has 4 fields"),
    ):
        done = rankloom("metrics", *arguments)
        assert done.code == 2
        assert message in done.err


def test_conventions_are_named_or_set_by_hand_or_both():
    assert convention_from(None, {"gain": None}) == Convention()
    assert convention_from("lightgbm", {"ties": "average", "empty": "skip"}) == Convention()
    by_hand = convention_from(None, {"gain": "0,1,3", "discount": "power:1"})
    assert by_hand == Convention(gain=(0, 1, 3), discount="power:1")
    assert cutoffs_from("5, 10,5") == [5, 10]
