"""A log larger than memory on its way to tables: the steps of `pipeline.log`, for one block of queries at a time.

First every block is judged and gets its candidates; then the features are fitted on the blocks of the training window;
then each block becomes a table, in order of time. The tables of the blocks are the tables of `pipeline.log`, cut.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

import polars as pl

from features.columns import ITEM, POPULARITY, POSITION, QUERY, TIMESTAMP
from features.fitted import Fitted, fit_large_features
from features.log import count_unmatched
from features.past import Past, known_items
from features.queries import Queries
from features.relevance import Relevance, WatchTargets, targets_of, watched_seconds
from features.room import Room
from features.spill import write_piece
from features.table import Table, build_table
from pipeline.config import Config
from pipeline.dealt import Dealt, Say, deal_log
from pipeline.log import (
    check_parts,
    definitions_of,
    find_candidates,
    fit_options,
    fit_targets,
    has_fractions,
    is_continuous,
    judge_events,
    notes_on,
    pool_note,
    rivals_in,
)
from pipeline.split import Borders, Origin, assign_by_time, time_borders

PARTS: Final = ("train", "valid", "test")


@dataclass(frozen=True)
class LargeParts:
    """`tables` makes those of a part, block by block; ask for train, valid and test in this order, each once."""

    tables: Callable[[str], Iterator[Table]]
    origin: Origin


@dataclass(frozen=True)
class _Files:
    """What a block has in one part: queries that have candidates, the candidates, and what was judged of them."""

    queries: Path
    candidates: Path
    relevance: Path


@dataclass
class _Judged:
    """All blocks. `fields`: column of the candidates -> how many of its values are known."""

    files: Mapping[str, list[_Files]] = field(default_factory=lambda: {part: [] for part in PARTS})
    rows: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    fields: Counter[str] = field(default_factory=Counter)
    closed: int = 0
    candidates: int = 0
    fractions: bool = False

    def columns(self) -> list[str]:
        """Of the candidates those in which anything is known."""
        return [name for name, known in self.fields.items() if known or name in (QUERY, ITEM, POSITION)]


@dataclass(frozen=True)
class _Part:
    """The blocks of a part, as `features.fitted.fit_large_features` takes them."""

    judged: _Judged
    name: str

    @property
    def queries(self) -> pl.LazyFrame:
        return pl.scan_ipc([files.queries for files in self.judged.files[self.name]])

    @property
    def candidates(self) -> pl.LazyFrame:
        scan = pl.scan_ipc([files.candidates for files in self.judged.files[self.name]])
        return scan.select(self.judged.columns())

    def __iter__(self) -> Iterator[tuple[pl.DataFrame, pl.DataFrame]]:
        for files in self.judged.files[self.name]:
            yield pl.read_ipc(files.queries), pl.read_ipc(files.candidates, columns=self.judged.columns())


def load_large_parts(config: Config, room: Room, say: Say) -> LargeParts:
    """What `pipeline.log.load_parts` gives, in blocks of at most `room.rows` rows; `say` hears of the progress.

    Raises what that raises and `pipeline.dealt.deal_log` does, and DataError for a feature that needs all of the log.
    """
    dealt = deal_log(config, room, say)
    closed = dealt.closed(dealt.spans)[TIMESTAMP]
    borders = time_borders(closed, valid=config.split.valid, test=config.split.test, gap=config.split_gap)
    targets = fit_targets(config, dealt.log, lambda: _medians(dealt, borders))
    judged = _judge(dealt, borders, targets, say)
    check_parts({part: judged.rows[part] for part in PARTS}, borders)
    past = Past(dealt.log, room)
    say("Fitting the features.")
    fitted = fit_large_features(past, _Part(judged, "train"), **fit_options(config))
    past.restart()
    origin = Origin(
        split=borders.describe(closed),
        notes=(*_notes(dealt, judged), *pool_note(config)),
        rivals=rivals_in([POPULARITY, *judged.columns()]),
        definitions=definitions_of(fitted, targets),
        unseen_from=borders.test_from,
        rejected=dealt.read.rejected,
        continuous=is_continuous(config, fractions=judged.fractions),
    )
    return LargeParts(partial(_build, past, judged, fitted, say), origin)


def _build(past: Past, judged: _Judged, fitted: Fitted, say: Say, part: str) -> Iterator[Table]:
    blocks = _Part(judged, part)
    for number, (queries, candidates) in enumerate(blocks):
        files = judged.files[part][number]
        relevance = pl.read_ipc(files.relevance)
        yield build_table(past.log, queries, candidates, fitted, relevance=relevance, past=past)
        _say_some(say, f"Features of {part}", number + 1, len(judged.files[part]))


def _say_some(say: Say, what: str, done: int, total: int) -> None:
    """A line for about every tenth of the work."""
    if done % max(1, total // 10) == 0 or done == total:
        say(f"{what}: {done} of {total} blocks.")


def _notes(dealt: Dealt, judged: _Judged) -> tuple[str, ...]:
    younger = dealt.spans.height - judged.closed
    counts = {**count_unmatched(dealt.log), **judged.counts, "open_queries": younger}
    return notes_on(dealt.read, counts, judged.closed, judged.candidates)


def _medians(dealt: Dealt, borders: Borders) -> WatchTargets:
    rule = dealt.config.relevance
    kind = rule.watch.event if rule.watch else None
    return targets_of(
        [
            watched_seconds(dealt.queries(number), until=borders.train_until, kind=kind, window=rule.window)
            for number in range(len(dealt))
        ]
    )


def _judge(dealt: Dealt, borders: Borders, targets: float | WatchTargets | None, say: Say) -> _Judged:
    """The candidates and the relevance of every block."""
    config, judged = dealt.config, _Judged()
    sampled = config.candidates.source == "sampled" or dealt.log.shown is None
    pool = known_items(dealt.log) if sampled else None
    judged.counts["events_without_query"] = dealt.events.select(pl.col(QUERY).null_count()).collect().item()
    for number in range(len(dealt)):
        queries = dealt.queries(number)
        relevance = judge_events(config, queries, targets, strict=False)
        closed = dealt.closed(queries.frame)
        found = find_candidates(config, dealt.log, queries, closed, relevance, pool=pool, strict=False)
        _count(judged, queries, relevance, found.counts)
        judged.closed += closed.height
        judged.candidates += found.frame.height
        judged.fields.update({name: found.frame[name].count() for name in found.frame.columns})
        _file(judged, closed, found.frame, relevance.frame, borders, dealt.room)
        _say_some(say, "Candidates", number + 1, len(dealt))
    return judged


def _count(judged: _Judged, queries: Queries, relevance: Relevance, candidates: Mapping[str, int]) -> None:
    for counts in (queries.counts, relevance.counts, candidates):
        judged.counts.update(counts)
    judged.fractions |= has_fractions(relevance)


def _file(
    judged: _Judged,
    closed: pl.DataFrame,
    candidates: pl.DataFrame,
    relevance: pl.DataFrame,
    borders: Borders,
    room: Room,
) -> None:
    """What a block has in each part, as files; the queries of gaps are left out."""
    part_of = assign_by_time(closed[TIMESTAMP], borders)
    for part in PARTS:
        asked = closed.filter(part_of == part).join(
            candidates.select(QUERY).unique(), on=QUERY, how="semi", maintain_order="left"
        )
        if not asked.height:
            continue
        own, true = (
            table.join(asked.select(QUERY), on=QUERY, how="semi", maintain_order="left")
            for table in (candidates, relevance)
        )
        judged.rows[part] += own.height
        judged.files[part].append(_Files(write_piece(asked, room), write_piece(own, room), write_piece(true, room)))
