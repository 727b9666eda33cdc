"""How much each parameter of a search had to do with the value, from the trials that were finished."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline.tune.study import Tried

GROUPS = 4
FEWEST_TRIALS = 8


def columns_of(tried: Sequence[Tried]) -> dict[str, list[Any]]:
    """parameter -> its value in each trial, None where the trial did not have it; objective and gain among them."""
    settings = [trial.setting for trial in tried]
    rows = [{} if s is None else {"objective": s.objective, "gain": s.gain, **s.params} for s in settings]
    names = sorted({name for row in rows for name in row})
    return {name: [row.get(name) for row in rows] for name in names}


def influences(tried: Sequence[Tried]) -> dict[str, float]:
    """parameter -> share of the variance of the value that its level explains, beyond what chance would; highest first.

    Numbers are cut into quarters of equally many trials, other values are levels as they are; the share is
    epsilon squared (Kelley 1935), which is 0 on average where there is no effect. Parameters that did not vary, or
    too few trials had, are left out. Effects of two parameters at once are not seen.
    """
    done = [trial for trial in tried if trial.value is not None and not trial.is_default]
    found = {}
    for name, column in columns_of(done).items():
        had = [i for i, value in enumerate(column) if value is not None]
        values = np.array([done[i].value for i in had], np.float64)
        levels = _levels([column[i] for i in had])
        if len(had) >= FEWEST_TRIALS and 1 < levels.max(initial=0) + 1 < len(had):
            found[name] = _epsilon_squared(values, levels)
    return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))


def _levels(column: list[Any]) -> npt.NDArray[np.int64]:
    distinct = sorted({str(value) for value in column})
    if len(distinct) <= GROUPS or not all(isinstance(value, int | float) for value in column):
        return np.array([distinct.index(str(value)) for value in column], np.int64)
    numbers = np.array(column, np.float64)
    borders = np.unique(np.quantile(numbers, np.arange(1, GROUPS) / GROUPS))
    return np.unique(np.searchsorted(borders, numbers, side="left"), return_inverse=True)[1].astype(np.int64)


def _epsilon_squared(values: npt.NDArray[np.float64], levels: npt.NDArray[np.int64]) -> float:
    counts, groups = np.bincount(levels), levels.max() + 1
    means = np.bincount(levels, values) / counts
    total = ((values - values.mean()) ** 2).sum()
    within = ((values - means[levels]) ** 2).sum()
    if total == 0:
        return 0.0
    return float(max(0.0, 1 - (within / (len(values) - groups)) / (total / (len(values) - 1))))
