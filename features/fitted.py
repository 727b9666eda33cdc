"""What is learned on the training window, frozen, and shipped in the package: global rates and category codes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final, Protocol

import polars as pl

from features.categories import fit_categories
from features.columns import EVENT, QUERY, TIMESTAMP
from features.context import Context, Feature
from features.custom import check_expressions
from features.description import NO_OPTIONS, Description, Options, Pool, describe
from features.log import Log, align_ids
from features.names import listed
from features.normalise import TIME
from features.past import Past
from features.registry import EVERYTHING, find_features, select_features
from features.rows import join_rows
from features.running import WholeLogError
from features.windows import Timeline, begun_by

_PROBED: Final = 3
"""Queries of which it shows whether a feature can be made block by block."""


@dataclass(frozen=True, slots=True)
class Fitted:
    """All that is needed to build the same features from another log.

    `names`: the features, in the order of the registry. `custom`: SQL expressions by name. `rates`: events of a kind
    per impression (per event, where no impressions are logged) over the training window, the prior of smoothed rates.
    `levels`: per category feature its levels in the order of their codes, from 1.
    """

    description: Description
    names: tuple[str, ...]
    custom: Mapping[str, str] = field(default_factory=dict)
    rates: Mapping[str, float] = field(default_factory=dict)
    levels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def features(self) -> tuple[Feature, ...]:
        """The features of `names`."""
        return find_features(self.names, self.description)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types; floats survive JSON exactly."""
        return {
            "description": self.description.to_dict(),
            "names": list(self.names),
            "custom": dict(self.custom),
            "rates": dict(self.rates),
            "levels": {name: list(levels) for name, levels in self.levels.items()},
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Fitted:
        """The inverse of `to_dict`."""
        return cls(
            description=Description.from_dict(data["description"]),
            names=tuple(data["names"]),
            custom=dict(data["custom"]),
            rates=dict(data["rates"]),
            levels={name: tuple(levels) for name, levels in data["levels"].items()},
        )


def fit_features(
    log: Log,
    queries: pl.DataFrame,
    candidates: pl.DataFrame,
    *,
    pool: Pool,
    use: Sequence[str] = EVERYTHING,
    custom: Mapping[str, str] | None = None,
    options: Options = NO_OPTIONS,
    exclude: Collection[str] = (),
) -> Fitted:
    """Choose the features and learn what they need from the training queries and their candidates.

    `queries` and `candidates` are those of the training window alone; events count until the last of these queries, so
    that a kind of event, or its first value, that comes later has no features.
    `use` are names and globs of the registry (`!` takes away), `custom` SQL expressions by name, `exclude` candidate
    fields that no feature may read: they tell the truth.
    """
    check_expressions(custom or {})
    queries, candidates = align_ids(queries, candidates, QUERY)
    asked = queries.join(candidates.select(QUERY).unique(), on=QUERY, how="semi", maintain_order="left")
    known = _known_events(log, asked)
    then = _as_known(log, known, asked[TIMESTAMP].max())
    description = describe(then, asked, candidates, pool=pool, options=options, exclude=exclude)
    context = Context(log, join_rows(log, asked, candidates), description, rates={}, queries=asked)
    return _learn(description, use, custom, _count_kinds(known), lambda: [context])


def fit_large_features(
    past: Past,
    blocks: Blocks,
    *,
    pool: Pool,
    use: Sequence[str] = EVERYTHING,
    custom: Mapping[str, str] | None = None,
    options: Options = NO_OPTIONS,
    exclude: Collection[str] = (),
) -> Fitted:
    """The same for a log larger than memory, whose training queries come in blocks.

    Raises DataError, too, for features that would need all of the log in memory.
    """
    check_expressions(custom or {})
    last = blocks.queries.select(pl.col(TIMESTAMP).max()).collect().item()
    known = past.timeline.before(pl.Series([last], dtype=TIME).to_physical().to_numpy())[0]
    log = _as_known(past.log, past.kinds_before(known), last)
    description = describe(log, blocks.queries, blocks.candidates, pool=pool, options=options, exclude=exclude)

    def contexts() -> Iterator[Context]:
        past.restart()
        for queries, candidates in blocks:
            yield Context(past.log, join_rows(past.log, queries, candidates), description, {}, queries, past)

    _check_by_blocks(past, blocks, select_features(use, description), description)
    return _learn(description, use, custom, past.timeline.counts_before(known), contexts)


def _check_by_blocks(past: Past, blocks: Blocks, features: Sequence[Feature], description: Description) -> None:
    """Builds each feature for a few queries, before many are."""
    queries, candidates = next(iter(blocks))
    some = queries.head(_PROBED)
    rates = dict.fromkeys(description.kinds, 0.0)
    context = Context(past.log, join_rows(past.log, some, candidates), description, rates, some, past)
    refused = [feature.spec.name for feature in features if _needs_all(feature, context)]
    if refused:
        raise WholeLogError(
            f"some features look at the whole log at once: {listed(refused, most=8)}",
            expected="only such as can be made block by block, as the log is larger than memory.limit",
            fix=f"write features.drop = {refused}, or raise the limit",
        )


def _needs_all(feature: Feature, context: Context) -> bool:
    try:
        feature.build(context)
    except WholeLogError:
        return True
    return False


class Blocks(Protocol):
    """Queries and candidates in files: all of both, and, one after the other in order of time, blocks of them."""

    @property
    def queries(self) -> pl.LazyFrame: ...
    @property
    def candidates(self) -> pl.LazyFrame: ...
    def __iter__(self) -> Iterator[tuple[pl.DataFrame, pl.DataFrame]]: ...


def _learn(
    description: Description,
    use: Sequence[str],
    custom: Mapping[str, str] | None,
    counts: Mapping[str, int],
    contexts: Callable[[], Iterable[Context]],
) -> Fitted:
    """`counts`: kind -> how many events of it the training window knows; `contexts`: all rows of that window."""
    features = select_features(use, description)
    return Fitted(
        description=description,
        names=tuple(feature.spec.name for feature in features),
        custom=dict(custom or {}),
        rates=_rates(counts, description),
        levels=_levels(contexts, [feature for feature in features if feature.spec.dtype == "category"]),
    )


def _as_known(log: Log, events: pl.DataFrame, last: object) -> Log:
    """The log as it was at the time of the last training query, of which `events` are known."""
    until = last if isinstance(last, datetime) else None
    return replace(log, events=events, items=begun_by(log.items, until), users=begun_by(log.users, until))


def _known_events(log: Log, queries: pl.DataFrame) -> pl.DataFrame:
    """All that the last of the queries can know."""
    timeline = Timeline(log.events, log.delay)
    last = queries[TIMESTAMP].sort().tail(1).to_physical().to_numpy()
    return timeline.events.head(int(timeline.before(last).sum()))


def _count_kinds(events: pl.DataFrame) -> dict[str, int]:
    return dict(events[EVENT].cast(pl.String).value_counts().iter_rows())


def _rates(counts: Mapping[str, int], description: Description) -> dict[str, float]:
    """Per kind its events per impression, or per event where no impressions are logged."""
    every = sum(counts.values()) if description.shown is None else counts.get(description.shown, 0)
    return {kind: counts.get(kind, 0) / every if every else 0.0 for kind in description.interactions}


def _levels(contexts: Callable[[], Iterable[Context]], categories: Sequence[Feature]) -> dict[str, tuple[str, ...]]:
    found: dict[str, set[str]] = {feature.spec.name: set() for feature in categories}
    for context in contexts() if categories else ():
        for feature in categories:
            found[feature.spec.name].update(fit_categories(feature.build(context)))
    return {name: fit_categories(pl.Series(list(levels), dtype=pl.String)) for name, levels in found.items()}
