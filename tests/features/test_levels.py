"""Counts and rates of the levels of fields, as formulas and against plain loops."""

from __future__ import annotations

from datetime import timedelta

import polars as pl
import pytest
from hypothesis import given, settings

from features.activity import PRIOR_WEIGHT
from features.description import Description, Field, Options
from features.fitted import fit_features
from features.log import make_log
from features.registry import resolve
from features.rows import join_rows
from features.table import build_table
from tests.features.factories import World, at, clean, worlds
from tests.features.oracles import field_of_event, seen_before

DESCRIPTION = Description(
    kinds=("click", "impression", "purchase"),
    valued=("purchase",),
    shown="impression",
    users=True,
    item_fields=(Field("brand", "category"), Field("title", "text"), Field("price", "number")),
    user_fields=(Field("segment", "category"),),
    query_fields=(Field("text", "category"), Field("text", "text"), Field("note", "text")),
    shown_fields=(Field("badge", "category"),),
    options=Options(windows=("7d", "30d")),
)


def test_levels_when_listed_then_every_field_with_levels_and_no_name_twice():
    names = [spec.name for spec in resolve(["field.*"], DESCRIPTION)]
    fields = list(dict.fromkeys(name.split(".")[1] for name in names))
    assert fields == ["item_brand", "user_segment", "query_text", "query_note", "shown_badge"]
    counts = 4 * 3
    rates = 2 * 3
    values = 3 + 1
    trends, recency = 3, 1
    assert len(names) == len(set(names)) == len(fields) * (counts + rates + values + trends + recency)


def test_levels_when_the_log_knows_no_users_then_none_of_their_fields():
    anonymous = Description(kinds=("click",), user_fields=DESCRIPTION.user_fields, item_fields=DESCRIPTION.item_fields)
    assert {spec.name.split(".")[1] for spec in resolve(["field.*"], anonymous)} == {"item_brand"}


def test_levels_when_null_unseen_or_not_in_the_catalogue_then_missing_zero_and_the_prior():
    items = pl.DataFrame({"item": [1, 2, 3, 4], "brand": ["a", "a", None, "b"]})
    events = [
        {"item": item, "hour": hour, "event": kind}
        for item, hour, kind in [(1, 1, "impression"), (2, 2, "impression"), (2, 3, "click"), (3, 3, "click")]
    ]
    queries = pl.DataFrame({"query": [1], "timestamp": [at(10)]})
    candidates = pl.DataFrame({"query": [1] * 5, "item": range(1, 6)})
    log = make_log(clean(events), items=items, shown="impression")
    fitted = fit_features(log, queries, candidates, pool="shown", use=["field.*"], options=Options(windows=("8h",)))
    rows = build_table(log, queries, candidates, fitted).frame.sort("item")
    assert rows["field.item_brand.click_count"].to_list() == [1, 1, None, 0, None]
    assert rows["field.item_brand.event_count_8h"].to_list() == [2, 2, None, 0, None]
    prior = 2 / 2
    rate = pytest.approx((1 + PRIOR_WEIGHT * prior) / (2 + PRIOR_WEIGHT))
    assert rows["field.item_brand.click_rate"].to_list() == [rate, rate, None, prior, None]
    last = pytest.approx((10 - 3) / 24)
    assert rows["field.item_brand.days_since_last"].to_list() == [last, last, None, None, None]


KEYS = ("item.category", "user.segment", "query.text", "query.device", "shown.badge")


@settings(deadline=None, max_examples=15)
@given(worlds())
def test_levels_when_counted_by_a_plain_loop_then_the_same(world: World):
    fitted, log = world.fit(use=["field.*"]), world.log()
    description = fitted.description
    events = [row | {key: field_of_event(log, row, key) for key in KEYS} for row in log.events.to_dicts()]
    levels = levels_of_rows(world)
    for row in world.table(fitted).frame.to_dicts():
        for key in KEYS:
            table, field = key.split(".")
            prefix, level = f"field.{table}_{field}", levels[row["query"], row["item"]][key]
            if f"{prefix}.days_since_last" not in fitted.names:
                continue
            entity = {key: level}
            for kind in description.kinds:
                for suffix, window in (("", None), ("_3h", timedelta(hours=3))):
                    known = {"entity": entity, "window": window, "delay": log.delay}
                    count, shown = (
                        len(list(seen_before(events, row["timestamp"], kinds=(name,), **known)))
                        for name in (kind, "impression")
                    )
                    assert row[f"{prefix}.{kind}_count{suffix}"] == (None if level is None else count)
                    if f"{prefix}.{kind}_rate{suffix}" in row:
                        rate = (count + PRIOR_WEIGHT * fitted.rates[kind]) / (shown + PRIOR_WEIGHT)
                        assert row[f"{prefix}.{kind}_rate{suffix}"] == (None if level is None else pytest.approx(rate))


def levels_of_rows(world: World) -> dict[tuple[int, int], dict[str, object]]:
    """What each row shows of the fields, by query and item."""
    log = world.log()
    found = {}
    for row in join_rows(log, world.queries, world.candidates).to_dicts():
        as_event = {**row, "event": "impression"}
        found[row["query"], row["item"]] = {
            **{key: field_of_event(log, as_event, key) for key in ("item.category", "user.segment")},
            **{f"query.{name}": row[name] for name in ("text", "device")},
            "shown.badge": row["badge"],
        }
    return found
