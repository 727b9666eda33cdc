"""The Learning to Rank plugin of Elasticsearch (o19s)."""

from __future__ import annotations

from pipeline.export.model import parse_version
from pipeline.export.xgboost import Missing, plugin_format

BY_NODE_SINCE = (8, 12)
"""Plugin releases for Elasticsearch 8.12 and newer carry o19s pull requests 480 and 482 (2024); before, missing is
0."""


def missing_rule(version: str | None) -> Missing:
    return Missing.BY_NODE if parse_version(version, default=BY_NODE_SINCE) >= BY_NODE_SINCE else Missing.ZERO


FORMAT = plugin_format("elasticsearch", "Elasticsearch", missing_rule)
