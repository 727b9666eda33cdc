"""From exact relevance to the integer labels that LightGBM wants, and the gain of each.

Metrics always use the exact relevance; labels serve training and the parity check alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from features.errors import DatasetError

DEFAULT_LEVELS = 100
DEFAULT_GRADES = 31
"""As many labels as LightGBM's own default gain table has: 0..30."""
MANY_TIERS = 5
LARGE_GAIN = 2.0**15


@dataclass(frozen=True)
class LabelRule:
    """`gains[label]` is the gain of a label; `width` the relevance that one level stands for (None: labels are grades).

    With a width, a relevance r gets the label round(r / width), so that the level is off by at most width / 2.
    """

    gains: tuple[float, ...]
    width: float | None = None

    @property
    def max_error(self) -> float:
        """The largest difference between a relevance and its level."""
        return 0.0 if self.width is None else self.width / 2

    def to_labels(self, relevance: npt.NDArray[np.float64], part: str) -> npt.NDArray[np.int32]:
        """(N,) relevance, finite and >= 0 -> (N,) labels below len(gains). Raises DatasetError."""
        if self.width is not None:
            labels = np.floor(relevance / self.width + 0.5)
            return np.minimum(labels, len(self.gains) - 1).astype(np.int32)
        _check_whole(relevance, part)
        top = relevance.max()
        if top >= len(self.gains):
            raise DatasetError(
                f"relevance {top:g} in the {part} part",
                expected=f"grades 0 to {len(self.gains) - 1}, as the gain table has {len(self.gains)} entries",
                fix="use fewer tiers, the linear gain, a longer gain table, or set [relevance] levels",
            )
        return relevance.astype(np.int32)

    def warnings(self, top: float) -> list[str]:
        """What makes a gain table hard to learn from, in words; `top` is the highest relevance seen."""
        if self.width is not None:
            return []
        used = self.gains[: int(top) + 1]
        steps = len(used) - 1
        if steps <= MANY_TIERS and used[-1] <= LARGE_GAIN:
            return []
        least = next((gain for gain in used if gain > 0), 1.0)
        share = f"one item of the top tier weighs as much as {used[-1] / least:g} of the lowest"
        return [
            f"{steps} tiers with gains up to {used[-1]:g}: {share}; consider fewer tiers or convention.gain = 'linear'"
        ]


def grades(gain: str | Sequence[float], top: float) -> LabelRule:
    """Labels are the grades. `gain` is "exp2" (grades 0..30), "linear", or a table; `top` the highest grade seen."""
    if gain == "exp2":
        return LabelRule(tuple(2.0**label - 1 for label in range(DEFAULT_GRADES)))
    if gain == "linear":
        return LabelRule(tuple(float(label) for label in range(max(DEFAULT_GRADES, int(top) + 1))))
    return LabelRule(tuple(float(value) for value in gain))


def levels(gain: str | Sequence[float], top: float, count: int = DEFAULT_LEVELS) -> LabelRule:
    """Continuous relevance from 0 to `top`, cut into `count` levels of equal width, each with the gain of its middle.

    A relevance above `top` (in a later part of the data) gets the highest level.
    """
    if not isinstance(gain, str):
        raise DatasetError(
            "a gain table with continuous relevance",
            expected="a gain that is defined between grades: 'linear' or 'exp2'",
            fix="set convention.gain = 'linear'",
        )
    width = (top or 1.0) / count
    values = np.arange(count + 1) * width
    gains = values if gain == "linear" else np.exp2(values) - 1
    return LabelRule(tuple(float(value) for value in gains), width)


def regained(rule: LabelRule, gain: str | Sequence[float]) -> LabelRule:
    """The same labels with the gains of another rule. Raises DatasetError for a gain that `rule` has no way to take."""
    if rule.width is None:
        return grades(gain, len(rule.gains) - 1)
    steps = len(rule.gains) - 1
    return levels(gain, rule.width * steps, steps)


def _check_whole(relevance: npt.NDArray[np.float64], part: str) -> None:
    broken = np.flatnonzero(relevance != np.floor(relevance))
    if len(broken):
        raise DatasetError(
            f"{len(broken)} fractional relevance value(s) in the {part} part, the first {relevance[broken[0]]:g}",
            expected="grades 0, 1, 2, ...",
            fix=f"set [relevance] levels = {DEFAULT_LEVELS} to train on continuous relevance",
        )
