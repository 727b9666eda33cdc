"""Exports as a user asks for them: one format, all of them, a taken folder, a wrong name."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from features.errors import ConfigError, ExportError, OutputError
from pipeline import commands
from pipeline.export import FORMATS, export_model, export_package
from pipeline.export.parity import in_words
from pipeline.package import load_package
from tests.conftest import Outcome
from tests.export.models import make_model, resized
from tests.factories import ranking_frame, write_config


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    commands.train(write_config(folder, ranking_frame(60)), [], folder / "out", overwrite=False)
    return folder / "out" / "package"


def files_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_the_formats_are_those_of_the_contract() -> None:
    wanted = {"lightgbm", "json", "vespa", "onnx", "solr", "elasticsearch", "opensearch", "c", "python"}
    assert set(FORMATS) == wanted
    assert all(FORMATS[name].name == name for name in FORMATS)


def test_a_package_goes_to_every_format_by_one_call(package: Path, tmp_path: Path) -> None:
    reports = export_package(package, "all", tmp_path / "out")
    assert files_in(tmp_path / "out") == {*FORMATS, "exports.json"}
    for name in FORMATS:
        assert {"features.json", "README.md", "parity.json"} < files_in(tmp_path / "out" / name)
        assert json.loads((tmp_path / "out" / name / "parity.json").read_text()) == reports[name]
        assert reports[name]["fingerprint"] == load_package(package).manifest.fingerprint
        order = reports[name]["order"]["examples"]
        assert order["pairs"] > 100
        assert order["swapped"] == 0


def test_the_lightgbm_format_is_the_very_text(package: Path, tmp_path: Path) -> None:
    export_package(str(package), "lightgbm", str(tmp_path / "out"))
    assert (tmp_path / "out" / "model.txt").read_bytes() == (package / "model.txt").read_bytes()


def test_all_formats_keep_what_they_can_and_say_why_they_cannot(tmp_path: Path) -> None:
    reports = export_model(make_model("linear"), "all", tmp_path / "out")
    assert {name for name in reports if "refused" not in reports[name]} == {"lightgbm", "json", "c", "python"}
    assert files_in(tmp_path / "out") == {"lightgbm", "json", "c", "python", "exports.json"}
    assert json.loads((tmp_path / "out" / "exports.json").read_text()) == reports


def test_what_fails_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="splits on categories of 'brand'"):
        export_model(make_model("categories"), "solr", tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_holds_something_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("precious")
    with pytest.raises(OutputError, match="is not empty; expected a new or empty folder"):
        export_model(make_model("plain"), "json", tmp_path)
    with pytest.raises(OutputError, match=r"holds no parity\.json"):
        export_model(make_model("plain"), "json", tmp_path, overwrite=True)
    assert files_in(tmp_path) == {"mine.txt"}


def test_an_earlier_export_is_replaced_when_asked(tmp_path: Path) -> None:
    export_model(make_model("plain"), "json", tmp_path / "out")
    export_model(make_model("plain"), "python", tmp_path / "out", overwrite=True)
    assert "model.py" in files_in(tmp_path / "out")
    assert "model.json" not in files_in(tmp_path / "out")


def test_an_unknown_format_names_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"unknown export format 'elastic search'.*did you mean 'elasticsearch'"):
        export_model(make_model("plain"), "elastic search", tmp_path / "out")
    with pytest.raises(ConfigError, match="a target version for format 'json'; expected none"):
        export_model(make_model("plain"), "json", tmp_path / "out", "3.8")
    with pytest.raises(ConfigError, match="a target version for several formats"):
        export_model(make_model("plain"), "all", tmp_path / "out", "3.8")


def test_a_transformed_score_is_refused(tmp_path: Path) -> None:
    text = make_model("plain").text.replace("objective=lambdarank", "objective=binary sigmoid:1")
    with pytest.raises(ExportError, match="objective 'binary sigmoid:1', which transforms its scores"):
        export_model(replace(make_model("plain"), text=text), "json", tmp_path / "out")


def test_a_feature_list_of_another_length_is_refused(tmp_path: Path) -> None:
    model = make_model("plain")
    with pytest.raises(ExportError, match="the model text has 6 features, the list 5"):
        export_model(replace(model, features=model.features[:5]), "json", tmp_path / "out")


def test_an_example_that_solr_cannot_tell_apart_stops_the_export(tmp_path: Path) -> None:
    """A value between 0 and 1e-35, where LightGBM's threshold for "not zero" lies: Solr's slack covers it."""
    model = make_model("plain")
    first = next(
        float(tree.threshold[node]) for tree in model.forest.trees for node in np.flatnonzero(tree.feature == 1)
    )
    text = resized(model.text.replace(f"{first:.17g}", "1.0000000180025095e-35"))
    near_zero = pl.Series(model.names[1], [1e-36, *model.examples[model.names[1]][1:]], pl.Float32)
    examples = model.examples.with_columns(near_zero)
    with pytest.raises(ExportError, match=r"1 example\(s\) of the package hold values that solr cannot tell"):
        export_model(replace(model, text=text, examples=examples), "solr", tmp_path / "out")
    report = export_model(replace(model, text=text), "solr", tmp_path / "out")
    count = report["rows_the_target_cannot_tell_apart"]
    assert count > 0
    assert in_words(report).endswith(
        f"; {count:,} made-up rows left out, too near a threshold for solr: see its README.md"
    )
    assert "- `item.clicks`: above 0, up to 1.00000002e-35\n" in (tmp_path / "out" / "README.md").read_text()


def test_nothing_is_said_of_thresholds_near_zero_where_there_are_none(tmp_path: Path) -> None:
    model = make_model("stump")
    report = export_model(model, "solr", tmp_path / "out")
    assert report["rows_the_target_cannot_tell_apart"] == 0
    assert in_words(report).endswith("merged by rounding")
    assert "wrong way" not in (tmp_path / "out" / "README.md").read_text()


def test_the_verb_exports_and_says_how_it_was_proven(
    package: Path, tmp_path: Path, rankloom: Callable[..., Outcome]
) -> None:
    done = rankloom("export", package, "--format", "solr", "--out", tmp_path / "solr", "--target-version", "9.6")
    assert done.code == 0, done.err
    assert "model.json" in files_in(tmp_path / "solr")
    assert "solr" in done.out
    assert "same leaves" in done.out
    again = rankloom("export", package, "--format", "solr", "--out", tmp_path / "solr")
    assert again.code == 2
    assert "is not empty" in again.err
    every = rankloom("export", package, "--format", "all", "--out", tmp_path / "every")
    assert every.code == 0
    assert all(name in every.out for name in FORMATS)
    own = rankloom("export", package, "--out", tmp_path / "own")
    assert own.code == 0, own.err
    assert own.out.startswith("lightgbm: ")
    assert "model.txt" in files_in(tmp_path / "own")


def test_several_formats_lie_each_in_its_folder(package: Path, tmp_path: Path) -> None:
    reports = export_package(package, ["json", "python"], tmp_path / "two")
    assert list(reports) == ["json", "python"]
    assert (tmp_path / "two" / "json" / "model.json").is_file()
    with pytest.raises(ConfigError, match="unknown export format 'jsn'"):
        export_package(package, ["json", "jsn"], tmp_path / "wrong")
    assert not (tmp_path / "wrong").exists()
