"""Names that people write: the nearest known one, and globs."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name most like `name`, or None where none is close."""
    by_lower = {choice.lower(): choice for choice in known}
    found = get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[found[0]] if found else None


def listed(names: Iterable[object], *, most: int = 8) -> str:
    """The names as one line of text, cut after `most` of them."""
    every = [str(name) for name in names]
    more = f" and {len(every) - most} more" if len(every) > most else ""
    return ", ".join(every[:most]) + more
