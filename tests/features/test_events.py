"""A log is read, good rows are told from bad, and nothing is lost."""

from __future__ import annotations

import gzip
from datetime import UTC, datetime, timedelta

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from features.errors import DataError
from features.events import RULES, read_events
from features.large_events import read_large_events
from features.queries import queries_by_id
from features.relevance import tier_relevance
from features.room import Room
from features.windows import as_of
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
        ("position_too_large", "position", 2**31),
        ("value_too_large", "value", 1e14),
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


def test_events_when_columns_are_nested_twice_then_they_are_no_fields():
    assert read_events(log_of(tags=[{"a": 1}], pairs=[[["a"]]])).fields == ()


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


def test_values_when_their_sum_would_wrap_round_then_refused():
    row = {"item": 1, "event": "buy", "value": 1e12}
    rows = [{**row, "timestamp": at(number)} for number in range(923)]
    assert read_events(pl.DataFrame(rows[:922])).events.height == 922 == int(2**63 / 10_000 / 1e12)
    with pytest.raises(DataError, match=r"the values of the log sum to 9.23e\+14; expected less than 9.22e\+14"):
        read_events(pl.DataFrame(rows))


@pytest.mark.parametrize("name", ["source", "row", "rule", "asked", "arrival", "several", "ever", "of_table", "place"])
def test_fields_when_called_like_a_column_of_our_own_workings_then_kept(name):
    frame = log_of(user=[1, 2, 2], item=[5, None, 5], query=[1, 1, 1]).with_columns(pl.lit("ad").alias(name))
    log = read_events(pl.concat([frame, frame.head(1)]), max_rejected=0.5)
    assert log.counts == {"null_item": 1, "duplicate": 1}
    assert log.events[name].to_list() == ["ad", "ad"]
    field = f"{name}_field" if name in ("source", "row", "rule") else name
    assert log.rejected[field].to_list() == ["ad", "ad"]
    queries = queries_by_id(log.events, pl.DataFrame({"query": [1], name: ["x"]}))
    assert queries.frame[name].to_list() == ["x"]
    assert tier_relevance(queries, {"click": 1}).frame.height == 1
    items = pl.DataFrame({"item": [5], "valid_from": [at(0)], name: ["red"]})
    assert as_of(items, "item", log.events.select("item", "timestamp"))[name].to_list() == ["red", "red"]


def test_fields_when_they_begin_with_the_mark_of_our_own_columns_then_refused():
    with pytest.raises(DataError, match="a column is called '~row'; expected names that do not begin with ~"):
        read_events(log_of(user=[1, 2, 2]).with_columns(pl.lit(1).alias("~row")))


def test_csv_when_every_value_is_quoted_then_read_as_without_quotes(tmp_path):
    frame = log_of(user=[1, None, 2]).with_columns(position=pl.Series([1, None, 2]), badge=pl.Series(["a", None, "b"]))
    frame.write_csv(tmp_path / "plain.csv")
    frame.write_csv(tmp_path / "quoted.csv", quote_style="always")
    plain, quoted = (read_events(tmp_path / f"{name}.csv").events for name in ("plain", "quoted"))
    assert quoted.equals(plain)
    assert plain["badge"].null_count() == 1


def test_fields_when_durations_then_left_out_and_when_enums_differ_by_file_then_text():
    frame = log_of(user=[1, 2, 2]).with_columns(pause=pl.lit(timedelta(hours=1)), badge=pl.lit("a"))
    others = [frame.with_columns(badge=pl.lit("b").cast(dtype)) for dtype in (pl.Enum(["b"]), pl.Categorical)]
    events = read_events([frame.with_columns(pl.col("badge").cast(pl.Enum(["a"]))), *others, frame]).events
    assert events.schema["badge"] == pl.String
    assert "pause" not in events.columns


def test_fields_when_files_disagree_about_a_type_then_one_sentence():
    frame = log_of(user=[1, 2, 2])
    naive, aware = (frame.with_columns(since=pl.lit(moment)) for moment in (datetime(2024, 1, 1), at(0)))
    with pytest.raises(DataError, match="the files disagree about the type of since"):
        read_events([naive, aware])


def test_events_when_the_source_is_a_folder_or_the_kind_no_text_then_one_sentence(tmp_path):
    with pytest.raises(DataError, match="is a folder; expected a file, or a glob"):
        read_events(tmp_path)
    for kind in (timedelta(hours=1), ["click"]):
        with pytest.raises(DataError, match="event in the given frame is of type"):
            read_events(log_of(user=[1, 2, 2]).with_columns(event=pl.lit(pl.Series([kind])).first()))


def test_lists_when_they_are_fields_then_kept_compared_and_written_as_text_where_rejected():
    rows = pl.DataFrame(
        {
            "item": [1, 1, 1, None],
            "timestamp": [at(1)] * 4,
            "event": "click",
            "tags": [["b", "a"], ["b", "a"], ["a"], ["x", None]],
            "ints": pl.Series([[1], [1], [], None], dtype=pl.List(pl.Int8)),
            "vector": pl.Series([[1, 2]] * 4, dtype=pl.Array(pl.Float32, 2)),
            "nested": [[["no"]]] * 4,
        }
    )
    log = read_events(rows, max_rejected=1)
    assert log.fields == ("ints", "tags", "vector")
    assert log.events.select(log.fields).rows() == [([], ["a"], [1.0, 2.0]), ([1], ["b", "a"], [1.0, 2.0])]
    assert log.counts == {"null_item": 1, "duplicate": 1}
    assert log.rejected.select("tags", "ints", "vector").rows() == [
        ("[x]", None, "[1.0, 2.0]"),
        ("[b, a]", "[1]", "[1.0, 2.0]"),
    ]
    assert read_events(rows.reverse(), max_rejected=1).events.equals(log.events)


def burst(**columns: list[object]) -> pl.DataFrame:
    """Ten clicks within a second, one two seconds later, and one of something else in the midst."""
    seconds = [*(tenth / 10 for tenth in range(10)), 3, 0.5]
    rows = pl.DataFrame(
        {"item": [1] * 11 + [2], "event": "click", "timestamp": [at(second / 3600) for second in seconds]}
    )
    return rows.with_columns(pl.Series(name, values) for name, values in columns.items())


def test_repetitions_when_merged_then_the_first_of_each_burst_stays():
    log = read_events(burst(user=[7] * 12), merge=timedelta(seconds=1), max_rejected=0)
    assert log.events.select("item", "timestamp").rows() == [(1, at(0)), (2, at(0.5 / 3600)), (1, at(3 / 3600))]
    assert log.counts == {"repeated": 9}
    assert log.rejected["rule"].to_list() == ["repeated"] * 9
    assert read_events(burst(user=[7] * 12)).counts == {}


def test_repetitions_when_exactly_as_far_apart_as_merged_then_both_stay():
    assert read_events(burst(user=[7] * 12), merge=timedelta(seconds=0.1)).counts == {}
    assert read_events(burst(user=[7] * 12), merge=timedelta(seconds=0.11)).counts == {"repeated": 9}


def test_repetitions_when_nobody_knows_whose_they_are_then_kept_unless_of_one_query():
    nobody = [None] * 12
    assert read_events(burst(), merge=timedelta(seconds=1)).counts == {}
    assert read_events(burst(user=nobody), merge=timedelta(seconds=1)).counts == {}
    assert read_events(burst(user=nobody, query=[1] * 12), merge=timedelta(seconds=1)).counts == {"repeated": 9}
    assert read_events(burst(user=list(range(12))), merge=timedelta(seconds=1)).counts == {}


@settings(deadline=None, max_examples=50)
@given(
    st.lists(st.tuples(st.integers(0, 30), st.none() | st.integers(0, 1), st.sampled_from(KINDS)), max_size=40),
    st.integers(1, 9),
)
def test_repetitions_when_the_log_is_in_files_then_as_in_memory_and_as_a_loop_says(tmp_path_factory, rows, seconds):
    whole = [(60, 9, "click"), *rows]
    frame = pl.DataFrame(
        [{"item": 1, "user": user, "event": kind, "timestamp": at(second / 3600)} for second, user, kind in whole],
        schema_overrides={"user": pl.Int64},
    )
    path = tmp_path_factory.mktemp("log") / "events.parquet"
    frame.write_parquet(path)
    merge = timedelta(seconds=seconds)
    log = read_events(path, merge=merge)
    kept, last = [], {}
    for second, user, kind in sorted(set(whole), key=lambda row: (row[0], -1 if row[1] is None else row[1], row[2])):
        if user is None or second - last.get((user, kind), -100) >= seconds:
            kept.append((at(second / 3600), user, kind))
        last[user, kind] = second
    assert sorted(log.events.select("timestamp", "user", "event").rows(), key=str) == sorted(kept, key=str)
    large = read_large_events(path, Room(path.parent, 10), merge=merge)
    assert large.events.collect().equals(log.events)
    assert large.counts == log.counts
