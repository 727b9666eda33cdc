"""What a query is, in four ways."""

from __future__ import annotations

from datetime import timedelta

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from features.errors import DataError
from features.queries import queries_by_id, queries_by_session, queries_by_table, queries_by_user_day
from tests.features.factories import at, clean


def click(hour: float, **columns: object) -> dict[str, object]:
    return {"item": 1, "hour": hour, "event": "click", **columns}


def test_queries_when_by_id_then_the_time_of_the_earliest_event_wherever_rows_lie():
    events = clean([click(5, query=2), click(1, query=1), click(2, query=2), click(9, query=1), click(0)])
    queries = queries_by_id(events)
    assert queries.frame.select("query", "timestamp").rows() == [(1, at(1)), (2, at(2))]
    assert queries.counts["events_without_query"] == 1
    assert queries.events.height == 5


def test_queries_when_null_then_never_one_query_of_its_own():
    assert queries_by_id(clean([click(1), click(2), click(3)])).frame.is_empty()


def test_queries_when_large_and_negative_ids_then_distinct():
    ids = [-1, -2, 2**53, 2**53 + 1]
    events = clean([click(hour, query=number) for hour, number in enumerate(ids)])
    assert queries_by_id(events).frame["query"].to_list() == ids


def test_queries_when_the_table_knows_user_and_time_then_it_wins():
    events = clean([click(5, query=2, user=7), click(6, query=3, user=8)])
    table = pl.DataFrame({"query": [2, 4], "timestamp": [at(4), at(9)], "user": [70, 1], "text": ["hat", "?"]})
    queries = queries_by_id(events, table)
    assert queries.frame.select("query", "timestamp", "user", "text").rows() == [
        (2, at(4), 70, "hat"),
        (3, at(6), 8, None),
    ]
    assert queries.counts["queries_without_row_in_table"] == 1


def test_queries_when_one_has_several_users_then_the_first_and_a_count():
    events = clean([click(2, query=1, user=5), click(1, query=1, user=9), click(1, query=2, user=9)])
    queries = queries_by_id(events)
    assert queries.frame["user"].to_list() == [9, 9]
    assert queries.counts["queries_of_several_users"] == 1


def test_queries_when_the_user_logs_in_after_asking_then_unknown_and_counted():
    shown = [{"item": 1, "hour": 1, "event": "impression", "query": query} for query in (1, 2, 3)]
    events = clean([*shown, click(2, query=1, user=5), click(2, query=3, user=7), click(1, query=2, user=6)])
    queries = queries_by_id(events)
    assert queries.frame.select("query", "user").rows() == [(1, None), (2, 6), (3, None)]
    assert queries.counts["queries_whose_user_came_too_late"] == 2
    told = queries_by_id(events, pl.DataFrame({"query": [1, 3], "user": [50, None], "timestamp": [None, at(2)]}))
    assert told.frame.sort("query").select("query", "user").rows() == [(1, 50), (2, 6), (3, 7)]
    assert told.counts["queries_whose_user_came_too_late"] == 0


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(st.none() | st.integers(0, 2), st.integers(0, 30)), min_size=1, max_size=25, unique=True))
def test_sessions_when_made_by_a_gap_then_those_of_a_plain_loop(visits):
    queries = queries_by_session(clean([click(hour, user=user) for user, hour in visits]), gap=timedelta(hours=3))
    expected = {}
    for user in range(3):
        start = last = None
        for hour in sorted(hour for who, hour in visits if who == user):
            if last is None or hour - last > 3:
                start = hour
            expected[user, at(hour)] = at(start)
            last = hour
    starts = dict(queries.frame.select("query", "timestamp").iter_rows())
    found = queries.events.filter(pl.col("query").is_not_null())
    assert {(row["user"], row["timestamp"]): starts[row["query"]] for row in found.to_dicts()} == expected
    assert queries.counts["events_without_query"] == sum(user is None for user, _ in visits)


def test_sessions_when_the_log_names_them_then_its_names():
    events = clean([click(1), click(30)]).with_columns(session=pl.Series([8, 8]))
    assert queries_by_session(events).frame.rows()[0][0] == 8


def test_user_days_when_a_day_ends_then_a_new_query():
    queries = queries_by_user_day(clean([click(1, user=5), click(23.9, user=5), click(24, user=5), click(2)]))
    assert queries.frame["query"].to_list() == ["5@2024-01-01", "5@2024-01-02"]
    assert queries.frame["timestamp"].to_list() == [at(1), at(24)]
    assert queries.counts["events_without_query"] == 1


def test_queries_when_by_table_then_only_its_own_even_without_events():
    events = clean([click(5, query=2), click(6, query=3)])
    table = pl.DataFrame({"query": [3, 9], "timestamp": [at(6), at(7)]})
    queries = queries_by_table(events, table)
    assert queries.frame["query"].to_list() == [3, 9]
    assert queries.events["query"].to_list() == [None, 3]
    assert queries.counts["queries_not_in_the_table"] == 1


def test_queries_when_by_table_and_the_log_names_none_then_by_user_and_time():
    events = clean([click(hour, user=user) for user, hour in [(1, 1), (1, 2), (1, 5), (2, 5), (None, 5)]]).drop("query")
    table = pl.DataFrame({"query": ["a", "b"], "user": [1, 1], "timestamp": [at(2), at(4)]})
    found = queries_by_table(events, table).events
    assert found.filter(pl.col("query").is_not_null()).select("timestamp", "query").rows() == [
        (at(2), "a"),
        (at(5), "b"),
    ]


def test_queries_when_a_row_of_the_table_has_no_time_then_refused():
    with pytest.raises(DataError, match="1 queries of the table have neither events nor a timestamp"):
        queries_by_table(clean([click(1, query=1)]), pl.DataFrame({"query": [1, 2]}))


def test_queries_when_the_log_lacks_the_column_then_refused():
    events = clean([click(1)]).drop("query", "user")
    for make in (queries_by_id, queries_by_session, queries_by_user_day):
        with pytest.raises(DataError, match=r"the log has no '(query|session|user)'; expected that column"):
            make(events)


def test_sessions_when_in_another_column_then_its_names_and_no_floats():
    events = clean([click(1, badge="s1", price=1.0), click(2, badge="s2")])
    assert queries_by_session(events, column="badge").frame["query"].to_list() == ["s1", "s2"]
    with pytest.raises(DataError, match="the log has no 'visit'"):
        queries_by_session(events, column="visit")
    with pytest.raises(DataError, match="price of the log is of type Float64; expected ids"):
        queries_by_session(events, column="price")
