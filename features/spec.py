"""What a feature says of itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

FeatureType = Literal["float32", "category"]


@dataclass(frozen=True, slots=True)
class FeatureSpec:
    """One feature column.

    `dtype` "float32" is a number, null or NaN where it is missing; "category" an Int32 code from `features.categories`.
    `missing` says in words what a missing value means. `lookback_days` is how far it looks back (None: all of history,
    or no history at all). `categories` are the frozen levels in code order, for categories only.
    """

    name: str
    dtype: FeatureType = "float32"
    missing: str = "not known"
    lookback_days: float | None = None
    categories: tuple[str, ...] | None = None
