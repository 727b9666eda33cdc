"""The Learning to Rank plugin of Elasticsearch (o19s)."""

from __future__ import annotations

from pathlib import Path

from pipeline.export.model import ExportModel, Format, Outcome, parse_version, write_readme
from pipeline.export.xgboost import Missing, blind, evaluate_definition, write_definition
from pipeline.forest import Floats

BY_NODE_SINCE = (8, 12)
"""Plugin releases for Elasticsearch 8.12 and newer carry o19s pull requests 480 and 482 (2024); before, missing is
0."""


def missing_rule(version: str | None) -> Missing:
    return Missing.BY_NODE if parse_version(version, default=BY_NODE_SINCE) >= BY_NODE_SINCE else Missing.ZERO


def write(model: ExportModel, folder: Path, version: str | None) -> None:
    write_definition(model, folder, "elasticsearch", missing_rule(version))
    write_readme(folder, "A ranking model for Elasticsearch", _README)


def evaluate(folder: Path, rows: Floats, version: str | None) -> Outcome:
    return evaluate_definition(folder, rows, missing_rule(version))


FORMAT = Format(
    "elasticsearch",
    "xgboost+json for Elasticsearch's LTR plugin",
    exact=False,
    write=write,
    evaluate=evaluate,
    blind=blind,
    single=True,
    versions=True,
)

_README = """
`featureset.json` proposes a field of the same name for each feature; adapt its queries, which must give exactly the
value that the model was trained on, and no score where it is missing. Then:

    curl -XPUT  "$ES/_ltr"
    curl -XPUT  "$ES/_ltr/_featureset/rankloom" -H 'Content-Type: application/json' --data-binary @featureset.json
    curl -XPOST "$ES/_ltr/_featureset/rankloom/_createmodel" -H 'Content-Type: application/json' \\
         --data-binary @model.json

    "rescore": {"window_size": 200, "query": {"rescore_query": {"sltr": {"params": {}, "model": "rankloom"}}}}

Everything is float32 there and compared with `<`: each threshold is the next float32 above LightGBM's, so no Float32
value moves. A last tree of one leaf keeps scores from becoming negative (`offset` in `features.json`). Queries cannot
give negative values: shift features that have them before training.
"""
