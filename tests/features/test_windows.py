"""Every window function against a plain loop, on logs full of ties and borders."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from features.columns import private
from features.windows import NOBODY, History, ItemPool, Timeline, as_of, rows_as_of
from tests.features.factories import KINDS, at, clean
from tests.features.oracles import seen_before

HOURS = st.integers(0, 8)
ROW = st.fixed_dictionaries(
    {
        "user": st.none() | st.integers(0, 2),
        "item": st.integers(0, 3),
        "hour": HOURS,
        "event": st.sampled_from(KINDS),
        "value": st.none() | st.sampled_from([0.1, 0.2, 0.3, 7.0]),
    }
)
LOGS = st.lists(ROW, min_size=1, max_size=25)
QUESTIONS = st.lists(st.tuples(st.none() | st.integers(0, 3), st.integers(0, 10)), min_size=1, max_size=8)
KIND_SETS = st.sampled_from([None, ("click",), ("impression", "purchase"), ("refund",)])
WINDOWS = st.sampled_from([None, timedelta(hours=1), timedelta(hours=3), timedelta(hours=100)])
DELAYS = st.sampled_from(
    [{}, {"click": timedelta(hours=1)}, {"click": timedelta(hours=2), "impression": timedelta(hours=1)}]
)


def codes(values: list[int | None]) -> np.ndarray:
    return np.array([NOBODY if value is None else value for value in values], np.int64)


def ask(rows, questions, delay):
    """The lookup for users, and the events it asks about."""
    events = clean(rows)
    timeline = Timeline(events, delay)
    history = History(timeline, codes(timeline.events["user"].to_list()))
    times = pl.Series([at(hour) for _, hour in questions], dtype=pl.Datetime("us", "UTC")).to_physical().to_numpy()
    return events.to_dicts(), timeline, history.at(codes([user for user, _ in questions]), times)


@settings(deadline=None, max_examples=150)
@given(LOGS, QUESTIONS, KIND_SETS, WINDOWS, DELAYS)
def test_counts_and_sums_when_asked_then_those_of_a_plain_loop(rows, questions, kinds, window, delay):
    events, _, lookup = ask(rows, questions, delay)
    counted, summed, valued = lookup.count(kinds, window), lookup.total(kinds, window), lookup.valued(kinds, window)
    for number, (user, hour) in enumerate(questions):
        assert lookup.known[number] == (user is not None)
        if user is None:
            continue
        seen = list(seen_before(events, at(hour), entity={"user": user}, kinds=kinds, window=window, delay=delay))
        values = [row["value"] for row in seen if row["value"] is not None]
        assert counted[number] == len(seen)
        assert valued[number] == len(values)
        assert summed[number] == pytest.approx(sum(values), abs=1e-12)


@settings(deadline=None, max_examples=150)
@given(LOGS, QUESTIONS, KIND_SETS, DELAYS, st.integers(-3, 2))
def test_event_when_asked_by_its_place_then_that_of_a_plain_loop(rows, questions, kinds, delay, place):
    events, timeline, lookup = ask(rows, questions, delay)
    found = lookup.event(place, kinds)
    ordered = timeline.events.drop(private("arrival")).to_dicts()
    for number, (user, hour) in enumerate(questions):
        if user is None:
            continue
        seen = list(seen_before(events, at(hour), entity={"user": user}, kinds=kinds, delay=delay))
        expected = seen[place] if -len(seen) <= place < len(seen) else None
        assert (ordered[found[number]] if found[number] >= 0 else None) == expected


def test_first_and_last_event_when_asked_then_those_at_both_ends():
    rows = [{"item": 1, "user": 0, "hour": hour, "event": kind} for hour, kind in enumerate(("click", "cart", "click"))]
    _, _, lookup = ask(rows, [(0, 5)], {})
    assert (lookup.first_event().tolist(), lookup.first_event(("cart",)).tolist()) == ([0], [1])
    assert (lookup.last_event().tolist(), lookup.last_event(("cart",)).tolist()) == ([2], [1])


@settings(deadline=None, max_examples=100)
@given(LOGS, QUESTIONS, KIND_SETS, DELAYS, st.integers(0, 25))
def test_counts_when_asked_from_a_place_on_then_those_of_a_plain_loop(rows, questions, kinds, delay, place):
    _, timeline, lookup = ask(rows, questions, delay)
    places = np.full(len(questions), place)
    counted = lookup.count_since(places, kinds)
    summed = lookup.summed_since(np.arange(len(timeline)) % 2, places)
    ordered = timeline.events.with_row_index("place").to_dicts()
    for number, (user, hour) in enumerate(questions):
        if user is not None:
            seen = list(seen_before(ordered, at(hour), entity={"user": user}, delay=delay))
            since = [row["place"] for row in seen if row["place"] >= place]
            assert counted[number] == sum(kinds is None or ordered[row]["event"] in kinds for row in since)
            assert summed[number] == sum(row % 2 for row in since)


@settings(deadline=None, max_examples=100)
@given(LOGS, DELAYS, st.integers(1, 3), st.integers(1, 4))
def test_earlier_events_when_asked_then_those_of_the_same_entity_in_order_of_arrival(rows, delay, back, every):
    _, timeline, lookup = ask(rows, [(0, 1)], delay)
    previous = lookup.history.previous(back)
    begins = np.arange(len(timeline)) % every == 0
    runs = lookup.history.begin_of_run(begins)
    users = timeline.events["user"].to_list()
    for row, user in enumerate(users):
        own = [other for other in range(row + 1) if user is not None and users[other] == user]
        assert previous[row] == (own[-1 - back] if len(own) > back else -1)
        assert runs[row] == (max([own[0], *(other for other in own if begins[other])]) if own else -1)


def test_history_when_an_event_is_of_several_entities_then_each_counts_it():
    timeline = Timeline(clean([{"item": 1, "hour": hour, "event": "click"} for hour in (1, 2, 3)]), {})
    history = History(timeline, np.array([5, 7, 5, NOBODY]), rows=np.array([0, 0, 2, 1]))
    times = pl.Series([at(9), at(9), at(3)], dtype=pl.Datetime("us", "UTC")).to_physical().to_numpy()
    assert history.at(np.array([5, 7, 5]), times).count().tolist() == [2, 1, 1]


@settings(deadline=None, max_examples=50)
@given(LOGS, QUESTIONS)
def test_answers_when_repeated_then_each_as_often_as_asked(rows, questions):
    _, _, once = ask(rows, questions, {})
    events, timeline, _ = ask(rows, questions, {})
    history = History(timeline, codes([row["user"] for row in events]))
    times = pl.Series([at(hour) for _, hour in questions], dtype=pl.Datetime("us", "UTC")).to_physical().to_numpy()
    repeats = np.arange(len(questions))
    many = history.at(codes([user for user, _ in questions]), times, repeats=repeats)
    assert many.count().tolist() == np.repeat(once.count(), repeats).tolist()
    assert many.known.tolist() == np.repeat(once.known, repeats).tolist()


def test_count_when_event_at_exactly_t_then_not_before():
    rows = [{"item": 1, "user": 0, "hour": hour, "event": "click"} for hour in (1, 2, 2.0001, 3)]
    _, _, lookup = ask(rows, [(0, 1), (0, 2), (0, 3)], {})
    assert lookup.count().tolist() == [0, 1, 3]


def test_count_when_event_at_exactly_t_minus_window_then_inside():
    rows = [{"item": 1, "user": 0, "hour": 1, "event": "click"}]
    _, _, lookup = ask(rows, [(0, 3), (0, 3.0001)], {})
    assert lookup.count(window=timedelta(hours=2)).tolist() == [1, 0]


def test_total_when_money_summed_in_any_order_then_exact():
    rows = [{"item": 1, "user": 0, "hour": 1, "event": "click", "value": value} for value in (0.1, 0.2, 1e6, 0.7)]
    _, _, lookup = ask(rows, [(0, 2)], {})
    assert lookup.total().tolist() == [1_000_001.0]


def test_lookup_when_nobody_has_a_history_then_nothing():
    _, _, lookup = ask([{"item": 1, "user": None, "hour": 1, "event": "click"}], [(0, 5), (None, 5)], {})
    assert lookup.count().tolist() == [0, 0]
    assert lookup.last_event().tolist() == [-1, -1]
    assert lookup.first_event().tolist() == [-1, -1]


def test_as_of_when_versioned_then_the_version_in_force():
    table = pl.DataFrame({"item": [1, 1, 2], "valid_from": [at(2), at(5), at(0)], "price": [10, 20, 7]})
    rows = pl.DataFrame({"item": [1, 1, 1, 1, 2, 3], "timestamp": [at(h) for h in (9, 1, 2, 4.9, 3, 3)]})
    assert as_of(table, "item", rows)["price"].to_list() == [20, None, 10, 10, 7, None]


def test_as_of_when_a_table_has_lists_then_its_rows_are_found_and_the_lists_left_out():
    table = pl.DataFrame({"item": [1, 1, 2], "valid_from": [at(2), at(5), at(0)], "tags": [["a"], ["b"], ["c"]]})
    rows = pl.DataFrame({"item": [1, 1, 1, 2, 3, None], "timestamp": [at(h) for h in (9, 1, 2, 3, 3, 3)]})
    assert as_of(table, "item", rows).columns == []
    assert rows_as_of(table, "item", rows).tolist() == [1, -1, 0, 2, -1, -1]
    assert rows_as_of(table.unique("item").sort("item").drop("valid_from"), "item", rows).tolist() == [
        0,
        0,
        0,
        1,
        -1,
        -1,
    ]


def test_as_of_when_item_is_missing_or_null_then_rows_stay():
    table = pl.DataFrame({"item": [1, 2], "price": [10, 20]})
    rows = pl.DataFrame({"item": [2, None, 3, 2], "timestamp": [at(1)] * 4})
    assert as_of(table, "item", rows)["price"].to_list() == [20, None, None, 20]


def test_item_pool_when_seen_at_t_then_not_yet_and_when_created_at_t_then_already():
    timeline = Timeline(clean([{"item": 1, "hour": 2, "event": "click"}, {"item": 2, "hour": 4, "event": "click"}]), {})
    catalogue = pl.DataFrame({"item": [2, 3], "created_at": [at(3), at(1)]})
    times = pl.Series([at(h) for h in (1, 2, 2.5, 3, 9)], dtype=pl.Datetime("us", "UTC")).to_physical().to_numpy()
    pool = ItemPool(timeline, catalogue)
    assert pool.items.to_list() == [3, 1, 2]
    assert pool.sizes(times).tolist() == [1, 1, 2, 3, 3]
    undated = ItemPool(timeline, catalogue.drop("created_at"))
    assert undated.items.to_list() == [1, 2]
