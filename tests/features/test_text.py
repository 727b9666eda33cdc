"""Texts against texts: formulas, and a plain loop for BM25 as of the query."""

from __future__ import annotations

import re
from datetime import datetime
from math import log

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from features.fitted import fit_features
from features.log import make_log
from features.table import build_table
from features.terms import NO_TEXT, Texts, gram_bags
from tests.features.factories import at, clean

EVENTS = [{"item": 99, "hour": 1, "event": "click"}]


def build(items, queries, candidates, events=EVENTS):
    log = make_log(clean(events), items=items)
    pairs = pl.DataFrame(candidates)
    fitted = fit_features(log, queries, pairs, pool="shown")
    return build_table(log, queries, pairs, fitted).frame.sort("query", "item").to_dicts()


def texts_of(titles: list[str | None], asked: str):
    """The rows of one query asked at hour 10 of items 0, 1 ... with these titles."""
    items = pl.DataFrame({"item": range(len(titles)), "title": titles, "created_at": [at(0)] * len(titles)})
    queries = pl.DataFrame({"query": [1], "timestamp": [at(10)], "text": [asked]})
    return build(items, queries, {"query": [1] * len(titles), "item": range(len(titles))})


def test_overlap_when_words_are_shared_then_their_part_of_the_query():
    rows = texts_of(["Red SHOES, red", "old hat", None, "shoes-box for shoes"], "red running shoes")
    assert [row["text.title_overlap"] for row in rows] == [pytest.approx(2 / 3), 0, None, pytest.approx(1 / 3)]


def test_comparisons_when_the_query_has_no_word_then_missing():
    items = pl.DataFrame({"item": [0], "title": ["red shoes"], "created_at": [at(0)]})
    queries = pl.DataFrame({"query": [1, 2], "timestamp": [at(10)] * 2, "text": ["red hat shoes", " - ? "]})
    rows = build(items, queries, {"query": [1, 2], "item": [0, 0]})
    for name in ("overlap", "ngram", "exact", "prefix", "bm25"):
        assert rows[0][f"text.title_{name}"] is not None
        assert rows[1][f"text.title_{name}"] is None


def test_exact_and_prefix_when_words_agree_then_whatever_the_case_and_signs():
    rows = texts_of(["Red  shoes!", "red shoestring", "a red shoes", "shoes red"], "red - SHOES")
    assert [row["text.title_exact"] for row in rows] == [1, 0, 0, 0]
    assert [row["text.title_prefix"] for row in rows] == [1, 1, 0, 0]
    assert [row["item.title_words"] for row in rows] == [2, 2, 3, 2]
    assert {row["query.text_words"] for row in rows} == {2}


def grams(text: str) -> set[str]:
    padded = f" {' '.join(words(text))} "
    return {padded[place : place + 3] for place in range(len(padded) - 2)}


def words(text: str) -> list[str]:
    return re.findall(r"[^\W_]+", text.lower())


@settings(deadline=None, max_examples=30)
@given(st.lists(st.text("abé東 .🎈", max_size=9), min_size=1, max_size=4), st.text("abé東 .", max_size=9))
def test_ngrams_when_texts_have_any_characters_then_the_jaccard_index(titles, asked):
    texts, other = Texts.of(pl.Series(titles)), Texts.of(pl.Series([asked]))
    found, wanted = gram_bags(texts, other)
    for title, number in zip(titles, texts.numbers(pl.Series(titles)), strict=True):
        assert (number == NO_TEXT) == (not words(title))
        if number != NO_TEXT and words(asked):
            ours = set(found.keys[found.starts[number] : found.starts[number + 1]] % found.width)
            shared = len(ours & set(wanted.keys % wanted.width))
            assert (shared, len(ours)) == (len(grams(title) & grams(asked)), len(grams(title)))


def bm25(asked: str, title: str, documents: list[str]) -> float:
    """Lucene's BM25Similarity over the documents that exist."""
    split = [words(document) for document in documents if words(document)]
    mean = sum(map(len, split)) / len(split) if split else None
    score = 0.0
    for term in sorted(set(words(asked))):
        holding = sum(term in document for document in split)
        rarity = log(1 + (len(split) - holding + 0.5) / (holding + 0.5))
        count = words(title).count(term)
        length = len(words(title)) / mean if mean else 0.0
        score += rarity * count / (count + 1.2 * (1 - 0.75 + 0.75 * length))
    return score


def existing(versions: list[dict], events: list[dict], time: datetime, dated: str | None) -> list[str]:
    """The titles that exist at a time: of the version in force, created by then, or seen strictly before."""
    seen = {event["item"] for event in events if at(event["hour"]) < time}
    if dated == "valid_from":
        latest = {row["item"]: row["title"] for row in versions if row["valid_from"] <= time}
    else:
        known = [row for row in versions if row["item"] in seen or (dated and row["created_at"] <= time)]
        latest = {row["item"]: row["title"] for row in known}
    return [title for title in latest.values() if title is not None]


TITLES = st.none() | st.sampled_from(["red hat", "red red shoe", "old hat of straw", "Shoe", "--", "blue shoe hat"])


@settings(deadline=None, max_examples=40)
@given(st.data(), st.sampled_from([None, "created_at", "valid_from"]))
def test_bm25_when_documents_come_and_go_then_as_a_plain_loop_says(data, dated):
    hours = st.integers(0, 6)
    keys = st.tuples(st.integers(0, 4), hours)
    drawn = data.draw(st.lists(st.tuples(keys, TITLES), min_size=1, max_size=8, unique_by=lambda row: row[0]))
    if dated != "valid_from":
        drawn = list({row[0][0]: row for row in drawn}.values())
    versions = [{"item": item, dated or "x": at(hour), "title": title} for (item, hour), title in sorted(drawn)]
    events = [{"item": item, "hour": hour, "event": "click"} for item, hour in data.draw(st.lists(keys, max_size=5))]
    events.append({"item": 99, "hour": 0, "event": "click"})
    asked = data.draw(
        st.lists(st.tuples(hours, st.sampled_from(["red hat", "hat hat", "shoe -", "green"])), max_size=3)
    )
    queries = pl.DataFrame(
        [{"query": n, "timestamp": at(hour), "text": text} for n, (hour, text) in enumerate([*asked, (7, "red shoe")])]
    )
    items = pl.DataFrame(versions, schema_overrides={"title": pl.String}).drop("x", strict=False)
    pairs = [{"query": query, "item": item} for query in queries["query"] for item in range(5)]
    log = make_log(clean(events), items=items)
    fitted = fit_features(log, queries, pl.DataFrame(pairs), pool="shown")
    if "text.title_bm25" not in fitted.names:
        return
    rows = build_table(log, queries, pl.DataFrame(pairs), fitted).frame.to_dicts()
    for row in rows:
        known = [
            v for v in versions if v["item"] == row["item"] and (dated != "valid_from" or v[dated] <= row["timestamp"])
        ]
        title = known[-1]["title"] if known else None
        score = None
        if title is not None and words(title):
            score = bm25(row["text"], title, existing(versions, events, row["timestamp"], dated))
        assert row["text.title_bm25"] == (score if score is None else pytest.approx(score, abs=1e-6))
