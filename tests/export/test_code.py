"""The C, Python and ONNX forms: equal to the last bit, clean, and safe whatever the names."""

from __future__ import annotations

import ctypes
import json
import shutil
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from features.errors import ExportError, MissingExtraError
from pipeline.compiled import CompiledModel, compile_library, find_compiler
from pipeline.csource import bitset, c_string
from pipeline.export import export_model, onnx
from pipeline.export.parity import lightgbm_scores
from pipeline.export.python import load_module
from pipeline.export.rows import probe_rows
from pipeline.splits import Treatment, expand, plan_splits
from tests.export.models import AWKWARD, KINDS, make_model

SHOWN = ("categories_missing", "linear_missing", "zero_and_nan", "constant", "rf", "names_categories")
COMPILERS = [name for name in ("gcc", "clang") if shutil.which(name)]
STRICT = ("-std=c99", "-Wall", "-Wextra", "-Wconversion", "-Wpedantic", "-Wshadow", "-Werror", "-O1", "-c")


def exported(name: str, target: str, folder: Path) -> Path:
    export_model(make_model(name), target, folder / "out")
    return folder / "out"


@pytest.mark.parametrize("name", SHOWN)
@pytest.mark.parametrize("compiler", COMPILERS)
def test_c_compiles_without_a_warning(name: str, compiler: str, tmp_path: Path) -> None:
    folder = exported(name, "c", tmp_path)
    command = [compiler, *STRICT, "-o", str(tmp_path / "model.o"), str(folder / "model.c")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.returncode == 0


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 63, 64, 65, 200])
def test_c_scores_any_number_of_rows(count: int) -> None:
    model = make_model("categories_missing")
    rows = probe_rows(model).values[-count:] if count else np.empty((0, 6))
    scores = CompiledModel.build(model.forest).score(rows)
    assert scores.shape == (count,)
    assert np.array_equal(scores, lightgbm_scores(model, rows))


def test_c_writes_only_its_n_scores() -> None:
    model = make_model("plain")
    rows = np.ascontiguousarray(probe_rows(model).values[:10])
    out = np.full(12, -1.0)
    CompiledModel.build(model.forest).score_rows(rows.ctypes.data, 10, out.ctypes.data)
    assert np.array_equal(out[10:], [-1.0, -1.0])


def test_c_is_thread_safe() -> None:
    model = make_model("categories_missing")
    rows = np.tile(probe_rows(model).values, (20, 1))
    compiled = CompiledModel.build(model.forest)
    alone, found = compiled.score(rows), []
    threads = [threading.Thread(target=lambda: found.append(compiled.score(rows))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert all(np.array_equal(scores, alone) for scores in found)


def test_c_keeps_its_stack_small_with_many_features() -> None:
    wide = "".join(f"x{i} " for i in range(3000)).strip()
    model = make_model("plain")
    text = model.text.replace("max_feature_idx=5", "max_feature_idx=2999")
    text = text.replace(text[text.index("feature_names=") : text.index("tree_sizes=")], "")
    text = text.replace(
        "tree_sizes=", f"feature_names={wide}\nfeature_infos={' '.join(['none'] * 3000)}\ntree_sizes=", 1
    )
    features = tuple(replace(model.features[0], name=f"x{i}") for i in range(3000))
    large = replace(model, text=text, features=features)
    rows = np.random.default_rng(0).normal(size=(100, 3000))
    assert np.array_equal(CompiledModel.build(large.forest).score(rows), lightgbm_scores(large, rows))


def test_rows_of_another_width_are_refused() -> None:
    compiled = CompiledModel.build(make_model("plain").forest)
    with pytest.raises(ValueError, match=r"rows of shape \(3, 5\), not \(N, 6\)"):
        compiled.score(np.zeros((3, 5)))


def test_without_a_compiler_one_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    with pytest.raises(ExportError, match="no C compiler was found; expected gcc or clang"):
        export_model(make_model("plain"), "c", tmp_path / "out")
    assert not (tmp_path / "out").exists()
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(ExportError, match="the compiler 'no-such-compiler' of CC was not found"):
        find_compiler()


def test_a_failing_compiler_is_quoted(tmp_path: Path) -> None:
    (tmp_path / "model.c").write_text("this is no C")
    with pytest.raises(ExportError, match=r"failed on the C form of the model: .*model\.c"):
        compile_library(tmp_path / "model.c", tmp_path / "model.so")


def test_the_header_tells_names_and_fingerprint(tmp_path: Path) -> None:
    folder = exported("names", "c", tmp_path)
    library = ctypes.CDLL(str(compile_library(folder / "model.c", tmp_path / "model.so")))
    names = (ctypes.c_char_p * 6).in_dll(library, "model_feature_names")
    assert tuple(name.decode() for name in names if name) == AWKWARD
    header = (folder / "model.h").read_text()
    assert "#define MODEL_FEATURES 6" in header
    assert f"#define MODEL_FINGERPRINT {c_string('fingerprint of names')}" in header


@settings(deadline=None)
@given(st.text(max_size=30))
def test_no_text_leaves_its_literal(text: str) -> None:
    literal = c_string(text)
    assert literal[0] == literal[-1] == '"'
    assert set(literal[1:-1]) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.- \\")
    assert literal[1:-1].encode().decode("unicode_escape").encode("latin-1").decode() == text


@settings(deadline=None)
@given(st.sets(st.integers(0, 200)))
def test_a_bitset_holds_its_codes_and_no_other(codes: set[int]) -> None:
    words = bitset(np.array(sorted(codes), np.int32))
    assert {code for code in range(32 * len(words)) if words[code // 32] >> code % 32 & 1} == codes


@settings(deadline=None, max_examples=30)
@given(st.sampled_from(sorted(KINDS)), st.integers(0, 10**6))
def test_a_split_is_one_comparison_of_its_column(name: str, seed: int) -> None:
    """Each split, alone, against LightGBM's rule: `expand` decides nothing else than the tree does."""
    model = make_model(name)
    splits = plan_splits(model.forest)
    values = probe_rows(model).values
    rows = values[np.random.default_rng(seed).integers(0, len(values), 200)]
    for tree, columns in zip(model.forest.trees, splits.by_tree, strict=True):
        for node, index in enumerate(columns):
            column = expand(rows, splits.columns[index])
            if splits.columns[index].treatment is Treatment.CODE:
                left = np.isin(column, tree.codes[tree.category[node]])
            else:
                left = column <= tree.threshold[node]
            rule = tree.goes_left(np.full(len(rows), node), rows[:, tree.feature[node]])
            assert np.array_equal(left, rule)


@pytest.mark.parametrize("name", SHOWN)
def test_the_python_module_needs_only_the_standard_library(name: str, tmp_path: Path) -> None:
    folder = exported(name, "python", tmp_path)
    model = make_model(name)
    rows = probe_rows(model).values[:50]
    given_rows = json.dumps([[None if np.isnan(x) else x for x in row] for row in rows])
    code = "import json, sys, model; print(json.dumps(model.score_rows(json.load(sys.stdin))))"
    command = [sys.executable, "-S", "-E", "-c", code]
    done = subprocess.run(command, input=given_rows, capture_output=True, text=True, cwd=folder, check=True)
    assert json.loads(done.stdout) == lightgbm_scores(model, rows).tolist()


def test_the_python_module_takes_rows_by_name(tmp_path: Path) -> None:
    module = load_module(exported("names_categories", "python", tmp_path) / "model.py")
    assert AWKWARD == module.FEATURES
    assert module.row_of({AWKWARD[0]: 1.5, AWKWARD[4]: "brand c"}) == [1.5, None, None, None, 3, None]
    assert module.row_of({AWKWARD[4]: "never seen"})[4] == 0
    with pytest.raises(KeyError, match="no features of this model: \\['price'\\]"):
        module.row_of({"price": 1})
    with pytest.raises(ValueError, match="a row of 2 values, the model has 6 features"):
        module.score([1, 2])


def test_onnx_with_its_own_choice_of_threads_stays_within_a_trillionth(tmp_path: Path) -> None:
    for name in ("categories_missing", "zero_and_nan", "rf"):
        model = make_model(name)
        rows = probe_rows(model).values
        folder = exported(name, "onnx", tmp_path / name)
        scores = onnx.session(folder / onnx.MODEL, threads=0).run([onnx.OUTPUT], {onnx.INPUT: rows})[0][:, 0]
        assert np.abs(scores - lightgbm_scores(model, rows)).max() <= 1e-12


def test_onnx_takes_one_row_and_none(tmp_path: Path) -> None:
    model = make_model("categories_missing")
    session = onnx.session(exported("categories_missing", "onnx", tmp_path) / onnx.MODEL, threads=1)
    for rows in (probe_rows(model).values[:1], np.empty((0, 6))):
        scores = session.run([onnx.OUTPUT], {onnx.INPUT: rows})[0]
        assert scores.shape == (len(rows), 1)
        assert np.array_equal(scores[:, 0], lightgbm_scores(model, rows))


@pytest.mark.parametrize("library", ["onnx", "onnxruntime"])
def test_a_missing_onnx_prints_the_install_line(library: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MissingExtraError, match=f"{library} is not installed; .*pip install 'rankloom\\[onnx\\]'"):
        export_model(make_model("plain"), "onnx", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_examples_are_not_changed(tmp_path: Path) -> None:
    model = make_model("categories_missing")
    before = model.examples.clone()
    exported("categories_missing", "python", tmp_path)
    assert isinstance(model.examples, pl.DataFrame)
    assert model.examples.equals(before)
