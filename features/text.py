"""How well an item's text answers the query's: words and letters in common, and BM25 as of the query."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
import polars as pl

from features.columns import ITEM, TIMESTAMP
from features.context import Context, Feature, numbers
from features.description import Description
from features.documents import Documents
from features.log import align_ids
from features.past import known_items
from features.spec import FeatureSpec
from features.terms import NO_TEXT, Texts, gram_bags, sum_over_terms, vocabulary, word_bags
from features.windows import Bools, Floats, Ints, ItemPool, rows_as_of

_DEFAULT: Final = "text"
"""The query field that needs no mention in a feature's name."""


def text_features(log: Description) -> Iterator[Feature]:
    """`text.*`: each text of the query against each text and category of the item."""
    texts = [field.name for field in log.query_fields if field.kind == "text"]
    targets = dict.fromkeys(field.name for field in log.item_fields if field.kind in ("text", "category"))
    documents = {field.name for field in log.item_fields if field.kind == "text"}
    for text in texts:
        for target in targets:
            name = f"text.{target}" if text == _DEFAULT else f"text.{text}_{target}"
            missing = f"no {text} with a word in it, or no {target}"
            for suffix, compare in _COMPARE.items():
                build = partial(_compared, text=text, target=target, compare=compare)
                yield Feature(FeatureSpec(f"{name}_{suffix}", missing=missing), build)
            if target in documents:
                yield Feature(FeatureSpec(f"{name}_bm25", missing=missing), partial(_bm25, text=text, target=target))


@dataclass(frozen=True)
class Pairs:
    """The distinct pairs (P,) of a query's text and an item's, by their numbers; `of_row` (N,) the pair of each row."""

    asked: Texts
    found: Texts
    first: Ints
    second: Ints
    of_row: Ints
    known: Bools

    @classmethod
    def of(cls, asked: Texts, first: Ints, found: Texts, second: Ints) -> Pairs:
        """Of (N,) texts of queries and of items; only the texts of items that occur are kept."""
        known = (first != NO_TEXT) & (second != NO_TEXT)
        width = max(1, len(found.texts))
        pairs, of_row = np.unique(np.where(known, first * width + second, NO_TEXT), return_inverse=True)
        used, places = np.unique(np.maximum(pairs, 0) % width, return_inverse=True)
        return cls(asked, Texts(found.texts.gather(used)), np.maximum(pairs, 0) // width, places, of_row, known)


def _pairs(context: Context, text: str, target: str) -> Pairs:
    asked, queries = _asked(context, text)
    return Pairs.of(asked, np.repeat(queries, context.sizes()), *_found(context, target))


def _asked(context: Context, text: str) -> tuple[Texts, Ints]:
    """The texts of a field of the queries, and (Q,) that of each query."""
    sizes = context.sizes()
    of_queries = context.query_field(text)[np.cumsum(sizes) - sizes]
    texts = Texts.of(of_queries)
    return texts, texts.numbers(of_queries)


def _found(context: Context, target: str) -> tuple[Texts, Ints]:
    """The texts of a field of the catalogue, and (N,) that of the item of each row, as of its query."""
    items = context.log.items
    if items is None or target not in items.columns:
        absent = context.item_field(target)
        return Texts.of(absent), np.full(len(absent), NO_TEXT)
    texts, of_items = (context.past or context).once(f"texts of {target}", lambda: _numbered(items[target]))
    rows = context.once("rows of items", lambda: rows_as_of(*_aligned(items, context.rows)))
    return texts, np.append(of_items, NO_TEXT)[rows]


def _numbered(column: pl.Series) -> tuple[Texts, Ints]:
    texts = Texts.of(column)
    return texts, texts.numbers(column)


def _aligned(items: pl.DataFrame, rows: pl.DataFrame) -> tuple[pl.DataFrame, str, pl.DataFrame]:
    known, asked = align_ids(items, rows.select(ITEM, TIMESTAMP), ITEM)
    return known, ITEM, asked


def _compared(context: Context, text: str, target: str, compare: Callable[[Pairs], Floats | Bools]) -> pl.Series:
    """A comparison of texts, made once per distinct pair; the rest, without a text, compares nothing."""
    pairs = context.once(f"pairs of {text} and {target}", lambda: _pairs(context, text, target))
    if not pairs.known.any():
        return numbers(np.zeros(len(pairs.known)), pairs.known)
    return numbers(compare(pairs)[pairs.of_row], pairs.known)


def _overlap(pairs: Pairs) -> Floats:
    """|words of the query that the item has| / |words of the query|."""
    known = vocabulary(pairs.asked)
    asked, found = word_bags(pairs.asked, known), word_bags(pairs.found, known)
    shared = sum_over_terms(
        asked, pairs.first, lambda pair, place: found.count_in(pairs.second[pair], asked.terms[place]) > 0
    )
    return shared / asked.sizes[pairs.first]


def _similar(pairs: Pairs) -> Floats:
    """|runs of three characters in both| / |in either|, spaces between and around the words included."""
    asked, found = gram_bags(pairs.asked, pairs.found)
    shared = sum_over_terms(
        asked, pairs.first, lambda pair, place: found.count_in(pairs.second[pair], asked.terms[place]) > 0
    )
    return shared / (asked.sizes[pairs.first] + found.sizes[pairs.second] - shared)


def _exact(pairs: Pairs) -> Bools:
    """Whether both have the same words in the same order."""
    return (pairs.asked.at(pairs.first) == pairs.found.at(pairs.second)).to_numpy()


def _prefix(pairs: Pairs) -> Bools:
    """Whether the item's text begins with the query's, the last word perhaps unfinished."""
    both = pl.DataFrame({"asked": pairs.asked.at(pairs.first), "found": pairs.found.at(pairs.second)})
    return both.select(pl.col("found").str.starts_with(pl.col("asked"))).to_series().to_numpy()


_COMPARE: Final[dict[str, Callable[[Pairs], Floats | Bools]]] = {
    "overlap": _overlap,
    "ngram": _similar,
    "exact": _exact,
    "prefix": _prefix,
}


def _bm25(context: Context, text: str, target: str) -> pl.Series:
    asked, queries = _asked(context, text)
    texts, found = _found(context, target)
    sizes = context.sizes()
    query_of_row = np.repeat(np.arange(len(sizes)), sizes)
    known = (queries[query_of_row] != NO_TEXT) & (found != NO_TEXT)
    if not known.any():
        return numbers(np.zeros(len(found)), known)
    documents = (context.past or context).once(f"documents of {target}", lambda: _documents(context, target, texts))
    times = context.times[np.cumsum(sizes) - sizes]
    return numbers(documents.scores(asked, queries, times, query_of_row, found), known)


def _documents(context: Context, target: str, texts: Texts) -> Documents:
    """Read from the whole catalogue, once for all blocks of rows of a log in files."""
    log = context.log
    if log.items is None:
        raise ValueError("documents without a catalogue")
    pool = ItemPool(context.timeline, log.items) if context.past is None else known_items(log)
    return Documents.of(pool, log.items, target, texts)
