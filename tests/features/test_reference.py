"""The page that lists all features is the one that the code writes."""

from __future__ import annotations

from features.reference import EVERYTHING, PAGE, write_reference
from features.registry import FAMILIES, all_features


def test_page_when_read_then_as_the_code_writes_it():
    assert PAGE.read_text("utf-8") == write_reference(), "run python -m features.reference"


def test_page_when_read_then_every_family_and_feature_stands_in_it():
    page = write_reference()
    lines = [line for line in page.splitlines() if line.startswith("| `")]
    assert all(f"\n## {family}\n" in page for family in FAMILIES)
    assert len(lines) > 200
    assert len(set(lines)) == len(lines)
    listed = "".join(lines)
    assert not [word for word in ("somekind", "shownkind", "firstscore", "itemnumber", "_7d") if word in listed]
    held = {line.split("`")[1] for line in lines}
    bare = {feature.spec.name for feature in all_features(EVERYTHING)}
    assert {"query.hour", "item.popularity", "query.popularity_rank"} <= bare & held


def test_page_when_a_feature_needs_something_then_it_says_so():
    page = write_reference()
    needs = {line.split("`")[1]: line.rsplit("|", 2)[1].strip() for line in page.splitlines() if line.startswith("| `")}
    assert needs["query.<item number>_rank"] == "candidates that were shown"
    assert needs["item.<kind>_rate_<window>"] == "impressions, several kinds"
    assert needs["user.<kind>_count"] == "users in the events"
    assert needs["item.<kind>_value_mean"] == "values of the kind"
    assert needs["text.<item text>_bm25"] == needs["query.hour"] == ""
