"""How fast a log lives: in which windows there is something to count, and which silence ends a session."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

import numpy as np
import polars as pl

from features.columns import EVENT, ITEM, TIMESTAMP, USER
from features.description import NO_OPTIONS
from features.durations import parse_duration
from features.log import Log

WINDOWS: Final = ("1h", "6h", "1d", "3d", "7d", "14d", "30d", "90d", "180d", "365d")
GAPS: Final = ("5m", "10m", "15m", "30m", "1h", "2h", "4h", "8h")
ENOUGH: Final = 0.5
"""Events that an item must have in the shortest window on average."""
FEWEST_GAPS: Final = 200
CLEAR: Final = 0.7
"""A silence ends a session where gaps of its length are rarer than so much of those on the rarer side of it."""

Reasoned = tuple[object, str]


def suggest_windows(log: Log, until: datetime) -> Reasoned:
    """Up to three windows, from the shortest in which items have something to the longest that fits thrice."""
    events = log.events.lazy().filter(pl.col(TIMESTAMP) < until)
    if log.shown is not None:
        events = events.filter(pl.col(EVENT).cast(pl.String) != log.shown)
    found = events.select(
        pl.len(),
        pl.col(ITEM).n_unique().alias("items"),
        (pl.col(TIMESTAMP).max() - pl.col(TIMESTAMP).min()).alias("span"),
    ).collect()
    count, items, span = found.row(0)
    days = (span or timedelta(0)) / timedelta(days=1)
    rate = count / max(items, 1) / max(days, 1e-9)
    fitting = [window for window in WINDOWS if 3 * parse_duration(window) <= timedelta(days=days)]
    telling = [window for window in fitting if rate * (parse_duration(window) / timedelta(days=1)) >= ENOUGH]
    chosen = [telling[place] for place in sorted({0, len(telling) // 2, len(telling) - 1})] if telling else fitting[-1:]
    why = f"{days:.0f} days of training in which an item has {rate:.2g} actions a day"
    return (tuple(chosen), why) if chosen else (NO_OPTIONS.windows, f"{why}: the usual ones, as none fits thrice")


def suggest_gap(log: Log) -> Reasoned:
    """The silence at which the pauses of users are rarest, where there is such a valley; else 30 minutes."""
    usual = NO_OPTIONS.session_gap
    if USER not in log.events.collect_schema():
        return usual, "the usual: the log names no users"
    seconds = _pauses(log)
    if len(seconds) < FEWEST_GAPS:
        return usual, f"the usual: only {len(seconds)} pauses of users to learn from"
    around = {gap: _around(seconds, parse_duration(gap).total_seconds()) for gap in GAPS}
    best = min(GAPS, key=lambda gap: (around[gap], gap != usual))
    place = GAPS.index(best)
    sides = min(
        max(around[gap] for gap in GAPS[:place] or (best,)), max(around[gap] for gap in GAPS[place + 1 :] or (best,))
    )
    if around[best] > CLEAR * sides:
        return usual, "the usual: no length of pause is clearly rarer than longer and shorter ones"
    shorter = float(np.mean(seconds < parse_duration(best).total_seconds()))
    return best, f"pauses of about this length are rarest; {shorter:.0%} are shorter"


def _pauses(log: Log) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Seconds between events of a user, one after the other; those at the same time left out."""
    times = log.events.lazy().select(USER, TIMESTAMP).drop_nulls().unique().sort(USER, TIMESTAMP)
    pause = (pl.col(TIMESTAMP) - pl.col(TIMESTAMP).shift(1)).dt.total_seconds()
    return (
        times.select(pause.filter(pl.col(USER) == pl.col(USER).shift(1)))
        .collect()
        .to_series()
        .cast(pl.Float64)
        .to_numpy()
    )


def _around(seconds: np.ndarray[tuple[int], np.dtype[np.float64]], length: float) -> int:
    return int(np.sum((seconds >= length / 2) & (seconds < length * 2)))
