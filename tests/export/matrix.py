"""Every kind of model in every format: exact, the same leaves, or refused and why.

python -m tests.export.matrix            # prints the table
python -m tests.export.matrix --write    # writes pipeline/export/MATRIX.md, which a test holds against this
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from pipeline.export import ALL, FORMATS, Format, export_model
from tests.export.models import KINDS, make_model

PLACE = Path(__file__).parents[2] / "pipeline" / "export" / "MATRIX.md"


def reports_of(name: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        return export_model(make_model(name), ALL, Path(folder) / "out")


def page() -> str:
    lines = [f"| model | {' | '.join(FORMATS)} |", "|" + "---|" * (len(FORMATS) + 1)]
    reasons: dict[str, list[str]] = {}
    for name, kind in KINDS.items():
        reports = reports_of(name)
        cells = [_cell(target, reports[target.name]) for target in FORMATS.values()]
        lines.append(f"| `{name}`: {kind.what} | {' | '.join(cells)} |")
        for target, report in reports.items():
            if "refused" in report:
                reasons.setdefault(report["refused"], []).append(f"{name} in {target}")
    listed = "\n".join(f"- {', '.join(where)}: {why}" for why, where in reasons.items())
    return _PAGE.format(table="\n".join(lines), reasons=listed)


def _cell(target: Format, report: dict[str, Any]) -> str:
    if "refused" in report:
        return "refused"
    return "exact" if target.exact else "same leaves"


_PAGE = """\
# What every format does with every kind of model

Made by `python -m tests.export.matrix --write`; a test holds it against the code.

*exact*: scores equal LightGBM's to the last bit on all rows of the parity harness, any double and any code among them.
*same leaves*: every row that a feature frame can hold falls into LightGBM's leaves; scores differ by the rounding of
the target's sum at most. *refused*: the target cannot express it, says why, and nothing is written.

{table}

## Reasons

{reasons}
"""

if __name__ == "__main__":
    text = page()
    if "--write" in sys.argv[1:]:
        PLACE.write_text(text, "utf-8")
    print(text)
