"""Every column name and sort order, spelled once. No other file spells them as literals."""

from __future__ import annotations

from typing import Final

QUERY: Final = "query"
ITEM: Final = "item"
USER: Final = "user"
TIMESTAMP: Final = "timestamp"
"""UTC datetime in microseconds: of an event in a log, of the query in a table."""
EVENT: Final = "event"
VALUE: Final = "value"
POSITION: Final = "position"
"""Place in the list as it was shown, 1 = top."""
SESSION: Final = "session"
VALID_FROM: Final = "valid_from"
RANDOMISED: Final = "randomised"
"""True where the logging policy showed the query in random order."""

RELEVANCE: Final = "relevance"
"""Graded truth, float, never null in a labelled table."""
LABEL: Final = "label"
"""The integer form of relevance that LightGBM is given."""
SCORE: Final = "score"
RANK: Final = "rank"
JUDGED: Final = "judged"
"""Whether anyone judged the pair; one that nobody did has relevance 0 for want of a better number."""
RULE: Final = "rule"
"""The named rule that a rejected row broke."""

PRIVATE: Final = "~"
"""What names of columns begin with that live within one function."""

QUERY_ORDER: Final = (TIMESTAMP, QUERY)
"""Order of queries; without a time, by query alone. Within a query: `features.hashing.hash_pairs`, then item."""
CREATED_AT: Final = "created_at"
"""When an item entered the catalogue."""
POPULARITY: Final = "popularity"
"""A field of every table built from a log: the item's events before the query, other than being shown."""


def private(name: str) -> str:
    """The name of a column that lives within one function, beside fields: none of the user's is called so.

    `features.events.rename_columns` takes care of that.
    """
    return f"{PRIVATE}{name}"
