"""Every registered feature, asked block by block of a log in files: refused by name, or the same as in memory."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from features.catalogues import read_queries
from features.context import Context
from features.fitted import Fitted, fit_large_features
from features.log import Log
from features.past import Past, known_items
from features.room import Room
from features.rows import join_rows
from features.running import WholeLogError
from features.spill import write_piece
from features.table import build_table
from features.windows import ItemPool, Timeline
from tests.features.factories import CUSTOM, World, worlds
from tests.features.test_time import EVERYTHING_AT_ONCE

COUNTED = [
    f"{scope}.{what}" for scope in ("item", "user") for what in ("click_count_3h", "click_rate", "days_since_last")
]
ALWAYS = {
    *COUNTED,
    "item.days_since_first",
    "item.user_count",
    "item.purchase_value_mean",
    "cross.user_item_click_count",
}
"""What is never refused."""


def in_files(log: Log, room: Room) -> Log:
    """The same log, its events in two files."""
    halves = (log.events.lazy().head(3), log.events.lazy().slice(3))
    return replace(log, events=pl.scan_ipc([write_piece(half.collect(), room) for half in halves]))


def blocks(queries: pl.DataFrame, size: int) -> list[pl.DataFrame]:
    ordered = queries.sort("timestamp", "query")
    return [ordered[start : start + size] for start in range(0, max(ordered.height, 1), size)]


def by_blocks(log: Log, queries: pl.DataFrame, candidates: pl.DataFrame, fitted: Fitted, room: Room) -> Fitted:
    """The fitted features without those that need all of the log."""
    past = Past(log, room)
    rows = join_rows(log, queries, candidates)
    context = Context(log, rows, fitted.description, fitted.rates, queries, past)

    def is_known(name: str) -> bool:
        feature = next(feature for feature in fitted.features() if feature.spec.name == name)
        try:
            feature.build(context)
        except WholeLogError:
            return False
        return True

    return replace(fitted, names=tuple(name for name in fitted.names if is_known(name)))


@cache
def _everything() -> Fitted:
    return EVERYTHING_AT_ONCE.fit()


@settings(deadline=None, max_examples=4)
@given(world=worlds(), rows=st.integers(2, 9), size=st.integers(1, 3))
def test_table_when_built_block_by_block_then_the_same(tmp_path_factory, world: World, rows: int, size: int):
    room = Room(tmp_path_factory.mktemp("room"), rows)
    queries = read_queries(world.queries)
    fitted = _everything()
    log = in_files(world.log(), room)
    known = by_blocks(log, queries, world.candidates, fitted, room)
    assert set(known.names) >= ALWAYS
    expected = build_table(world.log(), queries, world.candidates, known).frame
    past = Past(log, room)
    tables = [build_table(log, block, world.candidates, known, past=past).frame for block in blocks(queries, size)]
    found = pl.concat(tables)
    assert [name for name in found.columns if not found[name].equals(expected[name], null_equal=True)] == []


@settings(deadline=None, max_examples=20)
@given(world=worlds(), rows=st.integers(2, 9))
def test_item_pool_when_events_are_in_files_then_the_same(tmp_path_factory, world: World, rows: int):
    room = Room(tmp_path_factory.mktemp("room"), rows)
    log = world.log()
    whole, large = ItemPool(Timeline(log.events, log.delay), log.items), known_items(in_files(log, room))
    assert large.frame.equals(whole.frame)


class Training:
    """Two blocks of training queries."""

    def __init__(self, world: World) -> None:
        asked = read_queries(world.queries).sort("timestamp", "query")
        asked = asked.join(world.candidates.select("query"), on="query", how="semi", maintain_order="left")
        self.queries, self.candidates = asked.lazy(), world.candidates.lazy()
        self.held = [(block, world.candidates) for block in blocks(asked, 2)]

    def __iter__(self):
        for queries, candidates in self.held:
            yield queries, candidates.join(queries.select("query"), on="query", how="semi", maintain_order="left")


def test_fitted_when_learned_from_blocks_then_the_same(tmp_path):
    world, room = EVERYTHING_AT_ONCE, Room(tmp_path, 5)
    log = in_files(world.log(), room)
    use = ["item.*count*", "item.category", "shown.*", "query.device", "item.*rate"]
    options = world.fit().description.options
    found = fit_large_features(Past(log, room), Training(world), pool="shown", use=use, custom=CUSTOM, options=options)
    assert found == world.fit(use=use)


def test_features_when_they_need_all_of_the_log_then_named_in_one_sentence(tmp_path):
    world, room = EVERYTHING_AT_ONCE, Room(tmp_path, 5)
    log = in_files(world.log(), room)
    found = r"whole log at once: session.events; .*drop = \['session.events'\]"
    with pytest.raises(WholeLogError, match=found):
        fit_large_features(Past(log, room), Training(world), pool="shown", use=["session.events", "item.weight"])
