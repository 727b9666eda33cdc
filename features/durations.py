"""Lengths of time as people write them: 45s, 30m, 12h, 7d, 2w."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Final

from features.errors import ConfigError

_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_LONGEST: Final = timedelta(days=36_525)


def parse_duration(text: str) -> timedelta:
    """A whole number and one of s, m, h, d, w -> the length of time; anything else raises ConfigError."""
    match = re.fullmatch(r"(\d+)([smhdw])", text)
    if match is None or not 0 < int(match[1]) <= _LONGEST // timedelta(**{_UNITS[match[2]]: 1}):
        raise ConfigError(
            f"the duration {text!r}",
            expected="a number above 0 and a unit, as in 30m, 12h or 7d, and at most a century",
            fix="write it so",
        )
    return timedelta(**{_UNITS[match[2]]: int(match[1])})


def in_days(duration: timedelta) -> float:
    """The length in days."""
    return duration / timedelta(days=1)


def in_microseconds(duration: timedelta) -> int:
    """The length in microseconds, exactly."""
    return duration // timedelta(microseconds=1)
