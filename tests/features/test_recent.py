"""The last items of a user and co-visitation, against plain loops."""

from __future__ import annotations

from itertools import pairwise
from math import sqrt

import pytest
from hypothesis import given, settings

from features import covisit
from features.covisit import REACH
from tests.features.factories import World, worlds
from tests.features.oracles import seen_before
from tests.features.test_families import ITEMS, build, event
from tests.features.test_session import GAP, sessions


def interactions(log, kinds, time, **entity):
    return list(seen_before(log.events.to_dicts(), time, entity=entity, kinds=kinds, delay=log.delay))


def last_items(done, most):
    """The different items among the last interactions, the latest first, with how long ago each was."""
    found = {}
    for place, row in enumerate(reversed(done[-most:]), start=1):
        found.setdefault(row["item"], (place, row))
    return found


def mean(values):
    return sum(values) / len(values) if values else None


@settings(deadline=None, max_examples=30)
@given(worlds())
def test_recent_when_found_by_a_plain_loop_then_the_same(world: World):
    log, fitted = world.log(), world.fit(use=["recent.*"], custom={})
    fields = {row["item"]: row for row in world.items.to_dicts()}
    for row in world.table(fitted).frame.to_dicts():
        if row["user"] is None:
            assert {row[name] for name in fitted.names} == {None}
            continue
        recent = last_items(interactions(log, fitted.description.interactions, row["timestamp"], user=row["user"]), 3)
        own = fields.get(row["item"], {"category": None, "weight": None})
        assert row["recent.items"] == len(recent)
        assert row["recent.item_place"] == (recent[row["item"]][0] if row["item"] in recent else None)
        theirs = [fields[item] for item in recent if item in fields]
        same = [other["category"] == own["category"] for other in theirs]
        share = None if own["category"] is None or not recent else sum(same) / len(recent)
        assert row["recent.category_share"] == (None if share is None else pytest.approx(share))
        weight = mean([other["weight"] for other in theirs if other["weight"] is not None])
        gap = None if own["weight"] is None or weight is None else own["weight"] - weight
        assert row["recent.weight_gap"] == (None if gap is None else pytest.approx(gap))


def visits_of(done):
    """Interactions with another item than the one before."""
    return [row for before, row in pairwise([{"item": None}, *done]) if before["item"] != row["item"]]


def counted(log, kinds, time):
    """Visits of each item and pairs of items, over all users, that a query at `time` knows."""
    visits, pairs = {}, {}
    for user in log.events["user"].drop_nulls().unique():
        own = visits_of(interactions(log, kinds, time, user=user))
        for place, row in enumerate(own):
            visits[row["item"]] = visits.get(row["item"], 0) + 1
            for other in own[max(0, place - REACH) : place]:
                if other["item"] != row["item"]:
                    pair = frozenset((other["item"], row["item"]))
                    pairs[pair] = pairs.get(pair, 0) + 1
    return visits, pairs


@settings(deadline=None, max_examples=30)
@given(worlds())
def test_covisit_when_counted_by_a_plain_loop_then_the_same(world: World):
    log, fitted = world.log(), world.fit(use=["covisit.*"], custom={})
    kinds = fitted.description.interactions
    for row in world.table(fitted).frame.to_dicts():
        if row["user"] is None:
            assert {row[name] for name in fitted.names} == {None}
            continue
        visits, pairs = counted(log, kinds, row["timestamp"])
        seen = list(seen_before(log.events.to_dicts(), row["timestamp"], entity={"user": row["user"]}, delay=log.delay))
        last = sessions(seen, GAP)[-1] if seen else []
        now = last if last and row["timestamp"] - last[-1]["timestamp"] <= GAP else []
        recent = last_items([other for other in seen if other["event"] in kinds], 3)
        counts = {item: pairs.get(frozenset((item, row["item"])), 0) for item in recent}
        strength = {item: n / sqrt(visits[item] * visits[row["item"]]) if n else 0.0 for item, n in counts.items()}
        in_session = [strength[item] for item, (_, other) in recent.items() if other in now]
        for name, values in (("user", list(strength.values())), ("session", in_session)):
            assert row[f"covisit.{name}_sum"] == (pytest.approx(sum(values), abs=1e-6) if values else None)
            assert row[f"covisit.{name}_max"] == (pytest.approx(max(values), abs=1e-6) if values else None)
        first = next(iter(counts.items()), None)
        expected = None if first is None else first[1] / visits[first[0]]
        assert row["covisit.user_last"] == (None if expected is None else pytest.approx(expected))


SEQUENCES = [
    *(event(item, hour, user=2) for item, hour in ((1, 1), (1, 1.5), (2, 2), (3, 3))),
    *(event(item, hour, user=3) for item, hour in ((2, 4), (1, 5), (9, 20))),
    *(event(item, hour) for item, hour in ((1, 8),)),
]


def test_covisit_when_two_users_met_both_items_then_two_pairs():
    rows = build(SEQUENCES, {"query": [1] * 5, "item": [1, 2, 3, 4, 9]})
    strengths = [rows[item]["covisit.user_sum"] for item in (1, 2, 3, 4, 9)]
    assert strengths == pytest.approx([0, 2 / sqrt(3 * 2), 1 / sqrt(3 * 1), 0, 0])
    assert rows[2]["covisit.user_last"] == pytest.approx(2 / 3)
    assert rows[2]["covisit.session_sum"] is None
    assert build(SEQUENCES, {"query": [1], "item": [2]}, gap="2h")[2]["covisit.session_sum"] == pytest.approx(
        2 / sqrt(6)
    )


def test_covisit_when_asked_in_small_blocks_then_the_same(monkeypatch):
    pairs = {"query": [1] * 5, "item": [1, 2, 3, 4, 9]}
    whole = build(SEQUENCES, pairs)
    monkeypatch.setattr(covisit, "_AT_ONCE", 1)
    assert build(SEQUENCES, pairs) == whole


def test_recent_when_a_category_is_shared_then_the_share_of_the_last_items():
    done = [event(item, hour) for hour, item in enumerate((3, 4, 1, 2, 2, 1))]
    rows = build(done, {"query": [1] * 4, "item": [1, 3, 5, 6]}, items=ITEMS, recent=3)
    assert [rows[item]["recent.kind of_share"] for item in (1, 3, 5, 6)] == [1, 0, None, 1]
    assert [rows[item]["recent.item_place"] for item in (1, 3)] == [1, None]
    wider = build(done, {"query": [1], "item": [6]}, items=ITEMS, recent=10)
    assert (wider[6]["recent.kind of_share"], wider[6]["recent.items"]) == (0.5, 4)
    assert wider[6]["recent.stars_gap"] == pytest.approx(1 - (4 + 4 + 2) / 3)


def test_covisit_when_visits_lie_further_apart_than_the_reach_then_no_pair():
    visits = [event(item, item / 100, user=2) for item in range(1, REACH + 3)]
    rows = build([*visits, event(1, 9)], {"query": [1] * 2, "item": [REACH + 1, REACH + 2]})
    assert [rows[item]["covisit.user_last"] for item in (REACH + 1, REACH + 2)] == [1 / 2, 0]
