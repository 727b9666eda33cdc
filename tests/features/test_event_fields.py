"""Entities that are fields: of the item, the user and the query of an event, and of how it was shown."""

from __future__ import annotations

from datetime import timedelta

import polars as pl
import pytest
from hypothesis import given, settings

from features.context import Context
from features.errors import DataError
from features.log import make_log
from features.rows import join_rows
from tests.features.factories import World, at, clean, worlds
from tests.features.oracles import field_of_event, seen_before

KEYS = ("item.category", "user.segment", "query.text", "query.device", "shown.badge")


def context(events, rows, **tables):
    """Of rows (query, item, hour, user and fields), each a query of its own."""
    asked = pl.DataFrame({"query": range(100, 100 + len(rows)), "timestamp": [at(row.pop("hour", 10)) for row in rows]})
    of_item = {name: [row.pop(name, None) for row in rows] for name in ("item", "badge")}
    queries = asked.with_columns(pl.Series(name, [row.get(name) for row in rows]) for name in rows[0])
    candidates = pl.DataFrame({"query": asked["query"], **of_item})
    log = make_log(clean(events), **tables)
    return Context(log, join_rows(log, queries, candidates), description=None, rates={})


def counts(found: Context, *scope: str) -> list[int | None]:
    """Per row, in the order of the queries."""
    lookup = found.lookup(*scope)
    known = zip(lookup.count().tolist(), lookup.known, strict=True)
    return [count if there else None for count, there in known]


def event(hour: float, kind: str = "click", **columns: object) -> dict[str, object]:
    return {"item": 1, "hour": hour, "event": kind, **columns}


QUERIES = pl.DataFrame({"query": [1, 2, 3], "text": ["Red  hat", "red hat ", None], "timestamp": [at(1), at(5), None]})


def test_query_field_when_texts_differ_in_case_and_spaces_then_the_same_entity():
    events = [event(2, query=1), event(6, query=2), event(6, query=3), event(6, query=9), event(6)]
    found = context(events, [{"item": 1, "text": "RED hat"}, {"item": 1, "text": "blue"}], queries=QUERIES)
    assert counts(found, "query.text") == [2, 0]
    assert counts(found, "query.text", "item") == [2, 0]


def test_query_field_when_the_event_is_older_than_its_query_then_unknown():
    events = [event(4, query=2), event(5, query=2), event(0, query=3)]
    queries = QUERIES.with_columns(text=pl.lit("red hat"))
    assert counts(context(events, [{"item": 1, "text": "red hat"}], queries=queries), "query.text") == [2]


def test_query_field_when_the_log_has_no_queries_then_nothing_happened():
    found = context([event(4, query=2)], [{"item": 1, "text": "red hat"}, {"item": 1, "text": None}])
    assert counts(found, "query.text") == [0, None]


def test_user_field_when_versioned_then_that_of_the_event():
    users = pl.DataFrame({"user": [1, 1, 2], "valid_from": [at(0), at(5), at(0)], "segment": ["new", "loyal", "loyal"]})
    events = [event(3, user=1), event(6, user=1), event(3, user=2), event(3, user=9), event(3)]
    rows = [{"item": 1, "user": 2}, {"item": 1, "user": 1, "hour": 4}, {"item": 1, "user": 9}, {"item": 1}]
    rows = [{"user": None, **row} for row in rows]
    assert counts(context(events, rows, users=users), "user.segment") == [1, 2, None, None]


def test_shown_field_when_a_click_names_its_query_then_what_its_item_wore_in_it():
    shown = [event(1, "impression", query=1, badge="sale"), event(3, "impression", query=1, badge="new")]
    clicks = [event(2, query=1), event(3, query=1), event(4, query=2), event(4), event(5, query=1, badge="old")]
    rows = [{"item": 1, "badge": badge} for badge in ("sale", "new", "old", "none", None)]
    found = context([*shown, *clicks], rows, shown="impression")
    assert counts(found, "shown.badge") == [2, 2, 1, 0, None]


def test_shown_field_when_the_impression_arrives_after_the_click_then_not_known_by_then():
    events = [event(1, "impression", query=1, badge="sale"), event(2, query=1), event(4, query=1)]
    late = {"impression": timedelta(hours=2)}
    rows = [{"item": 1, "badge": "sale", "hour": hour} for hour in (3, 10)]
    assert counts(context(events, rows, shown="impression", delay=late), "shown.badge") == [0, 2]


def test_fields_when_the_catalogue_lacks_them_then_the_column_is_named():
    items = pl.DataFrame({"item": [1], "price": [1.0]})
    with pytest.raises(DataError, match="the items have no field 'category'"):
        context([event(1)], [{"item": 1}], items=items).lookup("item.category")


@settings(deadline=None, max_examples=40)
@given(worlds())
def test_lookups_when_counted_by_a_plain_loop_then_the_same(world: World):
    log = world.log()
    rows = join_rows(log, world.queries, world.candidates)
    found = Context(log, rows, description=None, rates={})
    events = [row | {key: field_of_event(log, row, key) for key in KEYS} for row in log.events.to_dicts()]
    asked = pl.DataFrame([found.row_values(key).alias(key) for key in (*KEYS, "user", "item")]).to_dicts()
    scopes = [(key,) for key in KEYS] + [("user", "item.category"), ("query.text", "item"), ("user.segment", "item")]
    for scope in scopes:
        expected = []
        for row, time in zip(asked, rows["timestamp"], strict=True):
            entity = {key: row[key] for key in scope}
            seen = seen_before(events, time, entity=entity, delay=log.delay)
            expected.append(None if None in entity.values() else len(list(seen)))
        assert counts(found, *scope) == expected, scope
