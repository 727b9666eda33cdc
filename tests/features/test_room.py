"""What does not fit into memory: the same numbers and the same log, from files, in parts of any size."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from features.errors import DataError
from features.events import read_events
from features.large_events import read_large_events
from features.room import MEMORY, Room
from features.spill import read_parts
from tests.features.factories import KINDS, at, events_frame


@settings(deadline=None, max_examples=40)
@given(st.data())
def test_an_array_when_kept_in_files_then_the_same_whole_and_in_parts(tmp_path_factory, data):
    room = Room(tmp_path_factory.mktemp("room"), data.draw(st.integers(1, 5)))
    values = np.array(data.draw(st.lists(st.integers(-9, 9), max_size=20)), np.int64)
    kept = room.keep(values[where] for where in room.parts(len(values)))
    held = MEMORY.keep(values[where] for where in MEMORY.parts(len(values)))
    assert kept.whole().tolist() == held.whole().tolist() == values.tolist()
    assert np.concatenate([kept.part(where) for where in room.parts(len(kept))]).tolist() == values.tolist()


@settings(deadline=None, max_examples=40)
@given(st.data())
def test_distinct_values_when_found_in_files_then_as_in_memory(tmp_path_factory, data):
    room = Room(tmp_path_factory.mktemp("room"), data.draw(st.integers(1, 5)))
    values = np.array(data.draw(st.lists(st.integers(-3, 3) | st.integers(-(2**62), 2**62), max_size=30)), np.int64)
    found = room.distinct(values[where] for where in room.parts(len(values)))
    assert found.whole().tolist() == sorted(set(values.tolist())) == MEMORY.distinct([values]).whole().tolist()
    assert len(list(room.folder.iterdir())) == 1  # what was found, and nothing else


ROW = st.fixed_dictionaries(
    {
        "user": st.none() | st.integers(0, 1),
        "item": st.none() | st.integers(0, 2),
        "hour": st.integers(0, 4),
        "event": st.sampled_from(KINDS),
        "value": st.none() | st.sampled_from([0.0, 1.5, -1.0, float("nan")]),
        "position": st.none() | st.integers(0, 3),
        "badge": st.none() | st.sampled_from(["", "x"]),
    }
)


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_a_large_log_when_read_in_parts_then_the_same_as_whole(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("log")
    files = data.draw(st.integers(1, 3))
    for number in range(files):
        rows = events_frame(data.draw(st.lists(ROW, min_size=1, max_size=12)))
        text = data.draw(st.booleans())
        rows.with_columns(pl.col("item").cast(pl.String) if text else pl.col("item")).write_parquet(
            folder / f"{number}.parquet"
        )
    (folder / "room").mkdir()
    room = Room(folder / "room", data.draw(st.integers(3, 6)))
    try:
        whole = read_events(folder / "*.parquet", max_rejected=0.9)
    except DataError as error:
        with pytest.raises(DataError, match=re.escape(str(error))):
            read_large_events(folder / "*.parquet", room, max_rejected=0.9)
        return
    large = read_large_events(folder / "*.parquet", room, max_rejected=0.9)
    assert isinstance(large.events, pl.LazyFrame)
    events = large.events.collect()
    assert events.schema == whole.events.schema
    assert events.equals(whole.events)
    assert (large.counts, large.read, large.fields) == (whole.counts, whole.read, whole.fields)
    sorted_by = ["rule", "source", "row", "item", "timestamp"]
    assert large.rejected.select(whole.rejected.columns).sort(sorted_by).equals(whole.rejected.sort(sorted_by))
    assert pl.concat(list(read_parts(large.events, room))).equals(whole.events)


def test_a_large_log_when_a_part_is_in_another_unit_then_refused_and_never_understood_in_it(tmp_path: Path):
    seconds = [int(at(hour).timestamp()) for hour in range(13)]
    times = [*seconds[:10], *(1000 * second for second in seconds[10:])]
    pl.DataFrame({"item": range(13), "timestamp": times, "event": ["click"] * 13}).write_parquet(tmp_path / "a.parquet")
    (tmp_path / "room").mkdir()
    assert read_events(tmp_path / "a.parquet", max_rejected=0.5).counts == {"timestamp_out_of_range": 3}
    with pytest.raises(DataError, match="declared as s; expected times between 1990 and 2100; they look like ms"):
        read_large_events(tmp_path / "a.parquet", Room(tmp_path / "room", 10), max_rejected=0.5)


def test_a_large_log_when_most_share_one_time_then_one_sentence(tmp_path: Path):
    events_frame([{"item": n, "hour": 0, "event": "click"} for n in range(50)]).write_parquet(tmp_path / "a.parquet")
    (tmp_path / "room").mkdir()
    with pytest.raises(DataError, match=r"50 events share one time; expected at most 32 .*; raise memory\.limit"):
        read_large_events(tmp_path / "a.parquet", Room(tmp_path / "room", 4))
