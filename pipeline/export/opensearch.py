"""The Learning to Rank plugin of OpenSearch, whose releases treat missing values in three ways."""

from __future__ import annotations

from pathlib import Path

from pipeline.export.model import ExportModel, Format, Outcome, parse_version, write_readme
from pipeline.export.xgboost import Missing, blind, evaluate_definition, write_definition
from pipeline.forest import Floats

RIGHT_SINCE, BY_NODE_SINCE = (3, 2), (3, 8)
"""Pull requests 206 (3.2.0: a missing value is NaN, which is below no threshold) and 379 (3.8.0: `missing` is followed)
of opensearch-learning-to-rank-base."""


def missing_rule(version: str | None) -> Missing:
    asked = parse_version(version, default=BY_NODE_SINCE)
    if asked >= BY_NODE_SINCE:
        return Missing.BY_NODE
    return Missing.RIGHT if asked >= RIGHT_SINCE else Missing.ZERO


def write(model: ExportModel, folder: Path, version: str | None) -> None:
    write_definition(model, folder, "opensearch", missing_rule(version))
    write_readme(folder, "A ranking model for OpenSearch", _README)


def evaluate(folder: Path, rows: Floats, version: str | None) -> Outcome:
    return evaluate_definition(folder, rows, missing_rule(version))


FORMAT = Format(
    "opensearch",
    "xgboost+json for OpenSearch's LTR plugin",
    exact=False,
    write=write,
    evaluate=evaluate,
    blind=blind,
    single=True,
    versions=True,
)

_README = """
`featureset.json` proposes a field of the same name for each feature; adapt its queries, which must give exactly the
value that the model was trained on, and no score where it is missing. Missing values go where the model says from
OpenSearch 3.8 on; exports for older releases are made with `--target-version`, or refused. Then:

    curl -XPUT  "$OPENSEARCH/_ltr"
    curl -XPUT  "$OPENSEARCH/_ltr/_featureset/rankloom" -H 'Content-Type: application/json' \\
         --data-binary @featureset.json
    curl -XPOST "$OPENSEARCH/_ltr/_featureset/rankloom/_createmodel" -H 'Content-Type: application/json' \\
         --data-binary @model.json

    "rescore": {"window_size": 200, "query": {"rescore_query": {"sltr": {"params": {}, "model": "rankloom"}}}}

Everything is float32 there and compared with `<`: each threshold is the next float32 above LightGBM's, so no Float32
value moves. A last tree of one leaf keeps scores from becoming negative (`offset` in `features.json`). Queries cannot
give negative values: shift features that have them before training.
"""
