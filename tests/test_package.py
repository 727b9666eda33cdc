"""Packages and the scorer: what was written is what is loaded, bit for bit, and anything else is refused."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from features.errors import ConfigError, DataError, DatasetError, PackageError
from pipeline import commands
from pipeline.booster import load_model, predict
from pipeline.metrics import PRESETS, Convention
from pipeline.package import ConventionEntry, _file_entry, _sealed, load_package
from pipeline.scorer import Scorer
from tests.factories import ranking_frame, write_config


def frame_with_category() -> pl.DataFrame:
    frame = ranking_frame(60)
    colour = pl.Series([["red", "green", "blue", None][i % 4] for i in range(frame.height)])
    better = (colour == "red").fill_null(False).cast(pl.Int64)
    return frame.with_columns(colour=colour, relevance=(pl.col("relevance") + better).clip(0, 3))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    config = write_config(folder, frame_with_category(), '[features]\ncategories = ["colour"]\n')
    commands.train(config, [], folder / "out", overwrite=False)
    return folder / "out"


@pytest.fixture
def package(run: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(run / "package", tmp_path / "package"))


def test_a_run_folder_holds_what_the_contract_says(run: Path) -> None:
    names = {path.name for path in run.iterdir()}
    assert names >= {"config.toml", "metrics.json", "per_query.parquet", "log.txt", "package"}
    assert {path.name for path in (run / "package").iterdir()} == {"model.txt", "manifest.json", "examples.parquet"}


def test_a_reloaded_package_scores_bit_for_bit(run: Path) -> None:
    scorer = Scorer.load(run / "package")
    examples = scorer.package.examples
    assert np.array_equal(scorer.score(examples), examples["score"].to_numpy())
    features = scorer.package.schema.select(scorer.package.schema.encode(examples))
    direct = predict(load_model((run / "package" / "model.txt").read_text()), features)
    assert np.array_equal(direct, examples["score"].to_numpy())


def test_the_model_holds_exactly_its_best_trees(run: Path) -> None:
    package = load_package(run / "package")
    assert load_model(package.model_text).num_trees() == package.manifest.best_iteration


def test_columns_are_found_by_name_in_any_order_and_rows_keep_theirs(run: Path) -> None:
    scorer, frame = Scorer.load(run / "package"), frame_with_category()
    expected = scorer.score(frame)
    shuffled = frame.select(reversed(frame.columns)).with_columns(extra=pl.lit("x")).reverse()
    assert np.array_equal(scorer.score(shuffled)[::-1], expected)


@pytest.mark.parametrize("name", ["model.txt", "manifest.json", "examples.parquet"])
def test_any_changed_byte_is_refused(package: Path, name: str) -> None:
    path = package / name
    original = path.read_bytes()
    for place in np.linspace(0, len(original) - 1, 12).astype(int):
        changed = bytearray(original)
        changed[place] ^= 1
        path.write_bytes(bytes(changed))
        with pytest.raises(PackageError, match=r"was changed|cannot be read"):
            load_package(package)


@pytest.mark.parametrize("name", ["model.txt", "manifest.json", "examples.parquet"])
def test_a_missing_or_cut_file_is_refused(package: Path, name: str) -> None:
    content = (package / name).read_bytes()
    (package / name).write_bytes(content[:-1])
    with pytest.raises(PackageError, match=r"bytes instead of|was changed|cannot be read"):
        load_package(package)
    (package / name).unlink()
    with pytest.raises(PackageError, match=r"is missing|holds no manifest"):
        load_package(package)


@pytest.mark.parametrize("content", ["[]", "{}", '{"checksum": 1}', "nonsense", "[" * 100_000, '{"a": NaN}'])
def test_a_manifest_that_is_none_is_refused(package: Path, content: str) -> None:
    (package / "manifest.json").write_text(content)
    with pytest.raises(PackageError, match=r"cannot be read|was changed"):
        load_package(package)


def reseal(package: Path, **changes: Any) -> None:
    """Valid checksums around odd content: what `write_package` would never leave."""
    content = json.loads((package / "manifest.json").read_bytes()) | changes
    content["files"] = {name: _file_entry((package / name).read_bytes()) for name in ("model.txt", "examples.parquet")}
    del content["checksum"]
    (package / "manifest.json").write_bytes(_sealed(content))


def test_a_package_may_be_sealed_anew(package: Path) -> None:
    before = load_package(package)
    reseal(package)
    assert load_package(package).manifest == before.manifest


@pytest.mark.parametrize(
    "changes",
    [
        {"k": []},
        {"k": [0]},
        {"k": [10, -1]},
        {"features": []},
        {"best_iteration": 0},
        {"config": {}},
        {"convention": {}},
        {"convention": Convention().to_dict() | {"gain": "foo"}},
        {"convention": Convention().to_dict() | {"discount": "power:"}},
        {"convention": Convention().to_dict() | {"ties": "foo"}},
        {"convention": Convention().to_dict() | {"more": 1}},
    ],
)
def test_a_sealed_manifest_of_odd_values_is_refused(package: Path, changes: dict[str, Any]) -> None:
    reseal(package, **changes)
    with pytest.raises(PackageError, match=r"manifest\.json cannot be read"):
        load_package(package)


def test_every_convention_can_be_shipped() -> None:
    odd = Convention(gain=(0, 1, 4), discount=(1.0, 0.5), ideal="all", ties="best", empty="one", negative="zero")
    for convention in (*PRESETS.values(), odd, Convention(discount="power:0.5")):
        assert ConventionEntry.model_validate(convention.to_dict()).model_dump() == asdict(convention)


def test_features_that_share_a_name_are_refused(package: Path) -> None:
    features = json.loads((package / "manifest.json").read_bytes())["features"]
    reseal(package, features=[features[0], *features[:-1]])
    with pytest.raises(PackageError, match="two features share a name"):
        load_package(package)


def test_a_best_round_that_the_text_cannot_come_from_is_refused(package: Path) -> None:
    loaded = load_package(package)
    trees = load_model(loaded.model_text).num_trees()
    for kept in (trees - 1, loaded.manifest.config["train"]["rounds"] + 1, 10**9):
        reseal(package, best_iteration=kept)
        with pytest.raises(PackageError, match=rf"{trees} trees cannot be those of round {kept} of"):
            load_package(package)


@pytest.mark.parametrize("content", [b"", b"junk", b"PAR1" + b"\0" * 40 + b"PAR1"])
def test_sealed_examples_that_are_no_parquet_are_refused(package: Path, content: bytes) -> None:
    (package / "examples.parquet").write_bytes(content)
    reseal(package)
    with pytest.raises(PackageError, match=r"examples\.parquet cannot be read"):
        load_package(package)


def test_sealed_examples_cut_short_are_refused(package: Path) -> None:
    content = (package / "examples.parquet").read_bytes()
    for length in (len(content) // 2, len(content) - 1):
        (package / "examples.parquet").write_bytes(content[:length])
        reseal(package)
        with pytest.raises(PackageError, match=r"examples\.parquet cannot be read"):
            load_package(package)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f.head(0), "has no rows"),
        (lambda f: f.drop("score"), "does not hold query, item"),
        (lambda f: f.drop("query"), "does not hold query, item"),
        (lambda f: f.drop("item"), "does not hold query, item"),
        (lambda f: f.drop("a"), "does not hold query, item"),
        (lambda f: f.with_columns(score=pl.lit("high")), "does not hold query, item"),
        (lambda f: f.with_columns(score=pl.lit(None, pl.Float64)), "score otherwise"),
        (lambda f: f.with_columns(a=pl.lit("x")), "holds what no feature can be"),
        (lambda f: f.with_columns(colour=pl.lit(0.5)), "holds what no feature can be"),
        (lambda f: f.with_columns(a=pl.concat_list("a")), "holds what no feature can be"),
    ],
)
def test_sealed_examples_of_odd_content_are_refused(
    package: Path, change: Callable[[pl.DataFrame], pl.DataFrame], message: str
) -> None:
    change(pl.read_parquet(package / "examples.parquet")).write_parquet(package / "examples.parquet")
    reseal(package)
    with pytest.raises(PackageError, match=message):
        load_package(package)


def test_a_sealed_model_that_is_no_text_is_refused(package: Path) -> None:
    (package / "model.txt").write_bytes(b"\xff\xfe")
    reseal(package)
    with pytest.raises(PackageError, match=r"model\.txt is not UTF-8"):
        load_package(package)


def test_a_manifest_cannot_name_files_elsewhere(package: Path) -> None:
    manifest = json.loads((package / "manifest.json").read_bytes())
    assert set(manifest["files"]) == {"model.txt", "examples.parquet"}


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda f: f.rename({"a": "A"}), PackageError, "1 feature column.s. missing: a"),
        (lambda f: f.drop("a", "b"), PackageError, "2 feature column.s. missing: a, b"),
        (lambda f: f.with_columns(a=pl.lit("x")), DatasetError, "feature 'a' is of type String"),
        (lambda f: f.with_columns(a=pl.lit(float("inf"))), DatasetError, "infinite"),
        (lambda f: f.with_columns(colour=pl.lit(0.5)), DatasetError, "category 'colour' is of type Float64"),
    ],
)
def test_columns_that_do_not_fit_are_refused(run: Path, change: object, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        Scorer.load(run / "package").score(change(frame_with_category()))  # type: ignore[operator]


def test_unseen_levels_are_unknown_and_counted(run: Path) -> None:
    scorer, frame = Scorer.load(run / "package"), frame_with_category()
    strange = frame.with_columns(colour=pl.lit("mauve"))
    assert scorer.unknown_levels(strange) == {"colour": frame.height}
    missing = scorer.score(frame.with_columns(colour=pl.lit(None, pl.String)))
    assert np.array_equal(scorer.score(strange), missing)
    assert scorer.unknown_levels(frame) == {}


def test_rank_orders_each_query_and_breaks_ties_by_ids(run: Path) -> None:
    scorer, frame = Scorer.load(run / "package"), frame_with_category()
    ranked = scorer.rank(frame, top=3)
    assert ranked.columns == ["query", "item", "rank", "score"]
    assert ranked.group_by("query").len()["len"].unique().to_list() == [3]
    for _, block in ranked.group_by("query"):
        assert block["rank"].to_list() == [1, 2, 3]
        assert block["score"].is_sorted(descending=True)
    flat = frame.with_columns(a=pl.lit(0.0), b=pl.lit(0.0), c=pl.lit(0.0), colour=pl.lit("red"))
    assert scorer.rank(flat).equals(scorer.rank(flat.sample(fraction=1.0, shuffle=True, seed=1)))


def test_rank_all_at_once_or_query_by_query_is_the_same(run: Path) -> None:
    scorer, frame = Scorer.load(run / "package"), frame_with_category().head(80)
    together = scorer.rank(frame).sort("query", "rank")
    apart = pl.concat([scorer.rank(block) for _, block in frame.group_by("query")]).sort("query", "rank")
    assert together.equals(apart)


def test_no_rows_give_no_ranks(run: Path) -> None:
    assert Scorer.load(run / "package").rank(frame_with_category().head(0)).height == 0


def test_rank_needs_query_and_item(run: Path) -> None:
    with pytest.raises(DataError, match="no column item"):
        Scorer.load(run / "package").rank(frame_with_category().drop("item"))


@pytest.mark.parametrize("name", ["foo", "C", None])
def test_an_unknown_engine_is_refused(run: Path, name: Any) -> None:
    with pytest.raises(ConfigError, match=rf"engine {name!r}; expected lightgbm or c"):
        Scorer.load(run / "package", engine=name)


@pytest.mark.parametrize("count", [0, -1, 1.5, True])
def test_counts_below_one_are_refused(run: Path, count: Any) -> None:
    with pytest.raises(ConfigError, match=rf"threads is {count}; expected a whole number of at least 1"):
        Scorer.load(run / "package", threads=count)
    with pytest.raises(ConfigError, match=rf"top is {count}; expected a whole number of at least 1"):
        Scorer.load(run / "package").rank(frame_with_category(), top=count)


def test_only_a_data_frame_is_scored(run: Path) -> None:
    scorer, frame = Scorer.load(run / "package"), frame_with_category()
    ways: tuple[Callable[[Any], object], ...] = (
        scorer.score,
        scorer.score_features,
        scorer.rank,
        scorer.unknown_levels,
    )
    for given, name in ((frame.lazy(), "LazyFrame"), ({"a": [1.0]}, "dict")):
        for way in ways:
            with pytest.raises(DataError, match=rf"a {name} to score; expected a Polars DataFrame; call collect"):
                way(given)


def test_the_scorer_needs_no_training_code() -> None:
    code = "import sys, pipeline.scorer; print([m for m in ('optuna', 'typer', 'numba') if m in sys.modules])"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"
