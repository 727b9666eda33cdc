"""Fields whose levels are entities: what has the same category, brand, segment, device or text counts together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from features.columns import ITEM, QUERY, USER
from features.context import SHOWN
from features.description import Description, Field


@dataclass(frozen=True, slots=True)
class Key:
    """A `field` of a `table`: of the items, the users, the queries, or of what was logged with an impression."""

    table: str
    field: str

    @property
    def scope(self) -> tuple[str]:
        """As `Context.lookup` takes it: item.category."""
        return (f"{self.table}.{self.field}",)

    @property
    def name(self) -> str:
        """As a part of a feature's name: item_category."""
        return f"{self.table}_{self.field}"


def item_keys(log: Description) -> tuple[Key, ...]:
    """The categories of the catalogue."""
    return _keys(ITEM, log.item_fields, "category")


def user_keys(log: Description) -> tuple[Key, ...]:
    """The categories of the users table; none in a log whose events know no users."""
    return _keys(USER, log.user_fields, "category") if log.users else ()


def query_keys(log: Description) -> tuple[Key, ...]:
    """The categories and texts of queries."""
    return _keys(QUERY, log.query_fields, "category", "text")


def shown_keys(log: Description) -> tuple[Key, ...]:
    """The categories among the candidate fields."""
    return _keys(SHOWN, log.shown_fields, "category")


def _keys(table: str, fields: Iterable[Field], *kinds: str) -> tuple[Key, ...]:
    """Each field once, whether it is of one of the kinds or of both."""
    names = dict.fromkeys(field.name for field in fields if field.kind in kinds)
    return tuple(Key(table, name) for name in names)
