"""The Learning to Rank plugin of OpenSearch, whose releases treat missing values in three ways."""

from __future__ import annotations

from pipeline.export.model import parse_version
from pipeline.export.xgboost import Missing, plugin_format

RIGHT_SINCE, BY_NODE_SINCE = (3, 2), (3, 8)
"""Pull requests 206 (3.2.0: a missing value is NaN, which is below no threshold) and 379 (3.8.0: `missing` is followed)
of opensearch-learning-to-rank-base."""


def missing_rule(version: str | None) -> Missing:
    asked = parse_version(version, default=BY_NODE_SINCE)
    if asked >= BY_NODE_SINCE:
        return Missing.BY_NODE
    return Missing.RIGHT if asked >= RIGHT_SINCE else Missing.ZERO


_NOTE = """Missing values go where the model says from
OpenSearch 3.8 on; exports for older releases are made with `--target-version`, or refused. """

FORMAT = plugin_format("opensearch", "OpenSearch", missing_rule, _NOTE)
