"""Features as they were logged when lists were served, against the same features rebuilt from the log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
import polars as pl

from features.columns import EVENT, ITEM, QUERY, USER
from features.description import Description
from features.errors import DataError
from features.log import Log, align_ids
from features.names import listed
from features.spec import FeatureSpec
from features.table import Table

CLOSE: Final = 1e-5
"""Numbers that differ by less, of themselves or of 1, are the same: logs write them in decimals."""
_ROW: Final = "row of the log"


@dataclass(frozen=True)
class Difference:
    """A feature on `rows` served rows: the share that `differ`, by how much at most (None: none do, or levels), and the
    shares that have a value on one side only: `unlogged` when it was rebuilt alone, `unbuilt` when it was logged alone.
    """

    name: str
    rows: int
    differ: float
    largest: float | None
    unlogged: float
    unbuilt: float

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return asdict(self)


def complete_rows(log: Log, rows: pl.DataFrame, description: Description) -> pl.DataFrame:
    """Served rows with what features are made of, where a server did not write it down: the user and the fields of the
    query from the table of queries, the fields of what was shown from the impressions of the log.
    """
    of_query = _missing(rows, [USER, *(each.name for each in description.query_fields)])
    if log.queries is not None:
        held = [name for name in of_query if name in log.queries.columns]
        rows, table = align_ids(rows, log.queries.select(QUERY, *held), QUERY)
        rows = rows.join(table, on=QUERY, how="left", maintain_order="left")
    of_item = _missing(rows, [each.name for each in description.shown_fields])
    events = log.events.lazy()
    held = [name for name in of_item if name in events.collect_schema()]
    if not held or description.shown is None or QUERY not in events.collect_schema():
        return rows
    shown = events.filter(pl.col(EVENT).cast(pl.String) == description.shown).select(QUERY, ITEM, *held).collect()
    for name in (QUERY, ITEM):
        rows, shown = align_ids(rows, shown, name)
    first = shown.unique([QUERY, ITEM], keep="first", maintain_order=True)
    return rows.join(first, on=[QUERY, ITEM], how="left", maintain_order="left")


def compare_features(served: pl.DataFrame, rebuilt: Table) -> list[Difference]:
    """Each feature of `rebuilt` (categories as levels) that `served` has a column of; both name query and item.

    Raises DataError where no feature was logged, or no row of the two is the same.
    """
    logged = [spec for spec in rebuilt.features if spec.name in served.columns]
    if not logged:
        raise DataError(
            "no feature stands in the served rows",
            expected=f"columns named as the features are, such as {listed(rebuilt.feature_names, most=3)}",
            fix="log the features under the names of the package",
        )
    keys = rebuilt.frame.select(QUERY, ITEM).with_row_index(_ROW)
    own = served.select(QUERY, ITEM)
    for name in (QUERY, ITEM):
        own, keys = align_ids(own, keys, name)
    places = own.join(keys, on=[QUERY, ITEM], how="left", maintain_order="left")[_ROW]
    found = places.is_not_null()
    if not found.any():
        raise DataError("no served row could be rebuilt", expected="queries and items of the log", fix="check the ids")
    again = rebuilt.frame[places.drop_nulls()]
    return [_difference(spec, served[spec.name].filter(found), again[spec.name]) for spec in logged]


def worst_first(found: Sequence[Difference]) -> list[Difference]:
    """Those that differ at all, the largest share first."""
    return sorted((each for each in found if each.differ), key=lambda each: (-each.differ, each.name))


def alarm_lines(found: Sequence[Difference], level: float) -> Iterator[str]:
    """A sentence for each feature that differs on a larger share of the rows than `level`."""
    for each in worst_first(found):
        if each.differ > level:
            yield f"{each.name} differs on {each.differ:.1%} of the served rows, above {level:.1%}"


def _missing(rows: pl.DataFrame, names: Sequence[str]) -> list[str]:
    return [name for name in dict.fromkeys(names) if name not in rows.columns]


def _difference(spec: FeatureSpec, logged: pl.Series, rebuilt: pl.Series) -> Difference:
    if spec.dtype == "category":
        pair = [values.cast(pl.String) for values in (logged, rebuilt)]
        apart, largest = pair[0].ne_missing(pair[1]).to_numpy(), None
        here, there = (values.is_not_null().to_numpy() for values in pair)
    else:
        first, second = (values.cast(pl.Float64).fill_null(np.nan).to_numpy() for values in (logged, rebuilt))
        here, there = ~np.isnan(first), ~np.isnan(second)
        both = here & there
        gap = np.where(both, np.abs(np.where(both, first, 0.0) - np.where(both, second, 0.0)), 0.0)
        scale = np.where(both, np.maximum(1.0, np.maximum(np.abs(first), np.abs(second))), 1.0)
        apart = (here != there) | (gap > CLOSE * scale)
        largest = float(gap[apart & both].max()) if (apart & both).any() else None
    shares = [float(np.mean(mask)) for mask in (apart, there & ~here, here & ~there)]
    return Difference(spec.name, len(logged), shares[0], largest, shares[1], shares[2])
