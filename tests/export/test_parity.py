"""The proof catches what it is there for: each test spoils an export in a way that people have been bitten by."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from features.errors import ExportError
from pipeline.export import FORMATS, export_model, nested, python, solr, vespa, xgboost
from pipeline.export.model import ExportModel, Outcome
from pipeline.export.parity import Truth, compare_order, prove
from pipeline.export.rows import Rows
from pipeline.forest import Forest
from tests.export.models import make_model, resized


def nearest32(thresholds: np.ndarray) -> np.ndarray:
    """What a cast does: half of all thresholds end up above, and take rows with them."""
    return thresholds.astype(np.float32)


def test_thresholds_cast_to_float32_are_caught(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(solr, "round_down", nearest32)
    with pytest.raises(ExportError, match=r"solr sends .* into other leaves than LightGBM"):
        export_model(make_model("plain"), "solr", tmp_path / "out")


@pytest.mark.parametrize("spoilt", [nearest32, nested.round_down], ids=["cast", "rounded down"])
def test_the_wrong_side_of_a_strict_comparison_is_caught(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, spoilt: Callable[[np.ndarray], np.ndarray]
) -> None:
    monkeypatch.setattr(xgboost, "next_above", spoilt)
    with pytest.raises(ExportError, match=r"elasticsearch sends .* into other leaves"):
        export_model(make_model("two_values"), "elasticsearch", tmp_path / "out")


def test_solr_s_slack_left_on_is_caught(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(solr, "_take_off_slack", lambda wanted: wanted)
    monkeypatch.setattr(solr, "_scale", lambda *_: 1.0)
    spoilt = replace(solr.FORMAT, blind=lambda _model, rows: np.zeros(len(rows), bool))
    model = make_model("tiny")
    spoilt.write(model, tmp_path, None)
    with pytest.raises(ExportError, match=r"solr sends .* into other leaves"):
        prove(model, spoilt, tmp_path, None, Truth.of(model))


def test_missing_values_sent_the_other_way_are_caught(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def other_way(model: ExportModel, _name: str) -> list[np.ndarray]:
        return [~tree.missing_goes_left() for tree in model.forest.trees]

    for module in (solr, xgboost, vespa):
        monkeypatch.setattr(module, "missing_directions", other_way)
    for name in ("solr", "elasticsearch", "opensearch", "vespa"):
        with pytest.raises(ExportError, match=f"{name} sends"):
            export_model(make_model("missing"), name, tmp_path / name)
        assert not (tmp_path / name).exists()


def test_vespa_s_levels_in_another_order_are_caught(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    model = make_model("categories")
    FORMATS["vespa"].write(model, tmp_path, None)
    path = tmp_path / vespa.MODEL
    path.write_text(path.read_text("utf-8").replace('"brand c"', '"brand d"'), "utf-8")
    with pytest.raises(ExportError, match="vespa sends"):
        prove(model, FORMATS["vespa"], tmp_path, None, Truth.of(model))


def test_one_leaf_that_is_a_trillionth_off_is_caught(tmp_path: Path) -> None:
    model = make_model("plain")
    FORMATS["python"].write(model, tmp_path, None)
    path = tmp_path / python.MODULE
    value = float(model.forest.trees[-1].value[3])
    spoilt = path.read_text("utf-8").replace(repr(value), repr(value * (1 + 2.0**-40)))
    path.write_text(spoilt, "utf-8")
    with pytest.raises(
        ExportError, match=r"python scores .* otherwise than LightGBM, by up to .*e-1[0-9].*to the last bit"
    ):
        prove(model, FORMATS["python"], tmp_path, None, Truth.of(model))


def test_scores_that_are_no_numbers_are_caught(tmp_path: Path) -> None:
    model = make_model("plain")
    broken = replace(FORMATS["vespa"], evaluate=lambda _folder, rows, _version: Outcome(np.full(len(rows), np.nan)))
    with pytest.raises(ExportError, match="by up to nan"):
        prove(model, broken, tmp_path, None, Truth.of(model))


def test_a_model_that_lightgbm_reads_otherwise_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Forest, "score", lambda _forest, rows, _leaves=None: np.zeros(len(rows)))
    with pytest.raises(ExportError, match=r"LightGBM scores .* rows otherwise than its model text says"):
        Truth.of(make_model("plain"))


def truth_of(scores: list[float], groups: list[int]) -> Truth:
    count = len(scores)
    rows = Rows(np.zeros((count, 1)), np.full(count, "real"), np.array(groups), 0, 0)
    return Truth(rows, np.array(scores), np.zeros((count, 1), np.int32))


def test_order_counts_swapped_and_merged_pairs_within_queries_only() -> None:
    truth = truth_of([3, 2, 1, 1, 10, 20], [0, 0, 0, 0, 1, 1])
    pairs = 5 + 1  # 3>2, 3>1 twice, 2>1 twice; 20>10
    assert compare_order(truth, np.array([3, 2, 1, 1, 10, 20.0])) == {"pairs": pairs, "swapped": 0, "merged": 0}
    assert compare_order(truth, np.array([2, 3, 1, 1, 20, 20.0])) == {"pairs": pairs, "swapped": 1, "merged": 1}
    assert compare_order(truth, -truth.scores) == {"pairs": pairs, "swapped": pairs, "merged": 0}


def test_rows_of_one_query_need_not_lie_together() -> None:
    truth = truth_of([3, 9, 1], [0, 1, 0])
    assert compare_order(truth, np.array([1.0, 9.0, 3.0])) == {"pairs": 1, "swapped": 1, "merged": 0}


def test_ties_made_by_float32_are_counted(tmp_path: Path) -> None:
    """Leaves 1 and 1 + 2^-30 are one float32: the pair is merged, which is no failure but is said."""
    model = make_model("stump")
    low, high = sorted(float(v) for v in model.forest.trees[0].value)
    text = model.text.replace(f"{high:.17g}", f"{low * (1 - 2.0**-30):.17g}")
    near = replace(model, text=resized(text))
    report = export_model(near, "solr", tmp_path / "out")
    assert report["order"]["examples"]["merged"] == report["order"]["examples"]["pairs"] > 0
    assert report["order"]["examples"]["swapped"] == 0
