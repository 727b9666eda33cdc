"""One C99 file and its header (`pipeline.csource`), proven by compiling and calling them."""

from __future__ import annotations

import tempfile
from pathlib import Path

from pipeline.compiled import SOURCE, CompiledModel, compile_library, write_sources
from pipeline.export.model import ExportModel, Format, Outcome, write_features, write_readme
from pipeline.forest import Floats


def write(model: ExportModel, folder: Path, _version: str | None) -> None:
    write_sources(folder, model.forest, model.names, model.fingerprint)
    write_features(model, folder)
    write_readme(folder, "A ranking model in C", _README)


def evaluate(folder: Path, rows: Floats, _version: str | None) -> Outcome:
    with tempfile.TemporaryDirectory(prefix="rankloom-") as name:
        library = compile_library(folder / SOURCE, Path(name) / "model.so")
        return Outcome(CompiledModel.load(library, rows.shape[1]).score(rows))


FORMAT = Format("c", "one C99 file and header", exact=True, write=write, evaluate=evaluate)

_README = """
    cc -std=c99 -O3 -ffp-contract=off -c model.c

    #include "model.h"
    double rows[200][MODEL_FEATURES], scores[200];
    score_rows(&rows[0][0], 200, scores);

The order of features, and the codes of categories, stand in `features.json`; missing values are NaN. Rows are doubles:
a buffer of floats would be misread. Nothing is allocated and no state is kept, so any number of threads may call it.
Scores equal LightGBM's to the last bit wherever doubles are IEEE 754 and no fast-math option is set.
"""
