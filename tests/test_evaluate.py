"""Runs beside judgements, tables larger than memory, and what a number would be under another convention."""

from __future__ import annotations

from math import log2
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from features.errors import ConfigError, DataError
from pipeline.evaluate import convert_empty, evaluate_frame, explain, means_by_convention, measure_run
from pipeline.judgements import Policies, judge_run, read_judged
from pipeline.metrics import Convention, ndcg_of_items, ndcg_per_query
from pipeline.summaries import summarise

NAN = float("nan")
TREC = Path(__file__).parents[2] / "shared" / "data" / "trec"
needs_trec = pytest.mark.skipif(not TREC.is_dir(), reason="the TREC files are not beside the checkout")

TREC_EVAL = Convention.named("trec_eval")
CUTS = [5, 10, 15, 20, 30, 100, 200, 500, 1000]
THEIR_NAMES = (
    {"ndcg": "ndcg", "map": "average_precision", "recip_rank": "reciprocal_rank"}
    | {f"ndcg_cut_{k}": f"ndcg@{k}" for k in CUTS}
    | {f"P_{k}": f"precision@{k}" for k in CUTS}
    | {f"recall_{k}": f"recall@{k}" for k in CUTS}
)


def published(path: Path) -> dict[tuple[str, str], float]:
    rows = (line.split(None, 2) for line in path.read_text().splitlines())
    return {(name, query): float(value) for name, query, value in rows if name in THEIR_NAMES}


@needs_trec
@pytest.mark.parametrize(
    ("answer", "qrels", "run", "relevant_from"),
    [
        ("out.test.aq", "qrels.test", "results.test", 1),
        ("out.test.aql", "qrels.rel_level", "results.test", 2),
        ("out.test.aqc", "qrels.test", "results.trunc", 1),
    ],
)
def test_every_published_value_of_trec_eval(answer, qrels, run, relevant_from):
    judged = judge_run(*read_judged(TREC / qrels, TREC / run), Policies(), TREC_EVAL)
    values = measure_run(judged, CUTS, TREC_EVAL, relevant_from=relevant_from)
    ours = {str(row["query"]): row for row in values.iter_rows(named=True)}
    ours["all"] = {name: values[name].mean() for name in THEIR_NAMES.values()}
    expected = published(TREC / answer)
    assert len(expected) == len(ours) * len(THEIR_NAMES)
    for (name, query), value in expected.items():
        assert ours[query][THEIR_NAMES[name]] == pytest.approx(value, abs=5.1e-5), (name, query)


@needs_trec
def test_means_of_trec_2024():
    judged = judge_run(
        *read_judged(TREC / "qrels.comment.test", TREC / "results.comment.test.gz"), Policies(), TREC_EVAL
    )
    values = measure_run(judged, [5, 10, 20], TREC_EVAL, relevant_from=1)
    assert values.height == judged.counts["judged queries"] == 31
    expected = {"ndcg": 0.4395, "ndcg@5": 0.6015, "ndcg@10": 0.5977, "ndcg@20": 0.5835}
    expected |= {"average_precision": 0.2689, "reciprocal_rank": 0.8595}
    for name, value in expected.items():
        assert values[name].mean() == pytest.approx(value, abs=5.1e-5), name


def judgements(rows: list[tuple]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=["query", "item", "relevance"], orient="row")


def run(rows: list[tuple]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=["query", "item", "score"], orient="row")


TRUTH = judgements([(1, "a", 1), (1, "b", 0), (2, "a", 1), (3, "a", 0)])
RUN = run([(1, "x", 9.0), (1, "a", 8.0), (1, "b", 7.0), (4, "a", 1.0)])


def measured(policies: Policies, truth: pl.DataFrame = TRUTH, ranked: pl.DataFrame = RUN) -> dict:
    values = measure_run(judge_run(truth, ranked, policies, Convention()), [2], Convention())
    return dict(values.select("query", "ndcg@2").iter_rows())


def test_missing_queries_retrieved_nothing_or_are_left_out():
    assert measured(Policies()) == {1: pytest.approx(1 / log2(3)), 2: 0, 3: None}
    assert measured(Policies(missing="skip")) == {1: pytest.approx(1 / log2(3))}
    with pytest.raises(DataError, match=r"the run lacks the judged query 2 \(2 such\).*--missing zero"):
        measured(Policies(missing="error"))


def test_err_and_nerr_are_measured_where_the_scale_is_known():
    judged = judge_run(TRUTH, RUN, Policies(), Convention())
    values = measure_run(judged, [2], Convention(), max_grade=2)
    stops = (2**1 - 1) / 2**2
    assert values["err@2"].to_list() == [stops / 2, 0, None]
    assert values["nerr@2"].to_list() == [(stops / 2) / stops, 0, None]
    missed = judge_run(TRUTH, RUN.filter(pl.col("item") == "x"), Policies(), Convention())
    assert measure_run(missed, [2], Convention(), max_grade=2)["err@2"].to_list() == [0, 0, None]
    assert "err@2" not in measure_run(judged, [2], Convention()).columns


def test_a_scale_that_cannot_be_is_refused():
    judged = judge_run(judgements([(1, "a", 3), (1, "b", 0)]), RUN, Policies(), Convention())
    with pytest.raises(DataError, match=r"is 3, above max_grade 2; .*choose another gain or highest grade"):
        measure_run(judged, [2], Convention(), max_grade=2)
    for grade in (0, NAN, 5000):
        with pytest.raises(ConfigError, match=f"the highest grade is {grade}; expected a number above 0"):
            measure_run(judged, [2], Convention(), max_grade=grade)


def test_a_run_that_lacks_every_query_scores_zero():
    assert measured(Policies(), ranked=RUN.filter(pl.col("query") == 4)) == {1: 0, 2: 0, 3: None}


def test_unjudged_items_count_as_not_relevant_or_are_taken_out():
    assert measured(Policies(unjudged="skip"))[1] == 1
    with pytest.raises(DataError, match="item x of query 1 is not judged"):
        measured(Policies(unjudged="error"))
    only_unjudged = run([(1, "x", 1.0), (2, "a", 1.0), (3, "a", 1.0)])
    assert measured(Policies(unjudged="skip", missing="skip"), ranked=only_unjudged) == {1: 0, 2: 1, 3: None}


def test_extra_queries_are_left_out_or_refused():
    with pytest.raises(DataError, match="query 4 of the run has no judgement"):
        measured(Policies(extra="error"))


def test_duplicates_are_refused_or_count_once():
    twice = run([(1, "b", 9.0), (1, "a", 8.0), (1, "b", 1.0), (2, "a", 1.0), (3, "a", 1.0)])
    with pytest.raises(DataError, match=r"the run hold item b of query 1 twice \(1 such rows\)"):
        measured(Policies(), ranked=twice)
    assert measured(Policies(duplicates="first"), ranked=twice)[1] == pytest.approx(1 / log2(3))
    with pytest.raises(DataError, match="judgements hold item a of query 1 twice"):
        measured(Policies(), truth=pl.concat([TRUTH, TRUTH.head(1)]))


def test_counts_say_what_each_policy_met():
    counts = judge_run(TRUTH, RUN, Policies(), Convention()).counts
    assert counts == {"judged queries": 3, "missing": 2, "extra": 1, "unjudged": 1, "duplicates": 0}


def test_unknown_policy_lists_the_choices():
    with pytest.raises(ConfigError, match="missing is 'drop'; expected one of zero, skip, error"):
        Policies(missing="drop")


@pytest.mark.parametrize(
    ("truth", "ranked", "message"),
    [
        (judgements([(1, "a", -1)]), RUN, "relevance -1 of item a in query 1 .*trec_eval"),
        (judgements([(1, "a", float("nan"))]), RUN, "relevance nan of item a"),
        (judgements([(1, "a", None), (1, "b", 1)]), RUN, "relevance None of item a"),
        (TRUTH, run([(1, "a", float("inf"))]), "score inf of item a in query 1"),
        (judgements([(1, "a", 2000)]), RUN, "the gains end at 996"),
    ],
)
def test_numbers_that_cannot_be_taken_are_refused(truth, ranked, message):
    with pytest.raises(DataError, match=message):
        measured(Policies(), truth, ranked)


@pytest.mark.parametrize("kind", [pl.Int64, pl.UInt64])
def test_scores_that_would_become_ties_are_refused(kind):
    long = pl.DataFrame({"query": [1, 1], "item": ["a", "b"], "score": pl.Series([2**53, 2**53 + 1], dtype=kind)})
    with pytest.raises(DataError, match=r"score 9007199254740993 of item b in query 1 \(1 such rows\); expected whole"):
        measured(Policies(), TRUTH, long)


def test_scores_beyond_the_float32_of_trec_eval_are_refused():
    far = run([(1, "a", 1.0), (1, "b", -1e300)])
    with pytest.raises(DataError, match=r"score -1e\+300 of item b in query 1 .*float32 of trec_eval"):
        judge_run(TRUTH, far, Policies(), TREC_EVAL)
    assert measured(Policies(), TRUTH, far)[1] == 1


def test_trec_eval_orders_ties_by_item_descending_and_rounds_scores():
    truth = judgements([(1, "b", 1), (1, "a", 0)])
    close = run([(1, "a", 0.5 + 1e-9), (1, "b", 0.5)])
    judged = judge_run(truth, close, Policies(), TREC_EVAL)
    assert measure_run(judged, [1], TREC_EVAL)["ndcg@1"].to_list() == [1]
    assert measured(Policies(), truth, close)[1] == pytest.approx(1 / log2(3))


def test_one_table_tells_what_was_retrieved_and_what_was_judged(tmp_path):
    table = pl.DataFrame(
        {
            "query": [1, 1, 1, 2],
            "item": ["a", "b", "c", "a"],
            "score": [2.0, None, 3.0, 1.0],
            "relevance": [1, 2, None, 1],
        }
    )
    expected = {1: ndcg_of_items(["c", "a"], {"a": 1, "b": 2}, 2, convention=Convention(ideal="all")), 2: 1}
    for path in (tmp_path / "t.parquet", tmp_path / "t.csv"):
        table.write_parquet(path) if path.suffix == ".parquet" else table.write_csv(path)
        judged = judge_run(*read_judged(path, None), Policies(), Convention(ideal="all"))
        values = measure_run(judged, [2], Convention(ideal="all"))
        assert dict(values.select("query", "ndcg@2").iter_rows()) == pytest.approx(expected)
        assert values["judged@2"].to_list() == [1 / 2, 1]


def test_tables_and_trec_files_can_be_mixed(tmp_path):
    (tmp_path / "qrels.txt").write_text("1 0 7 1\n1 0 8 0\n")
    pl.DataFrame({"query": [1, 1], "item": [7, 8], "score": [0.1, 0.2]}).write_parquet(tmp_path / "run.parquet")
    judged = judge_run(*read_judged(tmp_path / "qrels.txt", tmp_path / "run.parquet"), Policies(), Convention())
    assert measure_run(judged, [1], Convention())["ndcg"].to_list() == [1 / log2(3)]
    with pytest.raises(DataError, match="has no column relevance"):
        read_judged(tmp_path / "run.parquet", None)


@pytest.mark.parametrize("ideal", ["candidates", "retrieved", "all"])
@pytest.mark.parametrize("ties", ["average", "stable", "reverse", "worst", "best"])
def test_explained_terms_add_up_to_the_value(ideal, ties):
    truth = judgements([(1, "a", 3), (1, "b", 1), (1, "c", 0), (1, "d", 2), (1, "unseen", 2)])
    ranked = run([(1, "c", 2.0), (1, "b", 1.0), (1, "a", 1.0), (1, "d", 0.5)])
    convention = Convention(ideal=ideal, ties=ties)
    judged = judge_run(truth, ranked, Policies(), convention)
    shown = explain(judged, "1", 3, convention)
    assert shown.ranking["sum"][-1] / shown.ideal["sum"][-1] == pytest.approx(shown.value, rel=1e-12)
    assert shown.value == pytest.approx(measure_run(judged, [3], convention)["ndcg@3"][0], rel=1e-12)
    assert shown.ranking.columns == ["position", "item", "score", "relevance", "gain", "discount", "term", "sum"]
    assert shown.ranking["discount"].to_list() == pytest.approx([1, 1 / log2(3), 1 / 2])
    if ties == "average":
        assert shown.ranking["gain"].to_list() == [0, 4, 4]
    with pytest.raises(DataError, match="no query '2' with rows; expected one of"):
        explain(judged, "2", 3, convention)


def test_empty_queries_convert_between_conventions():
    assert convert_empty(0.524, 0.03, given="one", wanted="skip") == pytest.approx(0.509, abs=5e-4)
    scores, relevance, groups = [2, 1, 2, 1, 2, 1], [0, 1, 0, 0, 1, 0], [2, 2, 2]
    means = {
        empty: np.nanmean(ndcg_per_query(scores, relevance, groups, convention=Convention(empty=empty)))
        for empty in ("skip", "zero", "one")
    }
    for given, value in means.items():
        for wanted, expected in means.items():
            assert convert_empty(value, 1 / 3, given=given, wanted=wanted) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0.5, 0.1, "one", "nan"), "empty queries cannot count as 'nan'"),
        ((0.5, 1.0, "one", "skip"), r"share_empty is 1\.0"),
        ((0.2, 0.5, "one", "skip"), r"a mean of 0\.2 is not possible with 50\.0% empty queries counting one"),
        ((0.8, 0.5, "zero", "one"), r"a mean of 0\.8 is not possible"),
    ],
)
def test_impossible_conversions_are_refused(arguments, message):
    value, share, given, wanted = arguments
    with pytest.raises(ValueError, match=message):
        convert_empty(value, share, given=given, wanted=wanted)


def test_one_ranking_under_every_convention():
    means = means_by_convention([1, 2], [3, 2], [2], None)
    assert means["lightgbm"] == pytest.approx((3 + 7 / log2(3)) / (7 + 3 / log2(3)))
    assert means["sklearn"] == pytest.approx((2 + 3 / log2(3)) / (3 + 2 / log2(3)))
    assert means_by_convention([1], [0], [1], 1, {"ours": Convention()}) == {"ours": None}


def test_summary_says_what_the_means_rest_on():
    convention = Convention()
    judged = judge_run(TRUTH, RUN, Policies(), convention)
    summary = summarise(judged, measure_run(judged, [2], convention), [2], convention)
    low = 1 / log2(3)
    assert summary.means["ndcg@2"] == pytest.approx(low / 2)
    assert summary.intervals["ndcg@2"].n == 2
    assert summary.sentences == (
        "2 of 3 queries have a value; 1 have no relevant item, 3 have fewer than 3, 0 score 1 however they are ranked.",
        "0.0% of the first 2 places share their score with another item.",
        f"Queries without a relevant item otherwise: ndcg@2 {low / 3:.4f} counting 0, {(low + 1) / 3:.4f} counting 1.",
        f"Without the 2 queries that retrieved nothing ndcg@2 is {low:.4f}.",
    )


@pytest.fixture(scope="module")
def big(tmp_path_factory) -> tuple[Path, pl.DataFrame, pl.DataFrame]:
    """A Parquet file with the rows of 400 queries scattered, and what is right."""
    rng = np.random.default_rng(8)
    groups = rng.integers(1, 30, 400)
    queries = np.repeat(np.arange(400), groups)
    frame = pl.DataFrame(
        {
            "query": pl.Series(queries).cast(pl.String),
            "item": np.arange(len(queries)),
            "user": queries % 40,
            "score": rng.integers(0, 12, len(queries)) / 4,
            "relevance": rng.integers(0, 3, len(queries)) * (rng.random(len(queries)) < 0.4),
        }
    )
    values = ndcg_per_query(frame["score"].to_numpy(), frame["relevance"].to_numpy(), groups, [3, 10])
    expected = pl.DataFrame(
        {"query": frame["query"].unique(maintain_order=True), "ndcg@3": values[0], "ndcg@10": values[1]}
    )
    path = tmp_path_factory.mktemp("big") / "table.parquet"
    frame.sample(fraction=1, shuffle=True, seed=1).write_parquet(path, row_group_size=500)
    return path, frame, expected.fill_nan(None)


@pytest.mark.parametrize("rows_at_once", [700, 10**6])
def test_a_table_in_parts_equals_the_table_at_once(big, rows_at_once):
    path, frame, expected = big
    done = evaluate_frame(path, [3, 10], convention=Convention(), rows_at_once=rows_at_once)
    assert done.queries == done.looked_at == 400
    assert_frame_equal(done.per_query.sort("query"), expected.sort("query"), rel_tol=1e-12)
    assert done.intervals["ndcg@3"].mean == pytest.approx(expected["ndcg@3"].mean())
    assert done.intervals["ndcg@3"].n == expected["ndcg@3"].count()
    assert evaluate_frame(frame.lazy(), [3], convention=Convention()).intervals["ndcg@3"].mean == pytest.approx(
        expected["ndcg@3"].mean()
    )


def test_a_sample_is_of_whole_queries_and_its_interval_is_wider(big):
    path, _, expected = big
    part = evaluate_frame(path, [3], convention=Convention(), sample=0.3, rows_at_once=500)
    assert 0.2 * 400 < part.looked_at < 0.4 * 400
    both = part.per_query.join(expected, on="query", how="left", maintain_order="left")
    np.testing.assert_allclose(both["ndcg@3"].fill_null(-1), both["ndcg@3_right"].fill_null(-1), rtol=1e-12)
    whole = evaluate_frame(path, [3], convention=Convention()).intervals["ndcg@3"]
    assert part.intervals["ndcg@3"].width > whole.width
    assert part.intervals["ndcg@3"].low < whole.mean < part.intervals["ndcg@3"].high


def test_it_stops_when_the_interval_is_narrow_enough(big):
    path, _, _ = big
    done = evaluate_frame(path, [3], convention=Convention(), width=0.12, rows_at_once=500)
    assert done.intervals["ndcg@3"].width < 0.12
    assert done.looked_at < 400


def test_users_are_drawn_whole_where_asked(big):
    path, _, _ = big
    done = evaluate_frame(path, [3], convention=Convention(), clusters="user")
    assert done.intervals["ndcg@3"].n == evaluate_frame(path, [3], convention=Convention()).intervals["ndcg@3"].n
    assert done.per_query.columns == ["query", "ndcg@3"]


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        (pl.col("score").alias("points"), {"clusters": "device"}, "no column device"),
        (pl.lit(None, pl.Float64).alias("score"), {}, "null among query, score and relevance"),
        (pl.lit(float("nan")).alias("score"), {}, r"scores\[0\] is nan"),
        (pl.lit(1).alias("query"), {"sample": 0}, "sample is 0"),
    ],
)
def test_tables_that_cannot_be_judged_are_refused(big, change, options, message):
    with pytest.raises(DataError, match=message):
        evaluate_frame(big[1].with_columns(change), [3], convention=Convention(), **options)


def test_missing_and_broken_tables_are_one_sentence(tmp_path):
    with pytest.raises(DataError, match=r"no file .*absent\.parquet"):
        evaluate_frame(tmp_path / "absent.parquet", [3], convention=Convention())
    (tmp_path / "broken.parquet").write_bytes(b"not a table")
    with pytest.raises(DataError, match=r"it cannot be read: .*; expected a Parquet or CSV file"):
        evaluate_frame(tmp_path / "broken.parquet", [3], convention=Convention())
