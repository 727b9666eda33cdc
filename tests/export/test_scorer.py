"""The compiled form as the scorer's engine: the same answers, whatever is asked."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from features.errors import DatasetError, ExportError, PackageError
from pipeline import commands
from pipeline.booster import contributions, load_model
from pipeline.package import load_package
from pipeline.scorer import Scorer
from tests.factories import ranking_frame, write_config


def frame_with_gaps() -> pl.DataFrame:
    frame = ranking_frame(60)
    colour = pl.Series([["red", "green", "blue", None, "rare"][i % 5] for i in range(frame.height)])
    gaps = pl.when(pl.int_range(frame.height) % 7 == 0).then(None).otherwise(pl.col("a"))
    better = (colour == "red").fill_null(False).cast(pl.Int64)
    return frame.with_columns(gaps.alias("a"), colour=colour, relevance=(pl.col("relevance") + better).clip(0, 3))


@pytest.fixture(scope="module", params=["", 'boosting = "rf", bagging_freq = 1, bagging_fraction = 0.4, '])
def package(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    config = write_config(folder, frame_with_gaps(), '[features]\ncategories = ["colour"]\n')
    config.write_text(config.read_text().replace("params = { ", f"params = {{ {request.param}"))
    commands.train(config, [], folder / "out", overwrite=False)
    return folder / "out" / "package"


@pytest.fixture
def engines(package: Path) -> tuple[Scorer, Scorer]:
    return Scorer.load(package), Scorer.load(package, engine="c")


def test_both_engines_score_alike_to_the_last_bit(engines: tuple[Scorer, Scorer]) -> None:
    frame = frame_with_gaps().with_columns(pl.col("colour").replace("blue", "never seen"))
    ours, compiled = (engine.score(frame) for engine in engines)
    assert len(set(ours)) > 20
    assert np.array_equal(ours, compiled)
    assert engines[0].rank(frame, top=3).equals(engines[1].rank(frame, top=3))


@pytest.mark.parametrize("engine", [0, 1])
def test_one_query_without_ties_is_ranked_as_among_many(engines: tuple[Scorer, Scorer], engine: int) -> None:
    """A single query takes a shorter way through `rank`; its answer must be the one of the long way."""
    frame = frame_with_gaps()
    together = engines[engine].rank(frame, top=4)
    for query, block in frame.group_by("query"):
        alone = engines[engine].rank(block.sample(fraction=1.0, shuffle=True, seed=3), top=4)
        assert alone.equals(together.filter(pl.col("query") == query[0]))


def test_features_that_have_their_types_already_are_scored_alike(engines: tuple[Scorer, Scorer]) -> None:
    """They take a shorter way into the compiled form, whatever their order and whatever stands beside them."""
    schema, frame = engines[0].package.schema, frame_with_gaps()
    typed = schema.select(schema.encode(frame)).select(pl.lit("beside").alias("other"), *reversed(schema.names))
    assert np.array_equal(engines[1].score_features(typed), engines[0].score(frame))
    assert engines[1].score_features(typed.head(0)).shape == (0,)


def test_nothing_and_one_row(engines: tuple[Scorer, Scorer]) -> None:
    for scorer in engines:
        assert scorer.rank(frame_with_gaps().head(0)).height == 0
        assert scorer.score(frame_with_gaps().head(0)).shape == (0,)
        assert scorer.rank(frame_with_gaps().head(1))["rank"].to_list() == [1]


def test_the_compiled_engine_refuses_what_the_other_refuses(engines: tuple[Scorer, Scorer]) -> None:
    for scorer in engines:
        with pytest.raises(PackageError, match="1 feature column\\(s\\) missing: a"):
            scorer.score(frame_with_gaps().drop("a"))
        for x in (np.inf, -np.inf):
            infinite = frame_with_gaps().with_columns(a=pl.lit(x, pl.Float32), b=pl.col("b").cast(pl.Float32))
            with pytest.raises(DatasetError, match="feature 'a' holds an infinite value"):
                scorer.score(infinite.with_columns(c=pl.col("c").cast(pl.Float32)))


def test_shap_values_sum_to_the_score_of_a_random_forest_too(package: Path) -> None:
    loaded = load_package(package)
    features = loaded.schema.select(loaded.schema.encode(loaded.examples))
    values = contributions(load_model(loaded.model_text), features)
    assert np.allclose(values.sum(axis=1), loaded.examples["score"].to_numpy(), rtol=1e-9)


def test_without_a_compiler_the_engine_says_so(package: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    with pytest.raises(ExportError, match=r"no C compiler was found; .*or use LightGBM itself"):
        Scorer.load(package, engine="c")
