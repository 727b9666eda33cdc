"""Sessions as of the query, against a plain loop."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given, settings

from tests.features.factories import World, worlds
from tests.features.oracles import seen_before
from tests.features.test_families import build, event

GAP = timedelta(hours=2)
MINUTE = timedelta(minutes=1)


def sessions(events, gap):
    """The events of one user, cut where the next is more than a gap later."""
    found = []
    for row in events:
        if found and row["timestamp"] - found[-1][-1]["timestamp"] <= gap:
            found[-1].append(row)
        else:
            found.append([row])
    return found


@settings(deadline=None, max_examples=30)
@given(worlds())
def test_session_when_found_by_a_plain_loop_then_the_same(world: World):
    log, fitted = world.log(), world.fit(use=["session.*"], custom={})
    category = dict(world.items.select("item", "category").rows())
    for row in world.table(fitted).frame.to_dicts():
        if row["user"] is None:
            assert {row[name] for name in fitted.names} == {None}
            continue
        seen = list(seen_before(log.events.to_dicts(), row["timestamp"], entity={"user": row["user"]}, delay=log.delay))
        past = sessions(seen, GAP)
        runs = bool(past) and row["timestamp"] - past[-1][-1]["timestamp"] <= GAP
        now = past[-1] if runs else []
        assert row["session.number"] == len(past) + (not runs)
        assert row["session.events"] == len(now)
        assert row["session.items"] == len({other["item"] for other in now})
        spans = [
            (row["timestamp"], "session.minutes"),
            (now[-1]["timestamp"] if now else None, "session.length_minutes"),
        ]
        for until, name in spans:
            assert row[name] == ((until - now[0]["timestamp"]) / MINUTE if now else None)
        for kind in fitted.description.kinds:
            of_kind = [other for other in now if other["event"] == kind]
            assert row[f"session.item_{kind}"] == any(other["item"] == row["item"] for other in of_kind)
            if len(fitted.description.kinds) > 1:
                assert row[f"session.{kind}_count"] == len(of_kind)
        done = [category.get(other["item"]) for other in now if other["event"] in fitted.description.interactions]
        own = category.get(row["item"])
        share = done.count(own) / len(done) if done and own is not None else None
        if "session.category_share" in fitted.names:
            assert row["session.category_share"] == (None if share is None else pytest.approx(share))


def test_session_when_the_silence_is_as_long_as_the_gap_then_it_still_runs():
    clicks = [event(1, 1), event(2, 8), event(1, 9.5), event(3, 9.5, user=2)]
    rows = build(clicks, {"query": [1, 1], "item": [1, 2]}, gap="30m")
    assert [rows[1][f"session.{name}"] for name in ("number", "events", "items")] == [3, 1, 1]
    assert [rows[item]["session.item_click"] for item in (1, 2)] == [1, 0]
    assert (rows[1]["session.minutes"], rows[1]["session.length_minutes"]) == (30, 0)
    shorter = build(clicks, {"query": [1, 1], "item": [1, 2]}, gap="29m")
    assert [shorter[1][f"session.{name}"] for name in ("number", "events", "item_click")] == [4, 0, 0]
    assert shorter[1]["session.minutes"] is None


def test_session_when_a_user_is_new_then_it_is_their_first():
    rows = build([event(1, 9, user=2)], {"query": [1], "item": [1]})
    assert (rows[1]["session.number"], rows[1]["session.events"]) == (1, 0)
