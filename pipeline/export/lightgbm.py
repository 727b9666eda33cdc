"""LightGBM's own text, for everything that links LightGBM."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from pipeline.booster import load_model, predict
from pipeline.export.model import ExportModel, Format, Outcome, write_features, write_readme
from pipeline.forest import Floats

MODEL = "model.txt"


def write(model: ExportModel, folder: Path, _version: str | None) -> None:
    (folder / MODEL).write_text(model.text, "utf-8", newline="\n")
    write_features(model, folder, dict(zip(model.names, model.forest.names, strict=True)))
    write_readme(folder, "A LightGBM model text", _README)


def evaluate(folder: Path, rows: Floats, _version: str | None) -> Outcome:
    """LightGBM reads the text again."""
    text = (folder / MODEL).read_text("utf-8")
    frame = pl.DataFrame(rows, schema=[f"x{i}" for i in range(rows.shape[1])])
    return Outcome(predict(load_model(text), frame))


FORMAT = Format("lightgbm", "LightGBM's model text", exact=True, write=write, evaluate=evaluate)

_README = """
`model.txt` is read by every binding of LightGBM (4.0 or newer):

    import lightgbm
    booster = lightgbm.Booster(model_file="model.txt")
    booster.predict(rows)            # features in the order of features.json

Names are written as LightGBM can carry them (`target_name` in `features.json`). Missing values are NaN; categories are
the codes of `features.json`, 0 for a level that training never saw.
"""
