"""One proof for every export: LightGBM against what was written, on rows that would show a difference.

LightGBM's scores are the truth. Our own reading of the model text must equal them to the last bit on every row, which
makes its leaves LightGBM's leaves. Then the export is evaluated by its target's rules, or its runtime: exact formats
must equal the scores, the others must fall into the same leaves and may differ by what rounding a sum can lose; the
order within queries is compared, and pairs that rounding merges or swaps are counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from features.errors import ExportError
from pipeline.booster import load_model, predict
from pipeline.export.model import ExportModel, Format, Outcome
from pipeline.export.rows import KINDS, REAL, Rows, probe_rows
from pipeline.forest import Floats, Ints

PARITY = "parity.json"


@dataclass(frozen=True)
class Truth:
    """Rows with LightGBM's scores (N,) and leaves (N, T), numbered from the left in each tree."""

    rows: Rows
    scores: Floats
    leaves: Ints

    @classmethod
    def of(cls, model: ExportModel) -> Truth:
        """Raises ExportError where LightGBM itself does not do what its model text says."""
        rows = probe_rows(model)
        leaves = model.forest.leaves(rows.values)
        scores = lightgbm_scores(model, rows.values)
        wrong = np.flatnonzero(model.forest.score(rows.values, leaves) != scores)
        if wrong.size:
            raise ExportError(
                f"LightGBM scores {wrong.size} of {len(scores)} rows otherwise than its model text says",
                expected="equal scores to the last bit",
                fix="report this with the package: no export of it can be proven",
            )
        return cls(rows, scores, _from_left(model, leaves))

    def where(self, mask: npt.NDArray[np.bool_]) -> Truth:
        return Truth(self.rows.where(mask), self.scores[mask], self.leaves[mask])


def lightgbm_scores(model: ExportModel, values: Floats) -> Floats:
    """(N, F) -> (N,) what LightGBM itself makes of the model text."""
    frame = pl.DataFrame(values, schema=[f"x{index}" for index in range(values.shape[1])])
    return predict(load_model(model.text), frame)


def prove(model: ExportModel, target: Format, folder: Path, version: str | None, truth: Truth) -> dict[str, Any]:
    """The report on what `target` wrote into `folder`. Raises ExportError where it ranks otherwise than LightGBM."""
    if not target.exact:
        truth = truth.where(np.isin(truth.rows.kinds, KINDS))
    blind = target.blind(model, truth.rows.values)
    _check_blind(target, truth, blind)
    truth = truth.where(~blind)
    outcome = target.evaluate(folder, truth.rows.values, version)
    scores = outcome.scores - outcome.offset
    differs = np.abs(scores - truth.scores)
    bound = 0.0 if target.exact else _rounding(model, outcome.offset, single=target.single)
    _check_leaves(target, truth, outcome)
    _check_scores(target, truth, differs, bound)
    return {
        "format": target.name,
        "target_version": version,
        "fingerprint": model.fingerprint,
        "rows": truth.rows.counts(),
        "splits": {"distinct": truth.rows.splits, "probed": truth.rows.probed},
        "rows_the_target_cannot_tell_apart": int(blind.sum()),
        "leaves": "scores only" if outcome.leaves is None else "all equal",
        "max_abs_diff": float(differs.max(initial=0.0)),
        "allowed_abs_diff": bound,
        "offset": outcome.offset,
        "order": {
            "examples": compare_order(truth.where(truth.rows.kinds == REAL), scores[truth.rows.kinds == REAL]),
            "all_rows": compare_order(truth, scores),
        },
    }


def compare_order(truth: Truth, scores: Floats) -> dict[str, int]:
    """Pairs of rows of one query that LightGBM ranks apart: how many, how many `scores` swap, how many they merge."""
    counts = {"pairs": 0, "swapped": 0, "merged": 0}
    order = np.argsort(truth.rows.groups, kind="stable")
    starts = np.flatnonzero(np.diff(truth.rows.groups[order])) + 1
    for group in np.split(order, starts):
        first, second = np.triu_indices(len(group), 1)
        expected = np.sign(truth.scores[group[first]] - truth.scores[group[second]])
        found = np.sign(scores[group[first]] - scores[group[second]])
        counts["pairs"] += int(np.count_nonzero(expected))
        counts["swapped"] += int(np.count_nonzero(expected * found < 0))
        counts["merged"] += int(np.count_nonzero((expected != 0) & (found == 0)))
    return counts


def in_words(report: Mapping[str, Any]) -> str:
    """One line for a person: what a report (or a refusal) says."""
    if "refused" in report:
        return f"refused: {report['refused']}"
    rows = f"{sum(report['rows'].values()):,} rows"
    if report["allowed_abs_diff"] == 0:
        return f"exact on {rows}"
    order = report["order"]["examples"]
    blind = report["rows_the_target_cannot_tell_apart"]
    left_out = f"; {blind:,} made-up rows left out, too near a threshold for {report['format']}: see its README.md"
    return (
        f"same leaves on {rows}, scores within {report['max_abs_diff']:.1e}; of {order['pairs']:,} pairs of examples "
        f"{order['swapped']} swapped and {order['merged']} merged by rounding{left_out if blind else ''}"
    )


def _from_left(model: ExportModel, leaves: Ints) -> Ints:
    """Leaf indices of the model text -> their number from the left, which survives in every nested format."""
    numbered = np.empty_like(leaves)
    for index, tree in enumerate(model.forest.trees):
        rank = np.empty(len(tree.value), np.int32)
        rank[tree.preorder()] = np.arange(len(tree.value))
        numbered[:, index] = rank[leaves[:, index]]
    return numbered


def _rounding(model: ExportModel, offset: float, *, single: bool) -> float:
    """The most that rounding leaves and their running sum can change a score (Higham 2002, section 4.2)."""
    divisor = len(model.forest.trees) if model.forest.average else 1
    largest = sum(float(np.abs(tree.value).max()) for tree in model.forest.trees) / divisor + offset
    return 2 * (len(model.forest.trees) + 2) * (2.0**-24 if single else 2.0**-53) * largest


def _check_blind(target: Format, truth: Truth, blind: npt.NDArray[np.bool_]) -> None:
    real = blind & (truth.rows.kinds == REAL)
    if real.any():
        raise ExportError(
            f"{real.sum()} example(s) of the package hold values that {target.name} cannot tell from a threshold",
            expected="values that it can tell apart",
            fix="rescale the features whose values lie that near to zero, and train again",
        )


def _check_leaves(target: Format, truth: Truth, outcome: Outcome) -> None:
    if outcome.leaves is None:
        return
    wrong = outcome.leaves[:, : truth.leaves.shape[1]] != truth.leaves
    if not wrong.any():
        return
    row, number = np.argwhere(wrong)[0]
    raise ExportError(
        f"{target.name} sends {wrong.any(axis=1).sum()} of {len(wrong)} rows into other leaves than LightGBM, first in "
        f"tree {number} (a row of kind {truth.rows.kinds[row]!r})",
        expected="the same leaves",
        fix="report this with the package: it must not be deployed",
    )


def _check_scores(target: Format, truth: Truth, differs: Floats, bound: float) -> None:
    wrong = ~(differs <= bound)
    if wrong.any():
        row = int(np.argmax(np.where(np.isnan(differs), np.inf, differs)))
        raise ExportError(
            f"{target.name} scores {wrong.sum()} of {len(wrong)} rows otherwise than LightGBM, by up to "
            f"{differs[row]:.3g} (a row of kind {truth.rows.kinds[row]!r})",
            expected="equal scores to the last bit" if bound == 0 else f"differences of at most {bound:.3g}",
            fix="report this with the package: it must not be deployed",
        )
