"""Texts taken apart, once per distinct text: into words, or into runs of three characters; and what two texts share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

NO_TEXT: Final = -1
_WORD: Final = r"[\p{L}\p{N}]+"
_GRAM: Final = 3
_CHARACTER_BITS: Final = 21
"""Enough for every character, so that three of them fit an Int64."""
_CHUNK: Final = 2**22


def words(text: pl.Expr) -> pl.Expr:
    """A text -> the list of its words, of letters and digits, in lower case; null stays null."""
    return text.str.to_lowercase().str.extract_all(_WORD)


def plain(text: pl.Expr) -> pl.Expr:
    """A text -> its words with one space between them; null where there is no word."""
    joined = words(text).list.join(" ")
    return pl.when(joined != "").then(joined)


@dataclass(frozen=True)
class Texts:
    """Distinct texts (T,), each as `plain`; a text is named by its number in this order."""

    texts: pl.Series

    @classmethod
    def of(cls, *columns: pl.Series) -> Texts:
        """Those of the columns, null left out."""
        every = pl.concat([column.cast(pl.String).alias("text") for column in columns])
        return cls(every.unique().to_frame().select(plain(pl.col("text"))).to_series().drop_nulls().unique().sort())

    def numbers(self, column: pl.Series) -> Ints:
        """(N,) texts -> (N,) their numbers, NO_TEXT for null, for no word and for one that is not among them."""
        raw = column.cast(pl.String).alias("raw").to_frame()
        known = self.texts.to_frame("text").with_row_index("number")
        distinct = raw.unique().drop_nulls().with_columns(plain(pl.col("raw")).alias("text"))
        named = distinct.join(known, on="text", how="inner").select("raw", "number")
        found = raw.join(named, on="raw", how="left", maintain_order="left")["number"]
        return found.cast(pl.Int64).fill_null(NO_TEXT).to_numpy()

    def at(self, numbers: Ints) -> pl.Series:
        """(M,) numbers -> (M,) texts, null for NO_TEXT."""
        return self.texts.gather(pl.Series(numbers, dtype=pl.Int64).replace(NO_TEXT, None))


@dataclass(frozen=True)
class Bags:
    """The distinct terms of each of (T,) texts, as one sorted list of (text, term) pairs with their counts.

    Terms are numbers below `width`; those of text i stand at `starts[i]` to `starts[i + 1]`.
    """

    keys: Ints
    counts: Ints
    starts: Ints
    width: int

    @classmethod
    def of(cls, owners: Ints, terms: Ints, texts: int, width: int) -> Bags:
        """(n,) terms and the number of the text that each stands in."""
        keys, counts = np.unique(owners * width + terms, return_counts=True)
        return cls(keys, counts.astype(np.int64), np.searchsorted(keys, np.arange(texts + 1) * width), width)

    @property
    def sizes(self) -> Ints:
        """(T,) how many distinct terms each text has."""
        sizes: Ints = np.diff(self.starts)
        return sizes

    @property
    def lengths(self) -> Ints:
        """(T,) how many terms each text has, repetitions too."""
        sums = np.concatenate([[0], np.cumsum(self.counts)])
        lengths: Ints = sums[self.starts[1:]] - sums[self.starts[:-1]]
        return lengths

    @property
    def terms(self) -> Ints:
        """(n,) the term of each pair."""
        return self.keys % self.width

    def take(self, texts: Ints) -> Bags:
        """The bags of (M,) texts, of which one may come often; NO_TEXT has none."""
        known = texts != NO_TEXT
        sizes = np.where(known, self.sizes[np.where(known, texts, 0)], 0) if len(self.sizes) else np.zeros_like(texts)
        ends = np.cumsum(sizes)
        owners = np.repeat(np.arange(len(texts)), sizes)
        places = np.arange(len(owners)) - (ends - sizes)[owners] + self.starts[texts[owners]]
        keys = owners * self.width + self.keys[places] % self.width
        return Bags(keys, self.counts[places], np.concatenate([[0], ends]), self.width)

    def count_in(self, texts: Ints, terms: Ints) -> Ints:
        """(M,) how often each term stands in each text."""
        wanted = texts * self.width + terms
        places = np.searchsorted(self.keys, wanted)
        found = np.append(self.keys, -1)[places] == wanted
        return np.where(found, np.append(self.counts, 0)[places], 0)


def word_bags(texts: Texts, known: pl.Series) -> Bags:
    """The words of texts as numbers in the sorted vocabulary `known`; other words are left out."""
    table = known.to_frame("word").with_row_index("term")
    split = texts.texts.str.split(" ").to_frame("word").with_row_index("owner").explode("word")
    found = split.join(table, on="word", how="inner")
    owners, terms = (found[name].cast(pl.Int64).to_numpy() for name in ("owner", "term"))
    return Bags.of(owners, terms, len(texts.texts), max(1, len(known)))


def vocabulary(*texts: Texts) -> pl.Series:
    """All words of the texts, sorted."""
    every = pl.concat([each.texts.str.split(" ").explode() for each in texts])
    return every.drop_nulls().unique().sort()


def gram_bags(*texts: Texts) -> list[Bags]:
    """The runs of three characters of each text, spaces at its ends included; equal runs have equal numbers in all."""
    coded = [_grams(each.texts) for each in texts]
    known = np.unique(np.concatenate([grams for _, grams in coded]))
    sizes = [len(each.texts) for each in texts]
    return [
        Bags.of(owners, np.searchsorted(known, grams), size, max(1, len(known)))
        for (owners, grams), size in zip(coded, sizes, strict=True)
    ]


def sum_over_terms(asked: Bags, first: Ints, weigh: Callable[[Ints, Ints], npt.NDArray[np.generic]]) -> Floats:
    """(M,) texts of `asked` -> (M,) sums over the distinct terms of each.

    `weigh` is given which of the M, and the place of the term in `asked.keys`. They are taken some at a time, so that
    memory stays small; a text without a term sums to 0.
    """
    sizes = asked.sizes[first]
    sums = np.zeros(len(first))
    for begin, end in _chunks(np.cumsum(sizes)):
        count = sizes[begin:end]
        which = np.repeat(np.arange(begin, end), count)
        within = np.arange(len(which)) - np.repeat(np.cumsum(count) - count, count)
        weights = weigh(which, asked.starts[first[which]] + within)
        sums[begin:end] = np.bincount(which - begin, weights, end - begin)
    return sums


def _grams(texts: pl.Series) -> tuple[Ints, Ints]:
    """The number of the text, and the code, of each run of three characters."""
    if not len(texts):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    padded = texts.to_frame("text").select(pl.format(" {} ", "text")).to_series()
    lengths = padded.str.len_chars().cast(pl.Int64).to_numpy()
    codes = np.frombuffer("".join(padded).encode("utf-32-le"), np.uint32).astype(np.int64)
    shifted = [codes[place : len(codes) - _GRAM + 1 + place] << (_CHARACTER_BITS * place) for place in range(_GRAM)]
    owners = np.repeat(np.arange(len(texts)), lengths)
    inside = owners[: len(codes) - _GRAM + 1] == owners[_GRAM - 1 :]
    return owners[: len(inside)][inside], np.bitwise_or.reduce(shifted)[inside]


def _chunks(ends: Ints) -> Iterator[tuple[int, int]]:
    """Ranges of pairs of about `_CHUNK` terms each."""
    begin = 0
    while begin < len(ends):
        before = ends[begin - 1] if begin else 0
        end = max(begin + 1, int(np.searchsorted(ends, before + _CHUNK, side="right")))
        yield begin, end
        begin = end
