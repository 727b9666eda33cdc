"""Lists and vectors: what is read, what is refused, and what they are compared with, against plain loops."""

from __future__ import annotations

from dataclasses import replace
from math import sqrt

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings

from features import lists, vector
from features.errors import DataError
from features.nested import read_lists, read_vectors, size_of_vectors
from tests.features.factories import World, at, worlds
from tests.features.test_families import build, event
from tests.features.test_recent import interactions, last_items
from tests.features.test_time import EVERYTHING_AT_ONCE


def test_vectors_when_read_then_zeros_where_there_is_none():
    column = pl.Series("look", [[3.0, 4.0], None, [], [1.0, 0.5]])
    matrix, known = read_vectors(column, 2)
    assert matrix.tolist() == [[3, 4], [0, 0], [0, 0], [1, 0.5], [0, 0]]
    assert known.tolist() == [True, False, False, True, False]
    assert size_of_vectors(column) == 2
    assert size_of_vectors(pl.Series([None, []], dtype=pl.List(pl.Float64))) is None


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ([[1.0], [1.0, 2.0]], "are of dimension 1, 2; expected 1 numbers in each"),
        ([[1.0, None]], "null, NaN or infinite"),
        ([[1.0, float("nan")]], "null, NaN or infinite"),
        ([[1e39, 1.0]], "null, NaN or infinite"),
    ],
)
def test_vectors_when_they_are_none_then_refused_by_name(values, found):
    with pytest.raises(DataError, match=f"the vectors 'look' .*{found}"):
        size_of_vectors(pl.Series("look", values))
    items = pl.DataFrame({"item": range(len(values)), "look": values})
    with pytest.raises(DataError, match=f"the vectors 'look' .*{found}"):
        build([event(1, 1)], {"query": [1], "item": [1]}, items=items)


def test_vectors_when_another_log_has_them_longer_or_not_at_all_then_refused():
    world = EVERYTHING_AT_ONCE
    fitted = world.fit(use=["vector.look_norm"], custom={})
    longer = world.items.with_columns(look=pl.Series([[1.0, 0.0, 0.0]] * 3))
    with pytest.raises(DataError, match="of dimension 3; expected 2 numbers in each"):
        replace(world, items=longer).table(fitted)
    with pytest.raises(DataError, match="the items have no field 'look'"):
        replace(world, items=world.items.drop("look")).table(fitted)
    with pytest.raises(DataError, match=r"'look' is of type String; expected lists"):
        replace(world, items=world.items.with_columns(look=pl.lit("1"))).table(fitted)


def test_lists_when_read_then_codes_that_both_share():
    first, second = read_lists(pl.Series([[1, 2, 1], None, [], [None]]), pl.Series([["2", "x"]]))
    codes, owners = first.gather(np.array([0, -1, 0, 2]))
    assert (owners.tolist(), first.sizes.tolist()) == ([0, 0, 2, 2], [2, 0, 0, 0, 0])
    assert first.known.tolist() == [True, False, True, True, False]
    assert len(set(codes) & set(second.codes)) == 1


def cosine(first, second):
    norms = sqrt(sum(x * x for x in first)) * sqrt(sum(x * x for x in second))
    return dot(first, second) / norms if norms else None


def dot(first, second):
    return sum(x * y for x, y in zip(first, second, strict=True))


def current(table, key, row):
    """The version of a user, or the item, in force at the query's time."""
    versions = [
        other
        for other in table.to_dicts()
        if other[key] == row[key] and other.get("valid_from", at(-1000)) <= row["timestamp"]
    ]
    return versions[-1] if versions else {"tags": None, "look": None}


def sides(world, log, kinds, row):
    """The item, the user, the query and the last items of a row."""
    items = {other["item"]: other for other in world.items.to_dicts()}
    query = world.queries.filter(pl.col("query") == row["query"]).to_dicts()[0]
    recent = (
        last_items(interactions(log, kinds, row["timestamp"], user=row["user"]), 3) if row["user"] is not None else {}
    )
    own, user = current(world.items, "item", row), current(world.users, "user", row)
    return own, user, query, [items[item] for item in recent if item in items]


def close(value):
    return None if value is None else pytest.approx(value, abs=1e-6)


@settings(deadline=None, max_examples=30)
@given(worlds())
def test_vector_features_when_computed_by_a_plain_loop_then_the_same(world: World):
    log, fitted = world.log(), world.fit(use=["vector.*"], custom={})
    for row in world.table(fitted).frame.to_dicts():
        own, user, query, recent = sides(world, log, fitted.description.interactions, row)
        looks = [other["look"] for other in recent if other["look"] is not None]
        mean = [sum(axis) / len(looks) for axis in zip(*looks, strict=True)] if looks else None
        for side, theirs in (("user", user["look"]), ("query", query["look"]), ("recent", mean)):
            missing = own["look"] is None or theirs is None or cosine(own["look"], theirs) is None
            assert row[f"vector.look_{side}_cosine"] == (None if missing else close(cosine(own["look"], theirs)))
            assert row[f"vector.look_{side}_dot"] == (None if missing else close(dot(own["look"], theirs)))
        for name, reduce in (("min", min), ("max", max), ("norm", lambda look: sqrt(dot(look, look)))):
            assert row[f"vector.look_{name}"] == (None if own["look"] is None else close(reduce(own["look"])))


@settings(deadline=None, max_examples=30)
@given(worlds())
def test_list_features_when_computed_by_a_plain_loop_then_the_same(world: World):
    log, fitted = world.log(), world.fit(use=["list.*"], custom={})
    for row in world.table(fitted).frame.to_dicts():
        own, user, query, recent = sides(world, log, fitted.description.interactions, row)
        tags = None if own["tags"] is None else set(own["tags"])
        assert row["list.tags_size"] == (None if tags is None else len(tags))
        known = [other["tags"] for other in recent if other["tags"] is not None]
        union = {tag for other in known for tag in other} if known else None
        for side, theirs in (("user", user["tags"]), ("query", query["tags"]), ("recent", union)):
            both = None if tags is None or theirs is None else tags & set(theirs)
            either = set() if both is None else tags | set(theirs)
            names = [f"list.tags_{side}_{what}" for what in ("count", "share", "jaccard")]
            expected = [
                None if both is None else len(both),
                len(both) / len(tags) if both is not None and tags else None,
            ]
            expected.append(len(both) / len(either) if either else None)
            assert [row[name] for name in names] == [close(value) for value in expected]
        met = [tag in other for other in known for tag in tags or ()]
        assert row["list.tags_recent_affinity"] == close(sum(met) / len(met) if met else None)


def test_comparisons_when_made_in_small_blocks_then_the_same_to_the_last_bit(monkeypatch):
    world = EVERYTHING_AT_ONCE
    fitted = world.fit(use=["vector.*", "list.*"], custom={})
    whole = world.table(fitted).frame
    monkeypatch.setattr(vector, "_AT_ONCE", 1)
    monkeypatch.setattr(lists, "_AT_ONCE", 1)
    assert world.table(fitted).frame.equals(whole)


def test_vectors_of_queries_when_called_otherwise_or_longer_then_compared_by_their_size():
    world = EVERYTHING_AT_ONCE
    queries = world.queries.rename({"look": "wish"}).with_columns(other=pl.Series([[1.0, 2.0, 3.0]]))
    names = replace(world, queries=queries).fit(use=["vector.look_query*"], custom={}).names
    assert names == ("vector.look_query_wish_cosine", "vector.look_query_wish_dot")


def test_table_when_built_then_lists_and_vectors_are_no_columns_of_it():
    frame = EVERYTHING_AT_ONCE.table(EVERYTHING_AT_ONCE.fit()).frame
    assert not [name for name, dtype in frame.schema.items() if dtype.is_nested()]
    assert {"text", "device", "price"} <= set(frame.columns)


def test_vectors_of_the_last_items_when_some_have_none_then_the_mean_of_the_others():
    items = pl.DataFrame({"item": [1, 2, 3, 4], "look": [[1.0, 0.0], None, [3.0, 4.0], [2.0, 1.0]]})
    clicks = [event(item, hour) for hour, item in enumerate((1, 2, 3, 7))]
    rows = build(clicks, {"query": [1] * 2, "item": [4, 2]}, items=items)
    assert rows[4]["vector.look_recent_dot"] == dot((2, 1), (2, 2))
    assert rows[4]["vector.look_recent_cosine"] == pytest.approx(cosine((2, 1), (2, 2)))
    assert rows[2]["vector.look_recent_dot"] is None
