"""Small logs for tests, written by hand or drawn by Hypothesis. Time is counted in hours since `START`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import polars as pl
from hypothesis import strategies as st

from features.catalogues import read_items, read_queries, read_users
from features.description import Options
from features.events import read_events
from features.fitted import Fitted, fit_features
from features.log import Log, make_log
from features.queries import Queries, queries_by_id
from features.registry import EVERYTHING
from features.table import Table, build_table

START = datetime(2024, 1, 1, tzinfo=UTC)
CUSTOM = {"cheap": "price / (1 + item_weight)"}
KINDS = ("impression", "click", "purchase")

EVENT_SCHEMA = {
    "query": pl.Int64,
    "user": pl.Int64,
    "item": pl.Int64,
    "timestamp": pl.Datetime("us", "UTC"),
    "event": pl.String,
    "position": pl.Int64,
    "value": pl.Float64,
    "price": pl.Float64,
    "badge": pl.String,
    "labels": pl.List(pl.String),
    "view": pl.List(pl.Float64),
}


def at(hours: float) -> datetime:
    """A time, in hours since START."""
    return START + timedelta(hours=hours)


def events_frame(rows: Sequence[dict[str, object]]) -> pl.DataFrame:
    """Rows of a log as somebody might have written them; `hour` stands for the timestamp."""
    full = [{**dict.fromkeys(EVENT_SCHEMA), **row, "timestamp": at(row["hour"])} for row in rows]
    return pl.DataFrame(full, schema=EVENT_SCHEMA)


def clean(rows: Sequence[dict[str, object]]) -> pl.DataFrame:
    """The same, read and sorted, in the form that everything after `read_events` takes."""
    return read_events(events_frame(rows)).events


def items_frame() -> pl.DataFrame:
    """Items 0..5 with a category, a text, a number with a gap, a time, a list and a vector."""
    return pl.DataFrame(
        {
            "item": range(6),
            "category": ["shoes", "shoes", "hats", "hats", "hats", None],
            "title": ["red shoes", "blue shoes", "red hat", "old hat", "a hat of straw", "red thing"],
            "weight": [1.0, 2.0, None, 2.0, 0.5, 3.0],
            "created_at": [at(-48), at(-24), at(0), at(3), at(5), at(90)],
            "tags": [["red", "warm"], ["blue"], [], None, ["red", "straw"], ["red", "red"]],
            "look": [[1.0, 0.0], [0.0, 1.0], [0.6, 0.8], [0.0, 0.0], None, [-1.0, 0.5]],
        }
    )


def users_frame() -> pl.DataFrame:
    """Users 0..2; user 1 is known in two versions."""
    return pl.DataFrame(
        {
            "user": [0, 1, 1, 2],
            "valid_from": [at(-100), at(-100), at(4), at(-100)],
            "segment": ["new", "new", "loyal", "loyal"],
            "points": [0, 10, 20, 5],
            "tags": [["red"], [], ["blue", "warm"], None],
            "look": [[1.0, 1.0], None, [0.0, 2.0], [0.0, 0.0]],
        }
    )


def queries_frame(numbers: Sequence[int]) -> pl.DataFrame:
    """Queries with a text, a device, a list and a vector."""
    return pl.DataFrame(
        {
            "query": list(numbers),
            "text": ["red shoes" if number % 2 else "straw hat" for number in numbers],
            "device": ["phone" if number % 3 else "desk" for number in numbers],
            "tags": [["red"] if number % 2 else ["straw", "blue"] for number in numbers],
            "look": [[float(number), 1.0] for number in numbers],
        },
        schema={
            "query": pl.Int64,
            "text": pl.String,
            "device": pl.String,
            "tags": pl.List(pl.String),
            "look": pl.List(pl.Float64),
        },
    )


@dataclass(frozen=True)
class World:
    """A raw log with everything around it, and the queries that are asked of it."""

    events: pl.DataFrame
    items: pl.DataFrame
    users: pl.DataFrame
    queries: pl.DataFrame
    """`query`, `timestamp`, `user`, text and device."""
    candidates: pl.DataFrame
    delay: timedelta | None = None

    def with_events(self, events: pl.DataFrame) -> World:
        return replace(self, events=events)

    def log(self) -> Log:
        return make_log(
            read_events(self.events).events,
            items=read_items(self.items),
            users=read_users(self.users),
            queries=read_queries(self.queries),
            shown="impression" if "impression" in self.events["event"] else None,
            delay=self.delay,
        )

    def fit(self, use: Sequence[str] = (), custom: Mapping[str, str] = CUSTOM) -> Fitted:
        return fit_features(
            self.log(),
            read_queries(self.queries),
            self.candidates,
            pool="shown",
            use=use or EVERYTHING,
            custom=custom,
            options=Options(windows=("1h", "3h"), session_gap="2h", recent=3),
        )

    def table(self, fitted: Fitted) -> Table:
        return build_table(self.log(), read_queries(self.queries), self.candidates, fitted)


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Logs full of ties: a dozen hours, three users and nobody, six items, of which the catalogue lacks none."""
    hours = st.integers(0, 12)
    row = st.fixed_dictionaries(
        {
            "query": st.none() | st.integers(0, 4),
            "user": st.none() | st.integers(0, 2),
            "item": st.integers(0, 6),
            "hour": hours,
            "event": st.sampled_from(KINDS),
            "position": st.none() | st.integers(1, 5),
            "value": st.none() | st.sampled_from([0.1, 0.2, 0.7, 10.0]),
            "price": st.none() | st.sampled_from([1.0, 2.5, 3.0]),
            "badge": st.none() | st.sampled_from(["new", "sale"]),
            "labels": st.none() | st.lists(st.sampled_from(["red", "top"]), max_size=2),
        }
    )
    rows = [
        *draw(st.lists(row, min_size=4, max_size=30)),
        {
            "item": 0,
            "hour": 1,
            "event": "impression",
            "user": 0,
            "value": 1.0,
            "price": 1.0,
            "badge": "new",
            "view": [0.0, 1.0],
        },
    ]
    asked = draw(st.lists(st.tuples(hours, st.none() | st.integers(0, 2)), min_size=1, max_size=4))
    queries = queries_frame(range(len(asked))).with_columns(
        pl.Series("timestamp", [at(hour) for hour, _ in asked], dtype=pl.Datetime("us", "UTC")),
        pl.Series("user", [user for _, user in asked], dtype=pl.Int64),
    )
    candidates = [
        {
            "query": query,
            "item": item,
            "price": float(item + query % 2),
            "badge": ("new", "sale", None)[item % 3],
            "labels": (["red"], [], None)[item % 3],
            "view": [float(item), 1.0] if item % 2 else None,
            "match_score": None if item % 3 == 0 else item / 4,
            "recall_rank": None if item % 2 else float(item + query),
        }
        for query in range(len(asked))
        for item in sorted(draw(st.sets(st.integers(0, 6), min_size=1)))
    ]
    delay = draw(st.sampled_from([None, timedelta(hours=1)]))
    own = ("query", "item", "price", "badge", "labels", "view")
    channels = {"match_score": pl.Float64, "recall_rank": pl.Float64}
    frame = pl.DataFrame(candidates, schema={name: EVENT_SCHEMA[name] for name in own} | channels)
    return World(events_frame(rows), items_frame(), users_frame(), queries, frame, delay)


def logged_queries(rows: Sequence[dict[str, object]]) -> Queries:
    """The queries that a hand-written log names itself."""
    return queries_by_id(clean(rows))
