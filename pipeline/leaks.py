"""Signs that features know what they must not: in the tables of a run, and in the log that they come from.

A finding is a suspicion with its number; it stops nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
import polars as pl

from features.columns import QUERY, TIMESTAMP, USER
from features.description import Description
from features.durations import parse_duration
from pipeline.config import Config
from pipeline.dataset import RankingDataset
from pipeline.metrics import Convention
from pipeline.run import Datasets
from pipeline.signals import agreement, as_numbers, by_source, lift, rank_alone, sample

ALMOST_PERFECT: Final = 0.85
"""Of the way from a random order to the ideal: nothing honest comes near it alone."""
FAR_AHEAD: Final = 0.7
AHEAD_BY: Final = 0.3
"""A column that comes `FAR_AHEAD` and leaves the next one so far behind is suspected as well."""
THE_SHOWN_ORDER: Final = 0.9
NEARLY: Final = 0.005
"""Of features that say the same of the order, which their last bits must not choose from, the shortest name stands."""
FEW: Final = 0.001
"""Below this share of the queries or sessions nothing is said."""
PURE: Final = 0.98
PURE_ROWS: Final = 50


@dataclass(frozen=True)
class Leak:
    """A suspicion: of which `column` or table, what was `found`, with its number, and what to `do`."""

    column: str
    found: str
    do: str


def leaks_in_tables(
    config: Config, datasets: Datasets, fields: tuple[str, ...], convention: Convention
) -> Iterator[Leak]:
    """What the features of a run tell by themselves; `fields` are the columns of the user's that they are made of."""
    train, valid = sample(datasets.train), sample(datasets.valid)
    yield from _telltales(train, valid, config.train_k, fields, convention)
    yield from _shown_order(valid, fields)
    yield from _same_queries(datasets)
    yield from _sessions_over_borders(datasets, config.features.session_gap)


def fields_of(description: Description | None) -> tuple[str, ...]:
    """The names of all fields of a log; none of a ready-made table."""
    if description is None:
        return ()
    tables = (description.item_fields, description.user_fields, description.query_fields, description.shown_fields)
    return tuple(dict.fromkeys(field.name for table in tables for field in table))


def _telltales(
    train: RankingDataset, valid: RankingDataset, k: int, fields: tuple[str, ...], convention: Convention
) -> Iterator[Leak]:
    floor = rank_alone(valid, pl.repeat(0.0, valid.rows, eager=True), k, convention)
    values = dict(as_numbers(valid, train))
    alone = {name: rank_alone(valid, column, k, convention) for name, column in values.items()}
    pure = {name: _purity(column, valid.relevance) for name, column in values.items()}
    best = {
        source: max(sorted(names, key=len), key=alone.__getitem__)
        for source, names in by_source(list(alone), fields).items()
    }
    ordered = sorted(best.values(), key=lambda name: -alone[name])
    honest = [lift(alone[name], floor) for name in ordered if lift(alone[name], floor) < FAR_AHEAD]
    next_best = max(honest, default=0.0)
    for source, name in best.items():
        reached = lift(alone[name], floor)
        purest = max(sorted(by_source(list(alone), fields)[source], key=len), key=lambda each: pure[each][0])
        share, which = pure[purest]
        if reached >= ALMOST_PERFECT or (reached >= FAR_AHEAD and reached >= next_best + AHEAD_BY):
            found = (
                f"alone ranks the validation queries with ndcg@{k} {alone[name]:.4f}: {reached:.0%} of the way from a "
                f"random order ({floor:.4f}) to the ideal, where the next column comes {next_best:.0%}"
            )
            yield Leak(name, found, _drop(source, "it is known only after the outcome"))
        elif share >= PURE:
            found = f"{share:.1%} of the rows {which} are relevant, of all rows {_share(valid):.1%}"
            yield Leak(purest, found, _drop(source, "it is known only after the outcome"))


def _purity(values: pl.Series, relevance: np.ndarray[tuple[int], np.dtype[np.float64]]) -> tuple[float, str]:
    """The share of relevant rows among the highest hundredth by value, ties included, or among the rows that have a
    value at all, whichever is larger, and which rows these are; 0 where few rows say so.
    """
    frame = pl.DataFrame({"value": values.cast(pl.Float64).fill_nan(None), "good": relevance > 0})
    known = frame.drop_nulls()
    if known.height < PURE_ROWS or float(np.mean(relevance > 0)) > 0.5:
        return 0.0, ""
    border = known["value"].top_k(max(PURE_ROWS, known.height // 100)).min()
    groups = {
        "that have it": (known, frame),
        "where it is highest": (known.filter(pl.col("value") >= border), known),
    }
    shares = {
        which: float(some["good"].mean()) if some.height < among.height / 2 else 0.0  # type: ignore[arg-type]
        for which, (some, among) in groups.items()
    }
    which = max(shares, key=shares.__getitem__)
    return shares[which], which


def _share(dataset: RankingDataset) -> float:
    return float(np.mean(dataset.relevance > 0))


def _shown_order(valid: RankingDataset, fields: tuple[str, ...]) -> Iterator[Leak]:
    alike = {spec.name: agreement(valid, valid.features[spec.name]) for spec in valid.schema.features}
    for source, names in by_source(list(alike), fields).items():
        most = max(abs(alike[each]) for each in names)
        name = min((each for each in names if abs(alike[each]) >= most - NEARLY), key=lambda each: (len(each), each))
        if most >= THE_SHOWN_ORDER:
            found = f"repeats the order that was shown: rank correlation {alike[name]:+.2f} with the position"
            yield Leak(name, found, _drop(source, "a model would learn the place of an item, not the item"))


def _same_queries(datasets: Datasets) -> Iterator[Leak]:
    """Queries whose rows are equal to the last bit in two parts."""
    parts = {name: _fingerprints(getattr(datasets, name)) for name in ("train", "valid", "test")}
    for first, second in pairwise(parts):
        same = parts[second].is_in(parts[first].implode()).sum()
        if same > FEW * len(parts[second]):
            found = f"{same} of {len(parts[second])} queries of {second} stand in {first} too, row by row"
            yield Leak(QUERY, found, "take duplicates out, and let whole queries fall into one part")


def _fingerprints(dataset: RankingDataset) -> pl.Series:
    """(Q,) one number per query of several rows that differ."""
    rows = dataset.features.with_columns(pl.Series("relevance of row", dataset.relevance)).hash_rows()
    query = np.repeat(np.arange(len(dataset.sizes)), dataset.sizes)
    grouped = (
        pl.DataFrame({"query": query, "row": rows})
        .group_by("query")
        .agg(pl.col("row").sort(), pl.col("row").n_unique().alias("n"))
    )
    return grouped.filter(pl.col("n") > 2)["row"].hash()


def _sessions_over_borders(datasets: Datasets, gap: str) -> Iterator[Leak]:
    asked = []
    for name in ("train", "valid", "test"):
        keys = getattr(datasets, name).keys
        if TIMESTAMP not in keys.columns or USER not in keys.columns:
            return
        asked.append(keys.select(USER, QUERY, TIMESTAMP).unique().with_columns(part=pl.lit(name)))
    ordered = pl.concat(asked).drop_nulls(USER).sort(USER, TIMESTAMP, QUERY)
    same_user = pl.col(USER) == pl.col(USER).shift(1)
    near = (pl.col(TIMESTAMP) - pl.col(TIMESTAMP).shift(1)) < parse_duration(gap)
    over = int(ordered.select((same_user & near & (pl.col("part") != pl.col("part").shift(1))).sum()).item())
    if over > FEW * ordered.height:
        found = f"{over} of {ordered.height} queries go on with a session ({gap}) that began in another part"
        yield Leak("split", found, "set split.gap to more than a session, and split by time")


def _drop(source: str, why: str) -> str:
    return f'features.drop = ["*{source.rpartition(".")[2]}*"], unless you know it when ranking: {why}'
