"""Items, users and queries: one row per id, or per version."""

from __future__ import annotations

import polars as pl
import pytest

from features.catalogues import read_items, read_queries, read_users
from features.description import Field, describe
from features.errors import DataError
from features.log import count_unmatched, make_log
from tests.features.factories import at, clean


def test_items_when_read_then_sorted_with_their_times_in_utc():
    frame = pl.DataFrame({"sku": ["b", "a"], "born": ["2024-01-02", "2024-01-01"], "price": [2, 1]})
    items = read_items(frame, columns={"item": "sku", "created_at": "born", "user": "customer"})
    assert items.rows() == [("a", at(0), 1), ("b", at(24), 2)]
    assert items.columns == ["item", "created_at", "price"]


def test_items_when_the_mapping_is_meant_for_the_log_then_our_own_name_is_found():
    assert read_items(pl.DataFrame({"item": [1]}), columns={"item": "product_id"})["item"].to_list() == [1]


def test_items_when_an_id_repeats_then_refused_and_named():
    with pytest.raises(DataError, match=r"2 rows share their item \(7\); expected one row per item"):
        read_items(pl.DataFrame({"item": [7, 7, 8]}))


def test_items_when_versioned_then_one_row_per_version():
    frame = pl.DataFrame({"item": [7, 7], "valid_from": [at(0), at(1)]})
    assert read_items(frame).height == 2
    with pytest.raises(DataError, match="2 rows share their item and valid_from"):
        read_items(frame.with_columns(valid_from=pl.lit(at(0))))


def test_users_when_an_id_is_missing_then_refused():
    with pytest.raises(DataError, match="1 rows without user; expected an id in every row"):
        read_users(pl.DataFrame({"user": [1, None]}))


def test_queries_when_read_then_user_may_be_missing():
    assert read_queries(pl.DataFrame({"query": [2, 1], "user": [None, 5]})).rows() == [(1, 5), (2, None)]


def test_catalogue_when_without_its_id_or_with_a_bad_time_then_refused():
    with pytest.raises(DataError, match="has no column 'item'"):
        read_items(pl.DataFrame({"sku": [1]}))
    with pytest.raises(DataError, match="created_at in the given frame holds times that cannot be read"):
        read_items(pl.DataFrame({"item": [1, 2], "created_at": ["2024-01-01", "soon"]}))


def test_log_when_ids_differ_in_type_then_text_everywhere():
    events = clean([{"item": 1, "hour": 0, "event": "click"}])
    log = make_log(events, items=pl.DataFrame({"item": ["1", "x"]}))
    assert log.events["item"].to_list() == ["1"]
    assert log.items is not None
    assert log.items["item"].to_list() == ["1", "x"]


def test_log_when_shown_or_delay_name_no_kind_then_the_nearest_is_named():
    events = clean([{"item": 1, "hour": 0, "event": "impression"}])
    with pytest.raises(DataError, match=r"data.shown names the event kind 'impresion'.*did you mean 'impression'\?"):
        make_log(events, shown="impresion")
    with pytest.raises(DataError, match="delay names the event kind 'buy'"):
        make_log(events, delay={"buy": at(1) - at(0)})


def test_log_when_the_kinds_were_named_for_another_log_then_they_may_be_missing():
    events = clean([{"item": 1, "hour": 0, "event": "click"}])
    log = make_log(events, shown="impression", delay={"buy": at(1) - at(0)}, strict=False)
    assert (log.shown, log.delay) == ("impression", {"buy": at(1) - at(0)})


def test_log_when_ids_meet_no_catalogue_then_counted():
    events = clean([{"item": item, "hour": 0, "event": "click", "user": user} for item, user in [(1, 7), (2, None)]])
    items, users = pl.DataFrame({"item": [2, 3]}), pl.DataFrame({"user": [7]})
    counts = count_unmatched(make_log(events, items=items, users=users))
    assert counts == {"items_not_in_the_catalogue": 1, "users_not_in_the_table": 0}
    assert count_unmatched(make_log(events)) == {}


@pytest.mark.parametrize("ids", [["1.0", "2.0"], ["00001", "00002"]])
def test_log_when_no_id_at_all_meets_the_catalogue_then_refused(ids):
    events = clean([{"item": item, "hour": 0, "event": "click"} for item in (1, 2)])
    message = rf"none of the 2 items of the log has a row in data.items \(1, 2 against {ids[0]}, {ids[1]}\)"
    with pytest.raises(DataError, match=message):
        count_unmatched(make_log(events, items=pl.DataFrame({"item": ids})))


def test_lists_when_in_json_lines_and_parquet_then_fields_of_the_same_types(tmp_path):
    items = pl.DataFrame(
        {"item": [1, 2], "tags": [["a", "b"], []], "sizes": [[38, 39], None], "look": [[0.5, 1.0], None]}
    )
    items.write_ndjson(tmp_path / "items.jsonl")
    arrays = items.with_columns(
        pl.col("look").cast(pl.Array(pl.Float32, 2)), pl.col("tags").cast(pl.List(pl.Categorical))
    )
    arrays.write_parquet(tmp_path / "items.parquet")
    read = [read_items(tmp_path / name) for name in ("items.jsonl", "items.parquet")]
    assert read[0].equals(read[1])
    assert read[0].schema["look"] == pl.List(pl.Float64)
    described = describe(
        make_log(clean([{"item": 1, "hour": 1, "event": "click"}]), items=read[0]),
        pl.DataFrame(),
        pl.DataFrame(),
        pool="shown",
    )
    assert described.item_fields == (Field("tags", "list"), Field("sizes", "list"), Field("look", "vector", 2))
