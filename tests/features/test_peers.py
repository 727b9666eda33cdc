"""An item among its like: shares and rates as formulas, and against plain loops."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given, settings

from features.activity import PRIOR_WEIGHT, rated_kinds
from features.fitted import fit_features
from features.log import make_log
from features.table import build_table
from tests.features.factories import World, at, clean, worlds
from tests.features.oracles import field_of_event, seen_before

ITEMS = pl.DataFrame({"item": [1, 2, 3, 4, 5], "brand": ["a", "a", "b", None, "c"]})


def event(item: int, hour: float, kind: str = "click") -> dict[str, object]:
    return {"item": item, "hour": hour, "event": kind}


def build(events, items=ITEMS):
    """The features of items 1..6 at hour 10."""
    queries = pl.DataFrame({"query": [1], "timestamp": [at(10)]})
    candidates = pl.DataFrame({"query": [1] * 6, "item": range(1, 7)})
    log = make_log(clean(events), items=items, shown="impression")
    fitted = fit_features(log, queries, candidates, pool="shown", use=["item.*"])
    return {row["item"]: row for row in build_table(log, queries, candidates, fitted).frame.to_dicts()}


EVENTS = [
    *(event(item, 1, "impression") for item in (1, 1, 2, 3, 4)),
    *(event(item, 2, "impression") for item in (1, 2, 3)),
    *(event(item, hour) for item, hour in ((1, 3), (1, 4), (2, 3), (4, 3))),
]


def test_share_when_items_have_peers_then_of_their_interactions():
    rows = build(EVENTS)
    shares = [rows[item]["item.share_of_brand"] for item in range(1, 7)]
    assert shares == [pytest.approx(2 / 3), pytest.approx(1 / 3), None, None, None, None]


def test_rate_above_when_smoothed_with_the_rate_of_its_peers_then_0_for_a_new_item():
    rows = build(EVENTS)
    impressions = clean(EVENTS).filter(pl.col("event") == "impression").height
    of_brand = (3 + PRIOR_WEIGHT * 4 / impressions) / (4 + PRIOR_WEIGHT)
    of_item = (2 + PRIOR_WEIGHT * of_brand) / (2 + PRIOR_WEIGHT)
    assert rows[1]["item.click_rate_above_brand"] == pytest.approx(of_item - of_brand, abs=1e-6)
    assert rows[5]["item.click_rate_above_brand"] == 0.0
    assert [rows[item]["item.click_rate_above_brand"] for item in (4, 6)] == [None, None]
    assert "item.impression_rate_above_brand" not in rows[1]


def test_share_when_an_item_brings_its_history_into_another_category_then_above_1():
    items = pl.DataFrame({"item": [1, 1, 2], "valid_from": [at(0), at(5), at(0)], "brand": ["a", "b", "b"]})
    rows = build([event(1, 1), event(1, 2), event(2, 3), event(2, 4, "impression")], items=items)
    assert rows[1]["item.share_of_brand"] == 2.0


@settings(deadline=None, max_examples=25)
@given(worlds())
def test_peers_when_computed_by_a_plain_loop_then_the_same(world: World):
    fitted, log = world.fit(use=["item.*"]), world.log()
    events = [row | {"category": field_of_event(log, row, "item.category")} for row in log.events.to_dicts()]
    categories = dict(world.items.select("item", "category").iter_rows())

    def count(time, kinds, **entity):
        return len(list(seen_before(events, time, entity=entity, kinds=kinds, delay=log.delay)))

    for row in world.table(fitted).frame.to_dicts():
        time, item, category = row["timestamp"], row["item"], categories.get(row["item"])
        done = fitted.description.interactions
        every = 0 if category is None else count(time, done, category=category)
        share = count(time, done, item=item) / every if every else None
        assert row["item.share_of_category"] == (pytest.approx(share) if every else None)
        for kind in rated_kinds(fitted.description):
            prior = (count(time, (kind,), category=category) + PRIOR_WEIGHT * fitted.rates[kind]) / (
                count(time, ("impression",), category=category) + PRIOR_WEIGHT
            )
            own = (count(time, (kind,), item=item) + PRIOR_WEIGHT * prior) / (
                count(time, ("impression",), item=item) + PRIOR_WEIGHT
            )
            expected = None if category is None else pytest.approx(own - prior, abs=1e-6)
            assert row[f"item.{kind}_rate_above_category"] == expected
