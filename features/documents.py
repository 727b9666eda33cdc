"""Item texts as a collection of documents that grows with time: how rare a word was when a query was asked."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import polars as pl

from features.columns import EVENT, TIMESTAMP
from features.terms import NO_TEXT, Bags, Texts, sum_over_terms, vocabulary, word_bags
from features.windows import Floats, History, Ints, ItemPool, Timeline, catalogue_timeline

K1: Final = 1.2
B: Final = 0.75


@dataclass(frozen=True)
class Documents:
    """One text field of the items. A text counts from when its item exists until a later version takes its place.

    An item exists from `created_at`, its version from `valid_from`, or else once an event of it arrived strictly
    before: see `features.windows.catalogue_timeline`.
    """

    texts: Texts
    known_words: pl.Series
    bags: Bags
    changes: Timeline
    signs: Ints
    """(C,) of each change: 1 for a text that comes, -1 for one that goes."""
    changed: Ints
    """(C,) the number of the text that comes or goes."""

    @classmethod
    def of(cls, pool: ItemPool, items: pl.DataFrame, field: str, texts: Texts) -> Documents:
        """Those of a catalogue, whose texts are `texts`; `pool` says when an item came to exist."""
        words = vocabulary(texts)
        changes, rows, signs = catalogue_timeline(pool, items)
        return cls(texts, words, word_bags(texts, words), changes, signs, texts.numbers(items[field])[rows])

    def scores(self, asked: Texts, queries: Ints, times: Ints, query_of_row: Ints, found: Ints) -> Floats:
        """(N,) BM25 of rows: the text `queries` (Q,) of `asked`, at `times` (Q,), and the text `found` (N,) of ours.

        The sum over the query's distinct words of ln(1 + (n - df + 0.5) / (df + 0.5)) * tf / (tf + k1 * (1 - b + b *
        length / mean length)), k1 = 1.2, b = 0.75, as in Lucene's BM25Similarity from release 8 on. n, df and the mean
        length are of the texts that exist at the time. NO_TEXT scores 0.
        """
        of_queries = word_bags(asked, self.known_words).take(queries)
        rarity = self._rarity(of_queries, times)
        length = np.append(self.bags.lengths, 0)[found] / self._mean_lengths(times)[query_of_row]
        damping = K1 * (1 - B + B * length)

        def weigh(row: Ints, place: Ints) -> Floats:
            count = self.bags.count_in(np.maximum(found[row], 0), of_queries.terms[place])
            held: Floats = np.where(found[row] != NO_TEXT, rarity[place] * count / (count + damping[row]), 0.0)
            return held

        return sum_over_terms(of_queries, query_of_row, weigh)

    def _rarity(self, asked: Bags, times: Ints) -> Floats:
        """(n,) the inverse document frequency of each word of each query, at the query's time."""
        when = np.repeat(times, asked.sizes)
        count = self._sum(self.signs * (self.changed != NO_TEXT), when)
        holding = self._holding(asked.terms, when)
        return np.log1p((count - holding + 0.5) / (holding + 0.5))

    def _mean_lengths(self, times: Ints) -> Floats:
        """(Q,) words per text that exists at each time; infinite where there is none, so that no length counts."""
        lengths = np.append(self.bags.lengths, 0)[self.changed]
        count = self._sum(self.signs * (self.changed != NO_TEXT), times)
        return np.where(count > 0, self._sum(self.signs * lengths, times) / np.maximum(count, 1), np.inf)

    def _sum(self, weights: Ints, times: Ints) -> Ints:
        sums: Ints = np.concatenate([[0], np.cumsum(weights)])[self.changes.before(times)]
        return sums

    def _holding(self, terms: Ints, times: Ints) -> Ints:
        """(M,) how many texts hold each term at each time."""
        history, signs = self._term_changes
        return history.at(terms, times).summed(signs)

    @cached_property
    def _term_changes(self) -> tuple[History, Ints]:
        """Each coming and going of a term, and whether it is one or the other."""
        of_changes = self.bags.take(self.changed)
        change = np.repeat(np.arange(len(self.changed)), of_changes.sizes)
        events = self.changes.events.select(TIMESTAMP, EVENT)[change]
        return History(Timeline(events, {}), of_changes.terms), self.signs[change]
