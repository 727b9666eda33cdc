"""Every kind of model in every format, and the table in the docs that says so."""

from __future__ import annotations

import pytest

from pipeline.export import FORMATS
from pipeline.export.rows import KINDS as ROW_KINDS
from tests.export import matrix
from tests.export.models import KINDS


@pytest.fixture(scope="module")
def page() -> str:
    return matrix.page()


def test_the_committed_matrix_is_current(page: str) -> None:
    committed = matrix.PLACE.read_text("utf-8")
    assert committed.partition("## Reasons")[0] == page.partition("## Reasons")[0]


def test_the_matrix_has_a_cell_for_every_kind_and_format(page: str) -> None:
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    assert len(rows) == len(KINDS) >= 16
    cells = [cell.strip() for row in rows for cell in row.split("|")[2:-1]]
    assert len(cells) == len(KINDS) * len(FORMATS)
    assert set(cells) == {"exact", "same leaves", "refused"}


@pytest.mark.parametrize("name", ["zero_missing", "linear", "categories", "wide"])
def test_a_refusal_says_where_and_what_to_do(name: str) -> None:
    reasons = [report["refused"] for report in matrix.reports_of(name).values() if "refused" in report]
    assert reasons
    for reason in reasons:
        found, expected, fix = reason.split("; ")
        assert "tree 0" in found or "'item.price'" in found
        assert expected.startswith("expected a model that ")
        assert "train" in fix


def test_every_export_was_proven_on_every_split_and_kind_of_row() -> None:
    reports = matrix.reports_of("categories_missing")
    for name, target in FORMATS.items():
        if "refused" in reports[name]:
            continue
        counts = reports[name]["rows"]
        wanted = [*ROW_KINDS, *(("threshold64", "code") if target.exact else ())]
        assert all(counts[kind] > 0 for kind in wanted)
        assert reports[name]["splits"]["probed"] == reports[name]["splits"]["distinct"] > 50
