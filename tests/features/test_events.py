"""A log is read, good rows are told from bad, and nothing is lost."""

from __future__ import annotations

import gzip
from datetime import UTC, datetime

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from features.errors import DataError
from features.events import RULES, read_events
from tests.features.factories import EVENT_SCHEMA, KINDS, at, events_frame

CSV = "item,timestamp,event,value\n1,1704067200,click,\n2,1704067201,buy,9.5\n"


def log_of(**columns: list[object]) -> pl.DataFrame:
    size = max((len(values) for values in columns.values()), default=1)
    default = {"item": [1] * size, "timestamp": [at(hour) for hour in range(size)], "event": ["click"] * size}
    return pl.DataFrame(default | columns, strict=False)


def test_events_when_read_from_any_format_then_the_same(tmp_path):
    frame = pl.read_csv(CSV.encode())
    paths = [tmp_path / name for name in ("a.csv", "a.csv.gz", "a.parquet", "a.jsonl", "a.jsonl.gz", "a.tsv")]
    paths[0].write_text(CSV)
    paths[1].write_bytes(gzip.compress(CSV.encode()))
    frame.write_parquet(paths[2])
    frame.write_ndjson(paths[3])
    paths[4].write_bytes(gzip.compress(paths[3].read_bytes()))
    paths[5].write_text(CSV.replace(",", "\t"))
    expected = read_events(frame).events
    assert expected.schema == {
        "timestamp": pl.Datetime("us", "UTC"),
        "item": pl.Int64,
        "event": pl.Enum(["buy", "click"]),
        "value": pl.Float64,
    }
    for path in paths:
        assert read_events(path).events.equals(expected), path
        assert read_events([str(path)]).events.equals(expected), path


def test_events_when_spread_over_files_of_a_glob_then_all_are_read(tmp_path):
    for number in range(3):
        (tmp_path / f"day{number}.csv").write_text(f"item,timestamp,event\n{number},170406720{number},click\n")
    assert read_events(tmp_path / "day*.csv").events["item"].to_list() == [0, 1, 2]


def test_events_when_one_file_has_text_ids_then_all_ids_are_text(tmp_path):
    (tmp_path / "a.csv").write_text("item,timestamp,event\n7,1704067200,click\n")
    (tmp_path / "b.csv").write_text("item,timestamp,event\n007,1704067201,click\n")
    assert read_events(tmp_path / "*.csv").events["item"].to_list() == ["7", "007"]


def test_events_when_csv_numbers_turn_to_floats_late_then_read_whole(tmp_path):
    rows = [f"{n},17040672{n % 60:02},click,{n}" for n in range(1500)] + ["1,1704067999,click,0.5"]
    (tmp_path / "a.csv").write_text("item,timestamp,event,value\n" + "\n".join(rows) + "\n")
    assert read_events(tmp_path / "a.csv").events["value"].max() == 1499.0


@settings(deadline=None, max_examples=50)
@given(st.data())
def test_events_when_rows_come_in_any_order_then_the_same_log(data):
    row = st.fixed_dictionaries(
        {
            "user": st.none() | st.integers(0, 1),
            "item": st.integers(0, 1),
            "hour": st.integers(0, 2),
            "event": st.sampled_from(KINDS),
            "value": st.none() | st.sampled_from([0.0, -0.0, 1.0]),
            "badge": st.none() | st.sampled_from(["", "x"]),
        }
    )
    frame = events_frame(data.draw(st.lists(row, min_size=1, max_size=20)))
    seed = data.draw(st.integers(0, 99))
    first, second = read_events(frame), read_events(frame.sample(fraction=1, shuffle=True, seed=seed))
    assert first.events.equals(second.events)
    assert first.counts == second.counts
    assert first.events.height == frame.unique().height
    assert first.read == frame.height == first.events.height + first.rejected.height


@pytest.mark.parametrize(
    ("rule", "column", "bad"),
    [
        ("null_item", "item", None),
        ("null_timestamp", "timestamp", None),
        ("timestamp_out_of_range", "timestamp", datetime(1971, 1, 1, tzinfo=UTC)),
        ("null_event", "event", None),
        ("value_not_finite", "value", float("nan")),
        ("value_not_finite", "value", float("inf")),
        ("value_negative", "value", -1.0),
        ("position_below_1", "position", 0),
        ("position_below_1", "position", 1.5),
    ],
)
def test_events_when_a_row_breaks_a_rule_then_it_is_set_aside_with_the_rule(rule, column, bad):
    good = {"item": 5, "timestamp": at(1), "event": "click", "value": 1.0, "position": 1}[column]
    log = read_events(log_of(**{"user": [1, 2, 3], column: [good, bad, good]}), max_rejected=0.5)
    assert log.counts == {rule: 1}
    assert log.events.height == 2
    assert log.rejected.select("rule", "source", "row").rows() == [(rule, "the given frame", 1)]
    assert log.rejected[column].to_list() == [None if bad is None else pl.Series([bad]).cast(pl.String).item()]


def test_rules_when_read_then_each_is_explained():
    assert all(len(why) > 10 for why in RULES.values())


def test_events_when_exact_duplicates_then_one_is_kept_and_the_rest_counted():
    log = read_events(log_of(item=[1, 1, 1, 2], timestamp=[at(0)] * 4))
    assert log.events["item"].to_list() == [1, 2]
    assert log.counts == {"duplicate": 2}
    assert log.rejected["rule"].to_list() == ["duplicate", "duplicate"]


def test_events_when_too_many_are_rejected_then_stopped_with_counts():
    with pytest.raises(DataError, match=r"2 of 3 events rejected \(null_item 2\); expected at most 1.00% bad rows"):
        read_events(log_of(item=[None, None, 1]))


def test_events_when_all_are_rejected_then_stopped_whatever_is_allowed():
    with pytest.raises(DataError, match="1 of 1 events rejected"):
        read_events(log_of(event=[None]).cast({"event": pl.String}), max_rejected=1.0)


def test_events_when_columns_are_called_otherwise_then_mapped_and_the_rest_are_fields():
    frame = pl.DataFrame(
        {"sku": ["a"], "at": [at(0)], "what": ["click"], "who": [3], "item": ["wrong"], "score": [0.5]}
    )
    log = read_events(frame, columns={"item": "sku", "timestamp": "at", "event": "what", "user": "who"})
    assert log.events.columns == ["timestamp", "user", "item", "event", "score"]
    assert log.events["item"].to_list() == ["a"]
    assert log.fields == ("score",)


def test_events_when_one_column_is_both_query_and_session_then_both():
    frame = log_of(sid=[4])
    log = read_events(frame, columns={"query": "sid", "session": "sid"})
    assert log.events.select("query", "session").row(0) == (4, 4)


def test_events_when_the_log_has_no_kind_then_the_given_one():
    assert read_events(log_of().drop("event"), event="rating").events["event"].to_list() == ["rating"]


def test_events_when_columns_are_nested_then_they_are_no_fields():
    assert read_events(log_of(tags=[["a"]])).fields == ()


@pytest.mark.parametrize(
    ("frame", "columns", "message"),
    [
        (log_of().drop("item"), {}, "has no column 'item'; expected it among timestamp, event; map it under columns"),
        (log_of(), {"user": "usr"}, "has no column 'usr'"),
        (log_of(), {"timestamp": "timestmp"}, "has no column 'timestmp'.*timestamp = \"timestamp\""),
        (log_of().clear(), {}, "holds no rows"),
        (log_of(value=["much"]), {}, "value in the given frame is of type String; expected numbers"),
        (log_of(item=[1.0]), {}, "item in the given frame is of type Float64"),
    ],
)
def test_events_when_the_log_cannot_be_used_then_one_sentence(frame, columns, message):
    with pytest.raises(DataError, match=message):
        read_events(frame, columns=columns)


def test_files_when_missing_unknown_empty_or_damaged_then_one_sentence(tmp_path):
    with pytest.raises(DataError, match=r"no file at .*nowhere.csv; expected a file, or a glob"):
        read_events(tmp_path / "nowhere.csv")
    (tmp_path / "a.xlsx").write_text("x")
    with pytest.raises(DataError, match=r"a.xlsx is of no known format; expected a file that ends in one of .parquet"):
        read_events(tmp_path / "a.xlsx")
    for name in ("a.csv", "a.parquet", "a.jsonl", "a.csv.gz"):
        (tmp_path / name).write_bytes(b"")
        with pytest.raises(DataError, match=f"{name} (cannot be read|holds no rows)"):
            read_events(tmp_path / name)
    (tmp_path / "b.parquet").write_bytes(b"not parquet at all")
    with pytest.raises(DataError, match=r"b.parquet cannot be read"):
        read_events(tmp_path / "b.parquet")
    (tmp_path / "b.csv").write_text("item,timestamp,event\n")
    with pytest.raises(DataError, match=r"b.csv holds no rows"):
        read_events(tmp_path / "b.csv")


def test_events_when_in_microseconds_declared_as_seconds_then_the_unit_is_named():
    with pytest.raises(DataError, match="they look like us: declare that as the time unit"):
        read_events(log_of(timestamp=[1_704_067_200_000_000]), time_unit="s")


def test_schema_of_factory_when_read_then_known():
    assert set(read_events(events_frame([{"item": 1, "hour": 0, "event": "click"}])).events.columns) == {*EVENT_SCHEMA}
