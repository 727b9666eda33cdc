"""A package in service: what it ranked and what people did then, day by day, against what it was when it was made."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from features.columns import POSITION, SCORE
from pipeline.dataset import RankingDataset
from pipeline.drift import Days, Histogram, daily_counts, shares
from pipeline.metrics import Convention, ndcg_per_query
from pipeline.reductions import Interval, bootstrap_interval
from pipeline.results import query_users
from pipeline.scorer import Scorer
from pipeline.settings import Monitor

Floats = npt.NDArray[np.float64]

USUAL_TIMES = 6.0
"""A column that moved by itself while the run was judged may move so many times as far before it is an alarm.

The index of a user's features over some forty users a day is noise of 0.3 or so; four hundred features over a fortnight
reach five times their largest value of one week by chance.
"""

MORE_MISSING = 0.1
MOST_REMARKS = 10


@dataclass(frozen=True)
class Quality:
    """ndcg@k of one day: of the package's own order, and of the order that was served, where it is logged."""

    day: date | None
    queries: int
    model: Interval
    served: Interval | None


@dataclass(frozen=True)
class Drift:
    """A feature, or the score, day by day; None on days of too few queries. `level` is where its alarm starts."""

    name: str
    level: float
    index: tuple[float | None, ...]
    missing: tuple[float, ...]
    unknown: tuple[float, ...]
    missing_before: float
    unknown_before: float


@dataclass(frozen=True)
class Alarm:
    """What lay beyond its level on a day."""

    what: str
    day: date | None
    value: float
    level: float


@dataclass(frozen=True)
class Monitored:
    """All that `monitor` found; `days` are those of `quality` and of each `drift`, in order (None: no time known)."""

    metric: str
    expected: Interval
    days: tuple[date | None, ...]
    quality: tuple[Quality, ...]
    drift: tuple[Drift, ...]
    alarms: tuple[Alarm, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        plain: dict[str, Any] = _plain(asdict(self))
        return plain


def monitor(scorer: Scorer, served: RankingDataset, rule: Monitor, *, judged: bool) -> Monitored:
    """`served`: what was ranked, as rows of the package's features; `judged`: its relevance is known."""
    manifest = scorer.package.manifest
    convention, k = Convention(**manifest.convention), manifest.k[0]
    scores = scorer.score_features(served.features)
    metric, days = f"ndcg@{k}", Days.of(served)
    quality = tuple(_quality(served, days, scores, k, convention, manifest.config["seed"])) if judged else ()
    drift = [
        _drift(spec.name, manifest.reference["features"][spec.name], served.features[spec.name], days, rule)
        for spec in served.schema.features
    ]
    drift.append(_drift(SCORE, manifest.reference["score"], pl.Series(SCORE, scores), days, rule))
    expected = Interval(**manifest.metrics["test"][metric])
    alarms = [*_drift_alarms(drift, days), *_quality_alarms(metric, quality, days, expected, rule)]
    return Monitored(metric, expected, days.names, quality, tuple(drift), tuple(alarms))


def alarm_sentences(found: Monitored) -> list[str]:
    """One sentence per feature or metric that raised an alarm, the largest first."""
    by_name: dict[str, list[Alarm]] = {}
    for alarm in sorted(found.alarms, key=lambda each: abs(each.level - each.value), reverse=True):
        by_name.setdefault(alarm.what, []).append(alarm)
    return [_sentence(found.metric, alarms) for alarms in by_name.values()]


def remarks(found: Monitored) -> list[str]:
    """Features that are missing, or of a level training never saw, clearly more often than in training."""
    said: list[tuple[float, str]] = []
    for each in found.drift:
        for what, now, before in (
            ("missing", each.missing, each.missing_before),
            ("of a level that training never saw", each.unknown, each.unknown_before),
        ):
            more = [share - before if index is not None else 0.0 for share, index in zip(now, each.index, strict=True)]
            worst = int(np.argmax(more))
            if more[worst] > MORE_MISSING:
                on = _on(found.days[worst])
                said.append(
                    (
                        more[worst],
                        f"{each.name} is {what} in {now[worst]:.0%} of the rows{on} ({before:.0%} in training)",
                    )
                )
    said.sort(reverse=True)
    others = [f"so are {len(said) - MOST_REMARKS} more features"] if len(said) > MOST_REMARKS else []
    return [text for _, text in said[:MOST_REMARKS]] + others


def moved_most(found: Monitored) -> list[Drift]:
    """All columns, by how far they went towards, or beyond, the level of their alarm."""
    return sorted(found.drift, key=lambda each: (-largest(each) / each.level, each.name))


def largest(drift: Drift) -> float:
    """The largest index of any day; 0 where no day had rows enough."""
    return max((value for value in drift.index if value is not None), default=0.0)


def _quality(
    served: RankingDataset, days: Days, scores: Floats, k: int, convention: Convention, seed: int
) -> Iterator[Quality]:
    values = ndcg_per_query(scores, served.relevance, served.sizes, k, convention=convention)
    shown, users, place = _served_values(served, k, convention), query_users(served), days.of_query(served)
    for number, day in enumerate(days.names):
        mask = place == number
        clusters = None if users is None else users.filter(pl.Series(mask))
        model = bootstrap_interval(values[mask], clusters=clusters, seed=seed)
        order = None if shown is None else bootstrap_interval(shown[mask], clusters=clusters, seed=seed)
        yield Quality(day, int(mask.sum()), model, order)


def _served_values(served: RankingDataset, k: int, convention: Convention) -> Floats | None:
    """(Q,) ndcg of the order in which the lists were served; rows without a place come last."""
    if POSITION not in served.keys.columns or served.keys[POSITION].null_count() == served.rows:
        return None
    places = served.keys[POSITION].cast(pl.Float64)
    last = float(places.max() or 0.0) + 1  # type: ignore[arg-type]
    return ndcg_per_query(-places.fill_null(last).to_numpy(), served.relevance, served.sizes, k, convention=convention)


def _drift(name: str, reference: Mapping[str, Any], column: pl.Series, days: Days, rule: Monitor) -> Drift:
    fitted = Histogram.from_dict(reference)
    counts = daily_counts(fitted, column, days)
    index = tuple(fitted.index(day) if enough else None for day, enough in zip(counts, days.enough, strict=True))
    now, before = [shares(day) for day in counts], shares(fitted.counts)
    level = max(rule.psi_alarm, USUAL_TIMES * fitted.usual)
    return Drift(name, level, index, tuple(day[0] for day in now), tuple(day[1] for day in now), *before)


def _drift_alarms(drift: Sequence[Drift], days: Days) -> Iterator[Alarm]:
    for each in drift:
        for day, value in zip(days.names, each.index, strict=True):
            if value is not None and value > each.level:
                yield Alarm(each.name, day, value, each.level)


def _quality_alarms(
    metric: str, quality: Sequence[Quality], days: Days, expected: Interval, rule: Monitor
) -> Iterator[Alarm]:
    if expected.mean is None:
        return
    level = expected.mean - rule.ndcg_alarm
    for each, enough in zip(quality, days.enough, strict=False):
        if enough and each.model.high is not None and each.model.mean is not None and each.model.high < level:
            yield Alarm(metric, each.day, each.model.mean, level)


def _sentence(metric: str, alarms: Sequence[Alarm]) -> str:
    first = min(alarms, key=lambda alarm: alarm.day or date.min)
    others = f" and on {len(alarms) - 1} more day(s)" if len(alarms) > 1 else ""
    if first.what == metric:
        return f"{metric} is {first.value:.4f}{_on(first.day)}{others}, its interval below {first.level:.4f}"
    return f"{first.what} has moved: PSI {first.value:.3f}{_on(first.day)}{others}, above {first.level:.3f}"


def _on(day: date | None) -> str:
    return "" if day is None else f" on {day}"


def _plain(value: Any) -> Any:
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {key: _plain(entry) for key, entry in value.items()}
    return [_plain(entry) for entry in value] if isinstance(value, tuple | list) else value
